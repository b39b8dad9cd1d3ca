"""List, show and cancel tasks: long orders from MCP clients.

An order that takes a while becomes a task. Without an action, this lists the tasks, the most
recently changed first.
"""

import argparse
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING

from openclaw.cli.environment import Environment
from openclaw.cli.logs import visible, visible_lines
from openclaw.cli.parser import add_action, option
from openclaw.core.errors import EXIT_OK, NotFound

if TYPE_CHECKING:
    from openclaw.sessions.store import SessionStore
    from openclaw.sessions.tasks import Task

Action = Callable[[argparse.Namespace, Environment, "SessionStore | None"], Awaitable[None]]

_SHOWN = 100
_ID_CHARS = 16


def register(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action=_list, json=False)
    actions = parser.add_subparsers(metavar="ACTION")
    for name, action, summary in (
        ("list", _list, "list tasks (the default)"),
        ("show", _show, "print a task: the order, its state and its answer"),
        ("cancel", _cancel, "stop a task, wherever it is running"),
    ):
        one = add_action(actions, name, summary, action)
        if name != "list":
            option(one, "ID", "the task's id, or its first characters")


def run(args: argparse.Namespace, env: Environment) -> int:
    import anyio

    anyio.run(_run, args, env)
    return EXIT_OK


async def _run(args: argparse.Namespace, env: Environment) -> None:
    from openclaw.cli.commands.sessions import opened

    async with opened(None, env) as store:
        await args.action(args, env, store)


async def _tasks(store: "SessionStore | None") -> "list[Task]":
    from openclaw.core.clock import SystemClock
    from openclaw.sessions.tasks import current_tasks

    return [] if store is None else await current_tasks(store, SystemClock().now_ms(), _SHOWN)


async def _list(args: argparse.Namespace, env: Environment, store: "SessionStore | None") -> None:
    from openclaw.sessions.tasks import task_json

    found = await _tasks(store)
    lines = [
        f"{task.id[:_ID_CHARS]}  {task.status:<14}  {_when(task)}  {visible(task.title)}"
        for task in found
    ]
    facts = {"tasks": [task_json(task) for task in found]}
    env.report(args, facts, *lines, empty="There are no tasks.")


async def _show(args: argparse.Namespace, env: Environment, store: "SessionStore | None") -> None:
    from openclaw.sessions.tasks import task_json

    task = await _named(args.id, store)
    lines = [task.id, task.title, ""]
    lines.append(f"status   {task.status}{f': {task.message}' if task.message else ''}")
    lines += [f"changed  {_when(task)}", f"session  {task.session}", f"reader   {task.reader}"]
    lines += [f"\nIt asks: {one['params']['message']}" for one in task.requests.values()]
    for block in (task.result or {}).get("content", []):
        lines.append(f"\n{block['text']}" if block["type"] == "text" else f"\n[{block['type']}]")
    env.report(args, task_json(task), visible_lines("\n".join(lines)))


async def _cancel(args: argparse.Namespace, env: Environment, store: "SessionStore | None") -> None:
    from openclaw.sessions.tasks import tell_task

    task = await _named(args.id, store)
    if store is not None and task.open:
        await tell_task(store, task, cancel=True)
    told = "Asked the task to stop." if task.open else f"The task has already ended: {task.status}."
    env.report(args, {"cancelled": task.open, "id": task.id}, told)


async def _named(wanted: str, store: "SessionStore | None") -> "Task":
    found = [task for task in await _tasks(store) if task.id.startswith(wanted)]
    if len(found) != 1:
        many = f"{len(found)} tasks begin with '{wanted}'"
        raise NotFound(
            many if found else f"there is no task '{wanted}'", hint="openclaw tasks lists them"
        )
    return found[0]


def _when(task: "Task") -> str:
    return f"{datetime.fromtimestamp(task.updated_ms / 1000).astimezone():%Y-%m-%d %H:%M}"
