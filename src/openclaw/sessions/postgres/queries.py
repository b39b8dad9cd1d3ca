"""Reading: statements that change nothing."""

import hashlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from openclaw.sessions.model import (
    PROGRAM_KEYS,
    Entry,
    Hit,
    Page,
    SessionInfo,
    SessionRef,
    Turn,
    TurnState,
)
from openclaw.sessions.rows import (
    ENTRY_COLUMNS,
    INFO_COLUMNS,
    bare,
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

if TYPE_CHECKING:
    from openclaw.sessions.postgres.pool import Connection

_WORD = re.compile(r"\w+")

_LONGEST_WORD_BYTES = 255
_MOST_BYTES = 256 * 1024
"""What is indexed of one text at most: PostgreSQL refuses a megabyte of them."""


def words_of(text: str) -> list[str]:
    """The words of `text`, each once, without case and accents, in the order of the text."""
    found: list[str] = []
    size = 0
    for word in dict.fromkeys(_WORD.findall(bare(text))):
        length = len(word.encode())
        size += length
        if size > _MOST_BYTES:
            break
        if length <= _LONGEST_WORD_BYTES:
            found.append(word)
    return found


def as_vector(text: str) -> str | None:
    """The words of `text` as PostgreSQL reads a `tsvector`; None where there is none."""
    return " ".join(words_of(text)) or None


def as_query(text: str) -> str | None:
    """What finds every word of `text`, or one that begins so; None where nothing is asked."""
    return " & ".join(f"{word}:*" for word in words_of(text)) or None


_DIGEST_BYTES = 16


def key_digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=_DIGEST_BYTES).digest()


def name_digest(agent: str, key: str) -> bytes:
    """What a session is looked up by; a key holds no NUL, so that two names never coincide."""
    return key_digest(f"{agent}\0{key}")


async def row_of(connection: "Connection", session: SessionRef) -> int:
    row = await connection.fetchval("SELECT row FROM sessions WHERE id = $1", session.id)
    return found_row(row, session)


async def find_exact(connection: "Connection", agent: str, key: str) -> SessionRef | None:
    found = await connection.fetchval(
        "SELECT id FROM sessions WHERE name_digest = $1", name_digest(agent, key)
    )
    return None if found is None else SessionRef(found, agent, key)


async def find(connection: "Connection", key: str, agent: str | None) -> list[SessionInfo]:
    rows = await connection.fetch(
        f"SELECT {INFO_COLUMNS} FROM sessions s WHERE (key_digest = $1 OR id = $2)"  # noqa: S608 - ours
        " AND ($3::text IS NULL OR agent = $3)",
        key_digest(key),
        key,
        agent,
    )
    return sorted((info_from(row) for row in rows), key=lambda info: (info.agent, info.key))


async def show(connection: "Connection", session: SessionRef) -> SessionInfo:
    found = await connection.fetchrow(
        f"SELECT {INFO_COLUMNS} FROM sessions s WHERE id = $1",  # noqa: S608 - constant names
        session.id,
    )
    found_row(None if found is None else 0, session)
    return info_from(found or ())


async def list_sessions(
    connection: "Connection",
    agent: str | None,
    limit: int | None,
    cursor: str | None,
    search: str | None,
    conversations: bool,
) -> Page:
    conditions: list[str] = []
    values: list[Any] = []

    def given(value: Any) -> str:
        values.append(value)
        return f"${len(values)}"

    if agent is not None:
        conditions.append(f"agent = {given(agent)}")
    if conversations:
        begins = given([f"{prefix}%" for prefix in PROGRAM_KEYS])
        conditions.append(f"key NOT LIKE ALL ({begins}::text[])")
    if search:
        pattern = given(containing(search))
        conditions.append(f"(key ILIKE {pattern} OR title ILIKE {pattern})")
    if cursor is not None:
        updated, row = parsed_cursor(cursor)
        conditions.append(f"(updated_ms, row) < ({given(updated)}, {given(row)})")
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    most = given(None if limit is None else limit + 1)
    rows = await connection.fetch(
        f"SELECT {INFO_COLUMNS}, row FROM sessions s {where}"  # noqa: S608 - constant names
        f" ORDER BY updated_ms DESC, row DESC LIMIT {most}",
        *values,
    )
    return page_from(rows, limit)


async def history(
    connection: "Connection", session: SessionRef, since_compaction: bool
) -> list[Entry]:
    found = await connection.fetchrow(
        "SELECT row, summary_seq, summarised FROM sessions WHERE id = $1", session.id
    )
    row = found_row(None if found is None else found["row"], session)
    summary, through = (0, 0) if found is None else (found["summary_seq"], found["summarised"])
    if not since_compaction or not summary:
        return await _entries(connection, row, "seq > 0 ORDER BY seq")
    return await _entries(
        connection,
        row,
        "(seq = $2 OR (seq > $3 AND kind <> 'compaction')) ORDER BY seq <> $2, seq",
        summary,
        through,
    )


async def entries_after(
    connection: "Connection", session: SessionRef, after: int, limit: int
) -> list[Entry]:
    row = await row_of(connection, session)
    return await _entries(connection, row, "seq > $2 ORDER BY seq LIMIT $3", after, limit)


async def unfinished_turns(connection: "Connection", session: SessionRef) -> list[Turn]:
    row = await row_of(connection, session)
    return await _turns(connection, row, "state IN ('running', 'lost') ORDER BY first_seq")


async def find_turn(connection: "Connection", session: SessionRef, turn: str) -> Turn | None:
    row = await row_of(connection, session)
    return next(iter(await _turns(connection, row, "id = $2", turn)), None)


async def running_turns(connection: "Connection", row: int) -> list[Turn]:
    return await _turns(connection, row, "state = 'running' ORDER BY first_seq")


async def _turns(connection: "Connection", row: int, condition: str, *values: Any) -> list[Turn]:
    rows = await connection.fetch(
        "SELECT id, state, started_ms, finished_ms, first_seq FROM turns"  # noqa: S608 - ours
        f" WHERE session = $1 AND {condition}",
        row,
        *values,
    )
    return [
        Turn(
            found["id"],
            TurnState(found["state"]),
            found["started_ms"],
            found["finished_ms"],
            await _open_calls(connection, row, found["id"], found["first_seq"]),
        )
        for found in rows
    ]


async def _open_calls(
    connection: "Connection", row: int, turn: str, first: int
) -> tuple[Entry, ...]:
    entries = await _entries(
        connection,
        row,
        "seq >= $2 AND turn = $3 AND kind IN ('tool_call', 'tool_result') ORDER BY seq",
        first,
        turn,
    )
    return unanswered(entries)


async def search(connection: "Connection", text: str, agent: str | None, limit: int) -> list[Hit]:
    if without_spaces(text):
        # Scripts that no index can cut into words: the newest first.
        condition = " AND ".join(f"e.text ILIKE ${number + 3}" for number, _ in _numbered(text))
        values = [containing(word) for _, word in _numbered(text)]
        order = "e.at_ms DESC"
    elif (query := as_query(text)) is not None:
        condition, values = "e.words @@ $3::text::tsquery", [query]
        order = "ts_rank(e.words, $3::text::tsquery) DESC, e.at_ms DESC"
    else:
        return []
    rows = await connection.fetch(
        f"SELECT {INFO_COLUMNS}, e.seq AS number, e.kind, e.at_ms, e.text"  # noqa: S608 - constant names
        " FROM entries e JOIN sessions s ON s.row = e.session"
        f" WHERE {condition} AND ($1::text IS NULL OR s.agent = $1) ORDER BY {order} LIMIT $2",
        agent,
        limit,
        *values,
    )
    return [hit_from(row, text) for row in rows]


def _numbered(text: str) -> Sequence[tuple[int, str]]:
    return list(enumerate(text.split()))


async def _entries(connection: "Connection", row: int, condition: str, *values: Any) -> list[Entry]:
    rows = await connection.fetch(
        f"SELECT {ENTRY_COLUMNS} FROM entries WHERE session = $1 AND {condition}",  # noqa: S608 - ours
        row,
        *values,
    )
    return entries_from(rows)
