"""The agent port's three implementations: in this process, in a gateway, and failover between them.

Importing this module is cheap: the agent, which takes a second to import, is loaded with the first
message, and the HTTP client with the first gateway.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from urllib.parse import quote

import anyio
from anyio.abc import TaskGroup, TaskStatus

from openclaw.agent.helper_tasks import helper_tasks
from openclaw.agent.port import (
    NOBODY,
    Agent,
    AgentInfo,
    AgentSettings,
    MessageContext,
    Notify,
    Reply,
    TurnListener,
)
from openclaw.core.content import InboundMedia, Media, text_of
from openclaw.core.errors import (
    DeveloperFacing,
    InvalidConfig,
    NotFound,
    OpenClawError,
    OperatorFacing,
    describe,
    leaves,
)
from openclaw.core.events import Emit, Notice, discard
from openclaw.core.tools import Elicit, Origin, ToolSpec
from openclaw.mcp_client.imports import import_in_thread

if TYPE_CHECKING:
    from openclaw.config.agent_schema import McpServerConfig
    from openclaw.config.load import LoadedConfig
    from openclaw.config.merge import EffectiveAgent
    from openclaw.config.paths import StatePaths
    from openclaw.gateway.lock import GatewayInfo
    from openclaw.mcp_client.bridge.prompts import BegunArgument, PromptInfo
    from openclaw.media.transcription import Transcriber, Transcript
    from openclaw.runtime.gateway_client import GatewayClient
    from openclaw.runtime.host import Host
    from openclaw.runtime.runtime import Runtime
    from openclaw.secrets.redactor import Redactor
    from openclaw.secrets.resolver import SecretResolver
    from openclaw.sessions.store import SessionStore

    Servers = Mapping[str, McpServerConfig]

logger = logging.getLogger(__name__)

Json = dict[str, Any]
T = TypeVar("T")

_FIRST_TOOLS_SECONDS = 20.0  # how long a turn waits for servers that have not listed their tools
_NEW_SERVER_SECONDS = 2.0  # the same for one that has never answered, counted from its greeting
_GATEWAY_TOOLS_SECONDS = 30.0  # the gateway itself waits less long
_FIRST_MESSAGE = (
    "runtime.runtime",
    "runtime.generation",
    "mcp_client.lifecycle.manager",
    "sessions.sqlite.store",
    "agent.service",
    "agent.toolpath.toolbox",
    "agent.loop",
    "models.stack",
)


# ---- in this process


class LocalAgent:
    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self.before_turn: Callable[[], Awaitable[None]] | None = None

    async def agents(self) -> Sequence[AgentInfo]:
        generation = self._runtime.generation
        first = generation.agent(None).id
        found = [AgentInfo(one.id, one.name) for one in generation.agents.values()]
        return sorted(found, key=lambda one: one.id != first)

    async def settings(self, agent_id: str | None = None) -> AgentSettings:
        generation = self._runtime.generation
        return agent_settings(generation.host, generation.agent(agent_id), generation.secrets)

    async def reply(self, context: MessageContext, listener: TurnListener = NOBODY) -> Reply:
        if self.before_turn is not None:
            await self.before_turn()
        cluster = self._runtime.cluster
        return await (cluster.reply if cluster else self.answer_here)(context, listener)

    async def answer_here(self, context: MessageContext, listener: TurnListener = NOBODY) -> Reply:
        manager, scope = self._runtime.manager, context.server_scope
        late = await self._settle(context.agent_id, scope)
        if late and listener.on_event is not None:
            told = f"no longer waiting for {', '.join(late)}: its tools will be available once it answers"
            listener.on_event(Notice("warning", told))
        if context.prompt_calls:
            context = await self._expanded(context, listener.elicit)
        generation = self._runtime.generation  # it may have changed while we waited for servers
        async with generation.turn():
            agent = generation.agent(context.agent_id)
            with manager.hold(agent.id, scope) as tools:
                setup = generation.setup(agent, context, tools)
                return await generation.service(manager).reply(context, setup, listener)

    async def _expanded(self, context: MessageContext, elicit: Elicit | None) -> MessageContext:
        """The message with the text of the prompt that it calls, if it calls one."""
        blocks = await self._runtime.manager.expand_prompt(
            context.agent_id, context.text, context.server_scope, elicit=elicit
        )
        if blocks is None:
            return context
        media = (InboundMedia(block) for block in blocks if isinstance(block, Media))
        words, typed = text_of(blocks), context.text
        return replace(context, text=words, typed=typed, media=(*context.media, *media))

    async def tools(self, agent_id: str, session: str | None = None) -> Sequence[ToolSpec]:
        await self.refresh(agent_id, session, wait=True)
        return self._runtime.tools(agent_id, session)

    def prompts(self, agent_id: str, session: str | None = None) -> "Sequence[PromptInfo]":
        return self._runtime.manager.prompts(agent_id, session)

    async def complete(
        self, agent_id: str, begun: "BegunArgument", session: str | None = None
    ) -> Sequence[str]:
        return await self._runtime.manager.complete(agent_id, begun, session)

    async def refresh(
        self, agent_id: str, session: str | None = None, *, wait: bool = False
    ) -> None:
        if wait:
            await self._settle(agent_id, session)

    async def _settle(self, agent_id: str, session: str | None) -> Sequence[str]:
        return await self._runtime.manager.settle(
            agent_id, session, timeout=_FIRST_TOOLS_SECONDS, newcomer=_NEW_SERVER_SECONDS
        )

    async def models(self, agent_id: str) -> Sequence[str]:
        generation = self._runtime.generation
        return await generation.model_names(generation.agent(agent_id))

    async def model_problem(self, ref: str) -> str | None:
        from openclaw.models.listing import model_problem

        host, secrets = self._runtime.host, self._runtime.generation.secrets
        providers = host.config.models.providers
        return await model_problem(ref, providers, secrets, host.environ, host.paths.models)

    async def store(self) -> "SessionStore":
        return self._runtime.store

    async def add_servers(self, session: str, agent_id: str, servers: "Servers") -> None:
        for name, config in servers.items():
            self._runtime.manager.add(name, config, session=session, agent=agent_id)

    def end_session(self, session: str) -> None:
        self._runtime.manager.end_session(session)

    async def forward(self, agent_id: str | None, request: Json, notify: Notify) -> Json | None:
        return None


def agent_settings(
    host: "Host", agent: "EffectiveAgent", secrets: "SecretResolver"
) -> AgentSettings:
    from openclaw.config.paths import home_dir
    from openclaw.media.transcription import Speech
    from openclaw.runtime.host import time_zone

    providers = host.config.models.providers
    speech = Speech(
        host.config.media.transcription, providers.get("openai"), host.environ, secrets.resolve_text
    )
    return AgentSettings(
        id=agent.id,
        temp_root=host.paths.temp,
        directories=(host.workspace(agent),),
        audio=host.config.mcp_server.audio,
        all_tool_text=host.config.mcp_server.tool_results == "all",
        redactor=host.redactor,
        transcriber=speech,
        task_after=host.config.mcp_server.task_after_ms / 1000,
        model_choices=tuple(
            f"{name}/{model.id}" for name, one in providers.items() for model in one.models
        ),
        config_digest=host.loaded.digest,
        order_workspace=host.config.mcp_server.workspace,
        private=(home_dir(host.environ), host.paths.root),
        timezone=time_zone(agent, host.environ),
    )


def configured_settings(
    process: "Process", agent_id: str | None, loaded: "LoadedConfig | None" = None
) -> AgentSettings:
    """The same from the configuration alone, without opening anything."""
    from openclaw.config.load import load_config
    from openclaw.config.merge import default_agent_id, effective_agents
    from openclaw.core.clock import SystemClock
    from openclaw.runtime.host import Host, hide_known, open_secrets

    loaded = loaded or load_config(process.config_option, process.environ)
    hide_known(loaded, process.environ, process.redactor)  # a person may type before it is opened
    agents = effective_agents(loaded.config)
    wanted = agent_id or default_agent_id(loaded.config)
    if wanted not in agents:
        known = ", ".join(sorted(agents))
        raise NotFound(f"there is no agent '{wanted}'", hint=f"available: {known}")
    host = Host(loaded, process.environ, process.redactor, process.paths, SystemClock())
    secrets = open_secrets(loaded.config, process.environ, process.redactor)
    return agent_settings(host, agents[wanted], secrets)


# ---- in a running gateway


class Process(Protocol):
    @property
    def program(self) -> str: ...
    @property
    def environ(self) -> Mapping[str, str]: ...
    @property
    def config_option(self) -> Path | None: ...
    @property
    def redactor(self) -> "Redactor": ...
    @property
    def paths(self) -> "StatePaths": ...
    @property
    def warned(self) -> set[str]: ...
    def load_config(self) -> "LoadedConfig": ...
    def warn(self, text: str) -> None: ...


@dataclass(slots=True)
class _GatewaySession:
    agent: str
    servers: "Servers"
    scope: str = ""
    prompts: "tuple[PromptInfo, ...]" = ()
    opened: anyio.Event = field(default_factory=anyio.Event)
    settled: anyio.Event = field(default_factory=anyio.Event)
    connection: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    failure: OpenClawError | None = None

    @property
    def over(self) -> bool:
        return self.settled.is_set() and not self.scope

    def close(self) -> None:
        self.scope = ""
        self.opened.set()
        self.settled.set()
        self.connection.cancel()


class GatewayAgent:
    """The agent of a running gateway, over HTTP. Conversations are read from the store directly."""

    def __init__(
        self, info: "GatewayInfo", process: Process, tasks: TaskGroup, store: "Opener[SessionStore]"
    ) -> None:
        self.info = info
        self._process, self._tasks, self._store = process, tasks, store
        self._names: dict[str, str] = {}  # the default agent first
        self._facts: dict[str, Mapping[str, Any]] = {}
        self._prompts: dict[str, Sequence[PromptInfo]] = {}
        self._sessions: dict[str, _GatewaySession] = {}

    def _client(self) -> "GatewayClient":
        from openclaw.runtime.gateway_client import GatewayClient

        return GatewayClient(self.info.url, self._process.paths.root)

    async def _get(self, path: str) -> dict[str, Any]:
        return await self._client().request("GET", path)

    async def _learn(self) -> None:
        answer = await self._get("/api/agents")
        try:
            rows = answer["agents"]
            self._names = {row["id"]: row["name"] for row in rows}
            self._facts = {row["id"]: row["settings"] for row in rows}
        except (LookupError, TypeError) as error:
            told = "the gateway that is running is of another version"
            hint = f"'{self._process.program} gateway restart' starts it anew"
            raise OperatorFacing(told, hint=hint) from error

    async def agents(self) -> Sequence[AgentInfo]:
        await self._learn()
        return tuple(AgentInfo(*one) for one in self._names.items())

    async def settings(self, agent_id: str | None = None) -> AgentSettings:
        from openclaw.config.paths import config_path, file_digest

        if (agent_id or "") not in self._facts and (agent_id is not None or not self._names):
            await self._learn()
        wanted = agent_id or next(iter(self._names), "")
        if wanted not in self._facts:
            known = ", ".join(sorted(self._facts))
            raise NotFound(f"there is no agent '{wanted}'", hint=f"available: {known}")
        facts = self._facts[wanted]
        path = self._process.config_option or config_path(self._process.environ)
        if facts.get("configDigest") == file_digest(path):  # it need not be read here as well
            later = _LaterTranscriber(lambda: configured_settings(self._process, wanted))
            return self._settings_from(facts, later)
        try:
            return configured_settings(self._process, wanted)
        except OpenClawError as error:  # the gateway still runs on what it read before
            from openclaw.media.transcription import NoTranscriber

            process = self._process
            if isinstance(error, InvalidConfig) and error.message not in process.warned:
                process.warned.add(error.message)
                process.warn(
                    f"{process.program}: Warning: {error.message}; the gateway still uses the "
                    f"configuration it read before ('{process.program} config validate' lists the "
                    "problems)"
                )
            return self._settings_from(facts, NoTranscriber())

    def _settings_from(self, facts: Mapping[str, Any], transcriber: "Transcriber") -> AgentSettings:
        from openclaw.config.paths import home_dir

        return AgentSettings(
            id=facts["agent"],
            temp_root=Path(facts["tempRoot"]),
            directories=tuple(map(Path, facts["directories"])),
            audio=facts["audio"],
            all_tool_text=facts["allToolText"],
            redactor=self._process.redactor,
            transcriber=transcriber,
            model_choices=tuple(facts.get("modelChoices", ())),
            order_workspace=facts.get("orderWorkspace", "agent"),
            private=(home_dir(self._process.environ), self._process.paths.root),
            timezone=facts.get("timezone", "UTC"),
        )

    async def reply(self, context: MessageContext, listener: TurnListener = NOBODY) -> Reply:
        session = self._sessions.get(context.session_key)
        if session is not None:
            if session.over:  # the gateway closed the connection, or was started anew
                await self.add_servers(context.session_key, session.agent, session.servers)
            context = replace(context, scope=self._sessions[context.session_key].scope)
        client = self._client()
        reply = await client.reply(context, listener)
        self._facts |= client.settings
        return reply

    async def tools(self, agent_id: str, session: str | None = None) -> Sequence[ToolSpec]:
        rows = (await self._get(f"/api/tools?agent={agent_id}"))["tools"]
        return tuple(
            ToolSpec(
                name=row["name"],
                description=row["description"],
                input_schema=row["inputSchema"],
                label=row["label"],
                origin=Origin(row["server"], row["tool"]),
                read_only=row["readOnly"],
                destructive=row["destructive"],
            )
            for row in rows
        )

    def prompts(self, agent_id: str, session: str | None = None) -> "Sequence[PromptInfo]":
        own = self._sessions.get(session or "")
        return self._prompts.get(agent_id, ()) if own is None else own.prompts

    async def complete(
        self, agent_id: str, begun: "BegunArgument", session: str | None = None
    ) -> Sequence[str]:
        own = self._sessions.get(session or "")
        scope = None if own is None else own.scope
        asked = {"agent": agent_id, "scope": scope, **asdict(begun)}
        return (await self._client().request("POST", "/api/completions", asked))["values"]

    async def refresh(
        self, agent_id: str, session: str | None = None, *, wait: bool = False
    ) -> None:
        own = self._sessions.get(session or "")
        if own is not None:
            if wait:
                with anyio.move_on_after(_GATEWAY_TOOLS_SECONDS):
                    await own.settled.wait()
            return
        try:
            rows = (await self._get(f"/api/prompts?agent={agent_id}"))["prompts"]
        except OpenClawError:
            return  # what is known stays
        self._prompts[agent_id] = tuple(map(_prompt, rows))

    async def models(self, agent_id: str) -> Sequence[str]:
        return tuple((await self._get(f"/api/models?agent={agent_id}"))["models"])

    async def model_problem(self, ref: str) -> str | None:
        return (await self._get(f"/api/models?check={quote(ref)}"))["problem"]

    async def store(self) -> "SessionStore":
        return await self._store.get()

    async def add_servers(self, session: str, agent_id: str, servers: "Servers") -> None:
        """Have the gateway start these servers, then stop those that the session had before."""
        added = _GatewaySession(agent_id, servers)
        self._tasks.start_soon(self._hold, added, name=f"servers of {session}")
        try:
            await added.opened.wait()
        except BaseException:
            added.close()
            raise
        if not added.scope:
            from openclaw.runtime.gateway_client import GatewayGone

            raise added.failure or GatewayGone("the gateway went away", sent=False)
        before, self._sessions[session] = self._sessions.get(session), added
        if before is not None:
            before.close()

    def end_session(self, session: str) -> None:
        held = self._sessions.pop(session, None)
        if held is not None:
            held.close()

    async def forward(self, agent_id: str | None, request: Json, notify: Notify) -> Json | None:
        return await self._client().forward(agent_id, request, notify)

    async def _hold(self, session: _GatewaySession) -> None:
        servers = {name: self._described(one) for name, one in session.servers.items()}
        try:
            with session.connection:
                async with self._client().scope(session.agent, servers) as events:
                    async for name, data in events:
                        if name == "opened":
                            session.scope = data["scope"]
                            session.opened.set()
                        elif name == "settled":
                            session.prompts = tuple(map(_prompt, data["prompts"]))
                            session.settled.set()
        except OpenClawError as error:
            session.failure = error
        finally:
            session.close()

    def _described(self, config: "McpServerConfig") -> dict[str, object]:
        """The server for the gateway to start, in the environment that it would have here."""
        from openclaw.mcp_client.transport.child_process import child_environment
        from openclaw.secrets.refs import has_reference

        described = config.model_dump(
            mode="json", by_alias=True, exclude_unset=True, exclude_none=True
        )
        if config.kind == "stdio":
            basics = child_environment(self._process.environ, {}, inherit=False)
            plain = {name: one for name, one in basics.items() if not has_reference(one)}
            described["env"] = {**plain, **{name: str(one) for name, one in config.env.items()}}
        return described


class _LaterTranscriber:
    """Reads the configuration only when there is something to transcribe."""

    def __init__(self, configured: Callable[[], AgentSettings]) -> None:
        self._configured = configured

    async def transcribe(self, path: Path, mime_type: str) -> "Transcript":
        return await self._configured().transcriber.transcribe(path, mime_type)


def _prompt(row: dict[str, Any]) -> "PromptInfo":
    from openclaw.mcp_client.bridge.prompts import PromptArgument, PromptInfo

    return PromptInfo(
        server=row["server"],
        name=row["name"],
        description=row["description"],
        arguments=tuple(PromptArgument(**argument) for argument in row["arguments"]),
    )


# ---- whichever there is


class Opener(Generic[T]):
    """Opens something when it is first needed, and again after it failed.

    It is opened and closed in one task, `run`, because its task groups require that. It ends with
    `close` alone: a cancellation from outside stops its users at the same time, who still need it.
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
            self._failure = self._told(error)
        finally:
            self.opened = None
        tried, self._tried, self._wanted = self._tried, anyio.Event(), anyio.Event()
        tried.set()

    def _told(self, error: Exception) -> OpenClawError:
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
    """The agent of the gateway while one runs, else the one in this process.

    It is chosen for each message. One that a gateway may have begun to answer is never sent again.
    """

    def __init__(
        self,
        gateway: Callable[[], GatewayAgent | None],
        here: Opener[LocalAgent],
        before: "BeforeOpening | None" = None,
    ) -> None:
        self._gateway, self._here, self._before = gateway, here, before
        self._sessions: dict[str, _SessionServers] = {}

    @property
    def _unopened(self) -> "BeforeOpening | None":
        return None if self._here.opened is not None or self._gateway() else self._before

    async def _either(self, ask: Callable[[Agent], Awaitable[T]]) -> T:
        remote = self._gateway()
        if remote is not None:
            from openclaw.runtime.gateway_client import GatewayGone

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

    async def reply(self, context: MessageContext, listener: TurnListener = NOBODY) -> Reply:
        key = context.session_key
        held = self._sessions.get(key)
        if held is None:
            return await self._either(lambda agent: agent.reply(context, listener))

        async def answer(agent: Agent) -> Reply:
            if held.running and held.where is self._here.opened and held.where is not None:
                agent = held.where  # a turn still uses the servers here
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
        self, agent_id: str, begun: "BegunArgument", session: str | None = None
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
class BeforeOpening:
    """What a front end gets while the agent in this process is not open; `open` doesn't wait."""

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
    """The agent of a running gateway; with `local`, or if none runs, the one of this process.

    Nothing is loaded before it is used, except with `ahead` and no gateway. A `person` should be able
    to type at once, so settings and conversations are there before the agent, which the first
    `refresh` opens. `emit` gets what happens outside of turns in this process; `short_grace` gives MCP
    servers less time to stop.
    """
    async with helper_tasks() as tasks:
        imports = _Imports(process, tasks)
        here = Opener(
            "the agent", lambda: _open_here(process, imports, short_grace=short_grace, emit=emit)
        )
        store = Opener("the session store", lambda: _open_store(process))
        try:
            await tasks.start(here.run, name="agent")
            await tasks.start(store.run, name="session store")
            gateways = _Gateways(process, tasks, store)
            if ahead and (local or gateways.running() is None):
                imports.begin()

            def open_later() -> None:
                imports.begin()
                here.want()

            before = BeforeOpening(
                lambda agent_id: configured_settings(process, agent_id, process.load_config()),
                store.get,
                open_later,
            )
            find = (lambda: None) if local else gateways.running
            yield FailoverAgent(find, here, before if person else None)
        finally:
            here.close()
            store.close()


class _Gateways:
    def __init__(self, process: Process, tasks: TaskGroup, store: "Opener[SessionStore]") -> None:
        self._process, self._tasks, self._store = process, tasks, store
        self._agent: GatewayAgent | None = None
        self._other: str | None = None  # the last configuration that was not ours

    def running(self) -> GatewayAgent | None:
        from openclaw.config.paths import config_path
        from openclaw.gateway.lock import running_gateway

        process = self._process
        info = running_gateway(process.paths.gateway_lock)
        if info is None or not info.url:
            return None
        if Path(info.config) != (process.config_option or config_path(process.environ)).absolute():
            if info.config != self._other:
                self._other = info.config
                logger.warning("the running gateway uses another configuration (%s)", info.config)
            return None
        if self._agent is None or self._agent.info != info:
            self._agent = GatewayAgent(info, process, self._tasks, self._store)
        return self._agent


class _Imports:
    """Imports what a first message needs in a thread, before the message comes."""

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
                importlib.import_module(f"openclaw.{name}")
        with suppress(OpenClawError):
            from openclaw.models.build import preload

            config = load_config(self._process.config_option, self._process.environ).config
            preload(config.models.providers.values())

    async def wait(self) -> None:
        if self._done is not None:
            await self._done.wait()


@asynccontextmanager
async def _open_here(
    process: Process, imports: _Imports, *, short_grace: bool, emit: Emit
) -> AsyncGenerator[LocalAgent]:
    await imports.wait()
    from openclaw.config.load import stamp
    from openclaw.config.paths import config_path
    from openclaw.runtime.runtime import open_runtime

    environ = process.environ
    seen = stamp(process.config_option or config_path(environ))  # before it is read
    loaded = process.load_config()
    async with open_runtime(
        loaded, environ, process.redactor, short_grace=short_grace, emit=emit
    ) as runtime:
        runtime.agent.before_turn = _ConfigFollower(process, runtime, seen).follow
        yield runtime.agent


class _ConfigFollower:
    """Applies changes of the configuration file before a turn, as a gateway does when they are made."""

    def __init__(self, process: Process, runtime: "Runtime", seen: object) -> None:
        self._process, self._runtime, self._seen = process, runtime, seen
        self._lock = anyio.Lock()

    async def follow(self) -> None:
        from openclaw.config.load import require_file, stamp

        async with self._lock:
            current = self._runtime.host.loaded
            now = stamp(current.path)
            if now == self._seen:
                return
            self._seen = now
            try:
                loaded = self._process.load_config()
                require_file(loaded, current)
                if loaded.config != current.config:
                    await self._runtime.apply(loaded)
            except OpenClawError as error:
                told = self._process.redactor.redact(describe(error))
                self._process.warn(f"The configuration was not reloaded, the old one stays: {told}")


@asynccontextmanager
async def _open_store(process: Process) -> "AsyncGenerator[SessionStore]":
    from openclaw.runtime.host import open_secrets
    from openclaw.sessions.open import open_store

    config = process.load_config().config
    resolve = open_secrets(config, process.environ, process.redactor).resolve_text
    async with open_store(config.sessions.store, process.paths, resolve=resolve) as store:
        yield store
