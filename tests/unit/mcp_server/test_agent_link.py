"""The agent's life behind the server: opened when wanted, and again after it broke."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import anyio
import anyio.lowlevel
import pytest

from openclaw.core.errors import NotFound, OpenClawError
from openclaw.mcp_server.agent_link import AgentLink, OrderTaker

AGENT = cast("OrderTaker", object())
REFUSED = NotFound("there is no such agent")


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (REFUSED, str(REFUSED)),
        (ExceptionGroup("g", [ValueError("x"), ExceptionGroup("h", [REFUSED])]), str(REFUSED)),
        (ImportError("no module"), "unexpected ImportError"),
        (ExceptionGroup("g", [ValueError("x")]), "unexpected ValueError"),
    ],
)
async def test_whatever_keeps_it_from_opening_is_told_and_tried_again(
    failure: Exception, told: str
) -> None:
    failures = [failure]

    @asynccontextmanager
    async def open_agent() -> AsyncGenerator[OrderTaker]:
        if failures:
            raise failures.pop()
        yield AGENT

    link = AgentLink(open_agent)
    async with anyio.create_task_group() as tasks:
        await tasks.start(link.run)
        with pytest.raises(OpenClawError) as raised:
            await link.get()
        assert told in str(raised.value)
        assert await link.get() is AGENT
        tasks.cancel_scope.cancel()


async def test_an_agent_that_breaks_down_while_it_is_open_is_opened_anew() -> None:
    opened: list[anyio.Event] = []

    @asynccontextmanager
    async def open_agent() -> AsyncGenerator[OrderTaker]:
        broken = anyio.Event()
        opened.append(broken)

        async def break_down() -> None:
            await broken.wait()
            raise ValueError("x")

        async with anyio.create_task_group() as group:
            group.start_soon(break_down)
            yield AGENT

    link = AgentLink(open_agent)
    async with anyio.create_task_group() as tasks:
        await tasks.start(link.run)
        await link.get()
        opened[0].set()
        with anyio.fail_after(5):
            while len(opened) < 2:
                await anyio.lowlevel.checkpoint()
                assert await link.get() is AGENT
        tasks.cancel_scope.cancel()
