"""One configuration and what was built from it."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from openclaw.config.merge import EffectiveAgent, default_agent_id, effective_agents
from openclaw.config.schema import ModelChoice
from openclaw.core.tools import ToolSource
from openclaw.runtime.host import Host, policy_of
from openclaw.runtime.servers import servers_of
from openclaw.secrets.refs import Secret
from openclaw.secrets.resolver import SecretResolver

if TYPE_CHECKING:
    from openclaw.agent.port import MessageContext
    from openclaw.agent.service import AgentService
    from openclaw.config.schema import SamplingConfig
    from openclaw.embedded.open import LocalModels
    from openclaw.mcp_client.lifecycle.manager import AgentServers, McpManager
    from openclaw.models.factory import ModelFactory
    from openclaw.models.stack import ModelStack
    from openclaw.sessions.model import SessionRef
    from openclaw.sessions.store import SessionStore

_CLOSING_SECONDS = 5.0


class ConfigGeneration:
    """One configuration and what was built from it. A turn keeps the generation that it began with."""

    def __init__(
        self, host: Host, store: "SessionStore", local: "EmbeddedModels", secrets: SecretResolver
    ) -> None:
        self.host = host
        self.agents = effective_agents(host.config)
        self.secrets = secrets
        self._store = store
        self._local = local
        self._native: dict[str, ToolSource] = {}
        self._factory: ModelFactory | None = None
        self._turns = 0
        self._retired = False

    def prepare(self) -> None:
        """Build what would otherwise be built when it is first used; raises what is wrong with it."""
        for agent_id in self.agents:
            self.native(agent_id)
        self._models()

    def servers(self) -> "dict[str, AgentServers]":
        """What the MCP servers' manager is to run."""
        return {agent.id: servers_of(self.host, agent) for agent in self.agents.values()}

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
        """No turn begins with this generation any more; close it with the last that did."""
        self._retired = True
        await self._close_unused()

    async def _close_unused(self) -> None:
        if self._retired and not self._turns:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_SECONDS):
                if self._factory is not None:
                    await self._factory.aclose()

    def native(self, agent_id: str) -> ToolSource:
        """The agent's tools that are our own."""
        if agent_id not in self._native:
            self._native[agent_id] = _native_tools(self.host, self.agents[agent_id], self._store)
        return self._native[agent_id]

    def _models(self) -> "ModelFactory":
        if self._factory is None:
            self._factory = _factory(self.host, self._local, self.secrets)
        return self._factory

    def sampling_rules(self, server: str) -> "SamplingConfig | None":
        """How much of our model this server may use, for whichever agent has it."""
        found = (agent.servers.get(server) for agent in self.agents.values())
        return next((one.sampling for one in found if one is not None), None)

    async def default_stack(self) -> "ModelStack":
        """The models of the default agent."""
        agent = self.agents[default_agent_id(self.host.config)]
        return await self._models().stack(agent.model, temperature=agent.temperature)

    async def model_names(self, agent: EffectiveAgent) -> tuple[str, ...]:
        """The models that are asked for this agent, in order."""
        choice = await self._models().choice(agent.model)
        return tuple(candidate.ref for candidate in choice.candidates)

    def service(
        self, manager: "McpManager", tools: ToolSource, context: "MessageContext"
    ) -> "AgentService":
        """Answers this message with these MCP tools."""
        from openclaw.agent.service import AgentService

        def sources(agent_id: str, session: "SessionRef") -> Sequence[ToolSource]:
            if context.workspace is None:
                return [self.native(agent_id), tools]
            agent = self.agents[agent_id]
            return [_native_tools(self.host, agent, self._store, context.workspace), tools]

        async def resources(agent: EffectiveAgent) -> str:
            session = context.server_scope
            blocks = (
                manager.instructions(agent.id, session),
                manager.resource_context(agent.id, session),
                manager.unavailable(agent.id, session),
            )
            return "\n\n".join(block for block in blocks if block)

        async def models_of(agent: EffectiveAgent) -> "ModelStack":
            choice = agent.model
            if context.model is not None:
                fallbacks = choice.fallbacks if choice is not None else ()
                choice = ModelChoice(primary=context.model, fallbacks=fallbacks)
            return await self._models().stack(choice, temperature=agent.temperature)

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


class EmbeddedModels:
    """The embedded models, opened when a model is first chosen."""

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        self._directory = directory
        self._environ = environ
        self._models: LocalModels | None = None

    def opened(self) -> "LocalModels":
        """The same ones every time."""
        from openclaw.embedded.open import LocalModels

        if self._models is None:
            self._models = LocalModels(self._directory, self._environ)
        return self._models

    async def aclose(self) -> None:
        """Give all memory back."""
        if self._models is not None:
            await self._models.aclose()


class CurrentSecrets:
    """The secrets of the generation that is current, for parts that outlive editions."""

    def __init__(self, resolver: SecretResolver) -> None:
        self.resolver = resolver

    async def resolve_map(self, values: Mapping[str, str]) -> dict[str, Secret]:
        """Every value with its references replaced."""
        return await self.resolver.resolve_map(values)


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
        results=host.paths.results,
        readable_sessions=agent.readable_sessions,
    )


def _factory(host: Host, local: "EmbeddedModels", secrets: SecretResolver) -> "ModelFactory":
    from openclaw.models.factory import ModelFactory

    return ModelFactory(
        providers=host.config.models.providers,
        resolver=secrets,
        environ=host.environ,
        clock=host.clock,
        local=local.opened().build,
    )
