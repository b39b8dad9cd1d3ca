"""The MCP servers of the agents, running."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent
from openclaw.config.paths import StatePaths
from openclaw.core.clock import SystemClock
from openclaw.core.errors import ServerUnavailable
from openclaw.core.events import Emit, discard
from openclaw.policy import decide, server_wholly_denied
from openclaw.runtime.calls import audited, measured
from openclaw.runtime.host import Host, hide_known, open_secrets, policy_of
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.stream import StreamRedactor

if TYPE_CHECKING:
    from openclaw.mcp_client.incoming import AskHost
    from openclaw.mcp_client.manager import AgentServers, McpManager
    from openclaw.mcp_client.opening import ResolveSecrets


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
    from openclaw.mcp_client.asking import decline
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
