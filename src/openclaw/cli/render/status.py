"""The status as a person sees it. What a server says of itself cannot steer the terminal."""

import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from openclaw.core.errors import EXIT_OK

# What has no column of its own is said in words below the server's row; where there is room for next
# to no column, every server is a few lines of its own. What is the same nothing for all is left out.

Row = Mapping[str, Any]
Redact = Callable[[str], str]

COLOURS = {
    "ready": "green",
    "connecting": "yellow",
    "error": "red",
    "failed": "bold red",
    "needs_login": "magenta",
    "not running": "dim",
}
NARROW = 72  # below so many columns a table is not worth its headings

_GAP = 2
_INDENT = "  "
_LONGEST_NAME = 0.3  # of the width; a longer one is continued below
_BETWEEN = " · "


@dataclass(frozen=True, slots=True)
class Column:
    heading: str
    value: Callable[[Row], str | None]
    words: Callable[[str, Row], str]
    needed: bool = False


def duration(milliseconds: int | None) -> str:
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


def _plain(key: str) -> Callable[[Row], str | None]:
    return lambda row: None if row[key] is None else str(row[key])


def _counted(one: str, many: str | None = None) -> Callable[[str, Row], str]:
    return lambda value, row: f"{value} {one if value == '1' else many or one + 's'}"


def _headed(word: str) -> Callable[[str, Row], str]:
    return lambda value, row: f"{word} {value}"


def _agents_in_words(value: str, row: Row) -> str:
    return f"{'agent' if len(row['agents']) == 1 else 'agents'} {value}"


def _state(row: Row) -> str:
    return row["state"].replace("_", " ")


def _up(row: Row) -> str | None:
    return None if row["uptimeMs"] is None else duration(row["uptimeMs"])


def _retry(row: Row) -> str | None:
    return None if row["nextRetryIn"] is None else f"{row['nextRetryIn']:.0f} s"


_COLUMNS = (
    Column("agents", lambda row: ", ".join(row["agents"]) or None, _agents_in_words),
    Column("transport", _plain("transport"), lambda value, row: value),
    Column("state", _state, lambda value, row: value, needed=True),
    Column("tools", _plain("tools"), _counted("tool"), needed=True),
    Column("res.", _plain("resources"), _counted("resource")),
    Column("prompts", _plain("prompts"), _counted("prompt")),
    Column("revision", _plain("protocol"), _headed("revision")),
    Column("pid", _plain("pid"), _headed("pid")),
    Column("up", _up, _headed("up"), needed=True),
    Column("restarts", lambda row: str(row["restarts"] or "") or None, _counted("restart")),
    Column("retry in", _retry, _headed("retry in")),
    Column("pin", _plain("pin"), _headed("pin")),
)
_FIRST_TO_GO = ("revision", "transport", "agents", "pin", "res.", "prompts", "pid", "restarts")


def server_lines(rows: Sequence[Row], width: int, redact: Redact) -> Iterator[Text]:
    """The servers, a line at a time; no line is wider than `width`."""
    said = {c.heading: [_safe(c.value(row), redact) for row in rows] for c in _COLUMNS}
    used = [column for column in _COLUMNS if any(said[column.heading])]
    names = [_safe(row["name"], redact) or "" for row in rows]
    shown = _fitting(used, said, names, width)
    if shown is None:
        yield from _stacked(rows, used, said, names, width, redact)
        return
    longest = _name_width(names, width)
    widths = [longest, *(_column_width(column, said) for column in shown)]
    yield _joined([Text("server", "bold"), *(Text(c.heading, "bold") for c in shown)], widths)
    rest = [column for column in used if column not in shown]
    for number, row in enumerate(rows):
        first, *more = _cut(names[number], longest)
        cells = [Text(first), *(_cell(c, said[c.heading][number], row) for c in shown)]
        yield _joined(cells, widths)
        yield from (Text(line) for line in more)
        yield from _below(row, number, rest, said, width, redact)


def _fitting(
    used: Sequence[Column],
    said: Mapping[str, Sequence[str | None]],
    names: Sequence[str],
    width: int,
) -> list[Column] | None:
    """As many columns as there is room for; None where not even the needed ones fit."""
    if width < NARROW:
        return None
    shown = list(used)
    going = [c for name in _FIRST_TO_GO for c in used if c.heading == name]
    while True:
        needed = _name_width(names, width) + sum(_column_width(c, said) + _GAP for c in shown)
        if needed <= width:
            return shown
        if not going:
            return None
        shown.remove(going.pop(0))


def _stacked(
    rows: Sequence[Row],
    used: Sequence[Column],
    said: Mapping[str, Sequence[str | None]],
    names: Sequence[str],
    width: int,
    redact: Redact,
) -> Iterator[Text]:
    rest = [column for column in used if column.heading != "state"]
    for number, row in enumerate(rows):
        state = _cell(_STATE, _state(row), row)
        if cell_len(names[number]) + _GAP + cell_len(state.plain) <= width:
            yield Text.assemble((names[number], "bold"), " " * _GAP, state)
        else:
            yield from (Text(line, "bold") for line in _cut(names[number], width))
            yield Text.assemble(_INDENT, state)
        yield from _below(row, number, rest, said, width, redact)


def _below(
    row: Row,
    number: int,
    columns: Sequence[Column],
    said: Mapping[str, Sequence[str | None]],
    width: int,
    redact: Redact,
) -> Iterator[Text]:
    values = [(column, said[column.heading][number]) for column in columns]
    facts = [column.words(value, row) for column, value in values if value is not None]
    yield from (Text(_INDENT + line, "dim") for line in _packed(facts, width - len(_INDENT)))
    if row["lastError"]:
        error = redact(row["lastError"])
        for line in error.split("\n"):
            yield from wrapped(Text(visible(line), "red"), width, _INDENT)
    for crossing in (*row.get("suspicions", ()), *row.get("crossings", ())):
        yield from wrapped(Text(visible(redact(crossing)), "yellow"), width, _INDENT)


def _packed(facts: Sequence[str], width: int) -> Iterator[str]:
    line = ""
    for fact in facts:
        longer = line + _BETWEEN + fact if line else fact
        if line and cell_len(longer) > width:
            yield line
            longer = fact
        *full, line = _cut(longer, width)
        yield from full
    if line:
        yield line


def wrapped(text: Text, width: int, indent: str = "") -> Iterator[Text]:
    from rich.console import Console

    lines = text.wrap(Console(width=width), max(1, width - len(indent)), overflow="fold")
    for line in lines:
        line.rstrip()
        yield Text.assemble(indent, line)


def _cell(column: Column, value: str | None, row: Row) -> Text:
    style = COLOURS.get(row["state"], "") if column.heading == "state" else ""
    return Text("-" if value is None else value, style)


def _joined(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    line = Text()
    for cell, width in zip(cells, widths, strict=True):
        line.append_text(cell)
        line.append(" " * (width - cell_len(cell.plain) + _GAP))
    line.rstrip()
    return line


def _safe(value: str | None, redact: Redact) -> str | None:
    return None if value is None else visible(redact(value))


def _column_width(column: Column, said: Mapping[str, Sequence[str | None]]) -> int:
    return max(
        cell_len(column.heading), *(cell_len(value or "-") for value in said[column.heading])
    )


def _name_width(names: Sequence[str], width: int) -> int:
    longest = max(cell_len("server"), *(cell_len(name) for name in names))
    return min(longest, int(width * _LONGEST_NAME))


def _cut(text: str, width: int) -> list[str]:
    from rich.cells import chop_cells

    return chop_cells(text, max(1, width)) or [""]


_STATE = next(column for column in _COLUMNS if column.heading == "state")

Facts = Mapping[str, Any]

_PLAIN_WIDTH = 120


def print_status(env: Environment, facts: Facts) -> None:
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
        tasks = facts["sessions"].get("tasks")
        if tasks:
            working, asking = tasks.get("working", 0), tasks.get("input_required", 0)
            yield "tasks", f"{working} working, {asking} waiting for an answer"
    if not facts["servers"]:
        yield "MCP servers", "none"


def _config_state(config: Facts) -> str:
    if not config["valid"]:
        return "\n".join(["invalid", *(f"  {problem}" for problem in config["problems"])])
    return "(valid)" if config["exists"] else "(does not exist; the defaults apply)"


def _model(entry: Facts) -> str:
    if not entry["models"]:
        return str(entry["reason"])
    states = {"local": "ready"}  # whether others work is known once they are asked
    return ", ".join(
        f"{one['model']} ({one.get('problem', states.get(one['api'], 'configured'))})"
        for one in entry["models"]
    )


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
