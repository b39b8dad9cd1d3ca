"""How stored conversations look on a terminal. What they contain cannot steer it."""

import json
import shutil
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.cells import cell_len, chop_cells, set_cell_size

from openclaw.cli.environment import Environment
from openclaw.cli.render.terminal import counted, wants_colour
from openclaw.sessions.model import Entry, EntryKind, Hit, SessionInfo, Turn, TurnState, header_json
from openclaw.sessions.queries import unframed

_ENTRY_CHARS = 4000
_PLAIN_WIDTH = 80
_AGENT_WIDTH = 10
_WHEN_WIDTH = 16
_GAP = 2
_FIXED_WIDTH = 5 + 6 + _WHEN_WIDTH + 3 * _GAP + 1
_BOLD, _DIM = "1", "2"
_SPEAKERS = {
    EntryKind.USER_MESSAGE: ("user", "1;36"),
    EntryKind.ASSISTANT_MESSAGE: ("assistant", "1;32"),
    EntryKind.TOOL_CALL: ("tool call", "35"),
    EntryKind.TOOL_RESULT: ("tool result", "35"),
    EntryKind.COMPACTION: ("summary", "33"),
    EntryKind.NOTICE: ("notice", "33"),
    EntryKind.TURN_CANCELLED: ("cancelled", "33"),
    EntryKind.TURN_ERROR: ("error", "31"),
    EntryKind.TURN_LOST: ("interrupted", "31"),
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
    titled = any(info.title for info in sessions)
    agents = {"AGENT": _AGENT_WIDTH} if len({info.agent for info in sessions}) > 1 else {}
    room = _width(env) - _FIXED_WIDTH - (_AGENT_WIDTH + _GAP if agents else 0)
    widest = max(cell_len(row["KEY"]) for row in rows)
    beside = titled and widest + _GAP + max(cell_len(row["TITLE"]) for row in rows) <= room
    below = titled and not beside
    key_width = widest if beside else room if below else min(widest, room)
    titles = {"TITLE": room - key_width - _GAP} if beside else {}
    fixed = {"MSGS": 5, "TOKENS": 6, "LAST USED": _WHEN_WIDTH}
    columns = {"KEY": key_width, **agents, **titles, **fixed}
    _write(env, (_line({name: name for name in columns}, columns), _BOLD))
    for row in rows:
        first, *others = chop_cells(row["KEY"], key_width) or [""]
        _write(env, (_line({**row, "KEY": first}, columns), ""))
        for part in others:
            _write(env, (part, ""))
        if below and row["TITLE"]:  # readable on a line of its own, but not squeezed beside a key
            _write(env, ("  ", ""), (_cut(row["TITLE"], room - 2), _DIM))
    if more:
        env.say(f"The {len(sessions)} most recent; use --limit to see more.")


def _row(env: Environment, info: SessionInfo) -> dict[str, str]:
    return {
        "KEY": _cell(env, info.key),
        "AGENT": _cell(env, info.agent),
        "TITLE": _cell(env, info.title or ""),
        "MSGS": _short(info.messages),
        "TOKENS": _short(info.input_tokens + info.output_tokens),
        "LAST USED": _when(info.updated_ms),
    }


def _line(row: Mapping[str, str], columns: Mapping[str, int]) -> str:
    cells: list[str] = []
    for name, width in columns.items():
        cell = _cut(row[name], width)
        pad = " " * (width - cell_len(cell))
        cells.append(pad + cell if name in ("MSGS", "TOKENS") else cell + pad)
    return (" " * _GAP).join(cells).rstrip()


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else f"{set_cell_size(text, max(0, width - 1))}…"


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
        f"agent {one_line(info.agent)}, {counted(info.messages, 'message')}, {info.input_tokens} tokens in, "
        f"{info.output_tokens} out, {_when(info.created_ms)} to {_when(info.updated_ms)}"
    )
    if entries and entries[0].seq > 1:
        env.say(f"(entries {entries[0].seq} to {entries[-1].seq}; use --limit to see more)")
    for entry in entries:
        if entry.kind in _SPEAKERS:
            _print_entry(env, entry, raw=raw)
    for turn in unfinished:
        calls = (
            f", with {counted(len(turn.open_calls), 'call')} of unknown outcome"
            if turn.open_calls
            else ""
        )
        state = "is running" if turn.state is TurnState.RUNNING else "was interrupted"
        env.say(f"\nTurn {one_line(turn.id)} {state}{calls}.")


def print_hits(env: Environment, hits: Sequence[Hit]) -> None:
    for hit in hits:
        speaker = _SPEAKERS.get(hit.kind, (str(hit.kind), ""))[0]
        place = f"  {_when(hit.at_ms)}  {speaker}, entry {hit.seq}"
        _write(env, (one_line(hit.session.key), _BOLD), (place, _DIM))
        _write(env, ("  " + one_line(env.redactor.redact(" ".join(hit.snippet.split()))), ""))


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
    env.stdout.write("\n")
    _write(env, (speaker, style), (f"  {_when(entry.at_ms)}", _DIM))
    words = entry.text or str(entry.data.get("detail") or entry.data.get("name") or "")
    if entry.kind is EntryKind.TOOL_CALL:
        words = _call(entry, words, None if raw else _ARGUMENT_CHARS)
    if raw:
        _print_words(env, words)
        return
    for piece in unframed(words):
        if piece.sender:
            _write(env, (f"from {one_line(env.redactor.redact(piece.sender))}", _DIM))
        _print_words(env, _shortened(piece.text))


def _print_words(env: Environment, words: str) -> None:
    if words:
        _write(env, (escape(env.redactor.redact(words)), ""))


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


def _cell(env: Environment, text: str) -> str:
    return one_line(env.redactor.redact(text))


def _width(env: Environment) -> int:
    """The terminal's columns, or 80 where there is none; more than fits on a screen helps nobody."""
    if not env.stdout.isatty():
        return _PLAIN_WIDTH
    return min(max(_PLAIN_WIDTH, shutil.get_terminal_size().columns), 2 * _PLAIN_WIDTH)


def _write(env: Environment, *parts: tuple[str, str]) -> None:
    """A line of texts, each with its style, which is the number that a terminal knows it by."""
    colour = wants_colour(env.stdout, env.environ)
    shown = (f"\x1b[{style}m{text}\x1b[0m" if colour and style else text for text, style in parts)
    env.stdout.write("".join(shown) + "\n")


def _short(count: int) -> str:
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"


def _when(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
