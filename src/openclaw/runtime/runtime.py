"""Opens and closes everything that the agent needs."""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
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
from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.load import LoadedConfig
from openclaw.config.paths import StatePaths
from openclaw.config.reload import ConfigReload
from openclaw.config.state_version import record_version
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.content import InboundMedia, Media, text_of
from openclaw.core.errors import OpenClawError, describe
from openclaw.core.events import Emit, Notice, discard
from openclaw.core.prompts import PartialArgument, PromptInfo
from openclaw.core.questions import Ask, elicit_with
from openclaw.core.tools import ToolSpec
from openclaw.mcp_client.auth.logins import Logins
from openclaw.mcp_client.lifecycle.manager import McpManager
from openclaw.mcp_client.sandbox.confinement import Sandbox
from openclaw.media.stored_files import sweep
from openclaw.models.provider_check import model_problem
from openclaw.runtime.generation import (
    ConfigGeneration,
    Generations,
    LocalBuilder,
    embedded_models,
    only_answers_differ,
)
from openclaw.runtime.host import Host, Shared, audited, running_servers, telemetry_of
from openclaw.runtime.open_secrets import open_secrets
from openclaw.runtime.settings import agent_settings, register_known_secrets
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.open import open_store
from openclaw.sessions.store import SessionStore

if TYPE_CHECKING:  # needs the extra for PostgreSQL
    from openclaw.cluster.node import ClusterNode

logger = logging.getLogger(__name__)

Json = dict[str, Any]

_FIRST_TOOLS_SECONDS = 20.0  # how long a turn waits for servers that have not listed their tools
_NEW_SERVER_SECONDS = 2.0  # the same for a server that never answered, counted from its handshake


class Runtime:
    """This process's agents, across configuration changes.

    `load` reads the configuration; with it, changes are applied before the next turn, as a gateway
    applies them when they are made. `warn` tells the user that one could not be applied.
    """

    cluster: "ClusterNode | None" = None

    def __init__(
        self,
        generations: Generations,
        manager: McpManager,
        local: LocalBuilder,
        load: Callable[[], LoadedConfig] | None = None,
        warn: Callable[[str], None] = logger.warning,
    ) -> None:
        self._generations, self.manager = generations, manager
        self._local, self._warn = local, warn
        self._config = ConfigReload(self.host.loaded, load, self.apply) if load else None

    @property
    def generation(self) -> ConfigGeneration:
        return self._generations.current

    @property
    def sessions(self) -> SessionStore:
        return self.generation.store

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
        await self._follow_config()
        return await self.answer_here(context, listener)

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
            answering = await generation.answering()
            return await answering.reply(context, listener, manager, self.answer_here)

    async def _expanded(self, context: MessageContext, ask: Ask | None) -> MessageContext:
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

    async def tools(self, agent_id: str, session: str | None = None) -> Sequence[ToolSpec]:
        await self.refresh(agent_id, session, wait=True)
        return self.visible_tools(agent_id, session)

    def prompts(self, agent_id: str, session: str | None = None) -> Sequence[PromptInfo]:
        return self.manager.prompts(agent_id, session)

    async def complete(
        self, agent_id: str, begun: PartialArgument, session: str | None = None
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

    async def store(self) -> SessionStore:
        return self.sessions

    async def add_servers(
        self, session: str, agent_id: str, servers: Mapping[str, McpServerConfig]
    ) -> None:
        for name, config in servers.items():
            self.manager.add(name, config, session=session, agent=agent_id)

    def end_session(self, session: str) -> None:
        self.manager.end_session(session)

    async def forward(self, agent_id: str | None, request: Json, notify: Notify) -> Json | None:
        return None

    def visible_tools(self, agent_id: str, session: str | None = None) -> Sequence[ToolSpec]:
        agent, mcp = self.generation.agent(agent_id), self.manager.tools(agent_id, session)
        toolbox = self.generation.tool_path(agent, mcp, self.answer_here)
        return sorted(toolbox.specs(), key=lambda spec: spec.name)

    async def _follow_config(self) -> None:
        """Apply a change of the configuration file."""
        if self._config is None:
            return
        try:
            report = await self._config.reload_if_due()
        except OpenClawError as error:
            reason = self.host.redactor.redact(describe(error))
            self._warn(f"The configuration was not reloaded, the old one stays: {reason}")
            return
        if report is not None and report.changed and report.waiting:
            self._warn(f"Restart to apply the change of {', '.join(report.waiting)}.")

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
        generation.prepare(self.answer_here)
        servers = generation.servers()
        before, self._generations.current = self.generation, generation
        self._forget_revoked()
        self.manager.apply(servers)
        await before.retire()

    def _forget_revoked(self) -> None:
        approved = {
            one.id: [rule for layer in one.tools for rule in layer.approved]
            for one in self.generation.agents.values()
        }
        self.host.shared.approvals.retain_only(approved)

    def logins(self) -> "Logins":
        return Logins(
            directory=self.host.paths.tokens,
            register=self.host.redactor.register,
            resolve_secrets=self._generations.resolve_map,
        )


@dataclass(frozen=True, slots=True)
class Parts:
    """What a runtime is made of."""

    generations: Generations
    manager: McpManager
    local: LocalBuilder


@asynccontextmanager
async def open_parts(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    redactor: Redactor,
    clock: Clock,
    emit: Emit,
    *,
    short_grace: bool = False,
) -> AsyncGenerator[Parts]:
    """Build and start everything in order; at the end, stop it in the reverse order."""
    config, paths = loaded.config, StatePaths.of(environ).prepare()
    record_version(paths.root)
    register_known_secrets(loaded, environ, redactor)
    sweep(paths.temp)
    async with AsyncExitStack() as stack:
        local = await stack.enter_async_context(embedded_models(paths.models, environ, emit))
        secrets = open_secrets(config, environ, redactor)
        store = await stack.enter_async_context(
            open_store(
                config.sessions.store,
                paths,
                clock,
                lease_seconds=config.sessions.lane_lease_ms / 1000,
                resolve=secrets.resolve_text,
            )
        )
        telemetry = await stack.enter_async_context(telemetry_of(config.telemetry, secrets, clock))
        confine = Sandbox(environ, paths.root).confine
        shells = await stack.enter_async_context(Shells(environ, confine, [paths.skills]).running())
        calls = stack.enter_context(audited(paths.audit_log, redactor, config.audit, telemetry))
        shared = Shared(paths.cache / "tools", loaded.path, environ)
        host = Host(loaded, environ, redactor, paths, clock, calls, shared, telemetry, shells)
        generations = Generations(ConfigGeneration(host, store, local, secrets))
        manager = await stack.enter_async_context(
            running_servers(
                host,
                generations.current.servers(),
                generations.resolve_map,
                emit,
                short_grace=short_grace,
                on_sampling=generations.sample,
            )
        )
        stack.push_async_callback(generations.retire)
        yield Parts(generations, manager, local)


@asynccontextmanager
async def open_runtime(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    redactor: Redactor,
    *,
    clock: Clock | None = None,
    emit: Emit = discard,
    warn: Callable[[str], None] = logger.warning,
    short_grace: bool = False,
    load: Callable[[], LoadedConfig] | None = None,
) -> AsyncGenerator[Runtime]:
    """This process's agents.

    `emit` gets events outside of turns, such as an MCP server changing its state.
    `short_grace` is for a process that must end within a second: servers get less time to stop.
    MCP servers may always ask the person and the model, since what they list can depend on that;
    without anybody to ask (`TurnListener.ask`) their questions are declined.
    """
    async with open_parts(
        loaded, environ, redactor, clock or SystemClock(), emit, short_grace=short_grace
    ) as parts:
        yield Runtime(parts.generations, parts.manager, parts.local, load, warn)
