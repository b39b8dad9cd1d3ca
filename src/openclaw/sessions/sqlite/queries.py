"""Reading what SQLite keeps in its own way, and the shared queries in the thread that writes."""

import sqlite3
from collections.abc import Sequence

import orjson

from openclaw.sessions import queries
from openclaw.sessions.model import Document, Hit, SessionInfo, SessionRef, Turn, decode
from openclaw.sessions.rows import INFO_COLUMNS, containing, hit_from, info_from, without_spaces
from openclaw.sessions.sqlite.connections import Statements, at_once


def row_of(connection: sqlite3.Connection, session: SessionRef) -> int:
    return at_once(queries.row_of(Statements(connection), session))


def running_turns(connection: sqlite3.Connection, row: int) -> list[Turn]:
    return at_once(queries.running_turns(Statements(connection), row))


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


def _quoted(word: str) -> str:
    """A word as FTS5 takes it literally, matching also longer words that begin so."""
    doubled = word.replace('"', '""')
    return f'"{doubled}"*'
