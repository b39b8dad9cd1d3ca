"""How the agent organises its work: `update_plan`, `cron` and `delegate`."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from openclaw.agent.port import MessageContext, Reply, TurnListener
from openclaw.agent.schedules import JobFile, describe_job, new_job
from openclaw.agent.tools.base import Arguments, FunctionTool, in_thread, quoted, said, schema, spec
from openclaw.config.agent_schema import SubagentsConfig
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError, ToolFailure, describe
from openclaw.core.events import PLAN_TOOL, PRIORITIES, STATUSES, Event, ToolStarted, plan_of
from openclaw.core.outcome import Outcome
from openclaw.core.tools import CallContext, ToolResult, json_list

_PLAN = spec(
    PLAN_TOOL,
    "Show the person your plan for a task of more than two steps, and keep it up to date. Give "
    "the whole plan: it replaces the one before.",
    "plan",
    label="Update the plan",
    plan={
        "type": "array",
        "items": schema(
            ["step", "status"],
            step="",
            status={"enum": list(STATUSES)},
            priority={"enum": list(PRIORITIES)},
        ),
    },
)


def planning_tool() -> FunctionTool:
    async def run(arguments: Arguments, context: CallContext) -> ToolResult:
        steps = plan_of(PLAN_TOOL, arguments.all)
        if steps is None:
            raise ToolFailure("Give `plan` as a list of steps.")
        done = sum(step.status == "completed" for step in steps)
        return said(f"The person sees the plan: {done} of {len(steps)} steps are done.")

    return FunctionTool(_PLAN, run)


_CRON = spec(
    "cron",
    "Add, list or remove schedules that send you a message. The person approves each call.",
    "action",
    label="Schedule",
    destroys=True,
    action={"enum": ["add", "list", "remove"]},
    when="'weekdays 8:00', 'every 15 minutes', '2026-12-01 09:00' or a cron expression.",
    message="The message to you.",
    name="",
)


def cron_tool(jobs: JobFile, clock: Clock, timezone: str) -> FunctionTool:
    def run(arguments: Arguments, context: CallContext) -> ToolResult:
        now, action = clock.now_ms(), arguments.text("action")
        if action == "list":
            lines = [describe_job(job, now) for job in jobs.read().values()]
            return said("\n".join(lines) or "No schedules.")
        if action == "remove":
            jobs.remove(arguments.text("name"))
            return said(f"Removed {arguments.text('name')}.")
        if action != "add":
            raise ToolFailure("`action` must be add, list or remove.")
        name = arguments.text("name", "") or None
        when, message = arguments.text("when"), arguments.text("message")
        job = new_job(when, message, timezone, now, id=name, agent=context.agent)
        jobs.add(job)
        return said(f"Added {describe_job(job, now)}. It runs while a gateway is running.")

    return FunctionTool(_CRON, in_thread(run))


NAME = "delegate"
MOST_TASKS = 8
WITHOUT = (NAME, "cron", "remember", "update_plan")  # only for the agent that talks to the person


AnswerTurn = Callable[[MessageContext, TurnListener], Awaitable[Reply]]


_DELEGATE = spec(
    NAME,
    "Give independent tasks to copies of yourself that work side by side. They know nothing "
    "of this conversation: put everything they need into the task. You get only their answers.",
    "tasks",
    label="Delegate",
    changes=True,
    tasks={"type": "array", "items": {"type": "string"}, "maxItems": MOST_TASKS},
    agent="Another agent, if you were told of one.",
)


def delegate_tool(
    answer_turn: AnswerTurn, workspace: Path, settings: SubagentsConfig
) -> FunctionTool:
    allowed = settings.allow_agents

    async def run(arguments: Arguments, context: CallContext) -> ToolResult:
        tasks = json_list(arguments.all.get("tasks"))
        texts = all(isinstance(one, str) and one.strip() for one in tasks)
        if not 0 < len(tasks) <= MOST_TASKS or not texts:
            raise ToolFailure(f"Give `tasks` as a list of 1 to {MOST_TASKS} texts.")
        agent = arguments.text("agent", "") or context.agent
        if agent != context.agent and agent not in allowed and "*" not in allowed:
            raise ToolFailure(f"You may not give tasks to '{agent}'; leave `agent` out.")
        answers = ["" for _ in tasks]
        limit = anyio.Semaphore(settings.max_concurrent)

        async def one(number: int, task: str) -> None:
            async with limit:
                answers[number] = await _answer(number + 1, task, agent, context)

        async with anyio.create_task_group() as group:
            for number, task in enumerate(tasks):
                group.start_soon(one, number, task, name=f"task {number + 1}")
        text = "\n\n".join(f"## Task {n}\n\n{answer}" for n, answer in enumerate(answers, 1))
        return quoted(text, "Subagent", "answers")

    async def _answer(number: int, task: str, agent: str, context: CallContext) -> str:
        key = f"{context.session}/{context.call_id}-{number}"

        def progress(event: Event) -> None:
            if isinstance(event, ToolStarted):
                context.progress(f"task {number}: {event.name}")

        message = MessageContext(
            text=task,
            session_key=key,
            agent_id=agent,
            origin="delegate",
            workspace=workspace,
            model=settings.model,
            thinking=settings.thinking,
            typed="",  # none of it counts as the person's words
            delegated_by=context.agent,
        )
        listener = TurnListener(on_event=progress, ask=context.ask, attended=False)
        try:
            reply = await answer_turn(message, listener)
        except OpenClawError as error:
            return f"(It failed: {describe(error)} Its conversation is '{key}'.)"
        ending = "" if reply.outcome == Outcome.OK else f"\n\n(It ended early: {reply.outcome}.)"
        return f"{reply.text}{ending}"

    return FunctionTool(_DELEGATE, run)
