"""Everything that the agent needs, from opening to closing."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent
from openclaw.config.paths import StatePaths
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.events import Emit, discard
from openclaw.runtime.access import LocalAgent
from openclaw.runtime.generation import ConfigGeneration, CurrentSecrets, EmbeddedModels
from openclaw.runtime.host import (
    Host,
    audited,
    hide_known,
    open_secrets,
    running_servers,
    telemetry_of,
)
from openclaw.secrets.redactor import Redactor

if TYPE_CHECKING:
    from starlette.types import Scope

    from openclaw.agent.sampling import Sampler
    from openclaw.cluster.node import ClusterNode
    from openclaw.core.tools import ToolSpec
    from openclaw.gateway.state import Backend, Gateway
    from openclaw.mcp_client.auth.oauth import Logins
    from openclaw.mcp_client.lifecycle.manager import McpManager
    from openclaw.mcp_server.http_app import HttpApp
    from openclaw.mcp_server.orders import Person
    from openclaw.sessions.store import SessionStore


class Runtime:
    def __init__(
        self,
        generation: ConfigGeneration,
        manager: "McpManager",
        store: "SessionStore",
        local: EmbeddedModels,
        secrets: CurrentSecrets,
    ) -> None:
        self.manager = manager
        self.store = store
        self.cluster: ClusterNode | None = None
        self.agent = LocalAgent(self)
        self._generation = generation
        self._local = local
        self._secrets = secrets

    @property
    def generation(self) -> ConfigGeneration:
        return self._generation

    @property
    def host(self) -> Host:
        return self._generation.host

    @property
    def agents(self) -> Mapping[str, EffectiveAgent]:
        return self._generation.agents

    def tools(self, agent_id: str, session: str | None = None) -> "Sequence[ToolSpec]":
        generation = self._generation
        path = generation.tool_path(
            generation.agent(agent_id), self.manager.tools(agent_id, session)
        )
        return sorted(path.specs(), key=lambda spec: spec.name)

    async def apply(self, loaded: LoadedConfig) -> None:
        """Take a new configuration. Turns that run finish on the one that they began with.

        Only MCP servers whose effective configuration changed are restarted. Raises without having
        changed anything. The session store, the audit log and what the process itself was started
        with stay as they are until it is started again.
        """
        hide_known(loaded, self.host.environ, self.host.redactor)
        host = replace(self.host, loaded=loaded)
        secrets = open_secrets(loaded.config, host.environ, host.redactor)
        generation = ConfigGeneration(host, self.store, self._local, secrets)
        generation.prepare()
        servers = generation.servers()
        before, self._generation = self._generation, generation
        self._secrets.resolver = secrets
        approved = {
            one.id: [rule for layer in one.tools for rule in layer.approved]
            for one in generation.agents.values()
        }
        host.shares().approvals.hold_to(approved)
        self.manager.apply(servers)
        await before.retire()

    def logins(self) -> "Logins":
        """The logins to remote servers."""
        from openclaw.mcp_client.auth.oauth import Logins

        register = self.host.redactor.register
        return Logins(
            directory=self.host.paths.tokens,
            register=register,
            resolve_secrets=self._secrets.resolve_map,
        )

    async def aclose(self) -> None:
        await self._generation.retire()


class _Sampling:
    """Lets MCP servers ask the model of whichever generation is current, where they may."""

    def __init__(self, first: ConfigGeneration) -> None:
        self.generation: Callable[[], ConfigGeneration] = lambda: first
        self._sampler: Sampler | None = None

    async def sample(self, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        from openclaw.agent.sampling import Sampler

        if self._sampler is None:
            self._sampler = Sampler(
                lambda: self.generation().default_stack(),
                lambda name: self.generation().sampling_rules(name),
                lambda: self.generation().account(),
            )
        return await self._sampler(server, params)


@asynccontextmanager
async def open_runtime(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    redactor: Redactor,
    *,
    clock: Clock | None = None,
    emit: Emit = discard,
    hurried: bool = False,
) -> AsyncGenerator[Runtime]:
    """Everything built and running; at the end, everything taken down, in the reverse order.

    `emit` gets what happens outside of turns, such as an MCP server that changed its state.
    `hurried` is for a process that must be gone within a second: servers get less time to leave.
    MCP servers may ask the person whoever runs the turn: what they list can depend on what they are
    offered, and has to be the same everywhere. Where there is nobody (`TurnListener.elicit`) they
    are declined.
    """
    from openclaw.agent.tools.exec import Shells
    from openclaw.agent.tools.planning import Subagents
    from openclaw.mcp_client.sandbox.confinement import Sandbox
    from openclaw.media.files import sweep
    from openclaw.sessions.open import open_store

    paths = StatePaths.of(environ).prepare()
    host = Host(loaded, environ, redactor, paths, clock or SystemClock())
    host = replace(host, shared=host.shares())
    hide_known(loaded, environ, redactor)
    sweep(paths.temp)
    async with AsyncExitStack() as stack:
        local = EmbeddedModels(paths.models, environ, emit)
        stack.push_async_callback(local.aclose)
        secrets = CurrentSecrets(open_secrets(loaded.config, environ, redactor))
        store = await stack.enter_async_context(
            open_store(
                loaded.config.sessions.store,
                paths,
                host.clock,
                lease_seconds=loaded.config.sessions.lane_lease_ms / 1000,
                resolve=secrets.resolver.resolve_text,
            )
        )
        telemetry = await stack.enter_async_context(telemetry_of(host, secrets.resolver))
        confine = Sandbox(environ, state=paths.root).confine
        shells = await stack.enter_async_context(Shells(environ, confine, [paths.skills]).running())
        subagents = Subagents()
        host = replace(host, telemetry=telemetry, shells=shells, subagents=subagents)
        host = replace(host, on_call=stack.enter_context(audited(host)))
        generation = ConfigGeneration(host, store, local, secrets.resolver)
        current = _Sampling(generation)
        manager = await stack.enter_async_context(
            running_servers(
                host,
                generation.servers(),
                secrets.resolve_map,
                emit,
                hurried=hurried,
                on_sampling=current.sample,
            )
        )
        runtime = Runtime(generation, manager, store, local, secrets)
        subagents.answer = runtime.agent.answer_here
        current.generation = lambda: runtime.generation
        stack.push_async_callback(runtime.aclose)
        yield runtime


@asynccontextmanager
async def open_gateway_runtime(
    loaded: LoadedConfig, environ: Mapping[str, str], redactor: Redactor, **options: Any
) -> AsyncGenerator[Runtime]:
    """Everything built and running; see `open_runtime` for the options.

    Where the sessions are in PostgreSQL, turns go through its queue, and any gateway may run them.
    """
    async with open_runtime(loaded, environ, redactor, **options) as runtime:
        database = getattr(runtime.store, "database", None)
        if database is None:
            yield runtime
            return
        from openclaw.cluster.node import ClusterNode

        gateway = loaded.config.gateway
        node = ClusterNode(
            database,
            gateway.cluster,
            agent=runtime.agent,
            answer=runtime.agent.answer_here,
            agents=lambda: tuple(runtime.agents),
            servers=runtime.manager,
            clock=runtime.host.clock,
            load=lambda: _load_models(runtime.host),
        )
        async with node.joined(gateway.shutdown_grace_ms / 1000):
            runtime.cluster = node
            yield runtime


def _load_models(host: Host) -> None:
    from openclaw.agent import loop  # pyright: ignore[reportUnusedImport]  # noqa: F401
    from openclaw.models.build import preload

    preload(host.config.models.providers.values())


@asynccontextmanager
async def open_backend(
    loaded: LoadedConfig, environ: Mapping[str, str], redactor: Redactor, emit: Emit
) -> "AsyncGenerator[Backend]":
    from openclaw.gateway.state import Backend

    async with open_gateway_runtime(loaded, environ, redactor, emit=emit) as runtime:
        yield Backend(
            agent=runtime.agent,
            agents=lambda: runtime.agents,
            tools=runtime.tools,
            servers=runtime.manager,
            store=runtime.store,
            redactor=redactor,
            cluster=runtime.cluster,
            apply=runtime.apply,
            mcp=_mcp_app,
            approvals=lambda: runtime.host.shares().approvals,
            logins=runtime.logins,
        )


@asynccontextmanager
async def _mcp_app(gateway: "Gateway") -> "AsyncGenerator[HttpApp]":
    # Not in a thread: MCP servers that start import the SDK as well, and two threads would each see half of it.
    from openclaw.gateway.auth import grant_of
    from openclaw.mcp_server import http_app, orders, server, tasks

    def who(scope: "Scope") -> "Person":
        grant = grant_of(scope)
        assert grant is not None
        return orders.Person(grant.name, grant.allows("admin"), grant.session)

    tool, clock = server.TOOLS["openclaw"], gateway.clock
    desk = orders.OrderDesk(tool, gateway.backend.agent, clock, None, gateway.answer)
    backend, limit = gateway.backend, gateway.settings.limits.max_request_bytes
    kept = tasks.OrderTasks(
        desk, backend.agent, clock, in_gateway=True, resumes=backend.cluster is not None
    )
    async with kept.running():
        made = server.make_server("openclaw", desk, kept)
        async with http_app.serve_http(made, kept, most_bytes=limit, who=who) as app:
            yield app
