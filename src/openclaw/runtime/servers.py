"""The MCP servers of the agents, running."""

import json
from collections.abc import AsyncGenerator, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent
from openclaw.config.paths import StatePaths
from openclaw.core.clock import SystemClock
from openclaw.core.content import Block, Media, text_of
from openclaw.core.errors import ServerUnavailable
from openclaw.core.events import Emit, discard
from openclaw.policy import decide, server_wholly_denied
from openclaw.runtime.host import Host, hide_known, open_secrets, policy_of
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.resolver import SecretResolver
from openclaw.secrets.streaming import StreamRedactor

if TYPE_CHECKING:
    from openclaw.agent.telemetry import Telemetry
    from openclaw.mcp_client.bridge.tool_source import CallRecord, OnCall
    from openclaw.mcp_client.lifecycle.manager import AgentServers, McpManager
    from openclaw.mcp_client.session.connect import ResolveSecrets
    from openclaw.mcp_client.session.notifications import AskHost


@asynccontextmanager
async def telemetry_of(host: Host, secrets: SecretResolver) -> "AsyncGenerator[Telemetry | None]":
    """Traces and metrics, where the configuration asks for them."""
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
    """Whatever is to be told of every MCP tool call, for as long as the context lasts."""
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
        arguments = _dumped(record.arguments)
        result = text_of(record.blocks)
        log.record(
            agent=record.agent,
            session=record.session,
            server=record.server,
            tool=record.tool,
            duration_ms=record.duration_ms,
            outcome=record.outcome,
            argument_bytes=len(arguments),
            result_bytes=len(result.encode(errors="surrogatepass"))
            + sum(map(_size, record.blocks)),
            arguments=arguments.decode() if settings.bodies else None,
            result=result if settings.bodies else None,
        )

    try:
        yield write
    finally:
        log.close()


def measured(on_call: "OnCall", telemetry: "Telemetry | None") -> "OnCall":
    """Both are told, where there are both."""
    if telemetry is None:
        return on_call

    def told(record: "CallRecord") -> None:
        on_call(record)
        telemetry.on_call(record)

    return told


def _dumped(arguments: Any) -> bytes:
    import orjson

    try:
        return orjson.dumps(arguments, default=str)
    except TypeError:  # half a character, or a number beyond 64 bits
        return json.dumps(arguments, default=str).encode()


def _size(block: Block) -> int:
    return len(block.data) if isinstance(block, Media) and block.data is not None else 0


@asynccontextmanager
async def open_servers(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    redactor: Redactor,
    agents: Mapping[str, EffectiveAgent],
) -> "AsyncGenerator[McpManager]":
    """The MCP servers of these agents, started, without the agents themselves."""
    host = Host(loaded, environ, redactor, StatePaths.of(environ).prepare(), SystemClock())
    hide_known(loaded, environ, redactor)
    secrets = open_secrets(loaded.config, environ, redactor)
    servers = {agent.id: servers_of(host, agent) for agent in agents.values()}
    async with running_servers(
        host, servers, secrets.resolve_map, discard, on_sampling=_no_model
    ) as manager:
        yield manager


async def _no_model(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Offered all the same, since what a server lists may depend on it."""
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
    """The servers started; at the end all of them are gone."""
    from openclaw.mcp_client.auth.token_store import authentication
    from openclaw.mcp_client.catalog.pin_store import PinStore
    from openclaw.mcp_client.lifecycle.connection import ConnectionDeps
    from openclaw.mcp_client.lifecycle.manager import ManagerDeps, McpManager
    from openclaw.mcp_client.sandbox.confinement import Sandbox
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
            redact=host.redactor.redact,
            stderr_redactor=partial(StreamRedactor, host.redactor),
            holds_secret=host.redactor.holds,
            clock=host.clock,
            cache=host.paths.cache,
            on_sampling=on_sampling,
            on_elicitation=decline,
            confine=Sandbox(host.environ, state=host.paths.root).confine,
            auth=authentication(host.paths.tokens, host.redactor.register, resolve),
            pins=PinStore(host.paths.pins),
        )
        audit = stack.enter_context(audited(host))
        deps = ManagerDeps(
            connection, results=host.paths.results, on_call=measured(audit, host.telemetry)
        )
        manager = await stack.enter_async_context(McpManager(servers, deps))
        manager.start()
        yield manager


def servers_of(host: Host, agent: EffectiveAgent) -> "AgentServers":
    """What the manager has to know of this agent."""
    from openclaw.mcp_client.lifecycle.manager import AgentServers

    policy = policy_of(agent)
    return AgentServers(
        id=agent.id,
        servers=agent.servers,
        decide=lambda name: decide(policy, name),
        wholly_denied=lambda prefix: server_wholly_denied(policy, prefix),
        roots=(host.workspace(agent),),
        resource_budget=agent.resource_context_chars,
    )
