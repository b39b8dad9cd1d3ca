"""What the log says of a turn: a line when it starts and one when it ends, and nothing that was said."""

import logging
from collections import Counter

from openclaw.agent.port import MessageContext, Reply
from openclaw.core.clock import Clock
from openclaw.core.events import Event, ModelCalled, ToolStarted, TurnStarted

logger = logging.getLogger(__name__)


class TurnLog:
    def __init__(self, agent: str, context: MessageContext, clock: Clock) -> None:
        self._agent, self._context, self._clock = agent, context, clock
        self._began = clock.monotonic()
        self._turn = ""
        self._tools: Counter[str] = Counter()
        self._tokens = [0, 0]

    def on(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self._turn = event.turn
        elif isinstance(event, ToolStarted):
            self._tools[event.name] += 1
        elif isinstance(event, ModelCalled):
            self._tokens[0] += event.input_tokens
            self._tokens[1] += event.output_tokens

    def started(self, model: str) -> None:
        logger.info(
            "turn %s started: agent %s, session %s, from %s, model %s",
            self._turn,
            self._agent,
            self._context.session_key,
            self._context.origin,
            model,
        )

    def ended(self, outcome: str, problem: str = "", reply: Reply | None = None) -> None:
        named = {"ok": "finished", "limit": "reached a limit", "error": "failed"}
        counted = (name if n == 1 else f"{name} ({n} times)" for name, n in self._tools.items())
        parts = [
            f"tools: {', '.join(counted) or 'none'}",
            f"tokens: {self._tokens[0]:,} in, {self._tokens[1]:,} out",
        ]
        if reply is not None and reply.usage.cost:
            parts.append(f"cost: ${reply.usage.cost:.2g}")
        if problem:
            parts.append(f"reason: {problem}")
        logger.info(
            "turn %s of session %s %s after %.1f s; %s",
            self._turn or "(not started)",
            self._context.session_key,
            named.get(outcome, outcome),
            self._clock.monotonic() - self._began,
            "; ".join(parts),
        )
