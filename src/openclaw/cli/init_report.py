"""What `openclaw init` says when it has written: what is where, what is amiss, what to do next."""

from openclaw.cli.checks import OK, Finding, examine
from openclaw.cli.environment import Environment
from openclaw.cli.file_changes import Written
from openclaw.cli.init_found import shown_path
from openclaw.cli.init_plan import Plan
from openclaw.cli.other_clients import CLIENTS
from openclaw.cli.wrapping import fitted
from openclaw.mcp_client.bounds import printable


def report(env: Environment, plan: Plan, written: list[Written]) -> None:
    """Tell a person."""
    env.say("")
    for one in written:
        kept = f" (the one before: {shown_path(one.backup, env.environ)})" if one.backup else ""
        env.say(f"Wrote {shown_path(one.path, env.environ)}{kept}")
    if plan.model is not None:
        env.say(f"The agent answers with {plan.model}.")
    for name, origin in zip(plan.servers, plan.origins, strict=True):
        env.say(printable(f"MCP server {name}, as {CLIENTS[origin].title} has it."))
    findings = [one for one in examine(env) if one.level != OK]
    env.say("\nChecked it; nothing is amiss." if not findings else "\nChecked it:")
    for finding in findings:
        env.say(fitted(f"  {finding.level}: {finding.message}", env.stdout, hang=4))
        if finding.hint:
            env.say(fitted(f"    -> {finding.hint}", env.stdout, hang=7))
    env.say("\nNext:")
    for line in _next(env, plan):
        env.say(f"  {line}")


def _next(env: Environment, plan: Plan) -> list[str]:
    program = env.program
    unset = sorted({one.variable for one in plan.references if one.variable not in env.environ})
    lines = [f"export {name}=…   # where its server's credential now comes from" for name in unset]
    if _weights_missing(env):
        lines.append(f"{program} models pull   # the embedded model's weights, once")
    if plan.servers:
        lines.append(f"{program} mcp probe   # start each server once and see")
    lines.append(f'{program} agent "What can you do?"   # or: {program} chat')
    if plan.clients:
        titles = ", ".join(CLIENTS[name].title for name in plan.clients)
        lines.append(f"restart {titles}, and ask for order_openclaw")
    else:
        lines.append(f"{program} init --register NAME   # offer it to Claude Code, Cursor, …")
    return lines


def _weights_missing(env: Environment) -> bool:
    from openclaw.cli.models import choices, trouble

    chosen = [choice.candidates[0] for choice in choices(env).values()]
    return any(one.api == "local" and trouble(one, env) is not None for one in chosen)


def report_json(env: Environment, plan: Plan, written: list[Written]) -> None:
    """Tell a program."""
    findings = [one for one in examine(env) if one.level != OK] if written else []
    env.say_json(
        {
            "config": str(plan.path),
            "model": plan.model,
            "servers": list(plan.servers),
            "registered": list(plan.clients),
            "variables": sorted({one.variable for one in plan.references}),
            "notes": list(plan.notes),
            "changes": [
                {"path": str(one.path), "diff": one.difference(env.redactor.redact)}
                for one in (plan.changes if not written else ())
            ],
            "written": [
                {"path": str(one.path), "backup": str(one.backup) if one.backup else None}
                for one in written
            ],
            "findings": [_finding(one) for one in findings],
        }
    )


def _finding(one: Finding) -> dict[str, str]:
    return {"level": one.level, "check": one.check, "message": one.message, "hint": one.hint or ""}
