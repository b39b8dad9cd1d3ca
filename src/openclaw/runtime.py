"""The composition root: one async context manager that builds the parts and takes them down again."""

import logging
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent, default_agent_id, effective_agents
from openclaw.config.paths import StatePaths, expand, private_directory
from openclaw.config.schema import Config
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.errors import NotFound
from openclaw.core.events import Emit
from openclaw.core.tools import ToolSource
from openclaw.policy import Policy, Rules, decide, server_wholly_denied
from openclaw.secrets.backends import open_backends
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import SecretResolver

if TYPE_CHECKING:
    # Some commands need only the secrets; the SDK and the agent take a second to import.
    from openclaw.agent.context import MessageContext, OnBlockReply, OnToolResult, Reply
    from openclaw.agent.service import AgentService
    from openclaw.mcp_client.manager import AgentServers, McpManager
    from openclaw.mcp_client.toolsource import CallRecord, OnCall
    from openclaw.mcp_server.agent_link import OrderSettings
    from openclaw.models.stack import ModelStack
    from openclaw.sessions.model import SessionRef
    from openclaw.sessions.store import SessionStore

logger = logging.getLogger(__name__)

_POLICY_LAYERS = ("gateway.tools", "tools", "agents.defaults.tools", "agents.list[].tools")
_FIRST_TOOLS_SECONDS = 20.0
"""How long a turn waits for servers that have not yet said which tools they have."""


def open_secrets(config: Config, environ: Mapping[str, str], redactor: Redactor) -> SecretResolver:
    """Where the values of `secret://` references come from; it connects to nothing yet."""
    options = config.secrets.model_dump(by_alias=False)
    backends = open_backends(options, environ, redactor)
    return SecretResolver(backends, redactor, timeout=config.secrets.timeout_ms / 1000)


def policy_of(agent: EffectiveAgent) -> Policy:
    """The agent's tool policy; each layer is named after its key in the configuration."""
    layers = zip(_POLICY_LAYERS, agent.tools, strict=True)
    return Policy.from_layers(
        [Rules.of(name, allow=rules.allow, deny=rules.deny) for name, rules in layers]
    )


@dataclass(frozen=True, slots=True)
class Host:
    """What the process gives to everything that is built."""

    loaded: LoadedConfig
    environ: Mapping[str, str]
    redactor: Redactor
    paths: StatePaths
    clock: Clock

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


class Runtime:
    """The agent with all that it uses, ready to answer."""

    def __init__(
        self,
        host: Host,
        agents: Mapping[str, EffectiveAgent],
        manager: "McpManager",
        store: "SessionStore",
        service: "AgentService",
    ) -> None:
        self.host = host
        self.agents = agents
        self.manager = manager
        self.store = store
        self._service = service

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
    ) -> "Reply":
        """Answer one message, with the tools of every server that starts within a bound."""
        agent = self.agent(context.agent_id)
        await self.manager.settle(agent.id, context.session_key, timeout=_FIRST_TOOLS_SECONDS)
        return await self._service.get_reply(
            context,
            on_block_reply=on_block_reply,
            on_tool_result=on_tool_result,
            on_event=on_event,
        )

    def order_settings(self, agent_id: str | None) -> "OrderSettings":
        """How orders from MCP clients are taken for this agent."""
        from openclaw.mcp_server.agent_link import OrderSettings
        from openclaw.mcp_server.outbound import OutboundRules
        from openclaw.media.transcription import NoTranscriber

        agent = self.agent(agent_id)
        settings = self.host.config.mcp_server
        return OrderSettings(
            agent_id=agent.id,
            all_tool_text=settings.tool_results == "all",
            temp_root=self.host.paths.temp,
            outbound=OutboundRules(
                directories=(self.host.workspace(agent),), fetch=None, audio=settings.audio
            ),
            transcriber=NoTranscriber(),
        )


@asynccontextmanager
async def open_runtime(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    redactor: Redactor,
    *,
    clock: Clock | None = None,
) -> AsyncGenerator[Runtime]:
    """Everything built and running; at the end, everything taken down, in the reverse order."""
    from openclaw.agent.service import AgentService
    from openclaw.media.store import sweep
    from openclaw.models.factory import open_models
    from openclaw.models.local.open import LocalModels
    from openclaw.sessions.opening import open_store

    paths = StatePaths.of(environ).prepare()
    host = Host(loaded, environ, redactor, paths, clock or SystemClock())
    config = loaded.config
    for value in loaded.credentials:
        redactor.register(value)
    agents = effective_agents(config)
    secrets = open_secrets(config, environ, redactor)
    sweep(paths.temp)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(
            open_store(config.sessions.store, paths, host.clock)
        )
        manager = await stack.enter_async_context(_running_servers(host, agents, secrets))
        native = {agent.id: _native_tools(host, agent, store) for agent in agents.values()}

        def sources(agent_id: str, session: "SessionRef") -> Sequence[ToolSource]:
            return [native[agent_id], manager.tools(agent_id, session.key)]

        async def resources(agent: EffectiveAgent) -> str:
            return manager.resource_context(agent.id)

        local = LocalModels(paths.models, environ)
        stack.push_async_callback(local.aclose)
        models = await stack.enter_async_context(
            open_models(
                providers=config.models.providers,
                resolver=secrets,
                environ=environ,
                clock=host.clock,
                local=local.build,
            )
        )

        async def models_of(agent: EffectiveAgent) -> "ModelStack":
            return await models.stack(agent.model, temperature=agent.temperature)

        service = AgentService(
            store=store,
            agents=agents,
            tool_sources=sources,
            model_factory=models_of,
            policy_for=policy_of,
            resource_context=resources,
            workspace_for=host.workspace,
            redactor=redactor,
            clock=host.clock,
            compact_at=config.sessions.compact_at,
        )
        yield Runtime(host, agents, manager, store, service)


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
    async with _running_servers(host, agents, secrets) as manager:
        yield manager


@asynccontextmanager
async def _running_servers(
    host: Host, agents: Mapping[str, EffectiveAgent], secrets: SecretResolver
) -> "AsyncGenerator[McpManager]":
    from openclaw.mcp_client.connection import ConnectionDeps
    from openclaw.mcp_client.keeper import Keeper
    from openclaw.mcp_client.manager import ManagerDeps, McpManager

    async with AsyncExitStack() as stack:
        keeper = Keeper()
        stack.push_async_callback(keeper.aclose)
        connection = ConnectionDeps(
            resolve_secrets=secrets.resolve_map,
            environ=host.environ,
            keeper=keeper,
            redact=host.redactor.redact,
            clock=host.clock,
            cache=host.paths.cache,
        )
        servers = {agent.id: _servers_of(host, agent) for agent in agents.values()}
        audit = stack.enter_context(_audited(host))
        deps = ManagerDeps(connection, results=host.paths.results, on_call=audit)
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


def _native_tools(host: Host, agent: EffectiveAgent, store: "SessionStore") -> ToolSource:
    from openclaw.agent.tools.catalog import native_tools

    return native_tools(
        agent.id,
        host.workspace(agent),
        environ=host.environ,
        allow_rules=[glob for rules in agent.tools for glob in rules.allow],
        store=store,
    )


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
