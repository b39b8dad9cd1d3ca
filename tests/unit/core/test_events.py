"""A plan out of a model's arguments, which may be anything."""

from typing import Any

import pytest

from openclaw.core.events import MOST_STEPS, PlanStep, plan_of


def test_steps_have_a_status_and_a_priority() -> None:
    given = {
        "plan": [{"step": " Look ", "status": "completed", "priority": "high"}, {"step": "Do"}]
    }
    assert plan_of("update_plan", given) == (
        PlanStep("Look", "completed", "high"),
        PlanStep("Do", "pending", "medium"),
    )


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("read", {"plan": []}), ("update_plan", {}), ("update_plan", {"plan": 1})],
)
def test_other_calls_set_none(name: str, arguments: dict[str, Any]) -> None:
    assert plan_of(name, arguments) is None


def test_what_is_no_step_is_left_out_and_a_plan_has_an_end() -> None:
    odd = [
        1,
        None,
        {},
        {"step": ""},
        {"step": 3},
        {"step": "x", "status": "perhaps", "priority": 1},
    ]
    assert plan_of("update_plan", {"plan": odd}) == (PlanStep("x"),)
    assert len(plan_of("update_plan", {"plan": [{"step": "x"}] * 1000}) or ()) == MOST_STEPS
