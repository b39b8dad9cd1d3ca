"""What a turn has said and done so far: for its listeners, the log and the hooks."""

import logging
from collections import Counter
from typing import TYPE_CHECKING

from openclaw.agent import transcript
from openclaw.agent.budget import Budget
from openclaw.agent.port import MessageContext
from openclaw.config.merge import EffectiveAgent
from openclaw.core import events
from openclaw.core.clock import Clock
from openclaw.core.outcome import Outcome

if TYPE_CHECKING:
    from openclaw.agent.toolpath.hooks import Hooks

logger = logging.getLogger(__name__)

_ENDINGS = {
    Outcome.OK: "finished",
    Outcome.LIMIT: "reached a limit",
    Outcome.ERROR: "failed",
}


class TurnReport:
    """Logs a line when the turn starts and one when it ends, without anything that was said."""

    def __init__(
        self,
        context: MessageContext,
        agent: EffectiveAgent,
        budget: Budget,
        clock: Clock,
        watchers: list[events.Emit],
        hooks: "Hooks | None",
    ) -> None:
        self.turn = ""
        self.text = ""  # of the answer so far
        self.thinking = ""
        self._context = context
        self._agent = agent
        self._budget = budget
        self._clock = clock
        self._watchers = watchers
        self._hooks = hooks
        self._began = clock.monotonic()
        self._tools = Counter[str]()

    def emit(self, event: events.Event) -> None:
        match event:
            case events.TextDelta():
                self.text += event.text
            case events.ThinkingDelta():
                self.thinking += event.text
            case events.ToolStarted():
                self._tools[event.name] += 1
            case events.ModelCalled(error=None) | events.STARTS_OVER:
                self.text = self.thinking = ""
            case _:
                pass
        for emit in self._watchers:
            emit(event)

    def started(self, model: str) -> None:
        logger.info(
            "turn %s started: agent %s, session %s, from %s, model %s",
            self.turn,
            self._agent.id,
            self._context.session_key,
            self._context.origin,
            model,
        )

    async def session_started(self) -> None:
        if self._hooks is not None:
            await self._hooks.fire(
                "session_start",
                agent=self._agent.id,
                session=self._context.session_key,
                origin=self._context.origin,
            )

    async def ended(self, outcome: Outcome, text: str) -> None:
        usage = self._budget.usage
        logger.info(
            "turn %s of session %s %s after %.1f s; tools: %s; tokens: %s in, %s out%s%s",
            self.turn or "(not started)",
            self._context.session_key,
            _ENDINGS.get(outcome, outcome),
            self._clock.monotonic() - self._began,
            transcript.counted(self._tools) or "none",
            f"{usage.input_tokens:,}",
            f"{usage.output_tokens:,}",
            f"; cost: ${usage.cost:.2g}" if usage.cost else "",
            f"; reason: {text}" if outcome == Outcome.ERROR else "",
        )
        if self._hooks is not None:
            await self._hooks.fire(
                "turn_end",
                agent=self._agent.id,
                session=self._context.session_key,
                turn=self.turn or None,
                outcome=outcome,
                text=text,
                cost=usage.cost,
            )
