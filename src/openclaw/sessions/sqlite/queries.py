"""Reading: work for the readers' connections."""

import sqlite3
from typing import Any

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.sessions.model import (
    Entry,
    EntryKind,
    Hit,
    Page,
    SessionInfo,
    SessionRef,
    Turn,
    TurnState,
    decode,
    decode_optional,
)
from openclaw.sessions.snippets import snippet

_INFO = (
    "id, agent, key, title, created_ms, updated_ms, messages, seq, input_tokens, output_tokens,"
    " cache_read_tokens, cache_write_tokens, requests, tool_calls"
)
_INFO_OF_S = ", ".join(f"s.{name.strip()}" for name in _INFO.split(","))
_INFO_WIDTH = len(SessionInfo._fields)
_ENTRY = "seq, turn, kind, at_ms, data, text, call_id, details"

_PAGE_OF_ENTRIES = 500
"""Entries read at once: a long transcript must not keep the log from being folded in."""


def row_of(connection: sqlite3.Connection, session: SessionRef) -> int:
    """The session's row; `NotFound` where it was deleted."""
    found = connection.execute("SELECT row FROM sessions WHERE id = ?", (session.id,)).fetchone()
    if found is None:
        raise NotFound(f"there is no session '{session.key}' of agent '{session.agent}'")
    return found[0]


def find_exact(connection: sqlite3.Connection, agent: str, key: str) -> SessionRef | None:
    found = connection.execute(
        "SELECT id, agent, key FROM sessions WHERE agent = ? AND key = ?", (agent, key)
    ).fetchone()
    return None if found is None else SessionRef(*found)


def find(connection: sqlite3.Connection, key: str, agent: str | None) -> list[SessionInfo]:
    rows = connection.execute(
        f"SELECT {_INFO} FROM sessions WHERE (key = ?1 OR id = ?1)"  # noqa: S608 - constant names
        " AND (?2 IS NULL OR agent = ?2) ORDER BY agent, key",
        (key, agent),
    )
    return list(map(SessionInfo._make, rows))


def show(connection: sqlite3.Connection, session: SessionRef) -> SessionInfo:
    row = row_of(connection, session)
    return SessionInfo._make(
        connection.execute(
            f"SELECT {_INFO} FROM sessions WHERE row = ?",  # noqa: S608 - constant names
            (row,),
        ).fetchone()
    )


def list_sessions(
    connection: sqlite3.Connection,
    agent: str | None,
    limit: int | None,
    cursor: str | None,
    search: str | None,
) -> Page:
    conditions: list[str] = []
    values: list[Any] = []
    if agent is not None:
        conditions.append("agent = ?")
        values.append(agent)
    if search:
        conditions.append("(key LIKE ? ESCAPE '\\' OR title LIKE ? ESCAPE '\\')")
        values += [_contains(search)] * 2
    if cursor is not None:
        conditions.append("(updated_ms, row) < (?, ?)")
        values += _parsed(cursor)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = connection.execute(
        f"SELECT {_INFO}, row FROM sessions {where}"  # noqa: S608 - constant names
        " ORDER BY updated_ms DESC, row DESC LIMIT ?",
        (*values, -1 if limit is None else limit + 1),
    ).fetchall()
    more = limit is not None and len(rows) > limit
    kept = rows[:limit] if more else rows
    sessions = [SessionInfo._make(row[:_INFO_WIDTH]) for row in kept]
    return Page(sessions, f"{kept[-1][5]}.{kept[-1][-1]}" if more and kept else None)


def history(
    connection: sqlite3.Connection, session: SessionRef, since_compaction: bool
) -> list[Entry]:
    row = row_of(connection, session)
    summary, through = connection.execute(
        "SELECT summary_seq, summarised FROM sessions WHERE row = ?", (row,)
    ).fetchone()
    if not since_compaction or not summary:
        return _entries(connection, row, "seq > 0 ORDER BY seq", ())
    return _entries(
        connection,
        row,
        "(seq = ? OR (seq > ? AND kind != 'compaction')) ORDER BY seq != ?, seq",
        (summary, through, summary),
    )


def entries_after(
    connection: sqlite3.Connection, session: SessionRef, after: int, limit: int
) -> list[Entry]:
    return _entries(
        connection, row_of(connection, session), "seq > ? ORDER BY seq LIMIT ?", (after, limit)
    )


def unfinished_turns(connection: sqlite3.Connection, row: int) -> list[Turn]:
    return _turns(connection, row, "state IN ('running', 'lost') ORDER BY first_seq", ())


def find_turn(connection: sqlite3.Connection, row: int, turn: str) -> Turn | None:
    return next(iter(_turns(connection, row, "id = ?", (turn,))), None)


def _turns(
    connection: sqlite3.Connection, row: int, condition: str, values: tuple[Any, ...]
) -> list[Turn]:
    rows = connection.execute(
        "SELECT id, state, started_ms, finished_ms, first_seq FROM turns"  # noqa: S608 - ours
        f" WHERE session = ? AND {condition}",
        (row, *values),
    ).fetchall()
    return [
        Turn(name, TurnState(state), began, ended, open_calls(connection, row, name, first))
        for name, state, began, ended, first in rows
    ]


def open_calls(
    connection: sqlite3.Connection, row: int, turn: str, first: int
) -> tuple[Entry, ...]:
    entries = _entries(
        connection,
        row,
        "seq >= ? AND turn = ? AND kind IN ('tool_call', 'tool_result') ORDER BY seq",
        (first, turn),
    )
    answered = {entry.call_id for entry in entries if entry.kind is EntryKind.TOOL_RESULT}
    return tuple(
        entry
        for entry in entries
        if entry.kind is EntryKind.TOOL_CALL and entry.call_id not in answered
    )


def search(connection: sqlite3.Connection, text: str, agent: str | None, limit: int) -> list[Hit]:
    words = text.split()
    if not words:
        return []
    if any(_written_without_spaces(char) for char in text):
        return _search_parts(connection, words, agent, limit)
    rows = connection.execute(
        f"SELECT {_INFO_OF_S}, e.seq, e.kind, e.at_ms, e.text"  # noqa: S608 - constant names
        " FROM words JOIN entries e ON e.row = words.rowid JOIN sessions s ON s.row = e.session"
        " WHERE words MATCH ?1 AND (?2 IS NULL OR s.agent = ?2) ORDER BY rank LIMIT ?3",
        (" ".join(_quoted(word) for word in words), agent, limit),
    )
    return [_hit(row, text) for row in rows]


def _search_parts(
    connection: sqlite3.Connection, words: list[str], agent: str | None, limit: int
) -> list[Hit]:
    """For scripts without spaces between words, which the index cannot cut: the newest first."""
    conditions = " AND ".join("e.text LIKE ? ESCAPE '\\'" for _ in words)
    rows = connection.execute(
        f"SELECT {_INFO_OF_S}, e.seq, e.kind, e.at_ms, e.text"  # noqa: S608 - constant names
        " FROM entries e JOIN sessions s ON s.row = e.session"
        f" WHERE {conditions} AND (? IS NULL OR s.agent = ?) ORDER BY e.row DESC LIMIT ?",
        (*map(_contains, words), agent, agent, limit),
    )
    return [_hit(row, " ".join(words)) for row in rows]


def _hit(row: tuple[Any, ...], wanted: str) -> Hit:
    seq, kind, at_ms, text = row[_INFO_WIDTH:]
    info = SessionInfo._make(row[:_INFO_WIDTH])
    return Hit(info, seq, EntryKind(kind), at_ms, snippet(text, wanted))


def _entries(
    connection: sqlite3.Connection, row: int, condition: str, values: tuple[Any, ...]
) -> list[Entry]:
    rows = connection.execute(
        f"SELECT {_ENTRY} FROM entries WHERE session = ? AND {condition}",  # noqa: S608 - ours
        (row, *values),
    )
    return [
        Entry(seq, turn, EntryKind(kind), at, decode(data), text, call, decode_optional(details))
        for seq, turn, kind, at, data, text, call, details in rows
    ]


def _quoted(word: str) -> str:
    """A word as FTS5 takes it literally, matching also longer words that begin so."""
    doubled = word.replace('"', '""')
    return f'"{doubled}"*'


def _contains(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def _parsed(cursor: str) -> tuple[int, int]:
    try:
        updated, row = cursor.split(".")
        return int(updated), int(row)
    except ValueError:
        raise InvalidRequest("this cursor did not come from a listing", field="cursor") from None


def _written_without_spaces(char: str) -> bool:
    """Thai to Khmer, kana, Han and their neighbours; Korean has spaces but inflects at the end."""
    return "\u0e00" <= char <= "\u0eff" or "\u1780" <= char <= "\u17ff" or char >= "\u2e80"
