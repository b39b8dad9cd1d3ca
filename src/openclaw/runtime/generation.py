"""One configuration and what was built from it."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from openclaw.agent.port import named_agent
from openclaw.agent.schedules import JobFile
from openclaw.agent.toolpath.toolbox import Toolbox
from openclaw.agent.tools.checkpoints import Checkpoints
from openclaw.agent.tools.memory import Memory, memory_tools
from openclaw.agent.tools.native_tools import native_tools
from openclaw.agent.tools.planning import AnswerTurn, cron_tool, delegate_tool
from openclaw.agent.tools.skills import Skills, plugin_skills
from openclaw.agent.tools.web import engine_of, search_tool
from openclaw.config.agent_schema import SamplingConfig
from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent, default_agent_id, effective_agents
from openclaw.config.paths import expand
from openclaw.config.schema import Config
from openclaw.core.events import Downloading, Emit
from openclaw.core.file_names import FileName
from openclaw.core.tools import ToolSource
from openclaw.mcp_client.lifecycle.manager import AgentServers
from openclaw.models.choose import choose
from openclaw.runtime.host import Host, servers_of, tool_path_of
from openclaw.runtime.settings import time_zone
from openclaw.secrets.refs import Secret
from openclaw.secrets.resolver import SecretResolver
from openclaw.sessions.store import SessionStore
from openclaw.sessions.usage import UsageLedger

if TYPE_CHECKING:  # these import the model library
    from pydantic_ai.models import Model

    from openclaw.agent.sampling import Sampler
    from openclaw.embedded.local_models import LocalModels
    from openclaw.runtime.answering import Answering

LocalBuilder = Callable[[str, str | None, int | None, int | None], Awaitable["Model"]]

_CLOSING_SECONDS = 5.0


class ConfigGeneration:
    """What is built from one version of the configuration; a turn keeps the one it began with."""

    def __init__(
        self, host: Host, store: SessionStore, local: LocalBuilder, secrets: SecretResolver
    ) -> None:
        self.host = host
        self.agents = effective_agents(host.config)
        self.secrets = secrets
        self.store = store
        self._local = local
        self._native: dict[str, ToolSource] = {}
        self._answering: Answering | None = None
        self._turns = 0
        self._retired = False

    def update_rules(self, loaded: LoadedConfig) -> None:
        """Use this configuration, in which only the user's "always" answers are different."""
        self.host = replace(self.host, loaded=loaded)
        self.agents = effective_agents(loaded.config)

    def prepare(self, answer_turn: AnswerTurn) -> None:
        """Build now what is otherwise built on first use; raises if that fails."""
        for agent_id in self.agents:
            self._native_tools(agent_id, answer_turn)

    def agent(self, agent_id: str | None) -> EffectiveAgent:
        return named_agent(self.agents, agent_id or default_agent_id(self.host.config))

    def servers(self) -> dict[str, AgentServers]:
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
                if self._answering is not None:
                    await self._answering.aclose()

    def _native_tools(self, agent_id: str, answer_turn: AnswerTurn) -> ToolSource:
        if agent_id not in self._native:
            agent = self.agents[agent_id]
            self._native[agent_id] = _native_tools(self, agent, answer_turn)
        return self._native[agent_id]

    def sampling_rules(self, server: str) -> SamplingConfig | None:
        found = (agent.servers.get(server) for agent in self.agents.values())
        return next((one.sampling for one in found if one is not None), None)

    def account(self) -> tuple[UsageLedger, str, float]:
        """Where the default agent's requests are counted, and its daily limit in dollars."""
        agent = self.agent(None)
        zone = time_zone(agent, self.host.environ)
        ledger = UsageLedger(self.store, self.host.clock, zone)
        return ledger, agent.id, agent.limits.max_cost_per_day

    async def model_names(self, agent: EffectiveAgent) -> tuple[str, ...]:
        providers = self.host.config.models.providers
        choice = await choose(agent.model, providers, self.host.environ)
        return tuple(candidate.ref for candidate in choice.candidates)

    async def answering(self) -> "Answering":
        """What runs turns and asks models; its first use imports the model library."""
        if self._answering is None:
            # In a thread: it takes half a second, in which MCP servers can start.
            await anyio.to_thread.run_sync(import_module, "openclaw.runtime.answering")
            from openclaw.runtime.answering import Answering

            self._answering = self._answering or Answering(self, self._local)
        return self._answering

    def tool_path(
        self,
        agent: EffectiveAgent,
        mcp: ToolSource,
        answer_turn: AnswerTurn,
        *,
        workspace: Path | None = None,
        session: str | None = None,
    ) -> Toolbox:
        """The tools that the agent may use: our own, then those of its MCP servers."""
        if workspace is None:
            native = self._native_tools(agent.id, answer_turn)
        else:
            native = _native_tools(self, agent, answer_turn, workspace)
        place = workspace or self.host.workspace(agent)
        return tool_path_of(self.host, agent, [native, mcp], session=session, workspace=place)


class Generations:
    """The configuration in effect, across its changes."""

    def __init__(self, first: ConfigGeneration) -> None:
        self.current = first
        self._sampler: Sampler | None = None

    async def resolve_map(self, values: Mapping[str, str]) -> dict[str, Secret]:
        return await self.current.secrets.resolve_map(values)

    async def sample(self, server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """What the model answers an MCP server; what servers used is counted across changes."""
        if self._sampler is None:
            self._sampler = (await self.current.answering()).sampler(lambda: self.current)
        return await self._sampler(server, params)

    async def retire(self) -> None:
        await self.current.retire()


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
) -> AsyncGenerator[LocalBuilder]:
    models: LocalModels | None = None

    def report(download: Downloading) -> None:
        emit(replace(download, what=f"embedded model, {download.what}"))

    async def build(
        name: str, path: str | None, max_tokens: int | None, context_window: int | None
    ) -> "Model":
        nonlocal models
        from openclaw.embedded.local_models import LocalModels

        models = models or LocalModels(directory, environ, report=report)
        return await models.build(name, path, max_tokens, context_window)

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


def usable_skills(host: Host, agent: EffectiveAgent, place: Path) -> Skills:
    entries = host.config.skills.entries

    def usable(name: str) -> bool:
        wanted = agent.skills is None or name in agent.skills
        return wanted and (name not in entries or entries[name].enabled)

    return Skills(skill_places(host), usable, place / "skills")


def _native_tools(
    generation: ConfigGeneration,
    agent: EffectiveAgent,
    answer_turn: AnswerTurn,
    workspace: Path | None = None,
) -> ToolSource:
    host, store = generation.host, generation.store
    place = workspace or host.workspace(agent)
    zone = time_zone(agent, host.environ)
    memory, web = Memory(host.paths.memory / FileName(agent.id)), host.config.tools.web
    more = [
        *memory_tools(memory, store, host.clock, zone, agent.readable_sessions),
        usable_skills(host, agent, place).tool(),
        cron_tool(JobFile(host.paths.cron), host.clock, zone),
        delegate_tool(answer_turn, place, agent.subagents),
    ]
    if (engine := engine_of(web.search, host.environ)) is not None:

        async def reveal(reference: str) -> str:
            return (await generation.secrets.resolve_text(reference)).reveal()

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
