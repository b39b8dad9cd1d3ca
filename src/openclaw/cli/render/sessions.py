"""How stored conversations look on a terminal. What they contain cannot steer it."""

import json
import shutil
import unicodedata
from collections.abc import Sequence
from datetime import datetime
from io import StringIO
from typing import Any

from rich.console import JustifyMethod, OverflowMethod
from rich.table import Table
from rich.text import Text

from openclaw.cli.environment import Environment
from openclaw.cli.render.terminal import console
from openclaw.sessions.model import Entry, EntryKind, Hit, SessionInfo, Turn, header_json
from openclaw.sessions.queries import unframed

_ENTRY_CHARS = 4000
_PLAIN_WIDTH = 80
_AGENT_WIDTH = 10
_WHEN_WIDTH = 16
_GAP = 2
_FIXED_WIDTH = 5 + 6 + _WHEN_WIDTH + 3 * _GAP + 1
_SPEAKERS = {
    EntryKind.USER_MESSAGE: ("user", "bold cyan"),
    EntryKind.ASSISTANT_MESSAGE: ("assistant", "bold green"),
    EntryKind.TOOL_CALL: ("tool call", "magenta"),
    EntryKind.TOOL_RESULT: ("tool result", "magenta"),
    EntryKind.COMPACTION: ("summary", "yellow"),
    EntryKind.NOTICE: ("notice", "yellow"),
    EntryKind.TURN_CANCELLED: ("cancelled", "yellow"),
    EntryKind.TURN_ERROR: ("error", "red"),
    EntryKind.TURN_LOST: ("died half-way", "red"),
}
_ESCAPED_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_ARGUMENT_CHARS = 200
_KEPT = "\u200d\ufe0f"  # they join emoji


def escape(text: str) -> str:
    """`text` with everything that could move the cursor, recolour or reorder made visible."""
    return "".join(char if _harmless(char) else _visible(char) for char in text)


def one_line(text: str) -> str:
    return escape(" ".join(text.split(" "))).replace("\n", "\\n").replace("\t", "\\t")


def _harmless(char: str) -> bool:
    if " " <= char <= "~" or char in "\n\t":
        return True
    return char in _KEPT or unicodedata.category(char) not in _ESCAPED_CATEGORIES


def _visible(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def print_sessions(env: Environment, sessions: Sequence[SessionInfo], *, more: bool) -> None:
    """A table, one conversation a line; a key is never cut, since it is what one types next."""
    rows = [_row(env, info) for info in sessions]
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    titled = any(info.title for info in sessions)
    agents = len({info.agent for info in sessions}) > 1
    room = _width(env) - _FIXED_WIDTH - (_AGENT_WIDTH + _GAP if agents else 0)
    widest = max(row["KEY"].cell_len for row in rows)
    longest = max(row["TITLE"].cell_len for row in rows)
    beside = titled and widest + _GAP + longest <= room
    below = titled and not beside
    if below:  # a title on a line of its own can be read; one squeezed beside a long key cannot
        for row in rows:
            row["KEY"] = _key_and_title(row["KEY"], row["TITLE"], room)
    key_width = widest if beside else room if below else min(widest, room)
    _column(table, "KEY", key_width, overflow="fold")
    if agents:
        _column(table, "AGENT", _AGENT_WIDTH)
    if beside:
        _column(table, "TITLE", room - key_width - _GAP)
    _column(table, "MSGS", 5, justify="right")
    _column(table, "TOKENS", 6, justify="right")
    _column(table, "LAST USED", _WHEN_WIDTH)
    for row in rows:
        table.add_row(*(row[str(column.header)] for column in table.columns))
    _render(env, table)
    if more:
        env.say(f"The {len(sessions)} most recent; use --limit to see more.")


def _key_and_title(key: Text, title: Text, room: int) -> Text:
    if not title.cell_len:
        return key
    title.truncate(room - 2, overflow="ellipsis")
    title.stylize("dim")
    return Text.assemble(key, "\n  ", title)


def _row(env: Environment, info: SessionInfo) -> dict[str, Text]:
    return {
        "KEY": _cell(env, info.key),
        "AGENT": _cell(env, info.agent),
        "TITLE": _cell(env, info.title or ""),
        "MSGS": Text(_short(info.messages)),
        "TOKENS": Text(_short(info.input_tokens + info.output_tokens)),
        "LAST USED": Text(_when(info.updated_ms)),
    }


def _column(
    table: Table,
    header: str,
    width: int,
    *,
    overflow: OverflowMethod = "ellipsis",
    justify: JustifyMethod = "left",
) -> None:
    table.add_column(
        header, width=width, overflow=overflow, justify=justify, no_wrap=overflow == "ellipsis"
    )


def print_session(
    env: Environment,
    info: SessionInfo,
    entries: Sequence[Entry],
    unfinished: Sequence[Turn],
    *,
    raw: bool = False,
) -> None:
    title = f" - {info.title}" if info.title else ""
    env.say(one_line(f"{info.key}{title}"))
    env.say(
        f"agent {one_line(info.agent)}, {info.messages} messages, {info.input_tokens} tokens in, "
        f"{info.output_tokens} out, {_when(info.created_ms)} to {_when(info.updated_ms)}"
    )
    if entries and entries[0].seq > 1:
        env.say(f"(entries {entries[0].seq} to {entries[-1].seq}; use --limit to see more)")
    for entry in entries:
        if entry.kind in _SPEAKERS:
            _print_entry(env, entry, raw=raw)
    for turn in unfinished:
        calls = f", with {len(turn.open_calls)} calls of unknown outcome" if turn.open_calls else ""
        state = "is running" if turn.finished_ms is None else "died half-way"
        env.say(f"\nTurn {one_line(turn.id)} {state}{calls}.")


def print_hits(env: Environment, hits: Sequence[Hit]) -> None:
    for hit in hits:
        speaker = _SPEAKERS.get(hit.kind, (str(hit.kind), ""))[0]
        head = Text(one_line(hit.session.key), style="bold")
        head.append(f"  {_when(hit.at_ms)}  {speaker}, entry {hit.seq}", style="dim")
        _render(env, head)
        _render(env, Text("  " + one_line(env.redactor.redact(" ".join(hit.snippet.split())))))


def turn_json(turn: Turn) -> dict[str, Any]:
    return {
        "id": turn.id,
        "state": str(turn.state),
        "startedAt": turn.started_ms,
        "openCalls": [call.call_id for call in turn.open_calls],
    }


def hit_json(hit: Hit) -> dict[str, Any]:
    return {
        "session": header_json(hit.session),
        "seq": hit.seq,
        "kind": str(hit.kind),
        "at": hit.at_ms,
        "snippet": hit.snippet,
    }


def _print_entry(env: Environment, entry: Entry, *, raw: bool) -> None:
    speaker, style = _SPEAKERS[entry.kind]
    head = Text(f"\n{speaker}", style=style)
    head.append(f"  {_when(entry.at_ms)}", style="dim")
    _render(env, head)
    words = entry.text or str(entry.data.get("detail") or entry.data.get("name") or "")
    if entry.kind is EntryKind.TOOL_CALL:
        words = _call(entry, words, None if raw else _ARGUMENT_CHARS)
    if raw:
        _print_words(env, words)
        return
    for piece in unframed(words):
        if piece.sender:
            _render(env, Text(f"from {one_line(env.redactor.redact(piece.sender))}", style="dim"))
        _print_words(env, _shortened(piece.text))


def _print_words(env: Environment, words: str) -> None:
    if words:
        _render(env, Text(escape(env.redactor.redact(words))))


def _shortened(words: str) -> str:
    if len(words) <= _ENTRY_CHARS:
        return words
    return f"{words[:_ENTRY_CHARS]}\n[… {len(words) - _ENTRY_CHARS} more characters; see --raw]"


def _call(entry: Entry, name: str, limit: int | None) -> str:
    given = entry.data.get("arguments")
    if not given:
        return name
    text = json.dumps(given, ensure_ascii=False, default=str)
    short = text if limit is None or len(text) <= limit else f"{text[:limit]}…"
    return f"{name} {short}"


def _cell(env: Environment, text: str) -> Text:
    return Text(one_line(env.redactor.redact(text)))


def _width(env: Environment) -> int:
    """The terminal's columns, or 80 where there is none; more than fits on a screen helps nobody."""
    if not env.stdout.isatty():
        return _PLAIN_WIDTH
    return min(max(_PLAIN_WIDTH, shutil.get_terminal_size().columns), 2 * _PLAIN_WIDTH)


def _render(env: Environment, what: Table | Text) -> None:
    drawing = StringIO()
    drawn = console(
        env.stdout, env.environ, file=drawing, width=_width(env), highlight=False, emoji=False
    )
    drawn.print(what, soft_wrap=isinstance(what, Text))
    text = drawing.getvalue()
    if isinstance(what, Table) and not env.stdout.isatty():  # a script has no use for the padding
        text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    env.stdout.write(text)


def _short(count: int) -> str:
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"


def _when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
