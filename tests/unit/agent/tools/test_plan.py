"""`update_plan` as the model calls it."""

from pathlib import Path

from openclaw.agent.tools.native_tools import native_tools
from openclaw.core.content import text_of
from openclaw.core.tools import CallContext

CONTEXT = CallContext(agent="main", session="s", call_id="1")


async def test_the_model_is_told_how_far_it_is_and_what_is_wrong(tmp_path: Path) -> None:
    tools = native_tools("main", tmp_path, plugins=False)
    plan = [{"step": "Look", "status": "completed"}, {"step": "Do", "status": "in_progress"}]
    told = await tools.call("update_plan", {"plan": plan}, CONTEXT)
    wrong = await tools.call("update_plan", {"plan": "look, then do"}, CONTEXT)
    assert text_of(told.blocks) == "The person sees the plan: 1 of 2 steps are done."
    assert (told.is_error, wrong.is_error) == (False, True)
    assert "list of steps" in text_of(wrong.blocks)
