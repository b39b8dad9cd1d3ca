"""The building blocks: rules, secrets, MCP servers, tools."""

import logging
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import anyio.to_thread

from openclaw.agent.redaction import clean_result
from openclaw.agent.telemetry import Telemetry, open_telemetry
from openclaw.agent.toolpath.approval import Approvals
from openclaw.agent.toolpath.audit import AuditLog, CallLog, CallRecord
from openclaw.agent.toolpath.dataflow import SessionFlow, SessionFlows
from openclaw.agent.toolpath.hooks import Hooks
from openclaw.agent.toolpath.search import ToolListLimits, ToolSearch
from openclaw.agent.toolpath.toolbox import Toolbox, ToolPathDeps, permitted, tool_path
from openclaw.agent.tools.exec import Shells
from openclaw.agent.tools.files import preview
from openclaw.config.edit import append_value, edit_config
from openclaw.config.json5 import KeyPath, format_path
from openclaw.config.load import LoadedConfig, parse_config
from openclaw.config.merge import EffectiveAgent
from openclaw.config.paths import StatePaths
from openclaw.config.schema import AuditConfig, Config, DataFlowConfig, TelemetryConfig
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.errors import ServerUnavailable
from openclaw.core.events import Emit, discard
from openclaw.core.tools import CallContext, ToolSource
from openclaw.mcp_client.auth.logins import Logins
from openclaw.mcp_client.catalog.pin_store import PinStore
from openclaw.mcp_client.lifecycle.manager import AgentServers, ManagerDeps, McpManager
from openclaw.mcp_client.sandbox.confinement import Sandbox
from openclaw.mcp_client.session.connect import ConnectionDeps, ResolveSecrets
from openclaw.mcp_client.session.request_handlers import AskHost
from openclaw.mcp_client.transport.child_process import SHORT_GRACE, Grace
from openclaw.mcp_client.transport.orphan_reaper import OrphanReaper
from openclaw.policy.dataflow.rules import Allowance, FlowRules
from openclaw.policy.decide import Policy, Rules, server_wholly_denied
from openclaw.runtime.open_secrets import open_secrets
from openclaw.runtime.settings import register_known_secrets, workspace_of
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import SecretResolver

logger = logging.getLogger(__name__)

_POLICY_LAYERS = ("gateway.tools", "tools", "agents.defaults.tools", "agents.list[].tools")
_SESSION_LAYER = "the limits of this session"


class Shared:
    """What all configuration generations share, opened when tools are first needed."""

    def __init__(self, directory: Path, config: Path, environ: Mapping[str, str]) -> None:
        self._directory, self._config, self._environ = directory, config, environ

    @cached_property
    def flows(self) -> SessionFlows:
        return SessionFlows(self.allow_fields)

    @cached_property
    def approvals(self) -> Approvals:
        return Approvals(self._approve)

    @cached_property
    def search(self) -> ToolSearch:
        return ToolSearch(self._directory)

    async def _approve(self, agent: str, rule: str) -> str:
        """Add a rule that the person always allows to `approved`, for this agent if there are several."""

        def place(text: str) -> KeyPath:
            config = parse_config(text, self._environ, source=self._config).config
            ids = [entry.id for entry in config.agents.list]
            if len(ids) > 1 and agent in ids:
                return ("agents", "list", ids.index(agent), "tools", "approved")
            return ("tools", "approved")

        return await self._append([rule], place)

    async def allow_fields(self, allowed: Sequence[Allowance]) -> str:
        values = [
            {
                "tool": one.tool,
                "source": one.source,
                "sourceField": one.source_field,
                "parameter": one.parameter,
                "kind": one.kind,
            }
            for one in allowed
        ]
        return await self._append(values, lambda text: ("dataflow", "allow"))

    async def _append(self, values: Sequence[Any], place_in: Callable[[str], KeyPath]) -> str:
        """Add values to a list in the configuration; returns where that is."""
        place: KeyPath = ()

        def changed(text: str) -> str:
            nonlocal place
            place = place_in(text)
            for value in values:
                text = append_value(text, place, value)
            return text

        await anyio.to_thread.run_sync(edit_config, self._config, self._environ, changed)
        return f"{format_path(place)} in {self._config}"


@dataclass(frozen=True, slots=True)
class Host:
    """What an agent is built with: the configuration as loaded, and what this process provides."""

    loaded: LoadedConfig
    environ: Mapping[str, str]
    redactor: Redactor
    paths: StatePaths
    clock: Clock
    calls: CallLog
    shared: Shared
    telemetry: Telemetry | None = None
    shells: Shells | None = None

    def flow(self, agent: EffectiveAgent, session: str) -> SessionFlow | None:
        """Where this session's values came from; None if tracking is off."""
        settings = self.config.dataflow
        if settings.mode == "off" and not settings.modes:
            return None
        return self.shared.flows.of(session, flow_rules(settings, agent))

    @property
    def config(self) -> Config:
        return self.loaded.config

    def workspace(self, agent: EffectiveAgent) -> Path:
        return workspace_of(agent, self.loaded, self.paths, self.environ)


def policy_of(agent: EffectiveAgent) -> Policy:
    return [
        Rules(
            _POLICY_LAYERS[index] if index < len(_POLICY_LAYERS) else _SESSION_LAYER,
            layer.allow,
            layer.deny,
            layer.ask,
            layer.approved,
        )
        for index, layer in enumerate(agent.tools)
    ]


def flow_rules(settings: DataFlowConfig, agent: EffectiveAgent) -> FlowRules:
    return FlowRules(
        mode=settings.mode,
        modes=settings.modes,
        effects={
            f"{server}/{tool}": effect
            for server, one in agent.servers.items()
            for tool, effect in one.effects.items()
        },
        trusted_servers=frozenset(
            name for name, one in agent.servers.items() if one.trust == "full"
        ),
        allowed=frozenset(
            Allowance(one.tool, one.parameter, "", one.source, one.source_field, one.kind)
            for one in settings.allow
            if one.source_field
        ),
        model=settings.model,
    )


# ---- running servers, and the tools made from them


@asynccontextmanager
async def telemetry_of(
    settings: TelemetryConfig, secrets: SecretResolver, clock: Clock
) -> AsyncGenerator[Telemetry | None]:
    if not settings.enabled:
        yield None
        return
    named = {name: str(value) for name, value in settings.headers.items()}
    headers = {name: one.reveal() for name, one in (await secrets.resolve_map(named)).items()}
    async with open_telemetry(settings, headers, clock) as telemetry:
        yield telemetry


@contextmanager
def audited(
    path: Path, redactor: Redactor, settings: AuditConfig, telemetry: Telemetry | None = None
) -> Generator[CallLog]:
    log = AuditLog(path, redactor, settings)
    try:
        yield _Calls(log if settings.enabled else None, telemetry)
    finally:
        log.close()


@dataclass(frozen=True, slots=True)
class _Calls:
    """The audit log, if it is wanted, and telemetry."""

    log: AuditLog | None
    telemetry: Telemetry | None

    async def begin(self, call: CallRecord) -> None:
        if self.log is not None:
            await self.log.begin(call)

    def record(self, call: CallRecord) -> None:
        if self.log is not None:
            self.log.record(call)
        if self.telemetry is not None:
            self.telemetry.on_call(call)


@dataclass(frozen=True, slots=True)
class OpenServers:
    manager: McpManager
    host: Host

    def tools(self, agent: EffectiveAgent) -> Toolbox:
        return tool_path_of(self.host, agent, [self.manager.tools(agent.id)])


@asynccontextmanager
async def open_servers(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    redactor: Redactor,
    agents: Mapping[str, EffectiveAgent],
) -> AsyncGenerator[OpenServers]:
    paths = StatePaths.of(environ).prepare()
    register_known_secrets(loaded, environ, redactor)
    secrets = open_secrets(loaded.config, environ, redactor)
    with audited(paths.audit_log, redactor, loaded.config.audit) as calls:
        shared = Shared(paths.cache / "tools", loaded.path, environ)
        host = Host(loaded, environ, redactor, paths, SystemClock(), calls, shared)
        servers = {agent.id: servers_of(host, agent) for agent in agents.values()}
        async with running_servers(
            host, servers, secrets.resolve_map, discard, on_sampling=_no_model
        ) as manager:
            yield OpenServers(manager, host)


async def _no_model(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Sampling is offered anyway, because what a server lists may depend on it."""
    logger.warning(
        "MCP server '%s' asked for the model, which only the agent runs: "
        'for tools that need it, use openclaw agent "…"',
        server,
    )
    raise ServerUnavailable(server, "sampling is unavailable here")


@asynccontextmanager
async def running_servers(
    host: Host,
    servers: Mapping[str, AgentServers],
    resolve: ResolveSecrets,
    emit: Emit,
    *,
    short_grace: bool = False,
    on_sampling: AskHost | None = None,
) -> AsyncGenerator[McpManager]:
    async with AsyncExitStack() as stack:
        reaper = OrphanReaper()
        stack.push_async_callback(reaper.aclose)
        hide, tokens = host.redactor.register, host.paths.tokens
        logins = Logins(directory=tokens, resolve_secrets=resolve, register=hide)
        connection = ConnectionDeps(
            resolve_secrets=resolve,
            emit=emit,
            environ=host.environ,
            reaper=reaper,
            grace=SHORT_GRACE if short_grace else Grace(),
            redactor=host.redactor,
            clock=host.clock,
            cache=host.paths.cache,
            on_sampling=on_sampling,
            confine=Sandbox(host.environ, host.paths.root).confine,
            auth=logins.auth,
        )
        deps = ManagerDeps(
            connection,
            pins=PinStore(host.paths.pins),
            clean=partial(clean_result, redactor=host.redactor),
            traceparent=_no_trace if host.telemetry is None else host.telemetry.traceparent,
        )
        manager = await stack.enter_async_context(McpManager(servers, deps))
        manager.start()
        yield manager


def _no_trace(session: str, call_id: str) -> None:
    """The trace of a call, if there is no telemetry."""


def servers_of(host: Host, agent: EffectiveAgent) -> AgentServers:
    policy = policy_of(agent)
    return AgentServers(
        servers=agent.servers,
        wholly_denied=lambda prefix: server_wholly_denied(policy, prefix),
        roots=(host.workspace(agent),),
        resource_budget=agent.resource_context_chars,
    )


def hooks_of(host: Host, workspace: Path) -> Hooks | None:
    commands = host.config.hooks.commands
    if not commands:
        return None
    return Hooks(commands, host.environ, host.redactor.redact, workspace)


def hub_path_of(host: Host, agent: EffectiveAgent, source: ToolSource) -> ToolSource:
    """The tools that another program may call through the hub, which gets results as they are."""
    return permitted(source, policy_of(agent), _path_deps(host, agent, host.workspace(agent)))


def _path_deps(host: Host, agent: EffectiveAgent, workspace: Path | None) -> ToolPathDeps:
    shared, place = host.shared, workspace or host.workspace(agent)

    def directory(context: CallContext) -> Path:
        assert host.shells is not None
        return host.shells.of(context, place).directory

    return ToolPathDeps(
        host.redactor,
        host.clock,
        host.calls,
        host.paths.results,
        shared.search,
        shared.approvals,
        partial(preview, workspace) if workspace is not None else None,
        directory if host.shells is not None else None,
        hooks_of(host, workspace) if workspace is not None else None,
    )


def tool_path_of(
    host: Host,
    agent: EffectiveAgent,
    sources: Sequence[ToolSource],
    *,
    session: str | None = None,
    workspace: Path | None = None,
) -> "Toolbox":
    """The tools of these sources that the agent may use; no `session` means a person calls them."""
    deps = _path_deps(host, agent, workspace)
    bounds = ToolListLimits(agent.tool_context_percent, agent.tool_search_limit, agent.code)
    flow = host.flow(agent, session) if session is not None else None
    return tool_path(sources, policy_of(agent), deps, bounds=bounds, flow=flow)
