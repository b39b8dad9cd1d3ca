"""Access to the agent: a running gateway's, else this process's own.

Importing this module is cheap: the agent, which takes a second to import, is loaded with the first
message, and the HTTP client with the first gateway.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup, TaskStatus

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
from openclaw.core.errors import DeveloperFacing, OpenClawError, OperatorFacing, describe, leaves
from openclaw.core.events import Emit, discard
from openclaw.core.tools import ToolSpec
from openclaw.mcp_client.imports import import_in_thread
from openclaw.sessions.task_groups import helper_tasks

if TYPE_CHECKING:
    from openclaw.config.agent_schema import McpServerConfig
    from openclaw.config.load import LoadedConfig
    from openclaw.config.paths import StatePaths
    from openclaw.mcp_client.bridge.prompts import PartialArgument, PromptInfo
    from openclaw.runtime.gateway_client import GatewayAgent
    from openclaw.secrets.redactor import Redactor
    from openclaw.sessions.store import SessionStore

    Servers = Mapping[str, McpServerConfig]

logger = logging.getLogger(__name__)

Json = dict[str, Any]
T = TypeVar("T")

_FIRST_MESSAGE = (
    "openclaw.runtime.runtime",
    "openclaw.runtime.generation",
    "openclaw.mcp_client.lifecycle.manager",
    "openclaw.sessions.sqlite.store",
    "openclaw.agent.service",
    "openclaw.agent.toolpath.toolbox",
    "openclaw.agent.loop",
    "openclaw.models.fallback",
)


class GatewayGone(OperatorFacing):
    """Raised when the gateway cannot be reached. `sent` says whether it may have begun the work."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class Process(Protocol):
    @property
    def program(self) -> str: ...
    @property
    def environ(self) -> Mapping[str, str]: ...
    @property
    def config_file(self) -> Path: ...
    @property
    def redactor(self) -> "Redactor": ...
    @property
    def paths(self) -> "StatePaths": ...
    @property
    def warned(self) -> set[str]: ...
    def load_config(self) -> "LoadedConfig": ...
    def warn(self, text: str) -> None: ...


class LazyResource(Generic[T]):
    """Opens something when it is first needed, and again after a failure.

    It is opened and closed in one task, `run`, because its task groups require that. Only `close` ends
    it: an outside cancellation also stops its users, who still need it while they stop.
    """

    def __init__(self, what: str, open_it: Callable[[], AbstractAsyncContextManager[T]]) -> None:
        self.opened: T | None = None
        self._what, self._open = what, open_it
        self._wanted, self._tried = anyio.Event(), anyio.Event()
        self._failure: OpenClawError | None = None
        self._life = anyio.CancelScope(shield=True)

    async def get(self) -> T:
        """Wait until it is open; raises the error if it fails to open."""
        if self.opened is None:
            self.want()
            await self._tried.wait()
        if self.opened is None:
            raise self._failure or OperatorFacing(f"{self._what} is closed")
        return self.opened

    def want(self) -> None:
        self._wanted.set()

    def close(self) -> None:
        self._life.cancel()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        with self._life:
            task_status.started()
            while True:
                await self._opened_once()

    async def _opened_once(self) -> None:
        await self._wanted.wait()
        try:
            async with self._open() as opened:
                self.opened = opened
                self._tried.set()
                await anyio.sleep_forever()
        except Exception as error:  # noqa: BLE001 (`get` raises it)
            self._failure = self._logged(error)
        finally:
            self.opened = None
        tried, self._tried, self._wanted = self._tried, anyio.Event(), anyio.Event()
        tried.set()

    def _logged(self, error: Exception) -> OpenClawError:
        inside = list(leaves(error))
        own = next((one for one in inside if isinstance(one, OpenClawError)), None)
        if own is not None:
            logger.info("%s cannot be opened: %s", self._what, own)
            return own
        logger.error("%s failed", self._what, exc_info=error)
        return DeveloperFacing(
            f"{self._what} cannot be opened: unexpected {type(inside[0]).__name__}",
            hint="see the log",
        )


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
                logger.info("the gateway went away before it took the order")
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

    def prompts(self, agent_id: str, session: str | None = None) -> "Sequence[PromptInfo]":
        known = self._known(session)
        return known.prompts(agent_id, session) if known is not None else ()

    async def complete(
        self, agent_id: str, begun: "PartialArgument", session: str | None = None
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
    process: Process,
    *,
    local: bool = False,
    short_grace: bool = False,
    ahead: bool = False,
    person: bool = False,
    emit: Emit = discard,
) -> AsyncGenerator[Agent]:
    """A running gateway's agent; with `local`, or without a gateway, this process's own.

    Nothing is loaded before it is used, except with `ahead` and no gateway. A `person` should be able
    to type at once, so settings and conversations are available before the agent, which the first
    `refresh` opens. `emit` gets events outside of turns in this process; `short_grace` gives MCP
    servers less time to stop.
    """
    async with helper_tasks() as tasks:
        imports = _Imports(process, tasks)
        here = LazyResource(
            "the agent", lambda: _open_here(process, imports, short_grace=short_grace, emit=emit)
        )
        store = LazyResource("the session store", lambda: _open_store(process))
        try:
            await tasks.start(here.run, name="agent")
            await tasks.start(store.run, name="session store")
            gateways = _Gateways(process, tasks, store)
            if ahead and (local or gateways.running() is None):
                imports.begin()

            def settings(agent_id: str | None) -> AgentSettings:
                from openclaw.runtime.host import configured_settings

                return configured_settings(process, agent_id, process.load_config())

            def open_later() -> None:
                imports.begin()
                here.want()

            before = UnopenedAgent(settings, store.get, open_later)
            find = (lambda: None) if local else gateways.running
            yield FailoverAgent(find, here, before if person else None)
        finally:
            here.close()
            store.close()


class _Gateways:
    def __init__(
        self, process: Process, tasks: TaskGroup, store: "LazyResource[SessionStore]"
    ) -> None:
        self._process, self._tasks, self._store = process, tasks, store
        self._agent: GatewayAgent | None = None
        self._other: str | None = None  # the last configuration that differed from ours

    def running(self) -> "GatewayAgent | None":
        from openclaw.gateway.lock import running_gateway

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
            from openclaw.runtime.gateway_client import GatewayAgent

            self._agent = GatewayAgent(info, process, self._tasks, self._store)
        return self._agent


class _Imports:
    """Imports what the first message needs, in a thread, before the message arrives."""

    def __init__(self, process: Process, tasks: TaskGroup) -> None:
        self._process, self._tasks = process, tasks
        self._done: anyio.Event | None = None

    def begin(self) -> None:
        if self._done is None:
            self._done = anyio.Event()
            self._tasks.start_soon(self._run, self._done, name="imports")

    async def _run(self, done: anyio.Event) -> None:
        try:
            await import_in_thread(self._import)
        finally:
            done.set()

    def _import(self) -> None:
        """Import what can be imported; the rest fails when it is needed."""
        import importlib

        from openclaw.config.load import load_config

        for name in _FIRST_MESSAGE:
            with suppress(ImportError):
                importlib.import_module(name)
        with suppress(OpenClawError):
            from openclaw.models.build import preload

            config = load_config(self._process.config_file, self._process.environ).config
            preload(config.models.providers.values())

    async def wait(self) -> None:
        if self._done is not None:
            await self._done.wait()


@asynccontextmanager
async def _open_here(
    process: Process, imports: _Imports, *, short_grace: bool, emit: Emit
) -> AsyncGenerator[Agent]:
    await imports.wait()
    from openclaw.config.load import require_file, stamp
    from openclaw.runtime.runtime import open_runtime

    redactor, following = process.redactor, anyio.Lock()
    seen = stamp(process.config_file)  # before it is read
    loaded = process.load_config()

    async def follow_config() -> None:
        """Apply configuration changes when they are made, as a gateway does."""
        nonlocal seen
        async with following:
            current = runtime.host.loaded
            now = stamp(current.path)
            if now == seen:
                return
            seen = now
            try:
                changed = process.load_config()
                require_file(changed, current)
                if changed.config != current.config:
                    await runtime.apply(changed)
            except OpenClawError as error:
                reason = redactor.redact(describe(error))
                process.warn(f"The configuration was not reloaded, the old one stays: {reason}")

    async with open_runtime(
        loaded, process.environ, redactor, short_grace=short_grace, emit=emit
    ) as runtime:
        runtime.before_turn = follow_config
        yield runtime


@asynccontextmanager
async def _open_store(process: Process) -> "AsyncGenerator[SessionStore]":
    from openclaw.runtime.host import open_secrets
    from openclaw.sessions.open import open_store

    config = process.load_config().config
    resolve = open_secrets(config, process.environ, process.redactor).resolve_text
    async with open_store(config.sessions.store, process.paths, resolve=resolve) as store:
        yield store
