"""Access to the agent: a running gateway's, else this process's own.

A command that talks to a gateway needs no model library, so only `_open_here` imports the agent.
"""

import importlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from openclaw.agent.port import (
    NO_LISTENER,
    Agent,
    AgentInfo,
    AgentSettings,
    MessageContext,
    Notify,
    Reply,
    TurnListener,
)
from openclaw.core.events import Emit, discard
from openclaw.core.prompts import PartialArgument, PromptInfo
from openclaw.core.tools import ToolSpec
from openclaw.gateway.lock import running_gateway
from openclaw.runtime.gateway_client import GatewayAgent
from openclaw.runtime.gateway_connection import GatewayFrozen, GatewayGone
from openclaw.runtime.lazy_resource import LazyResource
from openclaw.runtime.open_secrets import open_secrets
from openclaw.runtime.settings import HostProcess, configured_settings
from openclaw.sessions.open import open_store
from openclaw.sessions.task_groups import helper_tasks

if TYPE_CHECKING:
    from openclaw.config.agent_schema import McpServerConfig
    from openclaw.sessions.store import SessionStore

    Servers = Mapping[str, McpServerConfig]

logger = logging.getLogger(__name__)

Json = dict[str, Any]
T = TypeVar("T")


@dataclass(slots=True)
class _SessionServers:
    agent_id: str
    servers: "Servers"
    where: Agent | None = None
    running: int = 0
    moving: anyio.Lock = field(default_factory=anyio.Lock)


class FailoverAgent:
    """The gateway's agent while a gateway runs, else the one in this process.

    It is chosen for each message. A message that a gateway may have begun to answer is never resent.
    """

    def __init__(
        self,
        gateway: Callable[[], Agent | None],
        here: LazyResource[Agent],
        before: "UnopenedAgent | None" = None,
    ) -> None:
        self._gateway, self._here, self._before = gateway, here, before
        self._sessions: dict[str, _SessionServers] = {}
        self._warned_of = ""

    @property
    def _unopened(self) -> "UnopenedAgent | None":
        return None if self._here.opened is not None or self._gateway() else self._before

    async def _either(self, ask: Callable[[Agent], Awaitable[T]]) -> T:
        remote = self._gateway()
        if remote is not None:
            try:
                return await ask(remote)
            except GatewayGone as gone:
                if gone.sent:
                    raise
                news = isinstance(gone, GatewayFrozen) and gone.message != self._warned_of
                self._warned_of = gone.message
                logger.log(
                    logging.WARNING if news else logging.INFO,
                    "%s; working without it",
                    gone.message,
                )
        return await ask(await self._here.get())

    def _known(self, session: str | None) -> Agent | None:
        held = self._sessions.get(session or "")
        return (held.where if held is not None else self._gateway()) or self._here.opened

    async def agents(self) -> Sequence[AgentInfo]:
        return await self._either(lambda agent: agent.agents())

    async def settings(self, agent_id: str | None = None) -> AgentSettings:
        if (before := self._unopened) is not None:
            return before.settings(agent_id)
        return await self._either(lambda agent: agent.settings(agent_id))

    async def reply(self, context: MessageContext, listener: TurnListener = NO_LISTENER) -> Reply:
        key = context.session_key
        held = self._sessions.get(key)
        if held is None:
            return await self._either(lambda agent: agent.reply(context, listener))

        async def answer(agent: Agent) -> Reply:
            if held.running and held.where is self._here.opened and held.where is not None:
                agent = held.where  # a turn is still using its servers
            await self._move(key, held, agent)
            held.running += 1
            try:
                return await agent.reply(context, listener)
            finally:
                held.running -= 1

        return await self._either(answer)

    async def tools(self, agent_id: str, session: str | None = None) -> Sequence[ToolSpec]:
        return await self._either(lambda agent: agent.tools(agent_id, session))

    def prompts(self, agent_id: str, session: str | None = None) -> Sequence[PromptInfo]:
        known = self._known(session)
        return known.prompts(agent_id, session) if known is not None else ()

    async def complete(
        self, agent_id: str, begun: PartialArgument, session: str | None = None
    ) -> Sequence[str]:
        known = self._known(session)
        return await known.complete(agent_id, begun, session) if known is not None else ()

    async def refresh(
        self, agent_id: str, session: str | None = None, *, wait: bool = False
    ) -> None:
        known = self._known(session)
        if known is not None:
            await known.refresh(agent_id, session, wait=wait)
        elif (before := self._unopened) is not None:
            before.open()

    async def models(self, agent_id: str) -> Sequence[str]:
        return await self._either(lambda agent: agent.models(agent_id))

    async def model_problem(self, ref: str) -> str | None:
        return await self._either(lambda agent: agent.model_problem(ref))

    async def store(self) -> "SessionStore":
        if (before := self._unopened) is not None:
            return await before.store()
        return await self._either(lambda agent: agent.store())

    async def add_servers(self, session: str, agent_id: str, servers: "Servers") -> None:
        before = self._sessions.get(session)
        held = self._sessions[session] = _SessionServers(agent_id, servers)
        await self._either(lambda agent: self._move(session, held, agent))
        if before is not None and before.where is not None and before.where is not held.where:
            before.where.end_session(session)

    def end_session(self, session: str) -> None:
        held = self._sessions.pop(session, None)
        if held is not None and held.where is not None:
            held.where.end_session(session)

    async def forward(self, agent_id: str | None, request: Json, notify: Notify) -> Json | None:
        if self._gateway() is None:
            return None
        return await self._either(lambda agent: agent.forward(agent_id, request, notify))

    async def _move(self, key: str, held: _SessionServers, agent: Agent) -> None:
        async with held.moving:
            before = held.where
            if before is agent:
                return
            await agent.add_servers(key, held.agent_id, held.servers)
            held.where = agent
            if before is not None:
                before.end_session(key)


@dataclass(frozen=True, slots=True)
class UnopenedAgent:
    """What a front end uses until the agent in this process is open; `open` doesn't wait."""

    settings: Callable[[str | None], AgentSettings]
    store: "Callable[[], Awaitable[SessionStore]]"
    open: Callable[[], None]


@asynccontextmanager
async def open_agent(
    process: HostProcess,
    *,
    local: bool = False,
    short_grace: bool = False,
    ahead: bool = False,
    person: bool = False,
    emit: Emit = discard,
) -> AsyncGenerator[Agent]:
    """A running gateway's agent; with `local`, or without a gateway, this process's own.

    Nothing is opened before it is used, except with `ahead` and no gateway. A `person` should be able
    to type at once, so settings and conversations are available before the agent, which the first
    `refresh` opens. `emit` gets events outside of turns in this process; `short_grace` gives MCP
    servers less time to stop.
    """
    async with helper_tasks() as tasks:
        here = LazyResource(
            "the agent", lambda: _open_here(process, short_grace=short_grace, emit=emit)
        )
        store = LazyResource("the session store", lambda: open_configured_store(process))
        try:
            tasks.start_soon(here.run, name="agent")
            tasks.start_soon(store.run, name="session store")
            gateways = _Gateways(process, tasks, store)
            if ahead and (local or gateways.running() is None):
                here.request_open()

            def settings(agent_id: str | None) -> AgentSettings:
                return configured_settings(process, agent_id, process.load_config())

            before = UnopenedAgent(settings, store.get, here.request_open)
            find = (lambda: None) if local else gateways.running
            yield FailoverAgent(find, here, before if person else None)
        finally:
            here.close()
            store.close()


class _Gateways:
    def __init__(
        self, process: HostProcess, tasks: TaskGroup, store: "LazyResource[SessionStore]"
    ) -> None:
        self._process, self._tasks, self._store = process, tasks, store
        self._agent: GatewayAgent | None = None
        self._other: str | None = None  # the last configuration that differed from ours

    def running(self) -> "GatewayAgent | None":
        process = self._process
        info = running_gateway(process.paths.gateway_lock)
        if info is None or not info.url:
            return None
        if Path(info.config) != process.config_file.absolute():
            if info.config != self._other:
                self._other = info.config
                logger.warning("the running gateway uses another configuration (%s)", info.config)
            return None
        if self._agent is None or self._agent.info != info:
            self._agent = GatewayAgent(info, process, self._tasks, self._store)
        return self._agent


@asynccontextmanager
async def _open_here(
    process: HostProcess, *, short_grace: bool, emit: Emit
) -> AsyncGenerator[Agent]:
    # In a thread, because the model library takes most of a second: the user may be typing.
    await anyio.to_thread.run_sync(importlib.import_module, "openclaw.runtime.runtime")
    from openclaw.runtime.runtime import open_runtime

    async with open_runtime(
        process.load_config(),
        process.environ,
        process.redactor,
        emit=emit,
        warn=process.warn,
        short_grace=short_grace,
        load=process.load_config,
    ) as runtime:
        yield runtime


@asynccontextmanager
async def open_configured_store(process: HostProcess) -> "AsyncGenerator[SessionStore]":
    config = process.load_config().config
    resolve = open_secrets(config, process.environ, process.redactor).resolve_text
    async with open_store(config.sessions.store, process.paths, resolve=resolve) as store:
        yield store
