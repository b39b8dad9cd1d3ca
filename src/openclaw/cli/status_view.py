"""The status as a person sees it. What a server says of itself cannot steer the terminal."""

import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from io import StringIO
from typing import Any

from rich.cells import cell_len, chop_cells
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from openclaw.cli.environment import Environment
from openclaw.cli.logs import visible
from openclaw.cli.status_servers import duration, server_lines, wrapped
from openclaw.core.wire import EXIT_OK

Facts = Mapping[str, Any]

_PLAIN_WIDTH = 120


def print_status(env: Environment, facts: Facts) -> None:
    """Everything, once."""
    terminal = env.stdout.isatty()
    buffer = StringIO()
    console = Console(
        file=buffer,
        width=_width(env, terminal=terminal),
        force_terminal=terminal,
        no_color="NO_COLOR" in env.environ,
        highlight=False,
    )
    for line in rendered(facts, env.redactor.redact, console.width):
        console.print(line, soft_wrap=True)
    env.stdout.write(buffer.getvalue())


def _width(env: Environment, *, terminal: bool) -> int:
    """The terminal's; into a pipe or a file, what `COLUMNS` says."""
    if terminal:
        return shutil.get_terminal_size().columns
    given = env.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else _PLAIN_WIDTH


def live_status(env: Environment, look: Callable[[], Facts], every: float) -> int:
    """Everything, drawn anew until the person has seen enough."""
    console = Console(file=env.stdout, highlight=False)
    with Live(console=console, refresh_per_second=4, screen=env.stdout.isatty()) as live:
        try:
            while True:
                lines = rendered(look(), env.redactor.redact, console.width)
                live.update(Group(*lines), refresh=True)
                time.sleep(every)
        except KeyboardInterrupt:
            return EXIT_OK


def rendered(facts: Facts, redact: Callable[[str], str], width: int) -> list[Text]:
    """The status, line by line; no line is wider than `width`."""
    lines: list[Text] = []
    entries = list(_lines(facts))
    beside = max(len(name) for name, _ in entries) + 2
    margin = beside if beside * 3 < width else 2
    for name, value in entries:
        said = value.within(width - margin, redact) if isinstance(value, _Place) else redact(value)
        lines += _entry(name, said, margin, width)
    if facts["servers"]:
        lines += [Text(), *server_lines(facts["servers"], width, redact)]
    return lines


@dataclass(frozen=True, slots=True)
class _Place:
    """A file and how it is. Its path is no use in pieces: it loses its beginning instead."""

    path: str
    state: str

    def within(self, room: int, redact: Callable[[str], str]) -> str:
        """Both beside each other where there is room, else below each other."""
        path, state = visible(redact(self.path)), redact(self.state)
        both = f"{path} {state}"
        if cell_len(both.partition("\n")[0]) <= room:
            return both
        return f"{_its_end(path, room)}\n{state}"


def _its_end(path: str, room: int) -> str:
    if cell_len(path) <= room:
        return path
    backwards = chop_cells(path[::-1], max(1, room - 1))
    return f"…{backwards[0][::-1]}"


def _entry(name: str, value: str, margin: int, width: int) -> list[Text]:
    """The name, and the value beside it, or below where there is no room beside it."""
    indent = " " * margin
    found = [
        line for part in value.split("\n") for line in wrapped(Text(visible(part)), width, indent)
    ]
    if margin < len(name) + 1:
        return [Text(name, "bold"), *found]
    first = Text.assemble((name, "bold"), " " * (margin - len(name)), found[0][margin:])
    return [first, *found[1:]]


def _lines(facts: Facts) -> Iterable[tuple[str, str | _Place]]:
    yield "version", facts["version"]
    yield "config", _Place(facts["config"]["path"], _config_state(facts["config"]))
    for entry in facts["models"]:
        yield f"model of {entry['agent']}" if entry["agent"] else "model", _model(entry)
    yield "gateway", _gateway(facts["gateway"])
    if facts.get("gateways"):
        yield "gateways", "\n".join(map(_shared, facts["gateways"]))
    if facts["sessions"] is not None:
        yield "sessions", _sessions(facts["sessions"])
    if not facts["servers"]:
        yield "MCP servers", "none"


def _config_state(config: Facts) -> str:
    if not config["valid"]:
        return "\n".join(["invalid", *(f"  {problem}" for problem in config["problems"])])
    return "(valid)" if config["exists"] else "(missing: everything is at its default)"


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


def _shared(gateway: Facts) -> str:
    """One of the gateways that share the sessions."""
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


def _sessions(sessions: Facts) -> str:
    if sessions.get("error"):
        return str(sessions["error"])
    if not sessions["count"]:
        return "none"
    last = datetime.fromtimestamp(sessions["lastAt"] / 1000).astimezone()
    return f"{sessions['count']}, last used {last:%Y-%m-%d %H:%M}"
