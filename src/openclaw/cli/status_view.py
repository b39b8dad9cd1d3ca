"""The status as a person sees it. What a server says of itself cannot steer the terminal."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from io import StringIO
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from openclaw.cli.environment import Environment
from openclaw.cli.logs import visible
from openclaw.core.wire import EXIT_OK

Facts = Mapping[str, Any]

_PLAIN_WIDTH = 120
_COLOURS = {
    "ready": "green",
    "connecting": "yellow",
    "error": "red",
    "failed": "bold red",
    "needs_login": "magenta",
    "not running": "dim",
}


def print_status(env: Environment, facts: Facts) -> None:
    """Everything, once."""
    terminal = env.stdout.isatty()
    width = shutil.get_terminal_size().columns if terminal else _PLAIN_WIDTH
    buffer = StringIO()
    console = Console(
        file=buffer,
        width=width,
        force_terminal=terminal,
        no_color="NO_COLOR" in env.environ,
        highlight=False,
    )
    console.print(rendered(facts, env.redactor.redact))
    env.stdout.write(buffer.getvalue())


def live_status(env: Environment, look: Callable[[], Facts], every: float) -> int:
    """Everything, drawn anew until the person has seen enough."""
    console = Console(file=env.stdout, highlight=False)
    with Live(console=console, refresh_per_second=4, screen=env.stdout.isatty()) as live:
        try:
            while True:
                live.update(rendered(look(), env.redactor.redact), refresh=True)
                time.sleep(every)
        except KeyboardInterrupt:
            return EXIT_OK


def rendered(facts: Facts, redact: Callable[[str], str]) -> RenderableType:
    """The status as tables."""
    head = Table.grid(padding=(0, 2))
    for name, value in _lines(facts):
        head.add_row(Text(name, style="bold"), _text(redact(value)))
    parts: list[RenderableType] = [head]
    if facts["servers"]:
        parts += [Text(), _servers(facts["servers"], redact)]
        parts += [
            _text(redact(f"{row['name']}: {row['lastError']}"), "red")
            for row in facts["servers"]
            if row["lastError"]
        ]
    return Group(*parts)


def _text(value: str, style: str = "") -> Text:
    return Text("\n".join(visible(line) for line in value.split("\n")), style=style)


def _lines(facts: Facts) -> Iterable[tuple[str, str]]:
    yield "version", facts["version"]
    config = facts["config"]
    state = "valid" if config["exists"] else "missing: everything is at its default"
    if not config["valid"]:
        state = "\n".join(["invalid", *(f"  {problem}" for problem in config["problems"])])
    yield (
        "config",
        f"{config['path']} ({state})" if config["valid"] else f"{config['path']} {state}",
    )
    for entry in facts["models"]:
        yield f"model of {entry['agent']}" if entry["agent"] else "model", _model(entry)
    yield "gateway", _gateway(facts["gateway"])
    if facts["sessions"] is not None:
        yield "sessions", _sessions(facts["sessions"])
    if not facts["servers"]:
        yield "MCP servers", "none"


def _model(entry: Facts) -> str:
    if not entry["models"]:
        return str(entry["reason"])
    return ", ".join(f"{one['model']} ({one.get('problem', 'ready')})" for one in entry["models"])


def _gateway(gateway: Facts) -> str:
    if not gateway["running"]:
        return "not running"
    said = (
        f"pid {gateway['pid']}, up {duration(gateway['uptimeMs'])}, {gateway['url'] or 'starting'}"
    )
    for key in ("error", "reloadError"):
        if gateway.get(key):
            said += f"\n{gateway[key]}"
    return said


def _sessions(sessions: Facts) -> str:
    if sessions.get("error"):
        return str(sessions["error"])
    if not sessions["count"]:
        return "none"
    last = datetime.fromtimestamp(sessions["lastAt"] / 1000).astimezone()
    return f"{sessions['count']}, last used {last:%Y-%m-%d %H:%M}"


def _servers(rows: Iterable[Facts], redact: Callable[[str], str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("server", "agents", "transport", "state", "tools", "res.", "prompts"):
        table.add_column(name)
    for name in ("revision", "pid", "up", "restarts", "retry in", "pin"):
        table.add_column(name)
    for row in rows:
        state = row["state"]
        retry = row["nextRetryIn"]
        table.add_row(
            _text(redact(row["name"])),
            _text(", ".join(row["agents"])),
            row["transport"],
            Text(state.replace("_", " "), style=_COLOURS.get(state, "")),
            *(_shown(row[key]) for key in ("tools", "resources", "prompts")),
            _text(redact(_shown(row["protocol"]))),
            _shown(row["pid"]),
            duration(row["uptimeMs"]),
            _shown(row["restarts"]),
            f"{retry:.0f} s" if retry is not None else "-",
            _text(_shown(row["pin"])),
        )
    return table


def _shown(value: Any) -> str:
    return "-" if value is None else str(value)


def duration(milliseconds: int | None) -> str:
    """A span of time in its two largest units."""
    if milliseconds is None:
        return "-"
    seconds = max(0, milliseconds // 1000)
    for unit, size, smaller, rest in (
        ("d", 86_400, "h", 3600),
        ("h", 3600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if seconds >= size:
            return f"{seconds // size} {unit} {seconds % size // rest} {smaller}"
    return f"{seconds} s"
