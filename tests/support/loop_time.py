"""Time limits in tests without waiting for them, and without a race against a busy machine."""

import asyncio
from collections.abc import Callable

import anyio


def pass_time(seconds: float) -> None:
    """Let the running loop believe that so much time has passed: timers that are due by then fire next.

    A test gives the program a limit of minutes, waits for the event after which the limit should
    strike, and then lets the minutes pass. Clocks other than the loop's stay as they are.
    """
    loop = asyncio.get_running_loop()
    before = loop.time
    setattr(loop, "time", lambda: before() + seconds)  # noqa: B010 - pyright allows no assignment to a method


async def pass_time_after(happened: Callable[[], object], seconds: float) -> None:
    """Wait until this has happened and every task waits for something; then let the time pass."""
    with anyio.fail_after(60):
        while not happened():  # noqa: ASYNC110 - what is watched may be in another process
            await anyio.sleep(0.005)
    await anyio.wait_all_tasks_blocked()
    pass_time(seconds)
