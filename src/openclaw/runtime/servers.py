"""The MCP servers of the agents, running."""

import logging
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent
from openclaw.config.paths import StatePaths
from openclaw.core.clock import SystemClock
from openclaw.core.errors import ServerUnavailable
from openclaw.core.events import Emit, discard
from openclaw.core.tools import ToolSource
from openclaw.policy.decide import server_wholly_denied
from openclaw.runtime.host import Host, hide_known, open_secrets, policy_of
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import SecretResolver

if TYPE_CHECKING:
    from openclaw.agent.telemetry import Telemetry
    from openclaw.agent.toolpath.audit import CallRecord, OnCall
    from openclaw.agent.toolpath.hooks import Hooks
    from openclaw.agent.toolpath.toolbox import Toolbox
    from openclaw.mcp_client.lifecycle.manager import AgentServers, McpManager
    from openclaw.mcp_client.session.connect import ResolveSecrets
    from openclaw.mcp_client.session.notifications import AskHost

logger = logging.getLogger(__name__)


@asynccontextmanager
async def telemetry_of(host: Host, secrets: SecretResolver) -> "AsyncGenerator[Telemetry | None]":
    settings = host.config.telemetry
    if not settings.enabled:
        yield None
        return
    from openclaw.agent.telemetry import open_telemetry

    named = {name: str(value) for name, value in settings.headers.items()}
    headers = {name: one.reveal() for name, one in (await secrets.resolve_map(named)).items()}
    async with open_telemetry(settings, headers, host.clock) as telemetry:
        yield telemetry


@contextmanager
def audited(host: Host) -> Generator["OnCall"]:
    from openclaw.agent.toolpath.audit import AuditLog

    settings, telemetry = host.config.audit, host.telemetry
    log = AuditLog(
        host.paths.audit_log,
        host.redactor,
        host.clock,
        bodies=settings.bodies,
        max_bytes=settings.max_bytes,
        keep=settings.keep,
    )

    def note(record: "CallRecord") -> None:
        if settings.enabled:
            log.record(record)
        if telemetry is not None:
            telemetry.on_call(record)

    try:
        yield note
    finally:
        log.close()


@dataclass(frozen=True, slots=True)
class OpenServers:
    manager: "McpManager"
    host: Host

    def tools(self, agent: EffectiveAgent) -> "Toolbox":
        return tool_path_of(self.host, agent, [self.manager.tools(agent.id)])


@asynccontextmanager
async def open_servers(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    redactor: Redactor,
    agents: Mapping[str, EffectiveAgent],
) -> "AsyncGenerator[OpenServers]":
    host = Host(loaded, environ, redactor, StatePaths.of(environ).prepare(), SystemClock())
    hide_known(loaded, environ, redactor)
    secrets = open_secrets(loaded.config, environ, redactor)
    servers = {agent.id: servers_of(host, agent) for agent in agents.values()}
    with audited(host) as on_call:
        async with running_servers(
            host, servers, secrets.resolve_map, discard, on_sampling=_no_model
        ) as manager:
            yield OpenServers(manager, replace(host, on_call=on_call))


async def _no_model(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Offered all the same, since what a server lists may depend on it."""
    logger.warning(
        "MCP server '%s' asked for the model, which only the agent runs: "
        'for tools that need it, use openclaw agent "…"',
        server,
    )
    raise ServerUnavailable(server, "no model runs here that it could ask")


@asynccontextmanager
async def running_servers(
    host: Host,
    servers: "Mapping[str, AgentServers]",
    resolve: "ResolveSecrets",
    emit: Emit,
    *,
    hurried: bool = False,
    on_sampling: "AskHost | None" = None,
) -> "AsyncGenerator[McpManager]":
    from openclaw.agent.redaction import clean_result
    from openclaw.mcp_client.auth.token_store import authentication
    from openclaw.mcp_client.catalog.pin_store import PinStore
    from openclaw.mcp_client.lifecycle.manager import ManagerDeps, McpManager
    from openclaw.mcp_client.sandbox.confinement import Sandbox
    from openclaw.mcp_client.session.connect import ConnectionDeps
    from openclaw.mcp_client.session.elicitation import decline
    from openclaw.mcp_client.transport.child_process import HURRIED, Grace
    from openclaw.mcp_client.transport.orphans import OrphanReaper

    async with AsyncExitStack() as stack:
        keeper = OrphanReaper()
        stack.push_async_callback(keeper.aclose)
        connection = ConnectionDeps(
            resolve_secrets=resolve,
            emit=emit,
            environ=host.environ,
            keeper=keeper,
            grace=HURRIED if hurried else Grace(),
            redactor=host.redactor,
            clock=host.clock,
            cache=host.paths.cache,
            on_sampling=on_sampling,
            on_elicitation=decline,
            confine=Sandbox(host.environ, state=host.paths.root).confine,
            auth=authentication(host.paths.tokens, host.redactor.register, resolve),
        )
        deps = ManagerDeps(
            connection,
            pins=PinStore(host.paths.pins),
            clean=partial(clean_result, redactor=host.redactor),
        )
        if host.telemetry is not None:
            deps = replace(deps, traceparent=host.telemetry.traceparent)
        manager = await stack.enter_async_context(McpManager(servers, deps))
        manager.start()
        yield manager


def servers_of(host: Host, agent: EffectiveAgent) -> "AgentServers":
    from openclaw.mcp_client.lifecycle.manager import AgentServers

    policy = policy_of(agent)
    return AgentServers(
        id=agent.id,
        servers=agent.servers,
        wholly_denied=lambda prefix: server_wholly_denied(policy, prefix),
        roots=(host.workspace(agent),),
        resource_budget=agent.resource_context_chars,
    )


def hooks_of(host: Host, workspace: Path) -> "Hooks | None":
    commands = host.config.hooks.commands
    if not commands:
        return None
    from openclaw.agent.toolpath.hooks import Hooks

    return Hooks(commands, host.environ, host.redactor.redact, workspace)


def tool_path_of(
    host: Host,
    agent: EffectiveAgent,
    sources: Sequence[ToolSource],
    *,
    can_ask: bool = True,
    session: str | None = None,
    workspace: Path | None = None,
) -> "Toolbox":
    """The tools of these sources that the agent may use; edits of `workspace` are shown as diffs.

    Without a `session`, it is a person who calls them.
    """
    from openclaw.agent.toolpath.build import ToolPathDeps, tool_path
    from openclaw.agent.toolpath.search import Bounds
    from openclaw.agent.tools.files import preview

    shares = host.shares()
    deps = ToolPathDeps(
        host.redactor,
        host.clock,
        host.on_call,
        host.paths.results,
        shares.search,
        shares.approvals,
        partial(preview, workspace) if workspace is not None else None,
        hooks_of(host, workspace) if workspace is not None else None,
    )
    bounds = Bounds(agent.tool_context_percent, agent.tool_search_limit, agent.code)
    flow = host.flow(agent, session) if session is not None else None
    return tool_path(sources, policy_of(agent), deps, can_ask=can_ask, bounds=bounds, flow=flow)
