"""One configuration and what was built from it."""

from collections.abc import AsyncGenerator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from openclaw.agent.notify import notify
from openclaw.agent.port import MessageContext, named_agent
from openclaw.agent.schedules import JobFile
from openclaw.agent.tools.checkpoints import Checkpoints
from openclaw.agent.tools.memory import Memory, memory_tools
from openclaw.agent.tools.native_tools import native_tools
from openclaw.agent.tools.planning import MOST_TASKS, WITHOUT, cron_tool, delegate_tool
from openclaw.agent.tools.skills import Skills, plugin_skills
from openclaw.agent.tools.web import engine_of, search_tool
from openclaw.config.agent_schema import ModelChoice, ToolPolicyConfig
from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent, default_agent_id, effective_agents
from openclaw.config.paths import expand
from openclaw.config.schema import Config
from openclaw.core.events import Downloading, Emit
from openclaw.core.file_names import FileName
from openclaw.core.tools import ToolSource
from openclaw.runtime.host import Host, hooks_of, servers_of, tool_path_of
from openclaw.runtime.settings import time_zone
from openclaw.secrets.resolver import SecretResolver
from openclaw.sessions.records import session_owner
from openclaw.sessions.usage import UsageLedger

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from openclaw.agent.service import AgentService, TurnSetup
    from openclaw.agent.toolpath.hooks import Hooks
    from openclaw.agent.toolpath.toolbox import Toolbox
    from openclaw.config.agent_schema import SamplingConfig
    from openclaw.embedded.local_models import LocalModels
    from openclaw.mcp_client.lifecycle.manager import AgentServers, McpManager
    from openclaw.models.build import LocalBuilder, SearchMode
    from openclaw.models.fallback import FallbackModels, ModelFactory
    from openclaw.sessions.store import SessionStore
    from openclaw.sessions.waiting_questions import WaitingQuestion

_CLOSING_SECONDS = 5.0
_ANNOUNCE_SECONDS = 10.0  # the turn's answer waits for it


class ConfigGeneration:
    """What is built from one version of the configuration; a turn keeps the one it began with."""

    def __init__(
        self, host: Host, store: "SessionStore", local: "LocalBuilder", secrets: SecretResolver
    ) -> None:
        self.host = host
        self.agents = effective_agents(host.config)
        self.secrets = secrets
        self._store = store
        self._local = local
        self._native: dict[str, ToolSource] = {}
        self._service: AgentService | None = None
        self._factory: ModelFactory | None = None
        self._turns = 0
        self._retired = False

    def update_rules(self, loaded: LoadedConfig) -> None:
        """Use this configuration, in which only the user's "always" answers are different."""
        self.host = replace(self.host, loaded=loaded)
        self.agents = effective_agents(loaded.config)

    def prepare(self) -> None:
        """Build now what is otherwise built on first use; raises if that fails."""
        for agent_id in self.agents:
            self.native(agent_id)
        self._models()

    def agent(self, agent_id: str | None) -> EffectiveAgent:
        return named_agent(self.agents, agent_id or default_agent_id(self.host.config))

    def servers(self) -> "dict[str, AgentServers]":
        return {agent.id: servers_of(self.host, agent) for agent in self.agents.values()}

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        self._turns += 1
        try:
            yield
        finally:
            self._turns -= 1
            await self._close_unused()

    async def retire(self) -> None:
        """Begin no more turns, and close after the last running one."""
        self._retired = True
        await self._close_unused()

    async def _close_unused(self) -> None:
        if self._retired and not self._turns:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_SECONDS):
                if self._factory is not None:
                    await self._factory.aclose()

    def native(self, agent_id: str) -> ToolSource:
        if agent_id not in self._native:
            self._native[agent_id] = _native_tools(
                self.host, self.agents[agent_id], self._store, self.secrets
            )
        return self._native[agent_id]

    def _models(self) -> "ModelFactory":
        from openclaw.models.build import ModelBuilder
        from openclaw.models.fallback import ModelFactory

        if self._factory is None:
            host, search = self.host, self.host.config.tools.web.search
            mode: SearchMode = "native" if search.provider == "native" else "auto"
            if not search.enabled or search.provider not in (None, "native"):
                mode = "off"  # a named engine takes precedence over the models' own search
            builder = ModelBuilder(self.secrets, host.environ, self._local, mode)
            self._factory = ModelFactory(host.config.models.providers, builder, host.clock)
        return self._factory

    def sampling_rules(self, server: str) -> "SamplingConfig | None":
        found = (agent.servers.get(server) for agent in self.agents.values())
        return next((one.sampling for one in found if one is not None), None)

    def account(self) -> "tuple[UsageLedger, str, float]":
        """Where the default agent's requests are counted, and its daily limit in dollars."""
        agent = self.agent(None)
        zone = time_zone(agent, self.host.environ)
        ledger = UsageLedger(self._store, self.host.clock, zone)
        return ledger, agent.id, agent.limits.max_cost_per_day

    async def default_stack(self) -> "FallbackModels":
        return await self._stack(self.agent(None), None, None)

    async def model_names(self, agent: EffectiveAgent) -> tuple[str, ...]:
        choice = await self._models().choice(agent.model)
        return tuple(candidate.ref for candidate in choice.candidates)

    async def _stack(
        self, agent: EffectiveAgent, model: str | None, thinking: str | None
    ) -> "FallbackModels":
        choice = agent.model
        if model is not None:
            fallbacks = choice.fallbacks if choice is not None else ()
            choice = ModelChoice(primary=model, fallbacks=fallbacks)
        return await self._models().models_of(
            choice, temperature=agent.temperature, thinking=thinking or agent.thinking
        )

    def tool_path(
        self,
        agent: EffectiveAgent,
        mcp: ToolSource,
        *,
        workspace: Path | None = None,
        session: str | None = None,
    ) -> "Toolbox":
        """The tools that the agent may use: our own, then those of its MCP servers."""
        if workspace is None:
            native = self.native(agent.id)
        else:
            native = _native_tools(self.host, agent, self._store, self.secrets, workspace)
        place = workspace or self.host.workspace(agent)
        return tool_path_of(self.host, agent, [native, mcp], session=session, workspace=place)

    def service(self, manager: "McpManager") -> "AgentService":
        from openclaw.agent.service import AgentService

        def server_context(agent_id: str, scope: str, usable: Collection[str]) -> str:
            blocks = (
                manager.instructions(agent_id, scope),
                manager.resource_context(agent_id, scope, usable=usable),
                manager.unavailable(agent_id, scope),
            )
            return "\n\n".join(block for block in blocks if block)

        if self._service is None:
            host = self.host
            self._service = AgentService(
                store=self._store,
                models=self._stack,
                server_context=server_context,
                redactor=host.redactor,
                clock=host.clock,
                compact_at=host.config.sessions.compact_at,
                observe=host.telemetry.observer if host.telemetry is not None else None,
            )
        return self._service

    def setup(
        self, agent: EffectiveAgent, context: MessageContext, mcp_tools: ToolSource
    ) -> "TurnSetup":
        from openclaw.agent.service import TurnSetup

        if context.delegated_by is not None:
            agent = self._subordinate(agent, self.agent(context.delegated_by))

        guest = bool(session_owner(context.session_key))
        if guest:  # a token's sessions neither see nor change what is the user's
            without = ToolPolicyConfig(deny=("remember", "recall", "cron"))
            agent = replace(agent, tools=(*agent.tools, without))

        def tools(session: str) -> "Toolbox":
            return self.tool_path(agent, mcp_tools, workspace=context.workspace, session=session)

        place = context.workspace or self.host.workspace(agent)
        hooks = hooks_of(self.host, place)
        return TurnSetup(
            agent,
            tools,
            place,
            time_zone(agent, self.host.environ),
            partial(Checkpoints(self.host.paths.undo).undo, agent.id),
            partial(self._notes, agent, place, guest=guest),
            hooks,
            self.host.config.questions.expire_ms,
            partial(self._announce, hooks),
        )

    async def _announce(self, hooks: "Hooks | None", waiting: "WaitingQuestion") -> None:
        """Tell the user that a question waits."""
        place, question = waiting.place, waiting.question
        if hooks is not None:
            facts = {"agent": place.agent, "session": place.session, "turn": place.turn}
            shown = {"id": waiting.id, "text": question.title, "body": question.body}
            await hooks.fire("question", **facts, **shown)
        news = {
            "id": waiting.id,
            "session": place.session,
            "text": question.title,
            "answer": f"openclaw questions answer {waiting.id}",
        }
        await notify(
            "questions",
            self.host.config.questions,
            news,
            self.host.environ,
            self.secrets.resolve_text,
            seconds=_ANNOUNCE_SECONDS,
        )

    def _subordinate(self, agent: EffectiveAgent, giver: EffectiveAgent) -> EffectiveAgent:
        """The agent as it works on a task: with both agents' rules and part of the limits."""
        limits = giver.limits.model_copy(
            update={
                "max_cost": giver.limits.max_cost / MOST_TASKS,
                "max_tokens": max(1, giver.limits.max_tokens // MOST_TASKS),
                "max_steps": max(1, giver.limits.max_steps // MOST_TASKS),
            }
        )
        own = agent.tools
        if agent.id != giver.id:  # what a person allowed one agent doesn't count for another
            own = tuple(rules.model_copy(update={"approved": ()}) for rules in own)
        rules = (*own, *giver.tools, ToolPolicyConfig(deny=WITHOUT))
        return replace(agent, tools=rules, limits=limits)

    def _notes(self, agent: EffectiveAgent, place: Path, *, guest: bool) -> list[str]:
        host = self.host
        return [
            "" if guest else Memory(host.paths.memory / FileName(agent.id)).prompt(),
            _skills(host, agent, place).prompt(),
        ]


def only_answers_differ(before: Config, after: Config) -> bool:
    """Whether nothing is different but what the user answered with "always"."""
    return before != after and _without_answers(before) == _without_answers(after)


def _without_answers(config: Config) -> dict[str, Any]:
    tree = config.model_dump(by_alias=False)
    tree["dataflow"]["allow"] = ()
    agents = tree["agents"]
    for one in (tree, tree["gateway"], agents["defaults"], *agents["list"]):
        one["tools"]["approved"] = ()
    return tree


@asynccontextmanager
async def embedded_models(
    directory: Path, environ: Mapping[str, str], emit: Emit
) -> "AsyncGenerator[LocalBuilder]":
    models: LocalModels | None = None

    def report(at: Downloading) -> None:
        emit(replace(at, what=f"embedded model, {at.what}"))

    async def build(*wanted: Any) -> "Model":
        nonlocal models
        from openclaw.embedded.local_models import LocalModels

        models = models or LocalModels(directory, environ, report=report)
        return await models.build(*wanted)

    try:
        yield build
    finally:
        if models is not None:
            await models.aclose()


def skill_places(host: Host) -> list[Path]:
    """Where the person's skills are: their own, then those of installed packages."""
    more = (expand(one, host.environ) for one in host.config.skills.load.extra_dirs)
    own = [host.paths.skills, *(one for one in more if one.is_absolute())]
    return [*own, *plugin_skills()] if host.config.tools.plugins else own


def _skills(host: Host, agent: EffectiveAgent, place: Path) -> "Skills":
    entries = host.config.skills.entries

    def usable(name: str) -> bool:
        wanted = agent.skills is None or name in agent.skills
        return wanted and (name not in entries or entries[name].enabled)

    return Skills(skill_places(host), usable, place / "skills")


def _native_tools(
    host: Host,
    agent: EffectiveAgent,
    store: "SessionStore",
    secrets: SecretResolver,
    workspace: Path | None = None,
) -> ToolSource:
    place = workspace or host.workspace(agent)
    zone = time_zone(agent, host.environ)
    memory, web = Memory(host.paths.memory / FileName(agent.id)), host.config.tools.web
    more = [
        *memory_tools(memory, store, host.clock, zone, agent.readable_sessions),
        _skills(host, agent, place).tool(),
        cron_tool(JobFile(host.paths.cron), host.clock, zone),
    ]
    if host.subagents is not None:
        more.append(delegate_tool(host.subagents, place, agent.subagents))
    if (engine := engine_of(web.search, host.environ)) is not None:

        async def reveal(reference: str) -> str:
            return (await secrets.resolve_text(reference)).reveal()

        more.append(search_tool(engine, reveal, host.environ))
    return native_tools(
        agent.id,
        place,
        more=more,
        fetch=web.fetch,
        shells=host.shells,
        shell=agent.exec,
        store=store,
        results=host.paths.results,
        checkpoints=Checkpoints(host.paths.undo),
        readable_sessions=agent.readable_sessions,
        plugins=host.config.tools.plugins,
        private=(host.paths.root, host.loaded.path),
    )
