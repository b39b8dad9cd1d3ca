"""Limits on one turn, and the message for the limit that ended it."""

import json
import math
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import anyio

from openclaw.core.events import Usage
from openclaw.core.tools import ToolSpec
from openclaw.sessions.usage import UsageLedger

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

    from openclaw.config.agent_schema import TurnLimits
    from openclaw.models.build import BuiltModel

P = ParamSpec("P")
T = TypeVar("T")


class LimitReached(Exception):
    """Raised when the turn reaches a limit; the message is for the person."""

    def __init__(self, message: str, *, ask: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.ask = ask  # whether the model may still be asked to say what was done


@dataclass(slots=True)
class Budget:
    limits: "TurnLimits"
    usage: Usage = field(default_factory=Usage)
    _over: str | None = field(default=None)
    _scope: anyio.CancelScope | None = None
    _waiting: int = 0
    _left: float = 0.0

    def before_request(self) -> None:
        if self._over is not None:
            raise LimitReached(self._over)
        spent, limits = self.usage, self.limits
        if spent.requests >= limits.max_steps:
            why = f"reached its limit of {limits.max_steps} steps"
            raise LimitReached(_stopped(why, "maxSteps"))
        # Cached input costs a tenth or less, and is sent again at every step.
        used = spent.input_tokens - spent.cache_read_tokens + spent.output_tokens
        if used >= limits.max_tokens:
            why = f"used {used} tokens, not counting cached ones, and its limit is "
            raise LimitReached(_stopped(f"{why}{limits.max_tokens}", "maxTokens"))
        if 0 < limits.max_cost <= spent.cost:
            why = f"cost ${spent.cost:.2f}, and its limit is ${limits.max_cost:g}"
            raise LimitReached(_stopped(why, "maxCost"))

    def take_call(self) -> bool:
        """Count a tool call; False if the limit is reached: the turn ends after this step."""
        most = self.limits.max_tool_calls
        if self.usage.tool_calls >= most:
            self._over = _stopped(f"reached its limit of {most} tool calls", "maxToolCalls")
            return False
        self.usage += Usage(tool_calls=1)
        return True

    @contextmanager
    def time_limit(self) -> Generator[anyio.CancelScope]:
        with anyio.move_on_after(self.limits.timeout_ms / 1000) as self._scope:
            yield self._scope

    def pausing(self, ask: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """`ask` with the turn's clock stopped while it waits for a person."""

        async def asked(*args: P.args, **kwargs: P.kwargs) -> T:
            scope = self._scope
            if scope is None:
                return await ask(*args, **kwargs)
            if not self._waiting:
                self._left = scope.deadline - anyio.current_time()
                scope.deadline = math.inf
            self._waiting += 1
            try:
                return await ask(*args, **kwargs)
            finally:
                self._waiting -= 1
                if not self._waiting:
                    scope.deadline = anyio.current_time() + self._left

        return asked

    def out_of_time(self) -> str:
        seconds = self.limits.timeout_ms / 1000
        return _stopped(f"reached its time limit of {seconds:g} s", "timeoutMs")


def _stopped(why: str, limit: str) -> str:
    return f"I stopped: this turn {why}. Say “go on” to continue (limits.{limit})."


async def check_day(ledger: UsageLedger, agent: str, most: float) -> None:
    """Raise if the daily budget is spent. Concurrent requests may each exceed the limit once."""
    if most and (spent := await ledger.cost_today(agent)) >= most:
        raise LimitReached(
            f"I did not call the model: agent '{agent}' has spent ${spent:.2f} today, and its "
            f"limit is ${most:g} a day. Continue tomorrow, or raise limits.maxCostPerDay "
            "(openclaw usage shows the costs).",
            ask=False,
        )


def spent_on(built: "BuiltModel", response: "ModelResponse") -> Usage:
    usage, price = response.usage, built.price_of(response)
    return Usage(
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        requests=1,
        reasoning_tokens=usage.output_reasoning_tokens,
        cost=price or 0.0,
        unpriced=int(price is None),
    )


IMAGE_TOKENS = 1_200
MESSAGE_TOKENS = 6  # overhead of each message
TOOL_TOKENS = 24  # overhead of the JSON around a tool's name, description and schema

_ASCII_CHARS_PER_TOKEN = 3.6
_OTHER_TOKENS_PER_CHAR = 0.9


def estimate(text: str) -> int:
    """The tokens of `text`, slightly overestimated."""
    if text.isascii():
        return int(len(text) / _ASCII_CHARS_PER_TOKEN) + 1
    plain = len(text.encode("ascii", "ignore"))
    other = len(text) - plain
    return int(plain / _ASCII_CHARS_PER_TOKEN + other * _OTHER_TOKENS_PER_CHAR) + 1


def estimate_tool(spec: ToolSpec) -> int:
    schema = json.dumps(spec.input_schema, default=str, separators=(",", ":"))
    return estimate(schema) + estimate(spec.description) + estimate(spec.name) + TOOL_TOKENS


class ToolSizes:
    """Tokens of tool definitions, each computed once, since every step sends the same tools."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ToolSpec, int]] = {}

    def of(self, spec: ToolSpec) -> int:
        # The spec is stored with its size, so that its id is not reused.
        known = self._known.get(id(spec))
        if known is None:
            known = self._known[id(spec)] = (spec, estimate_tool(spec))
        return known[1]

    def total(self, specs: Iterable[ToolSpec]) -> int:
        return sum(map(self.of, specs))


def cut_to(text: str, tokens: int) -> str:
    """`text`, or its beginning and end with a note between, within about `tokens`."""
    need = estimate(text)
    if need <= tokens:
        return text
    keep = max(0, int(len(text) * tokens / need) - 60)
    head, tail = keep * 2 // 3, keep // 3
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out} characters left out …]\n{text[len(text) - tail :]}"
