"""Opens and closes everything that the agent needs."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from openclaw.agent.port import (
    NO_LISTENER,
    AgentInfo,
    AgentSettings,
    MessageContext,
    Notify,
    Reply,
    TurnListener,
)
from openclaw.agent.tools.exec import Shells
from openclaw.agent.tools.planning import Subagents
from openclaw.cluster.node import ClusterNode
from openclaw.config.load import LoadedConfig
from openclaw.config.paths import StatePaths
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.content import InboundMedia, Media, text_of
from openclaw.core.events import Emit, Notice, discard
from openclaw.core.questions import elicit_with
from openclaw.gateway.gateway import GatewayBackend
from openclaw.mcp_client.auth.logins import Logins
from openclaw.mcp_client.sandbox.confinement import Sandbox
from openclaw.media.stored_files import sweep
from openclaw.models.provider_check import model_problem
from openclaw.runtime.generation import ConfigGeneration, embedded_models, only_answers_differ
from openclaw.runtime.host import (
    Host,
    audited,
    running_servers,
    telemetry_of,
)
from openclaw.runtime.settings import agent_settings, open_secrets, register_known_secrets
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import Secret
from openclaw.sessions.open import open_store

if TYPE_CHECKING:
    from openclaw.agent.sampling import Sampler
    from openclaw.config.agent_schema import McpServerConfig
    from openclaw.core.questions import Ask
    from openclaw.core.tools import ToolSpec
    from openclaw.mcp_client.bridge.prompts import PartialArgument, PromptInfo
    from openclaw.mcp_client.lifecycle.manager import McpManager
    from openclaw.models.build import LocalBuilder
    from openclaw.sessions.store import SessionStore

Json = dict[str, Any]

_FIRST_TOOLS_SECONDS = 20.0  # how long a turn waits for servers that have not listed their tools
_NEW_SERVER_SECONDS = 2.0  # the same for a server that never answered, counted from its handshake


class Runtime:
    """This process's agents, across configuration changes."""

    def __init__(
        self,
        generation: ConfigGeneration,
        manager: "McpManager",
        sessions: "SessionStore",
        local: "LocalBuilder",
    ) -> None:
        self.generation, self.manager, self.sessions = generation, manager, sessions
        self.cluster: ClusterNode | None = None
        self.before_turn: Callable[[], Awaitable[None]] | None = None
        self._local = local

    @property
    def host(self) -> Host:
        return self.generation.host

    async def agents(self) -> Sequence[AgentInfo]:
        generation = self.generation
        first = generation.agent(None).id
        found = [AgentInfo(one.id, one.name) for one in generation.agents.values()]
        return sorted(found, key=lambda one: one.id != first)

    async def settings(self, agent_id: str | None = None) -> AgentSettings:
        generation = self.generation
        host = generation.host
        return agent_settings(
            generation.agent(agent_id),
            host.loaded,
            paths=host.paths,
            environ=host.environ,
            redactor=host.redactor,
            secrets=generation.secrets,
        )

    async def reply(self, context: MessageContext, listener: TurnListener = NO_LISTENER) -> Reply:
        if self.before_turn is not None:
            await self.before_turn()
        cluster = self.cluster
        return await (cluster.reply if cluster else self.answer_here)(context, listener)

    async def answer_here(
        self, context: MessageContext, listener: TurnListener = NO_LISTENER
    ) -> Reply:
        manager, scope = self.manager, context.server_scope
        late = await self._wait_for_tools(context.agent_id, scope)
        if late and listener.on_event is not None:
            message = f"no longer waiting for {', '.join(late)}; the missing tools will be available later"
            listener.on_event(Notice("warning", message))
        if context.prompt_calls:
            context = await self._expanded(context, listener.ask)
        generation = self.generation  # may have changed while we waited for servers
        async with generation.turn():
            agent = generation.agent(context.agent_id)
            with manager.hold(agent.id, scope) as tools:
                setup = generation.setup(agent, context, tools)
                return await generation.service(manager).reply(context, setup, listener)

    async def _expanded(self, context: MessageContext, ask: "Ask | None") -> MessageContext:
        """The message with the text of the prompt that it calls, if it calls one."""
        blocks = await self.manager.expand_prompt(
            context.agent_id,
            context.text,
            context.server_scope,
            elicit=elicit_with(ask) if ask else None,
        )
        if blocks is None:
            return context
        media = (InboundMedia(block) for block in blocks if isinstance(block, Media))
        words, typed = text_of(blocks), context.text
        return replace(context, text=words, typed=typed, media=(*context.media, *media))

    async def tools(self, agent_id: str, session: str | None = None) -> "Sequence[ToolSpec]":
        await self.refresh(agent_id, session, wait=True)
        return self.visible_tools(agent_id, session)

    def prompts(self, agent_id: str, session: str | None = None) -> "Sequence[PromptInfo]":
        return self.manager.prompts(agent_id, session)

    async def complete(
        self, agent_id: str, begun: "PartialArgument", session: str | None = None
    ) -> Sequence[str]:
        return await self.manager.complete(agent_id, begun, session)

    async def refresh(
        self, agent_id: str, session: str | None = None, *, wait: bool = False
    ) -> None:
        if wait:
            await self._wait_for_tools(agent_id, session)

    async def _wait_for_tools(self, agent_id: str, session: str | None) -> Sequence[str]:
        return await self.manager.wait_for_tools(
            agent_id, session, timeout=_FIRST_TOOLS_SECONDS, newcomer=_NEW_SERVER_SECONDS
        )

    async def models(self, agent_id: str) -> Sequence[str]:
        generation = self.generation
        return await generation.model_names(generation.agent(agent_id))

    async def model_problem(self, ref: str) -> str | None:
        host, secrets = self.host, self.generation.secrets
        providers = host.config.models.providers
        return await model_problem(ref, providers, secrets, host.environ, host.paths.models)

    async def store(self) -> "SessionStore":
        return self.sessions

    async def add_servers(
        self, session: str, agent_id: str, servers: "Mapping[str, McpServerConfig]"
    ) -> None:
        for name, config in servers.items():
            self.manager.add(name, config, session=session, agent=agent_id)

    def end_session(self, session: str) -> None:
        self.manager.end_session(session)

    async def forward(self, agent_id: str | None, request: Json, notify: Notify) -> Json | None:
        return None

    def visible_tools(self, agent_id: str, session: str | None = None) -> "Sequence[ToolSpec]":
        agent, mcp = self.generation.agent(agent_id), self.manager.tools(agent_id, session)
        return sorted(self.generation.tool_path(agent, mcp).specs(), key=lambda spec: spec.name)

    async def apply(self, loaded: LoadedConfig) -> None:
        """Apply a new configuration; if it is invalid, raises and changes nothing.

        Running turns finish with the one they began with, and only MCP servers whose effective
        configuration changed are restarted. The session store and the audit log stay the same.
        What the user answered with "always" only updates the rules.
        """
        if only_answers_differ(self.host.config, loaded.config):
            self.generation.update_rules(loaded)
            self._forget_revoked()
            return
        register_known_secrets(loaded, self.host.environ, self.host.redactor)
        host = replace(self.host, loaded=loaded)
        secrets = open_secrets(loaded.config, host.environ, host.redactor)
        generation = ConfigGeneration(host, self.sessions, self._local, secrets)
        generation.prepare()
        servers = generation.servers()
        before, self.generation = self.generation, generation
        self._forget_revoked()
        self.manager.apply(servers)
        await before.retire()

    def _forget_revoked(self) -> None:
        approved = {
            one.id: [rule for layer in one.tools for rule in layer.approved]
            for one in self.generation.agents.values()
        }
        self.host.shares().approvals.hold_to(approved)

    async def resolve_map(self, values: Mapping[str, str]) -> dict[str, Secret]:
        return await self.generation.secrets.resolve_map(values)

    def logins(self) -> "Logins":
        return Logins(
            directory=self.host.paths.tokens,
            register=self.host.redactor.register,
            resolve_secrets=self.resolve_map,
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

    `emit` gets events outside of turns, such as an MCP server changing its state.
    `short_grace` is for a process that must end within a second: servers get less time to stop.
    MCP servers may always ask the person and the model, since what they list can depend on that;
    without anybody to ask (`TurnListener.ask`) their questions are declined.
    """
    paths = StatePaths.of(environ).prepare()
    host = Host(loaded, environ, redactor, paths, clock or SystemClock())
    host = replace(host, shared=host.shares())
    register_known_secrets(loaded, environ, redactor)
    sweep(paths.temp)
    async with AsyncExitStack() as stack:
        local = await stack.enter_async_context(embedded_models(paths.models, environ, emit))
        secrets = open_secrets(loaded.config, environ, redactor)
        store = await stack.enter_async_context(
            open_store(
                loaded.config.sessions.store,
                paths,
                host.clock,
                lease_seconds=loaded.config.sessions.lane_lease_ms / 1000,
                resolve=secrets.resolve_text,
            )
        )
        telemetry = await stack.enter_async_context(telemetry_of(host, secrets))
        confine = Sandbox(environ, paths.root).confine
        shells = await stack.enter_async_context(Shells(environ, confine, [paths.skills]).running())
        subagents = Subagents()
        host = replace(host, telemetry=telemetry, shells=shells, subagents=subagents)
        host = replace(host, calls=stack.enter_context(audited(host)))
        generation = ConfigGeneration(host, store, local, secrets)
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
                lambda values: runtime.resolve_map(values),
                emit,
                short_grace=short_grace,
                on_sampling=sample,
            )
        )
        runtime = Runtime(generation, manager, store, local)
        subagents.answer = runtime.answer_here
        stack.push_async_callback(lambda: runtime.generation.retire())
        yield runtime


@asynccontextmanager
async def open_gateway_runtime(
    loaded: LoadedConfig, environ: Mapping[str, str], redactor: Redactor, **options: Any
) -> AsyncGenerator[Runtime]:
    """The same for a gateway: if sessions are in PostgreSQL, any gateway may run their turns."""
    async with open_runtime(loaded, environ, redactor, **options) as runtime:
        database = getattr(runtime.sessions, "database", None)
        if database is None:
            yield runtime
            return

        def load_models() -> None:
            from openclaw.agent import loop  # pyright: ignore[reportUnusedImport]  # noqa: F401
            from openclaw.models.build import preload

            preload(runtime.host.config.models.providers.values())

        gateway = loaded.config.gateway
        node = ClusterNode(
            database,
            gateway.cluster,
            agent=runtime,
            answer=runtime.answer_here,
            agents=lambda: tuple(runtime.generation.agents),
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
) -> "AsyncGenerator[GatewayBackend]":
    async with open_gateway_runtime(loaded, environ, redactor, emit=emit) as runtime:
        yield GatewayBackend(
            agent=runtime,
            agents=lambda: runtime.generation.agents,
            tools=runtime.visible_tools,
            servers=runtime.manager,
            store=runtime.sessions,
            redactor=redactor,
            cluster=runtime.cluster,
            apply=runtime.apply,
            approvals=lambda: runtime.host.shares().approvals,
            logins=runtime.logins,
        )
