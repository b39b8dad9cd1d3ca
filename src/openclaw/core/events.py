"""The events of a turn, in the order they happen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from operator import add
from typing import Any, Literal, cast

from openclaw.core.content import Block
from openclaw.core.outcome import Outcome
from openclaw.core.tools import JsonObject, ToolResult


@dataclass(frozen=True, slots=True)
class TurnStarted:
    """A turn started; no other turn runs in its session meanwhile."""

    session: str
    agent: str
    turn: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer, as the model writes it."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """A piece of the model's reasoning, if the model exposes it."""

    text: str


@dataclass(frozen=True, slots=True)
class BlockReply:
    """A finished part of the answer, before the final one."""

    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class ModelCalled:
    """A model call ended. If it failed, `error` names the kind of failure. `model` is the
    requested model, or the one that answered if that is known, as `provider/model`.
    """

    model: str
    duration_ms: float
    input_tokens: int = 0
    output_tokens: int = 0
    finish_reason: str | None = None
    response_model: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What requests used. Cached tokens are part of the input, and reasoning is part of the output.

    `cost` is in US dollars, without the `unpriced` requests.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    tool_calls: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(add, astuple(self), astuple(other)))

    @property
    def counted(self) -> tuple[int, ...]:
        """What a session counts, in the order of its columns: everything up to the tool calls."""
        return astuple(self)[:6]


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call was allowed and started. If a script made it, `within` is the id of the
    script's call. `diff` is what it changes in a file, if that is known."""

    call_id: str
    name: str
    label: str
    arguments: JsonObject
    within: str = ""
    diff: str = ""


@dataclass(frozen=True, slots=True)
class ToolProgress:
    """A running tool call reported its progress."""

    call_id: str
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call ended, successfully or not."""

    call_id: str
    name: str
    result: ToolResult
    duration_ms: float


@dataclass(frozen=True, slots=True)
class ToolApproval:
    """Somebody approved or refused a call. `body` is the call as they saw it."""

    call_id: str
    name: str
    label: str
    title: str
    body: str
    choice: str
    choice_label: str
    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ToolQuestion:
    """A tool's server asked the person something. `action` is accept, decline or cancel."""

    call_id: str
    server: str
    message: str
    action: str
    url: str | None = None
    content: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class TurnFinished:
    """A turn ended and its session was committed. `outcome` is ok, cancelled or error."""

    session: str
    turn: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the user or the operator should know. `level` is info, warning or error."""

    level: str
    message: str


STARTS_OVER = Notice("warning", "the connection broke; the answer starts over")
"""What was shown of the current block is void: another text follows, from the beginning."""


@dataclass(frozen=True, slots=True)
class ServerChanged:
    """An MCP server entered another state, or its tools, resources or prompts changed."""

    server: str
    state: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class Downloading:
    """The progress of a download that a turn is waiting for; `total` is null if it is unknown."""

    what: str
    done: int
    total: int | None


@dataclass(frozen=True, slots=True)
class SuspiciousContent:
    """Text from an MCP server looks like an attack; the text itself is never included."""

    server: str
    tool: str | None
    score: float
    signals: tuple[str, ...]


Event = (
    TurnStarted
    | TextDelta
    | ThinkingDelta
    | BlockReply
    | ModelCalled
    | ToolStarted
    | ToolProgress
    | ToolFinished
    | ToolApproval
    | ToolQuestion
    | TurnFinished
    | Notice
    | ServerChanged
    | Downloading
    | SuspiciousContent
)
Emit = Callable[[Event], None]


def discard(event: Event) -> None:
    """An `Emit` that ignores every event."""


def both(first: Emit, second: Emit) -> Emit:
    """Calls `first`, then `second`."""

    def emit(event: Event) -> None:
        first(event)
        second(event)

    return emit


WEB_SEARCH = "web_search"
RUN_CODE = "run_code"
PLAN_TOOL = "update_plan"

Status = Literal["pending", "in_progress", "completed"]
Priority = Literal["high", "medium", "low"]

STATUSES: tuple[Status, ...] = ("pending", "in_progress", "completed")
PRIORITIES: tuple[Priority, ...] = ("high", "medium", "low")
MOST_STEPS = 50
STEP_CHARS = 500


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step of a plan."""

    step: str
    status: Status = "pending"
    priority: Priority = "medium"


def plan_of(name: str, arguments: JsonObject) -> tuple[PlanStep, ...] | None:
    """The plan that this tool call sets; None if it sets none.

    Anything that isn't a step is left out: a model's arguments may be anything.
    """
    raw = arguments.get("plan")
    if name != PLAN_TOOL or not isinstance(raw, list | tuple):
        return None
    steps = [_step(one) for one in cast("Sequence[Any]", raw)[:MOST_STEPS]]
    return tuple(step for step in steps if step is not None)


def _step(raw: Any) -> PlanStep | None:
    if not isinstance(raw, Mapping):
        return None
    fields = cast("Mapping[str, Any]", raw)
    words = fields.get("step")
    if not isinstance(words, str) or not words.strip():
        return None
    status, priority = fields.get("status"), fields.get("priority")
    return PlanStep(
        words.strip()[:STEP_CHARS],
        status if status in STATUSES else "pending",
        priority if priority in PRIORITIES else "medium",
    )
