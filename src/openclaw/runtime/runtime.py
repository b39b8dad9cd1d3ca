"""The agent with all that it uses, from opening to closing."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent, default_agent_id
from openclaw.config.paths import StatePaths
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.errors import NotFound
from openclaw.core.events import Emit, discard
from openclaw.core.tools import Elicit, ToolSpec
from openclaw.policy import decide
from openclaw.runtime.generation import ConfigGeneration, CurrentSecrets, EmbeddedModels
from openclaw.runtime.host import Host, hide_known, open_secrets, policy_of
from openclaw.runtime.orders import order_settings, transcriber_of
from openclaw.runtime.servers import running_servers, telemetry_of
from openclaw.secrets.redactor import Redactor

if TYPE_CHECKING:
    from openclaw.agent.port import MessageContext, Reply, TurnListener
    from openclaw.agent.sampling import Sampler
    from openclaw.cluster.node import ClusterNode
    from openclaw.config.schema import McpServerConfig
    from openclaw.mcp_client.bridge.prompts import PromptInfo
    from openclaw.mcp_client.lifecycle.manager import McpManager
    from openclaw.mcp_server.agent_link import OrderSettings
    from openclaw.media.transcription import Transcriber
    from openclaw.sessions.store import SessionStore

_FIRST_TOOLS_SECONDS = 20.0
"""How long a turn waits for servers that have not yet said which tools they have."""

_NEW_SERVER_SECONDS = 10.0
"""How long the first turns wait for one that has never answered, counted from its greeting."""


class Runtime:
    """The agent with all that it uses, ready to answer."""

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
        self.member: ClusterNode | None = None
        self._generation = generation
        self._local = local
        self._secrets = secrets

    @property
    def generation(self) -> ConfigGeneration:
        """The configuration that is current, and what was built from it."""
        return self._generation

    @property
    def host(self) -> Host:
        """What everything was built from, as it is now."""
        return self._generation.host

    @property
    def redactor(self) -> Redactor:
        """Knows every secret that was resolved."""
        return self.host.redactor

    @property
    def agents(self) -> Mapping[str, EffectiveAgent]:
        """The agents there are now."""
        return self._generation.agents

    def agent(self, agent_id: str | None) -> EffectiveAgent:
        """The agent of this id, or the default one; raises `NotFound`."""
        wanted = agent_id or default_agent_id(self.host.config)
        if wanted not in self.agents:
            known = ", ".join(sorted(self.agents))
            raise NotFound(f"there is no agent '{wanted}'", hint=f"there are: {known}")
        return self.agents[wanted]

    async def get_reply(
        self, context: "MessageContext", **listener: "Unpack[TurnListener]"
    ) -> "Reply":
        """Answer one message: here, or where gateways share their work, by one of them."""
        answer = self.answer_here if self.member is None else self.member.get_reply
        return await answer(context, **listener)

    async def answer_here(
        self, context: "MessageContext", **listener: "Unpack[TurnListener]"
    ) -> "Reply":
        """Answer one message, with the tools of every server that starts within a bound."""
        agent = self.agent(context.agent_id)
        await self.settle(agent.id, context.server_scope)
        if context.prompt_calls:
            context = await self._expanded(agent.id, context, listener.get("elicit"))
        generation = self._generation
        with self.manager.hold(self.agent(agent.id).id, context.server_scope) as tools:
            async with generation.turn():
                service = generation.service(self.manager, tools, context)
                return await service.get_reply(context, **listener)

    async def _expanded(
        self, agent_id: str, context: "MessageContext", elicit: Elicit | None
    ) -> "MessageContext":
        """The message that a prompt call stands for; any other message is left as it is."""
        from openclaw.agent.port import InboundMedia
        from openclaw.core.content import Media, text_of

        blocks = await self.manager.expand_prompt(
            agent_id, context.text, context.server_scope, elicit=elicit
        )
        if blocks is None:
            return context
        media = tuple(InboundMedia(block) for block in blocks if isinstance(block, Media))
        return replace(context, text=text_of(blocks), media=(*context.media, *media))

    async def bring(
        self, session: str, agent_id: str, servers: "Mapping[str, McpServerConfig]"
    ) -> None:
        """Have these servers stand beside the agent's own in a session, until `end_session`."""
        for name, config in servers.items():
            self.manager.add(name, config, session=session, agent=agent_id)

    def end_session(self, session: str) -> None:
        """Stop the servers that were brought along for a session."""
        self.manager.end_session(session)

    async def settle(self, agent_id: str, session: str | None = None) -> None:
        """Wait, within a bound, until the agent's servers have said what they have."""
        await self.manager.settle(
            agent_id, session, timeout=_FIRST_TOOLS_SECONDS, newcomer=_NEW_SERVER_SECONDS
        )

    def prompts(self, agent_id: str, session: str | None = None) -> "tuple[PromptInfo, ...]":
        """The prompts that may be called by a message to this agent."""
        return self.manager.prompts(agent_id, session)

    def tools(self, agent_id: str, session: str | None = None) -> tuple[ToolSpec, ...]:
        """The tools that this agent may use now."""
        policy = policy_of(self.agent(agent_id))
        sources = (self._generation.native(agent_id), self.manager.tools(agent_id, session))
        specs = {spec.name: spec for source in reversed(sources) for spec in source.specs()}
        return tuple(specs[name] for name in sorted(specs) if decide(policy, name).allowed)

    async def model_names(self, agent_id: str) -> tuple[str, ...]:
        """The models that answer for this agent, the first one first."""
        return await self._generation.model_names(self.agent(agent_id))

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
        self.manager.apply(servers)
        await before.retire()

    async def aclose(self) -> None:
        """Close what the current generation holds."""
        await self._generation.retire()

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
        return transcriber_of(self.host, self._secrets.resolver)


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

    `emit` is told what happens outside of turns, such as an MCP server that changed its state.
    `hurried` is for a process that must be gone within a second: servers get less time to leave.
    MCP servers may ask the person whoever runs the turn: what they list can depend on what they are
    offered, and has to be the same everywhere. Where there is nobody (`get_reply`'s `elicit`) they
    are declined.
    """
    from openclaw.media.files import sweep
    from openclaw.sessions.open import open_store

    paths = StatePaths.of(environ).prepare()
    host = Host(loaded, environ, redactor, paths, clock or SystemClock())
    hide_known(loaded, environ, redactor)
    sweep(paths.temp)
    async with AsyncExitStack() as stack:
        local = EmbeddedModels(paths.models, environ)
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
        host = replace(host, telemetry=telemetry)
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
        member = ClusterNode(runtime, database, gateway.cluster)
        async with member.joined(gateway.shutdown_grace_ms / 1000):
            runtime.member = member
            yield runtime
