"""The composition root: one async context manager that builds the parts and takes them down again."""

import logging
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent, default_agent_id, effective_agents
from openclaw.config.paths import StatePaths, expand, private_directory
from openclaw.config.schema import Config, ModelChoice
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.errors import NotFound
from openclaw.core.events import Emit, discard
from openclaw.core.tools import ToolSource, ToolSpec
from openclaw.policy import Policy, Rules, decide, server_wholly_denied
from openclaw.secrets.backends import open_backends
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import SecretResolver
from openclaw.secrets.secret import Secret
from openclaw.secrets.stream import StreamRedactor

if TYPE_CHECKING:
    # Some commands need only the secrets; the SDK and the agent take a second to import.
    from openclaw.agent.context import Ask, MessageContext, OnBlockReply, OnToolResult, Reply
    from openclaw.agent.service import AgentService
    from openclaw.agent.telemetry import Telemetry
    from openclaw.mcp_client.incoming import AskHost
    from openclaw.mcp_client.manager import AgentServers, McpManager
    from openclaw.mcp_client.opening import ResolveSecrets
    from openclaw.mcp_client.prompts import PromptInfo
    from openclaw.mcp_client.toolsource import CallRecord, OnCall
    from openclaw.mcp_server.agent_link import OrderSettings
    from openclaw.media.transcription import Transcriber
    from openclaw.models.factory import ModelFactory
    from openclaw.models.local.open import LocalModels
    from openclaw.models.stack import ModelStack
    from openclaw.sessions.model import SessionRef
    from openclaw.sessions.store import SessionStore

logger = logging.getLogger(__name__)

_POLICY_LAYERS = ("gateway.tools", "tools", "agents.defaults.tools", "agents.list[].tools")
_FIRST_TOOLS_SECONDS = 20.0
"""How long a turn waits for servers that have not yet said which tools they have."""
_CLOSING_SECONDS = 5.0


def open_secrets(config: Config, environ: Mapping[str, str], redactor: Redactor) -> SecretResolver:
    """Where the values of `secret://` references come from; it connects to nothing yet."""
    options = config.secrets.model_dump(by_alias=False)
    backends = open_backends(options, environ, redactor)
    return SecretResolver(backends, redactor, timeout=config.secrets.timeout_ms / 1000)


def policy_of(agent: EffectiveAgent) -> Policy:
    """The agent's tool policy; each layer is named after its key in the configuration."""
    layers = zip(_POLICY_LAYERS, agent.tools, strict=True)
    return Policy.from_layers(
        [Rules.of(name, allow=r.allow, deny=r.deny, ask=r.ask) for name, r in layers]
    )


@dataclass(frozen=True, slots=True)
class Host:
    """What the process gives to everything that is built."""

    loaded: LoadedConfig
    environ: Mapping[str, str]
    redactor: Redactor
    paths: StatePaths
    clock: Clock
    telemetry: "Telemetry | None" = None

    @property
    def config(self) -> Config:
        """The configuration itself."""
        return self.loaded.config

    def workspace(self, agent: EffectiveAgent) -> Path:
        """The directory in which this agent works, made where it was missing."""
        if agent.workspace is None:
            return private_directory(self.paths.workspace)
        named = expand(agent.workspace, self.environ)
        return named if named.is_absolute() else self.loaded.path.parent / named


class _Edition:
    """One configuration and what was built from it. A turn keeps the edition that it began with."""

    def __init__(
        self, host: Host, store: "SessionStore", local: "LocalModels", secrets: SecretResolver
    ) -> None:
        self.host = host
        self.agents = effective_agents(host.config)
        self.secrets = secrets
        self._store = store
        self._native = {one.id: _native_tools(host, one, store) for one in self.agents.values()}
        self._models = _models(host, local, secrets)
        self._turns = 0
        self._retired = False

    def servers(self) -> "dict[str, AgentServers]":
        """What the MCP servers' manager is to run."""
        return {agent.id: _servers_of(self.host, agent) for agent in self.agents.values()}

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """While a turn runs, nothing that it uses is closed."""
        self._turns += 1
        try:
            yield
        finally:
            self._turns -= 1
            await self._close_unused()

    async def retire(self) -> None:
        """No turn begins with this edition any more; close it with the last that did."""
        self._retired = True
        await self._close_unused()

    async def _close_unused(self) -> None:
        if self._retired and not self._turns:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_SECONDS):
                await self._models.aclose()

    def native(self, agent_id: str) -> ToolSource:
        """The agent's tools that are our own."""
        return self._native[agent_id]

    async def model_names(self, agent: EffectiveAgent) -> tuple[str, ...]:
        """The models that are asked for this agent, in order."""
        choice = await self._models.choice(agent.model)
        return tuple(candidate.ref for candidate in choice.candidates)

    def service(
        self, manager: "McpManager", tools: ToolSource, context: "MessageContext"
    ) -> "AgentService":
        """Answers this message with these MCP tools."""
        from openclaw.agent.service import AgentService

        def sources(agent_id: str, session: "SessionRef") -> Sequence[ToolSource]:
            if context.workspace is None:
                return [self._native[agent_id], tools]
            agent = self.agents[agent_id]
            return [_native_tools(self.host, agent, self._store, context.workspace), tools]

        async def resources(agent: EffectiveAgent) -> str:
            session = context.session_key
            blocks = (
                manager.instructions(agent.id, session),
                manager.resource_context(agent.id, session),
            )
            return "\n\n".join(block for block in blocks if block)

        async def models_of(agent: EffectiveAgent) -> "ModelStack":
            choice = agent.model
            if context.model is not None:
                fallbacks = choice.fallbacks if choice is not None else ()
                choice = ModelChoice(primary=context.model, fallbacks=fallbacks)
            return await self._models.stack(choice, temperature=agent.temperature)

        def workspace(agent: EffectiveAgent) -> Path:
            return context.workspace or self.host.workspace(agent)

        return AgentService(
            store=self._store,
            agents=self.agents,
            tool_sources=sources,
            model_factory=models_of,
            policy_for=policy_of,
            resource_context=resources,
            workspace_for=workspace,
            redactor=self.host.redactor,
            clock=self.host.clock,
            compact_at=self.host.config.sessions.compact_at,
            observe=self.host.telemetry.observer if self.host.telemetry is not None else None,
        )


class _CurrentSecrets:
    """The secrets of the edition that is current, for parts that outlive editions."""

    def __init__(self, resolver: SecretResolver) -> None:
        self.resolver = resolver

    async def resolve_map(self, values: Mapping[str, str]) -> dict[str, Secret]:
        return await self.resolver.resolve_map(values)


class Runtime:
    """The agent with all that it uses, ready to answer."""

    def __init__(
        self,
        edition: _Edition,
        manager: "McpManager",
        store: "SessionStore",
        local: "LocalModels",
        secrets: _CurrentSecrets,
    ) -> None:
        self.manager = manager
        self.store = store
        self._edition = edition
        self._local = local
        self._secrets = secrets

    @property
    def host(self) -> Host:
        """What everything was built from, as it is now."""
        return self._edition.host

    @property
    def agents(self) -> Mapping[str, EffectiveAgent]:
        """The agents there are now."""
        return self._edition.agents

    def agent(self, agent_id: str | None) -> EffectiveAgent:
        """The agent of this id, or the default one; raises `NotFound`."""
        wanted = agent_id or default_agent_id(self.host.config)
        if wanted not in self.agents:
            known = ", ".join(sorted(self.agents))
            raise NotFound(f"there is no agent '{wanted}'", hint=f"there are: {known}")
        return self.agents[wanted]

    async def get_reply(
        self,
        context: "MessageContext",
        *,
        on_block_reply: "OnBlockReply | None" = None,
        on_tool_result: "OnToolResult | None" = None,
        on_event: Emit | None = None,
        ask: "Ask | None" = None,
    ) -> "Reply":
        """Answer one message, with the tools of every server that starts within a bound."""
        agent = self.agent(context.agent_id)
        await self.manager.settle(agent.id, context.session_key, timeout=_FIRST_TOOLS_SECONDS)
        if context.prompt_calls:
            context = await self._expanded(agent.id, context)
        edition = self._edition
        with self.manager.hold(self.agent(agent.id).id, context.session_key) as tools:
            async with edition.turn():
                return await edition.service(self.manager, tools, context).get_reply(
                    context,
                    on_block_reply=on_block_reply,
                    on_tool_result=on_tool_result,
                    on_event=on_event,
                    ask=ask,
                )

    async def _expanded(self, agent_id: str, context: "MessageContext") -> "MessageContext":
        """The message that a prompt call stands for; any other message is left as it is."""
        from openclaw.agent.context import InboundMedia
        from openclaw.core.content import Media, text_of

        blocks = await self.manager.expand_prompt(agent_id, context.text, context.session_key)
        if blocks is None:
            return context
        media = tuple(InboundMedia(block) for block in blocks if isinstance(block, Media))
        return replace(context, text=text_of(blocks), media=(*context.media, *media))

    async def settle(self, agent_id: str, session: str | None = None) -> None:
        """Wait, within a bound, until the agent's servers have said what they have."""
        await self.manager.settle(agent_id, session, timeout=_FIRST_TOOLS_SECONDS)

    def prompts(self, agent_id: str, session: str | None = None) -> "tuple[PromptInfo, ...]":
        """The prompts that may be called by a message to this agent."""
        return self.manager.prompts(agent_id, session)

    def tools(self, agent_id: str, session: str | None = None) -> tuple[ToolSpec, ...]:
        """The tools that this agent may use now."""
        policy = policy_of(self.agent(agent_id))
        sources = (self._edition.native(agent_id), self.manager.tools(agent_id, session))
        specs = {spec.name: spec for source in reversed(sources) for spec in source.specs()}
        return tuple(specs[name] for name in sorted(specs) if decide(policy, name).allowed)

    async def model_names(self, agent_id: str) -> tuple[str, ...]:
        """The models that answer for this agent, the first one first."""
        return await self._edition.model_names(self.agent(agent_id))

    async def apply(self, loaded: LoadedConfig) -> None:
        """Take a new configuration. Turns that run finish on the one that they began with.

        Only MCP servers whose effective configuration changed are restarted. Raises without having
        changed anything. The session store, the audit log and what the process itself was started
        with stay as they are until it is started again.
        """
        for value in loaded.credentials:
            self.host.redactor.register(value)
        host = replace(self.host, loaded=loaded)
        secrets = open_secrets(loaded.config, host.environ, host.redactor)
        edition = _Edition(host, self.store, self._local, secrets)
        servers = edition.servers()
        before, self._edition = self._edition, edition
        self._secrets.resolver = secrets
        self.manager.apply(servers)
        await before.retire()

    async def aclose(self) -> None:
        """Close what the current edition holds."""
        await self._edition.retire()

    def order_facts(self, agent_id: str | None) -> dict[str, object]:
        """The same as `order_settings`, in words for a front end in another process."""
        agent = self.agent(agent_id)
        settings = self.host.config.mcp_server
        return {
            "agent": agent.id,
            "allToolText": settings.tool_results == "all",
            "tempRoot": str(self.host.paths.temp),
            "directories": [str(self.host.workspace(agent))],
            "audio": settings.audio,
        }

    def order_settings(self, agent_id: str | None) -> "OrderSettings":
        """How orders from MCP clients are taken for this agent."""
        return order_settings(self.host, self.agent(agent_id), self._secrets.resolver)

    def transcriber(self) -> "Transcriber":
        """Turns recordings into words, as the configuration says."""
        return _transcriber(self.host, self._secrets.resolver)


def order_settings(host: Host, agent: EffectiveAgent, secrets: SecretResolver) -> "OrderSettings":
    """How orders from MCP clients are taken for this agent, wherever it runs."""
    from openclaw.mcp_server.agent_link import OrderSettings
    from openclaw.mcp_server.fetching import fetch_guarded
    from openclaw.mcp_server.outbound import OutboundRules

    settings = host.config.mcp_server
    return OrderSettings(
        agent_id=agent.id,
        all_tool_text=settings.tool_results == "all",
        temp_root=host.paths.temp,
        outbound=OutboundRules(
            directories=(host.workspace(agent),), fetch=fetch_guarded, audio=settings.audio
        ),
        transcriber=_transcriber(host, secrets),
    )


def _transcriber(host: Host, secrets: SecretResolver) -> "Transcriber":
    from openclaw.media.speech import Speech

    openai = host.config.models.providers.get("openai")
    settings = host.config.media.transcription
    return Speech(settings, openai, host.environ, secrets.resolve_text).transcriber()


def order_settings_elsewhere(
    loaded: LoadedConfig, environ: Mapping[str, str], redactor: Redactor, agent_id: str
) -> "OrderSettings":
    """The same for an agent that runs in another process; raises `NotFound`."""
    agents = effective_agents(loaded.config)
    if agent_id not in agents:
        raise NotFound(f"there is no agent '{agent_id}'")
    host = Host(loaded, environ, redactor, StatePaths.of(environ), SystemClock())
    secrets = open_secrets(loaded.config, environ, redactor)
    return order_settings(host, agents[agent_id], secrets)


@asynccontextmanager
async def open_runtime(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    redactor: Redactor,
    *,
    clock: Clock | None = None,
    emit: Emit = discard,
    hurried: bool = False,
    on_elicitation: "AskHost | None" = None,
) -> AsyncGenerator[Runtime]:
    """Everything built and running; at the end, everything taken down, in the reverse order.

    `emit` is told what happens outside of turns, such as an MCP server that changed its state.
    `hurried` is for a process that must be gone within a second: servers get less time to leave.
    `on_elicitation` is asked what an MCP server wants to know of the person; without it such
    questions are declined.
    """
    from openclaw.media.store import sweep
    from openclaw.models.local.open import LocalModels
    from openclaw.sessions.opening import open_store

    paths = StatePaths.of(environ).prepare()
    host = Host(loaded, environ, redactor, paths, clock or SystemClock())
    for value in loaded.credentials:
        redactor.register(value)
    sweep(paths.temp)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(
            open_store(loaded.config.sessions.store, paths, host.clock)
        )
        local = LocalModels(paths.models, environ)
        stack.push_async_callback(local.aclose)
        secrets = _CurrentSecrets(open_secrets(loaded.config, environ, redactor))
        telemetry = await stack.enter_async_context(_telemetry(host, secrets.resolver))
        host = replace(host, telemetry=telemetry)
        edition = _Edition(host, store, local, secrets.resolver)
        manager = await stack.enter_async_context(
            _running_servers(
                host,
                edition.servers(),
                secrets.resolve_map,
                emit,
                hurried=hurried,
                on_elicitation=on_elicitation,
            )
        )
        runtime = Runtime(edition, manager, store, local, secrets)
        stack.push_async_callback(runtime.aclose)
        yield runtime


@asynccontextmanager
async def open_servers(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    redactor: Redactor,
    agents: Mapping[str, EffectiveAgent],
) -> "AsyncGenerator[McpManager]":
    """The MCP servers of these agents, started, without the agents themselves."""
    host = Host(loaded, environ, redactor, StatePaths.of(environ).prepare(), SystemClock())
    for value in loaded.credentials:
        redactor.register(value)
    secrets = open_secrets(loaded.config, environ, redactor)
    servers = {agent.id: _servers_of(host, agent) for agent in agents.values()}
    async with _running_servers(host, servers, secrets.resolve_map, discard) as manager:
        yield manager


@asynccontextmanager
async def _running_servers(
    host: Host,
    servers: "Mapping[str, AgentServers]",
    resolve: "ResolveSecrets",
    emit: Emit,
    *,
    hurried: bool = False,
    on_elicitation: "AskHost | None" = None,
) -> "AsyncGenerator[McpManager]":
    from openclaw.mcp_client.connection import ConnectionDeps
    from openclaw.mcp_client.keeper import Keeper
    from openclaw.mcp_client.manager import ManagerDeps, McpManager
    from openclaw.mcp_client.pin_store import PinStore
    from openclaw.mcp_client.process import HURRIED, Grace
    from openclaw.mcp_client.sandbox import Sandbox
    from openclaw.mcp_client.token_store import authentication

    async with AsyncExitStack() as stack:
        keeper = Keeper()
        stack.push_async_callback(keeper.aclose)
        connection = ConnectionDeps(
            resolve_secrets=resolve,
            emit=emit,
            environ=host.environ,
            keeper=keeper,
            grace=HURRIED if hurried else Grace(),
            redact=host.redactor.redact,
            stderr_redactor=partial(StreamRedactor, host.redactor),
            clock=host.clock,
            cache=host.paths.cache,
            on_elicitation=on_elicitation,
            confine=Sandbox(host.environ, state=host.paths.root).confine,
            auth=authentication(host.paths.tokens, host.redactor.register, resolve),
            pins=PinStore(host.paths.pins),
        )
        audit = stack.enter_context(_audited(host))
        deps = ManagerDeps(
            connection, results=host.paths.results, on_call=_measured(audit, host.telemetry)
        )
        manager = await stack.enter_async_context(McpManager(servers, deps))
        manager.start()
        yield manager


def _servers_of(host: Host, agent: EffectiveAgent) -> "AgentServers":
    from openclaw.mcp_client.manager import AgentServers

    policy = policy_of(agent)
    return AgentServers(
        id=agent.id,
        servers=agent.servers,
        decide=lambda name: decide(policy, name),
        wholly_denied=lambda prefix: server_wholly_denied(policy, prefix),
        roots=(host.workspace(agent),),
        resource_budget=agent.resource_context_chars,
    )


def _native_tools(
    host: Host, agent: EffectiveAgent, store: "SessionStore", workspace: Path | None = None
) -> ToolSource:
    from openclaw.agent.tools.catalog import native_tools

    return native_tools(
        agent.id,
        workspace or host.workspace(agent),
        environ=host.environ,
        allow_rules=[glob for rules in agent.tools for glob in (*rules.allow, *rules.ask)],
        store=store,
    )


@asynccontextmanager
async def _telemetry(host: Host, secrets: SecretResolver) -> "AsyncGenerator[Telemetry | None]":
    settings = host.config.telemetry
    if not settings.enabled:
        yield None
        return
    from openclaw.agent.telemetry import open_telemetry

    named = {name: str(value) for name, value in settings.headers.items()}
    headers = {name: one.reveal() for name, one in (await secrets.resolve_map(named)).items()}
    async with open_telemetry(settings, headers, host.clock) as telemetry:
        yield telemetry


def _measured(on_call: "OnCall", telemetry: "Telemetry | None") -> "OnCall":
    if telemetry is None:
        return on_call

    def told(record: "CallRecord") -> None:
        on_call(record)
        telemetry.on_call(record)

    return told


@contextmanager
def _audited(host: Host) -> Generator["OnCall"]:
    """Whatever is to be told of every MCP tool call, for as long as the context lasts."""
    import orjson

    from openclaw.agent.audit import AuditLog

    settings = host.config.audit
    if not settings.enabled:
        yield lambda record: None
        return
    log = AuditLog(
        host.paths.audit_log,
        host.redactor,
        host.clock,
        bodies=settings.bodies,
        max_bytes=settings.max_bytes,
        keep=settings.keep,
    )

    def write(record: "CallRecord") -> None:
        arguments = orjson.dumps(record.arguments, default=str)
        log.record(
            agent=record.agent,
            session=record.session,
            server=record.server,
            tool=record.tool,
            duration_ms=record.duration_ms,
            outcome=record.outcome,
            argument_bytes=len(arguments),
            result_bytes=record.characters,
            arguments=arguments.decode() if settings.bodies else None,
        )

    try:
        yield write
    finally:
        log.close()


def _models(host: Host, local: "LocalModels", secrets: SecretResolver) -> "ModelFactory":
    from openclaw.models.factory import ModelFactory

    return ModelFactory(
        providers=host.config.models.providers,
        resolver=secrets,
        environ=host.environ,
        clock=host.clock,
        local=local.build,
    )
