"""Show what is configured, what is running, and the state of each MCP server.

If a gateway is running, this shows its servers. Without one, --probe starts each server once to
check it.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from openclaw.cli.commands.models import model_facts
from openclaw.cli.commands.sessions import open_named_store
from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_json, option
from openclaw.cli.terminal import console, counted, local_time, print_unpadded, visible_lines
from openclaw.core import errors
from openclaw.core.clock import SystemClock
from openclaw.gateway.lock import GatewayInfo, running_gateway
from openclaw.runtime.gateway_connection import GatewayConnection
from openclaw.sessions.task_records import current_tasks
from openclaw.sessions.waiting_questions import open_questions
from openclaw.version import __version__

if TYPE_CHECKING:
    from rich.console import RenderableType

Json = dict[str, Any]

_TASKS = 100
_EVERY = 1.0  # seconds between two updates with --watch
NOT_RUNNING = "not running"


def register(parser: argparse.ArgumentParser) -> None:
    how = parser.add_mutually_exclusive_group()
    add_json(how)
    option(how, "--watch", "update it live until you press Ctrl-C")
    option(parser, "--probe", "start each server once to check it")
    option(parser, "--local", "ignore a running gateway's servers")


def run(args: argparse.Namespace, env: Environment) -> int:
    if args.watch:
        return _watch(args, env)
    facts = gather(env, probe=args.probe, local=args.local)
    if args.json:
        env.say_json(facts)
    else:
        print_unpadded(env.stdout, env.environ, rendered(facts, env.redactor.redact))
    if not facts["config"]["valid"]:
        return errors.EXIT_USAGE
    broken = {"error", "failed", "needs_login"} & {row["state"] for row in facts["servers"]}
    return errors.EXIT_FAILED if broken else errors.EXIT_OK


def _watch(args: argparse.Namespace, env: Environment) -> int:
    from rich.console import Group
    from rich.live import Live

    screen = console(env.stdout, env.environ, highlight=False)
    with Live(console=screen, refresh_per_second=4, screen=env.stdout.isatty()) as live:
        try:
            while True:
                facts = gather(replace(env), probe=False, local=args.local)
                live.update(Group(*rendered(facts, env.redactor.redact)), refresh=True)
                time.sleep(_EVERY)
        except KeyboardInterrupt:
            return errors.EXIT_OK


def gather(env: Environment, *, probe: bool, local: bool = False) -> Json:
    path = env.config_file
    facts: Json = {
        "version": __version__,
        "config": {"path": str(path), "exists": path.exists(), "valid": True, "problems": []},
        "state": str(env.paths.root),
        "models": [],
        "gateway": {"running": False},
        "sessions": None,
        "servers": [],
        "gateways": None,
    }
    try:
        facts["models"] = model_facts(env)
    except errors.InvalidConfig as error:
        facts["config"] |= {"valid": False, "problems": [str(one) for one in error.problems]}
    except errors.OpenClawError as error:
        facts["models"] = [{"agent": None, "reason": errors.describe(error), "models": []}]
    info = None if local else running_gateway(env.paths.gateway_lock)
    if info is not None:
        facts["gateway"] = {
            "running": True,
            "pid": info.pid,
            "url": info.url or None,
            "startedAt": info.started or None,
            "uptimeMs": SystemClock().now_ms() - info.started if info.started else None,
            "version": info.version or None,
            "config": info.config or None,
        }
    anyio.run(_look, env, facts, info, probe)
    return facts


async def _look(env: Environment, facts: Json, info: GatewayInfo | None, probe: bool) -> None:
    valid = facts["config"]["valid"]
    if valid:
        facts["sessions"] = await _sessions(env)
    if info is not None and info.url:
        try:
            status = await GatewayConnection(info.url, env.paths.root).request("GET", "/api/status")
        except errors.OpenClawError as error:
            facts["gateway"]["error"] = errors.describe(error)
        else:
            facts["gateway"] |= {"turns": status["turns"], "reloadError": status["reloadError"]}
            facts |= {"gateways": status.get("gateways"), "servers": status["servers"]}
            return
    if valid and probe:
        # Starting servers takes the whole MCP client, which an ordinary `status` doesn't need.
        from openclaw.cli.commands.mcp_live import probe_servers

        found = await probe_servers(env, env.agents().values(), quiet=True, reported=False)
        hide = env.redactor.redact
        now = SystemClock().now_ms()
        facts["servers"] = [server.row(now, hide) for server, _ in found]
    elif valid:
        facts["servers"] = _configured(env)


async def _sessions(env: Environment) -> Json | None:
    try:
        async with open_named_store(None, env) as store:
            if store is None:
                return {"count": 0, "lastAt": None, "tasks": {}, "questions": 0}
            count = await store.count_sessions()
            page = await store.list_sessions(limit=1)
            now = SystemClock().now_ms()
            tasks = await current_tasks(store, now, _TASKS)
            questions = await open_questions(store, now)
    except errors.OpenClawError as error:
        return {"count": None, "lastAt": None, "error": errors.describe(error)}
    last = page.sessions[0].updated_ms if page.sessions else None
    states = Counter(task.status for task in tasks if task.open)
    waiting = len(questions)
    return {"count": count, "lastAt": last, "tasks": dict(states), "questions": waiting}


def _configured(env: Environment) -> list[Json]:
    """The configured servers, with the keys of running ones; agents that share an entry share a row."""
    found: dict[tuple[str, str], list[str]] = {}
    for agent in env.agents().values():
        for name, server in agent.servers.items():
            transport = server.transport or ("stdio" if server.command else "http")
            found.setdefault((name, str(transport)), []).append(agent.id)
    unknown = (
        "tools resources prompts protocol serverName serverVersion pid since uptimeMs lastError"
    )
    rows: list[Json] = []
    for (name, transport), users in sorted(found.items()):
        row: Json = {"name": name, "agents": users, "sessions": [], "transport": transport}
        row |= {"state": NOT_RUNNING, **dict.fromkeys(unknown.split())}
        row |= {"restarts": 0, "nextRetryIn": None, "leftOut": [], "pin": None}
        rows.append(row | {"crossings": [], "suspicions": []})
    return rows


# ---- output for people. Text from servers cannot control the terminal.

_COLOURS = {
    "ready": "green",
    "connecting": "yellow",
    "error": "red",
    "failed": "bold red",
    "needs_login": "magenta",
    NOT_RUNNING: "dim",
}


def rendered(facts: Mapping[str, Any], redact: Callable[[str], str]) -> "Iterator[RenderableType]":
    from rich.table import Table
    from rich.text import Text

    def safe(text: str, style: str = "") -> Text:
        return Text(visible_lines(redact(text)), style, overflow="fold")

    top, servers = Table.grid(padding=(0, 2, 0, 0)), Table.grid(padding=(0, 2, 0, 0))
    for name, value in _entries(facts):
        top.add_row(Text(name, "bold"), safe(value))
    yield top
    for row in facts["servers"]:
        state = safe(row["state"].replace("_", " "), _COLOURS.get(row["state"], ""))
        cell = Text(overflow="fold").append_text(state)
        cell.append_text(safe(" · ".join(["", *_details(row)]), "dim"))
        notes = [(row["lastError"], "red")] if row["lastError"] else []
        notes += [(one, "yellow") for one in (*row["suspicions"], *row["crossings"])]
        for note, style in notes:
            cell.append("\n").append_text(safe(note, style))
        servers.add_row(safe(row["name"], "bold"), cell)
    if facts["servers"]:
        yield Text()
        yield servers


def _details(row: Mapping[str, Any]) -> Iterator[str]:
    if row["agents"]:
        yield f"{'agent' if len(row['agents']) == 1 else 'agents'} {', '.join(row['agents'])}"
    if row.get("clients"):
        yield f"used by {', '.join(row['clients'])}"
    yield row["transport"]
    for what in ("tool", "resource", "prompt"):
        if row[f"{what}s"] is not None:
            yield counted(row[f"{what}s"], what)
    for word, key in (("revision", "protocol"), ("pid", "pid"), ("pin", "pin")):
        if row[key] is not None:
            yield f"{word} {row[key]}"
    if row["uptimeMs"] is not None:
        yield f"up {duration(row['uptimeMs'])}"
    if row["restarts"]:
        yield counted(row["restarts"], "restart")
    if row["nextRetryIn"] is not None:
        yield f"retry in {row['nextRetryIn']:.0f} s"


def duration(milliseconds: int) -> str:
    seconds = max(0, milliseconds // 1000)
    for unit, size, smaller, rest in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // rest} {smaller}"
    return f"{seconds} s"


def _entries(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "version", facts["version"]
    config = facts["config"]
    state = "(valid)" if config["exists"] else "(does not exist; the defaults apply)"
    if not config["valid"]:
        state = "\n".join(["invalid", *(f"  {problem}" for problem in config["problems"])])
    yield "config", f"{config['path']} {state}"
    for entry in facts["models"]:
        yield f"model of {entry['agent']}" if entry["agent"] else "model", _model(entry)
    yield "gateway", _gateway(facts["gateway"])
    if facts.get("gateways"):
        yield "gateways", "\n".join(map(_shared, facts["gateways"]))
    if (sessions := facts["sessions"]) is not None:
        summary = sessions.get("error") or "none"
        if sessions["count"]:
            summary = f"{sessions['count']}, last used {local_time(sessions['lastAt'])}"
        yield "sessions", summary
        if tasks := sessions.get("tasks"):
            working, asking = tasks.get("working", 0), tasks.get("input_required", 0)
            yield "tasks", f"{working} working, {asking} waiting for an answer"
        if waiting := sessions.get("questions"):
            yield "questions", f"{waiting} waiting for your answer: openclaw questions"
    if not facts["servers"]:
        yield "MCP servers", "none"


def _model(entry: Mapping[str, Any]) -> str:
    if not entry["models"]:
        return str(entry["reason"])
    states = {"local": "ready"}  # whether others work is unknown before a request
    return ", ".join(
        f"{one['model']} ({one.get('problem', states.get(one['api'], 'configured'))})"
        for one in entry["models"]
    )


def _gateway(gateway: Mapping[str, Any]) -> str:
    if not gateway["running"]:
        return "not running"
    up = "" if gateway["uptimeMs"] is None else f"up {duration(gateway['uptimeMs'])}, "
    said = [f"pid {gateway['pid']}, {up}{gateway['url'] or 'starting'}"]
    return "\n".join(said + [gateway[key] for key in ("error", "reloadError") if gateway.get(key)])


def _shared(gateway: Mapping[str, Any]) -> str:
    state = "stopping" if gateway["stopping"] else "alive"
    if not gateway["alive"]:
        state = f"dead, last seen {duration(int(gateway['seenSecondsAgo'] * 1000))} ago"
    ready = [one for one in gateway["servers"] if one["state"] == "ready"]
    broken = [f"{one['name']} {one['state']}" for one in gateway["servers"] if one not in ready]
    said = (
        f"{gateway['url'] or 'starting'} on {gateway['host']}{' (this one)' * gateway['this']}:"
        f" {state}, {gateway['running']} of {gateway['workers']} workers busy,"
        f" {len(ready)} MCP servers ready"
    )
    return f"{said}; {', '.join(broken)}" if broken else said
