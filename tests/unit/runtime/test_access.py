"""The agent behind a front end: opened when wanted, and the gateway's while one runs."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest

from openclaw.agent.port import NO_LISTENER, Agent, MessageContext, Reply, TurnListener
from openclaw.cli.environment import Environment
from openclaw.core.errors import NotFound, OpenClawError
from openclaw.runtime.access import FailoverAgent, open_agent
from openclaw.runtime.gateway_connection import GatewayGone
from openclaw.runtime.lazy_resource import LazyResource

AGENT = cast("Agent", object())
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
    async def open_it() -> AsyncGenerator[Agent]:
        if failures:
            raise failures.pop()
        yield AGENT

    agent = LazyResource("the agent", open_it)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.run)
        with pytest.raises(OpenClawError) as raised:
            await agent.get()
        assert told in str(raised.value)
        assert await agent.get() is AGENT
        agent.close()


async def test_an_agent_that_breaks_down_while_it_is_open_is_opened_anew() -> None:
    opened: list[anyio.Event] = []

    @asynccontextmanager
    async def open_it() -> AsyncGenerator[Agent]:
        broken = anyio.Event()
        opened.append(broken)

        async def break_down() -> None:
            await broken.wait()
            raise ValueError("x")

        async with anyio.create_task_group() as group:
            group.start_soon(break_down)
            yield AGENT

    agent = LazyResource("the agent", open_it)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(agent.run)
        await agent.get()
        opened[0].set()
        with anyio.fail_after(60):
            while len(opened) < 2:
                await anyio.lowlevel.checkpoint()
                assert await agent.get() is AGENT
        agent.close()


@pytest.mark.parametrize("steps", range(8))
async def test_opening_can_be_cancelled_at_any_step(tmp_path: Path, steps: int) -> None:
    environ = {"OPENCLAW_STATE_DIR": str(tmp_path)}

    async def use() -> None:
        async with open_agent(Environment(environ=environ), local=True):
            await anyio.sleep_forever()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use)
            for _ in range(steps):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()


class Answering:
    """An agent that says who it is; what was added to it and taken away is kept."""

    def __init__(self, name: str, failure: GatewayGone | None = None) -> None:
        self.name, self.failure = name, failure
        self.sessions: list[str] = []
        self.may_answer = anyio.Event()
        self.asked = anyio.Event()
        self.may_answer.set()

    async def reply(self, context: MessageContext, listener: TurnListener = NO_LISTENER) -> Reply:
        if self.failure is not None:
            raise self.failure
        self.asked.set()
        await self.may_answer.wait()
        return Reply(self.name, "id", "turn")

    async def forward(self, agent_id: str | None, request: Any, notify: Any) -> Any:
        return {"agent": agent_id, "request": request, "notify": notify}

    async def add_servers(self, session: str, agent_id: str, servers: Mapping[str, Any]) -> None:
        if self.failure is not None:
            raise self.failure
        self.sessions.append(session)

    def end_session(self, session: str) -> None:
        self.sessions.remove(session)


@asynccontextmanager
async def either(
    here: Answering, gateways: Callable[[], Answering | None]
) -> AsyncGenerator[FailoverAgent]:
    @asynccontextmanager
    async def open_here() -> AsyncGenerator[Agent]:
        yield cast("Agent", here)

    opener = LazyResource("the agent", open_here)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(opener.run)
        try:
            yield FailoverAgent(cast("Callable[[], Agent | None]", gateways), opener)
        finally:
            opener.close()


GO = MessageContext("go", "s")


@pytest.mark.parametrize("with_servers", [False, True])
async def test_each_message_goes_to_the_gateway_that_runs_then_and_else_stays_here(
    with_servers: bool,
) -> None:
    here, first, second = Answering("here"), Answering("first"), Answering("second")
    running: list[Answering | None] = [None]
    async with either(here, lambda: running[0]) as agent:
        if with_servers:
            await agent.add_servers("s", "main", {})
        answered: list[str] = []
        for gateway in (None, first, first, second, None, first):
            running[0] = gateway
            answered.append((await agent.reply(GO)).text)
            wanted = [["s"] if one is (gateway or here) else [] for one in (here, first, second)]
            assert not with_servers or [one.sessions for one in (here, first, second)] == wanted
        agent.end_session("s")
    assert answered == ["here", "first", "first", "second", "here", "first"]
    assert first.sessions == []


async def test_what_a_gateway_did_not_take_is_answered_here_and_what_it_may_have_begun_is_not() -> (
    None
):
    here = Answering("here")
    gone = [Answering("gone", GatewayGone("gone", sent=sent)) for sent in (False, True)]
    async with either(here, lambda: gone[0]) as agent:
        assert (await agent.reply(GO)).text == "here"
        gone.pop(0)
        with pytest.raises(GatewayGone):
            await agent.reply(GO)


async def test_a_gateway_answers_requests_of_its_mcp_server_and_nobody_else_does() -> None:
    running: list[Answering | None] = [Answering("gateway"), None]
    request = {"method": "tasks/get"}
    async with either(Answering("here"), lambda: running[0]) as agent:
        notify = cast("Any", object())
        answer = await agent.forward("main", request, notify)
        assert answer == {"agent": "main", "request": request, "notify": notify}
        running.pop(0)
        assert await agent.forward("main", request, notify) is None


async def test_a_turn_that_runs_here_keeps_its_servers_when_a_gateway_starts() -> None:
    here, gateway = Answering("here"), Answering("gateway")
    running: list[Answering | None] = [None]
    async with either(here, lambda: running[0]) as agent:
        await agent.add_servers("s", "main", {})
        here.may_answer = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent.reply, GO)
            await here.asked.wait()
            running[0] = gateway
            tasks.start_soon(agent.reply, GO)
            await anyio.wait_all_tasks_blocked()
            assert here.sessions == ["s"]
            assert not gateway.asked.is_set()
            here.may_answer.set()
        assert (await agent.reply(GO)).text == "gateway"
        assert here.sessions == []
