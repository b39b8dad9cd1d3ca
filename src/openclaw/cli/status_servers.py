"""MCP servers in as many columns as there is room for.

What has no column of its own is said in words below the server's row; where there is room for next
to no column, every server is a few lines of its own. What is the same nothing for all is left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from openclaw.cli.logs import visible

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
NARROW = 72
"""Below so many columns a table is not worth its headings."""

_GAP = 2
_INDENT = "  "
_LONGEST_NAME = 0.3  # of the width; a longer one is continued below
_BETWEEN = " · "


@dataclass(frozen=True, slots=True)
class Column:
    """One fact: its value in a table, and how it is said in words."""

    heading: str
    value: Callable[[Row], str | None]
    words: Callable[[str, Row], str]
    needed: bool = False


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


def _plain(key: str) -> Callable[[Row], str | None]:
    return lambda row: None if row[key] is None else str(row[key])


def _counted(one: str, many: str | None = None) -> Callable[[str, Row], str]:
    return lambda value, row: f"{value} {one if value == '1' else many or one + 's'}"


def _headed(word: str) -> Callable[[str, Row], str]:
    return lambda value, row: f"{word} {value}"


def _agents(row: Row) -> str | None:
    return ", ".join(row["agents"]) or None


def _agents_in_words(value: str, row: Row) -> str:
    return f"{'agent' if len(row['agents']) == 1 else 'agents'} {value}"


def _state(row: Row) -> str:
    return row["state"].replace("_", " ")


def _up(row: Row) -> str | None:
    return None if row["uptimeMs"] is None else duration(row["uptimeMs"])


def _retry(row: Row) -> str | None:
    return None if row["nextRetryIn"] is None else f"{row['nextRetryIn']:.0f} s"


def _restarts(row: Row) -> str | None:
    return str(row["restarts"]) if row["restarts"] else None


_COLUMNS = (
    Column("agents", _agents, _agents_in_words),
    Column("transport", _plain("transport"), lambda value, row: value),
    Column("state", _state, lambda value, row: value, needed=True),
    Column("tools", _plain("tools"), _counted("tool"), needed=True),
    Column("res.", _plain("resources"), _counted("resource")),
    Column("prompts", _plain("prompts"), _counted("prompt")),
    Column("revision", _plain("protocol"), _headed("revision")),
    Column("pid", _plain("pid"), _headed("pid")),
    Column("up", _up, _headed("up"), needed=True),
    Column("restarts", _restarts, _counted("restart")),
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
    widths = [longest, *(_width(column, said) for column in shown)]
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
        needed = _name_width(names, width) + sum(_width(c, said) + _GAP for c in shown)
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
    for crossing in row.get("crossings", ()):
        yield from wrapped(Text(visible(redact(crossing)), "yellow"), width, _INDENT)


def _packed(facts: Sequence[str], width: int) -> Iterator[str]:
    """The facts in lines; none is torn apart unless it is longer than a line."""
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
    """The text in lines of at most `width`, each of them indented."""
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


def _width(column: Column, said: Mapping[str, Sequence[str | None]]) -> int:
    return max(
        cell_len(column.heading), *(cell_len(value or "-") for value in said[column.heading])
    )


def _name_width(names: Sequence[str], width: int) -> int:
    longest = max(cell_len("server"), *(cell_len(name) for name in names))
    return min(longest, int(width * _LONGEST_NAME))


def _cut(text: str, width: int) -> list[str]:
    """The text in pieces of at most `width` columns."""
    from rich.cells import chop_cells

    return chop_cells(text, max(1, width)) or [""]


_STATE = next(column for column in _COLUMNS if column.heading == "state")
