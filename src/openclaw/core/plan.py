"""A plan that the model made for its work: which tool sets it, and what it says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from openclaw.core.tools import JsonObject

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
    """The plan that this tool call sets; None where it sets none.

    What is not a step is left out: a model's arguments may be anything.
    """
    given = arguments.get("plan")
    if name != PLAN_TOOL or not isinstance(given, list | tuple):
        return None
    steps = [_step(one) for one in cast("Sequence[Any]", given)[:MOST_STEPS]]
    return tuple(step for step in steps if step is not None)


def _step(given: Any) -> PlanStep | None:
    if not isinstance(given, Mapping):
        return None
    fields = cast("Mapping[str, Any]", given)
    words = fields.get("step")
    if not isinstance(words, str) or not words.strip():
        return None
    status, priority = fields.get("status"), fields.get("priority")
    return PlanStep(
        words.strip()[:STEP_CHARS],
        status if status in STATUSES else "pending",
        priority if priority in PRIORITIES else "medium",
    )
