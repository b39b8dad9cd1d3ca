"""Bounds on one turn, and the words for the one that ended it."""

from dataclasses import dataclass, field

from openclaw.agent.context import Usage
from openclaw.config.agent_schema import TurnLimits


class LimitReached(Exception):
    """Raised when a bound on the turn is reached; the message is for the person."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(slots=True)
class Budget:
    """What a turn has used of what it may use."""

    limits: TurnLimits
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    tool_calls: int = 0
    _over: str | None = field(default=None)

    def before_request(self) -> None:
        """Raise where another request to the model would be one too many."""
        if self._over is not None:
            raise LimitReached(self._over)
        if self.requests >= self.limits.max_steps:
            raise LimitReached(
                f"I stopped: this turn reached its limit of {self.limits.max_steps} steps. "
                "Say “go on” to continue (limits.maxSteps)."
            )
        used = self.input_tokens + self.output_tokens
        if used >= self.limits.max_tokens:
            raise LimitReached(
                f"I stopped: this turn used {used} tokens, and its limit is "
                f"{self.limits.max_tokens} (limits.maxTokens)."
            )

    def take_call(self) -> bool:
        """Count a tool call; False where it is one too many, and the turn ends after this step."""
        if self.tool_calls >= self.limits.max_tool_calls:
            self._over = (
                f"I stopped: this turn reached its limit of {self.limits.max_tool_calls} tool "
                "calls. Say “go on” to continue (limits.maxToolCalls)."
            )
            return False
        self.tool_calls += 1
        return True

    @property
    def seconds(self) -> float:
        """The most time that the turn may take."""
        return self.limits.timeout_ms / 1000

    def out_of_time(self) -> str:
        """What is said when the time is up."""
        return (
            f"I stopped: this turn reached its time limit of {self.seconds:g} s (limits.timeoutMs)."
        )

    @property
    def usage(self) -> Usage:
        """What was used so far."""
        return Usage(self.input_tokens, self.output_tokens, self.requests, self.tool_calls)
