"""List, show and cancel tasks: long orders from MCP clients.

An order that takes a while becomes a task. Without an action, this lists the tasks, the most
recently changed first.
"""

import argparse

from openclaw.cli.commands.sessions import open_named_store
from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_action, option
from openclaw.cli.terminal import local_time, visible, visible_lines
from openclaw.core.clock import SystemClock
from openclaw.core.errors import NotFound
from openclaw.sessions.store import SessionStore
from openclaw.sessions.task_records import Task, current_tasks, task_json, tell_task

_SHOWN = 100
_ID_CHARS = 16


def register(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="what")
    parser.set_defaults(what="list", json=False)
    add_action(actions, "list", "list tasks (the default)")
    show = add_action(actions, "show", "print a task: the order, its state and its answer")
    cancel = add_action(actions, "cancel", "stop a task, wherever it is running")
    for one in (show, cancel):
        option(one, "ID", "the task's id, or its first characters")


async def run(args: argparse.Namespace, env: Environment) -> None:
    async with open_named_store(None, env) as store:
        now = SystemClock().now_ms()
        found = [] if store is None else await current_tasks(store, now, _SHOWN)
        if args.what == "list":
            _list(args, env, found)
        elif args.what == "show":
            _show(args, env, _named(args.id, found))
        else:
            await _cancel(args, env, store, _named(args.id, found))


def _list(args: argparse.Namespace, env: Environment, found: list[Task]) -> None:
    lines = [
        f"{one.id[:_ID_CHARS]}  {one.status:<14}  {local_time(one.updated_ms)}  {visible(one.title)}"
        for one in found
    ]
    facts = {"tasks": [task_json(task) for task in found]}
    env.report(args, facts, *lines, empty="There are no tasks.")


def _show(args: argparse.Namespace, env: Environment, task: Task) -> None:
    lines = [task.id, task.title, ""]
    lines.append(f"status   {task.status}{f': {task.message}' if task.message else ''}")
    lines.append(f"changed  {local_time(task.updated_ms)}")
    lines += [f"session  {task.session}", f"reader   {task.reader}"]
    lines += [f"\nIt asks: {one['params']['message']}" for one in task.requests.values()]
    for block in (task.result or {}).get("content", []):
        lines.append(f"\n{block['text']}" if block["type"] == "text" else f"\n[{block['type']}]")
    env.report(args, task_json(task), visible_lines("\n".join(lines)))


async def _cancel(
    args: argparse.Namespace, env: Environment, store: SessionStore | None, task: Task
) -> None:
    if store is not None and task.open:
        await tell_task(store, task, cancel=True)
    text = "Asked the task to stop." if task.open else f"The task has already ended: {task.status}."
    env.report(args, {"cancelled": task.open, "id": task.id}, text)


def _named(wanted: str, tasks: list[Task]) -> Task:
    found = [task for task in tasks if task.id.startswith(wanted)]
    if len(found) != 1:
        many = f"{len(found)} tasks begin with '{wanted}'"
        none = f"there is no task '{wanted}'"
        raise NotFound(many if found else none, hint="openclaw tasks lists them")
    return found[0]
