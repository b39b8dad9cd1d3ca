"""Reading: work for the readers' connections."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import orjson

from openclaw.sessions.model import (
    PROGRAM_KEYS,
    Document,
    Entry,
    Hit,
    Page,
    SessionInfo,
    SessionRef,
    Turn,
    TurnState,
    decode,
)
from openclaw.sessions.rows import (
    ENTRY_COLUMNS,
    INFO_COLUMNS,
    containing,
    entries_from,
    found_row,
    hit_from,
    info_from,
    page_from,
    parsed_cursor,
    unanswered,
    without_spaces,
)


def row_of(connection: sqlite3.Connection, session: SessionRef) -> int:
    found = connection.execute("SELECT row FROM sessions WHERE id = ?", (session.id,)).fetchone()
    return found_row(None if found is None else found[0], session)


def find_exact(connection: sqlite3.Connection, agent: str, key: str) -> SessionRef | None:
    found = connection.execute(
        "SELECT id, agent, key FROM sessions WHERE agent = ? AND key = ?", (agent, key)
    ).fetchone()
    return None if found is None else SessionRef(*found)


def find(connection: sqlite3.Connection, key: str, agent: str | None) -> list[SessionInfo]:
    rows = connection.execute(
        f"SELECT {INFO_COLUMNS} FROM sessions s WHERE (key = ?1 OR id = ?1)"  # noqa: S608 - ours
        " AND (?2 IS NULL OR agent = ?2) ORDER BY agent, key",
        (key, agent),
    )
    return [info_from(row) for row in rows]


def show(connection: sqlite3.Connection, session: SessionRef) -> SessionInfo:
    row = row_of(connection, session)
    return info_from(
        connection.execute(
            f"SELECT {INFO_COLUMNS} FROM sessions s WHERE row = ?",  # noqa: S608 - constant names
            (row,),
        ).fetchone()
    )


def list_sessions(
    connection: sqlite3.Connection,
    agent: str | None,
    limit: int | None,
    cursor: str | None,
    search: str | None,
    conversations: bool,
) -> Page:
    conditions = ["key NOT GLOB ?"] * len(PROGRAM_KEYS) if conversations else []
    values: list[Any] = [f"{prefix}*" for prefix in PROGRAM_KEYS] if conversations else []
    if agent is not None:
        conditions.append("agent = ?")
        values.append(agent)
    if search:
        conditions.append("(key LIKE ? ESCAPE '\\' OR title LIKE ? ESCAPE '\\')")
        values += [containing(search)] * 2
    if cursor is not None:
        conditions.append("(updated_ms, row) < (?, ?)")
        values += parsed_cursor(cursor)
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    rows = connection.execute(
        f"SELECT {INFO_COLUMNS}, row FROM sessions s {where}"  # noqa: S608 - constant names
        " ORDER BY updated_ms DESC, row DESC LIMIT ?",
        (*values, -1 if limit is None else limit + 1),
    ).fetchall()
    return page_from(rows, limit)


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
    return unanswered(entries)


def documents(
    connection: sqlite3.Connection, kind: str, ids: Sequence[str] | None, limit: int
) -> list[Document]:
    rows = connection.execute(
        "SELECT id, rev, data FROM documents WHERE kind = ?1 AND (?2 IS NULL"
        " OR id IN (SELECT value FROM json_each(?2))) ORDER BY written_ms DESC, id LIMIT ?3",
        (kind, None if ids is None else orjson.dumps(list(ids)).decode(), limit),
    )
    return [Document(id, rev, decode(data)) for id, rev, data in rows]


def search(connection: sqlite3.Connection, text: str, agent: str | None, limit: int) -> list[Hit]:
    words = text.split()
    if not words:
        return []
    if without_spaces(text):
        return _search_parts(connection, words, agent, limit)
    rows = connection.execute(
        f"SELECT {INFO_COLUMNS}, e.seq, e.kind, e.at_ms, e.text"  # noqa: S608 - constant names
        " FROM words JOIN entries e ON e.row = words.rowid JOIN sessions s ON s.row = e.session"
        " WHERE words MATCH ?1 AND (?2 IS NULL OR s.agent = ?2) ORDER BY rank LIMIT ?3",
        (" ".join(_quoted(word) for word in words), agent, limit),
    )
    return [hit_from(row, text) for row in rows]


def _search_parts(
    connection: sqlite3.Connection, words: list[str], agent: str | None, limit: int
) -> list[Hit]:
    """For scripts without spaces between words, which the index cannot cut: the newest first."""
    conditions = " AND ".join("e.text LIKE ? ESCAPE '\\'" for _ in words)
    rows = connection.execute(
        f"SELECT {INFO_COLUMNS}, e.seq, e.kind, e.at_ms, e.text"  # noqa: S608 - constant names
        " FROM entries e JOIN sessions s ON s.row = e.session"
        f" WHERE {conditions} AND (? IS NULL OR s.agent = ?) ORDER BY e.row DESC LIMIT ?",
        (*map(containing, words), agent, agent, limit),
    )
    return [hit_from(row, " ".join(words)) for row in rows]


def _entries(
    connection: sqlite3.Connection, row: int, condition: str, values: tuple[Any, ...]
) -> list[Entry]:
    rows = connection.execute(
        f"SELECT {ENTRY_COLUMNS} FROM entries WHERE session = ? AND {condition}",  # noqa: S608 - ours
        (row, *values),
    )
    return entries_from(rows)


def _quoted(word: str) -> str:
    """A word as FTS5 takes it literally, matching also longer words that begin so."""
    doubled = word.replace('"', '""')
    return f'"{doubled}"*'
