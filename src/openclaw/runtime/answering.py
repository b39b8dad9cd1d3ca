"""Runs turns with one configuration. Importing this imports the model library: half a second."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from openclaw.agent.notify import notify
from openclaw.agent.port import MessageContext, Reply, TurnListener
from openclaw.agent.sampling import Sampler
from openclaw.agent.service import AgentService, TurnSetup
from openclaw.agent.toolpath.hooks import Hooks
from openclaw.agent.toolpath.toolbox import Toolbox
from openclaw.agent.tools.checkpoints import Checkpoints
from openclaw.agent.tools.memory import Memory
from openclaw.agent.tools.planning import MOST_TASKS, WITHOUT, AnswerTurn
from openclaw.config.agent_schema import ModelChoice, ProviderConfig, ToolPolicyConfig
from openclaw.config.merge import EffectiveAgent
from openclaw.core.file_names import FileName
from openclaw.core.tools import ToolSource
from openclaw.mcp_client.lifecycle.manager import McpManager
from openclaw.models.build import ModelBuilder, SearchMode, preload
from openclaw.models.fallback import FallbackModels, ModelFactory
from openclaw.runtime.generation import ConfigGeneration, LocalBuilder, usable_skills
from openclaw.runtime.host import Host, hooks_of
from openclaw.runtime.settings import time_zone
from openclaw.sessions.records import session_owner
from openclaw.sessions.waiting_questions import WaitingQuestion

_ANNOUNCE_SECONDS = 10.0  # the turn's answer waits for it


class Answering:
    def __init__(self, generation: ConfigGeneration, local: LocalBuilder) -> None:
        self._generation = generation
        host = generation.host
        builder = ModelBuilder(generation.secrets, host.environ, local, _search_mode(host))
        self._models = ModelFactory(host.config.models.providers, builder, host.clock)

    async def aclose(self) -> None:
        await self._models.aclose()

    async def models_of(
        self, agent: EffectiveAgent, model: str | None = None, thinking: str | None = None
    ) -> FallbackModels:
        """The agent's models; `model` and `thinking` are what a message names instead."""
        choice = agent.model
        if model is not None:
            fallbacks = choice.fallbacks if choice is not None else ()
            choice = ModelChoice(primary=model, fallbacks=fallbacks)
        return await self._models.models_of(
            choice, temperature=agent.temperature, thinking=thinking or agent.thinking
        )

    async def reply(
        self,
        context: MessageContext,
        listener: TurnListener,
        manager: McpManager,
        answer_turn: AnswerTurn,
    ) -> Reply:
        """Run a turn; `answer_turn` runs those of subagents."""

        def server_context(agent_id: str, scope: str, usable: Collection[str]) -> str:
            blocks = (
                manager.instructions(agent_id, scope),
                manager.resource_context(agent_id, scope, usable=usable),
                manager.unavailable(agent_id, scope),
            )
            return "\n\n".join(block for block in blocks if block)

        host, agent = self._generation.host, self._generation.agent(context.agent_id)
        service = AgentService(
            store=self._generation.store,
            models=self.models_of,
            server_context=server_context,
            redactor=host.redactor,
            clock=host.clock,
            compact_at=host.config.sessions.compact_at,
            observe=host.telemetry.observer if host.telemetry is not None else None,
        )
        with manager.hold(agent.id, context.server_scope) as mcp_tools:
            setup = self._setup(agent, context, mcp_tools, answer_turn)
            return await service.reply(context, setup, listener)

    def sampler(self, current: Callable[[], ConfigGeneration]) -> Sampler:
        """Answers servers that ask for the model, with the default agent's at that time."""

        async def models() -> FallbackModels:
            generation = current()
            return await (await generation.answering()).models_of(generation.agent(None))

        return Sampler(
            models, lambda server: current().sampling_rules(server), lambda: current().account()
        )

    def _setup(
        self,
        agent: EffectiveAgent,
        context: MessageContext,
        mcp_tools: ToolSource,
        answer_turn: AnswerTurn,
    ) -> TurnSetup:
        generation, host = self._generation, self._generation.host
        if context.delegated_by is not None:
            agent = _subordinate(agent, generation.agent(context.delegated_by))

        guest = bool(session_owner(context.session_key))
        if guest:  # a token's sessions neither see nor change what is the user's
            without = ToolPolicyConfig(deny=("remember", "recall", "cron"))
            agent = replace(agent, tools=(*agent.tools, without))

        def tools(session: str) -> Toolbox:
            return generation.tool_path(
                agent, mcp_tools, answer_turn, workspace=context.workspace, session=session
            )

        workspace = context.workspace or host.workspace(agent)
        hooks = hooks_of(host, workspace)
        return TurnSetup(
            agent,
            tools,
            workspace,
            timezone=time_zone(agent, host.environ),
            undo=partial(Checkpoints(host.paths.undo).undo, agent.id),
            notes=partial(_notes, host, agent, workspace, guest=guest),
            hooks=hooks,
            questions_expire_ms=host.config.questions.expire_ms,
            announce=partial(self._announce, hooks),
        )

    async def _announce(self, hooks: Hooks | None, waiting: WaitingQuestion) -> None:
        """Tell the user that a question waits."""
        place, question, host = waiting.place, waiting.question, self._generation.host
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
            host.config.questions,
            news,
            host.environ,
            self._generation.secrets.resolve_text,
            seconds=_ANNOUNCE_SECONDS,
        )


def load_models(providers: Iterable[ProviderConfig]) -> None:
    """Import what these providers need; importing this module has imported the rest."""
    preload(providers)


def _search_mode(host: Host) -> SearchMode:
    search = host.config.tools.web.search
    if not search.enabled or search.provider not in (None, "native"):
        return "off"  # a named engine takes precedence over the models' own search
    return "native" if search.provider == "native" else "auto"


def _subordinate(agent: EffectiveAgent, giver: EffectiveAgent) -> EffectiveAgent:
    """The agent as it works on a task: with both agents' rules and part of the limits."""
    limits = giver.limits.model_copy(
        update={
            "max_cost": giver.limits.max_cost / MOST_TASKS,
            "max_tokens": max(1, giver.limits.max_tokens // MOST_TASKS),
            "max_steps": max(1, giver.limits.max_steps // MOST_TASKS),
        }
    )
    rules = agent.tools
    if agent.id != giver.id:  # what a person allowed one agent doesn't count for another
        rules = tuple(layer.model_copy(update={"approved": ()}) for layer in rules)
    rules = (*rules, *giver.tools, ToolPolicyConfig(deny=WITHOUT))
    return replace(agent, tools=rules, limits=limits)


def _notes(host: Host, agent: EffectiveAgent, workspace: Path, *, guest: bool) -> list[str]:
    return [
        "" if guest else Memory(host.paths.memory / FileName(agent.id)).prompt(),
        usable_skills(host, agent, workspace).prompt(),
    ]
