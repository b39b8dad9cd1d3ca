import anyio
import anyio.lowlevel
import pytest

from openclaw.sessions.task_groups import helper_tasks


async def test_an_error_comes_out_as_it_is_and_the_tasks_are_cancelled() -> None:
    ended = anyio.Event()

    async def help_out() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async def fail() -> None:
        async with helper_tasks() as tasks:
            tasks.start_soon(help_out)
            await anyio.lowlevel.checkpoint()
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await fail()
    assert ended.is_set()
