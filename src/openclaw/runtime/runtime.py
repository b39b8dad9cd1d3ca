"""Opens and closes everything that the agent needs."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent
from openclaw.config.paths import StatePaths
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.events import Emit, discard
from openclaw.mcp_client.imports import load
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
        self.generation = generation
        self._local = local
        self._secrets = secrets

    @property
    def host(self) -> Host:
        return self.generation.host

    @property
    def agents(self) -> Mapping[str, EffectiveAgent]:
        return self.generation.agents

    def tools(self, agent_id: str, session: str | None = None) -> "Sequence[ToolSpec]":
        agent, mcp = self.generation.agent(agent_id), self.manager.tools(agent_id, session)
        return sorted(self.generation.tool_path(agent, mcp).specs(), key=lambda spec: spec.name)

    async def apply(self, loaded: LoadedConfig) -> None:
        """Apply a new configuration; if it is invalid, raises and changes nothing.

        Running turns finish on the one that they began with, and only MCP servers whose effective
        configuration changed are restarted. The session store and the audit log stay the same.
        """
        hide_known(loaded, self.host.environ, self.host.redactor)
        host = replace(self.host, loaded=loaded)
        secrets = open_secrets(loaded.config, host.environ, host.redactor)
        generation = ConfigGeneration(host, self.store, self._local, secrets)
        generation.prepare()
        servers = generation.servers()
        before, self.generation = self.generation, generation
        self._secrets.resolver = secrets
        approved = {
            one.id: [rule for layer in one.tools for rule in layer.approved]
            for one in generation.agents.values()
        }
        host.shares().approvals.hold_to(approved)
        self.manager.apply(servers)
        await before.retire()

    def logins(self) -> "Logins":
        from openclaw.mcp_client.auth.oauth import Logins

        return Logins(
            directory=self.host.paths.tokens,
            register=self.host.redactor.register,
            resolve_secrets=self._secrets.resolve_map,
        )


@asynccontextmanager
async def open_runtime(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    redactor: Redactor,
    *,
    clock: Clock | None = None,
    emit: Emit = discard,
    short_grace: bool = False,
) -> AsyncGenerator[Runtime]:
    """Build and start everything; at the end, stop it in the reverse order.

    `emit` gets what happens outside of turns, such as an MCP server that changed its state.
    `short_grace` is for a process that must end within a second: servers get less time to stop.
    MCP servers may always ask the person and the model, since what they list can depend on that;
    without a person (`TurnListener.elicit`) they are declined.
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
        confine = Sandbox(environ, paths.root).confine
        shells = await stack.enter_async_context(Shells(environ, confine, [paths.skills]).running())
        subagents = Subagents()
        host = replace(host, telemetry=telemetry, shells=shells, subagents=subagents)
        host = replace(host, on_call=stack.enter_context(audited(host)))
        generation = ConfigGeneration(host, store, local, secrets.resolver)
        sampler: Sampler | None = None

        async def sample(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
            from openclaw.agent.sampling import Sampler

            nonlocal sampler
            sampler = sampler or Sampler(
                lambda: runtime.generation.default_stack(),
                lambda name: runtime.generation.sampling_rules(name),
                lambda: runtime.generation.account(),
            )
            return await sampler(server, params)

        manager = await stack.enter_async_context(
            running_servers(
                host,
                generation.servers(),
                secrets.resolve_map,
                emit,
                short_grace=short_grace,
                on_sampling=sample,
            )
        )
        runtime = Runtime(generation, manager, store, local, secrets)
        subagents.answer = runtime.agent.answer_here
        stack.push_async_callback(lambda: runtime.generation.retire())
        yield runtime


@asynccontextmanager
async def open_gateway_runtime(
    loaded: LoadedConfig, environ: Mapping[str, str], redactor: Redactor, **options: Any
) -> AsyncGenerator[Runtime]:
    """The same for a gateway: if sessions are in PostgreSQL, any gateway may run their turns."""
    async with open_runtime(loaded, environ, redactor, **options) as runtime:
        database = getattr(runtime.store, "database", None)
        if database is None:
            yield runtime
            return
        from openclaw.cluster.node import ClusterNode

        def load_models() -> None:
            from openclaw.agent import loop  # pyright: ignore[reportUnusedImport]  # noqa: F401
            from openclaw.models.build import preload

            preload(runtime.host.config.models.providers.values())

        gateway = loaded.config.gateway
        node = ClusterNode(
            database,
            gateway.cluster,
            agent=runtime.agent,
            answer=runtime.agent.answer_here,
            agents=lambda: tuple(runtime.agents),
            servers=runtime.manager,
            clock=runtime.host.clock,
            load=load_models,
        )
        async with node.joined(gateway.shutdown_grace_ms / 1000):
            runtime.cluster = node
            yield runtime


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
    from openclaw.gateway.auth import grant_of

    await load("openclaw.mcp_server.http_app")
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
