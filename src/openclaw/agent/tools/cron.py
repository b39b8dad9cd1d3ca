"""`cron`: the agent's own schedules, each agreed to by the person."""

import anyio.to_thread

from openclaw.agent.schedules import JobFile, new_job, told
from openclaw.agent.tools.base import Arguments, FunctionTool, said, schema
from openclaw.core.clock import Clock
from openclaw.core.errors import ToolFailure
from openclaw.core.tools import CallContext, ToolResult, ToolSpec

_CRON = ToolSpec(
    name="cron",
    description=(
        "Schedules on which you are told something: add, list or remove one. The person agrees to "
        "each call."
    ),
    input_schema=schema(
        ["action"],
        action={"enum": ["add", "list", "remove"]},
        when="'weekdays 8:00', 'every 15 minutes', '2026-12-01 09:00' or a cron expression.",
        message="What you are told.",
        name="",
    ),
    label="Schedule",
    read_only=False,
    destructive=True,
)


def cron_tool(jobs: JobFile, clock: Clock, timezone: str) -> FunctionTool:
    def do(arguments: Arguments, context: CallContext) -> str:
        now, action = clock.now_ms(), arguments.text("action")
        if action == "list":
            return "\n".join(told(job, now) for job in jobs.read().values()) or "No schedule."
        if action == "remove":
            jobs.remove(arguments.text("name"))
            return f"Removed {arguments.text('name')}."
        if action != "add":
            raise ToolFailure("`action` is add, list or remove.")
        name = arguments.text("name", "") or None
        when, message = arguments.text("when"), arguments.text("message")
        job = new_job(when, message, timezone, now, id=name, agent=context.agent)
        jobs.add(job)
        return f"Added {told(job, now)}. It runs while the gateway runs."

    async def run(arguments: Arguments, context: CallContext) -> ToolResult:
        return said(await anyio.to_thread.run_sync(do, arguments, context))

    return FunctionTool(_CRON, run)
