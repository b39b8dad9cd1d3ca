"""`update_plan`: the model says what it is going to do, and how far it is, for the person to see."""

from openclaw.agent.tools.base import Arguments, FunctionTool, said, schema
from openclaw.core.errors import ToolFailure
from openclaw.core.events import PLAN_TOOL, PRIORITIES, STATUSES, plan_of
from openclaw.core.tools import CallContext, ToolResult, ToolSpec

_PLAN = ToolSpec(
    name=PLAN_TOOL,
    description=(
        "Show the person your plan for a task of more than two steps, and keep it up to date. Give "
        "the whole plan: it replaces the one before."
    ),
    input_schema=schema(
        ["plan"],
        plan={
            "type": "array",
            "items": schema(
                ["step", "status"],
                step="",
                status={"enum": list(STATUSES)},
                priority={"enum": list(PRIORITIES)},
            ),
        },
    ),
    label="Update the plan",
    read_only=True,
    destructive=False,
)


def planning_tool() -> FunctionTool:
    async def run(arguments: Arguments, context: CallContext) -> ToolResult:
        steps = plan_of(PLAN_TOOL, arguments.all)
        if steps is None:
            raise ToolFailure("Give `plan` as a list of steps.")
        done = sum(step.status == "completed" for step in steps)
        return said(f"The person sees the plan: {done} of {len(steps)} steps are done.")

    return FunctionTool(_PLAN, run)
