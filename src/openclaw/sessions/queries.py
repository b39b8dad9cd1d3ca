"""What both databases do alike, in statements that both understand.

The statements are in PostgreSQL's spelling. SQLite runs the same functions in the thread that has
the connection (`sqlite.connections.at_once`), where none of them ever waits.
"""

from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Literal, Protocol, TypeVar

from openclaw.sessions.copying import Dossier, TurnRecord
from openclaw.sessions.model import (
    PROGRAM_KEYS,
    Entry,
    Page,
    SessionInfo,
    SessionRef,
    Turn,
    TurnState,
    checked_title,
    storable,
)
from openclaw.sessions.rows import (
    ENTRY_COLUMNS,
    INFO_COLUMNS,
    containing,
    entries_from,
    found_row,
    info_from,
    page_from,
    parsed_cursor,
    unanswered,
)
from openclaw.sessions.store import DEFAULT_LIMIT

T = TypeVar("T")
_ALL = 2**62  # a LIMIT that cuts nothing off
_TURN_COLUMNS = "id, state, started_ms, finished_ms, first_seq"


class Statements(Protocol):
    async def fetch(self, query: str, /, *args: Any) -> Sequence[Iterable[Any]]: ...
    async def fetchrow(self, query: str, /, *args: Any) -> Iterable[Any] | None: ...
    async def fetchval(self, query: str, /, *args: Any) -> Any: ...
    async def execute(self, query: str, /, *args: Any) -> Any: ...
    async def executemany(self, command: str, args: Iterable[Sequence[Any]], /) -> None: ...


class SqlStore:
    """The part of a store that both databases do alike."""

    like: Literal["LIKE", "ILIKE"]  # whichever ignores case

    async def _read(self, work: Callable[[Statements], Coroutine[Any, Any, T]]) -> T:
        raise NotImplementedError

    async def _write(self, work: Callable[[Statements], Coroutine[Any, Any, T]]) -> T:
        raise NotImplementedError

    async def history(self, session: SessionRef, *, since_compaction: bool = True) -> list[Entry]:
        return await self._read(lambda db: history(db, session, since_compaction))

    async def entries(
        self, session: SessionRef, *, after: int = 0, limit: int = DEFAULT_LIMIT
    ) -> list[Entry]:
        return await self._read(lambda db: entries_after(db, session, after, limit))

    async def find_turn(self, session: SessionRef, turn: str) -> Turn | None:
        return await self._read(lambda db: find_turn(db, session, storable(turn)))

    async def unfinished_turns(self, session: SessionRef) -> list[Turn]:
        return await self._read(lambda db: unfinished_turns(db, session))

    async def list_sessions(
        self,
        agent: str | None = None,
        *,
        limit: int | None = DEFAULT_LIMIT,
        cursor: str | None = None,
        search: str | None = None,
        conversations: bool = False,
    ) -> Page:
        sql, values = listing(self.like, agent, conversations, search, cursor, limit)
        return page_from(await self._read(lambda db: db.fetch(sql, *values)), limit)

    async def count_sessions(self) -> int:
        return await self._read(lambda db: db.fetchval("SELECT count(*) FROM sessions"))

    async def show(self, session: SessionRef) -> SessionInfo:
        return await self._read(lambda db: show(db, session))

    async def set_title(self, session: SessionRef, title: str | None) -> None:
        line = checked_title(title)
        rename = "UPDATE sessions SET title = $2 WHERE id = $1 RETURNING row"
        found_row(await self._write(lambda db: db.fetchval(rename, session.id, line)), session)


async def row_of(db: Statements, session: SessionRef) -> int:
    return found_row(
        await db.fetchval("SELECT row FROM sessions WHERE id = $1", session.id), session
    )


async def show(db: Statements, session: SessionRef) -> SessionInfo:
    found = await db.fetchrow(
        f"SELECT {INFO_COLUMNS} FROM sessions s WHERE id = $1",  # noqa: S608 - constant names
        session.id,
    )
    found_row(None if found is None else 0, session)
    return info_from(found or ())


def listing(
    like: str,
    agent: str | None,
    conversations: bool,
    search: str | None,
    cursor: str | None,
    limit: int | None,
) -> tuple[str, list[Any]]:
    """The statement that lists these sessions, one more than `limit`, and the values in it."""
    values: list[Any] = []
    conditions: list[str] = []

    def given(value: Any) -> str:
        values.append(value)
        return f"${len(values)}"

    if agent is not None:
        conditions.append(f"agent = {given(agent)}")
    if conversations:
        conditions += [f"substr(key, 1, {len(one)}) <> {given(one)}" for one in PROGRAM_KEYS]
    if search:
        pattern = given(containing(storable(search)))
        either = (f"{column} {like} {pattern} ESCAPE '\\'" for column in ("key", "title"))
        conditions.append(f"({' OR '.join(either)})")
    if cursor is not None:
        updated, row = map(given, parsed_cursor(cursor))
        conditions.append(f"(updated_ms, row) < ({updated}, {row})")
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    most = given(_ALL if limit is None else limit + 1)
    columns = f"{INFO_COLUMNS}, row"
    order = "ORDER BY updated_ms DESC, row DESC"
    return f"SELECT {columns} FROM sessions s {where} {order} LIMIT {most}", values  # noqa: S608 - ours


async def _summary(db: Statements, session: SessionRef) -> tuple[int, int, int]:
    found = await db.fetchrow(
        "SELECT row, summary_seq, summarised FROM sessions WHERE id = $1", session.id
    )
    row, summary, through = found or (None, 0, 0)
    return found_row(row, session), summary, through


async def history(db: Statements, session: SessionRef, since_compaction: bool) -> list[Entry]:
    row, summary, through = await _summary(db, session)
    if not since_compaction or not summary:
        return await _entries(db, row, "seq > 0 ORDER BY seq")
    condition = "(seq = $2 OR (seq > $3 AND kind <> 'compaction')) ORDER BY seq <> $2, seq"
    return await _entries(db, row, condition, summary, through)


async def entries_after(db: Statements, session: SessionRef, after: int, limit: int) -> list[Entry]:
    row = await row_of(db, session)
    return await _entries(db, row, "seq > $2 ORDER BY seq LIMIT $3", after, limit)


async def unfinished_turns(db: Statements, session: SessionRef) -> list[Turn]:
    row = await row_of(db, session)
    return await _turns(db, row, "state IN ('running', 'lost') ORDER BY first_seq")


async def find_turn(db: Statements, session: SessionRef, turn: str) -> Turn | None:
    row = await row_of(db, session)
    return next(iter(await _turns(db, row, "id = $2", turn)), None)


async def running_turns(db: Statements, row: int) -> list[Turn]:
    return await _turns(db, row, "state = 'running' ORDER BY first_seq")


async def dossier(db: Statements, session: SessionRef) -> Dossier:
    row, summary, through = await _summary(db, session)
    turns = await db.fetch(
        f"SELECT {_TURN_COLUMNS} FROM turns WHERE session = $1",  # noqa: S608 - constant names
        row,
    )
    records = [TurnRecord(id, TurnState(state), *rest) for id, state, *rest in turns]
    ordered = sorted(records, key=lambda turn: (turn.first_seq, turn.id))
    stored = await db.fetchval("SELECT count(*) FROM entries WHERE session = $1", row)
    return Dossier(await show(db, session), summary, through, tuple(ordered), stored)


async def receive_dossier(db: Statements, dossier: Dossier) -> None:
    """In a transaction."""
    info = dossier.info
    row = await row_of(db, info.ref)
    await db.execute(
        "UPDATE sessions SET title = $2, created_ms = $3, updated_ms = $4, messages = $5,"
        " input_tokens = $6, output_tokens = $7, cache_read_tokens = $8, cache_write_tokens = $9,"
        " requests = $10, tool_calls = $11, summary_seq = $12, summarised = $13 WHERE row = $1",
        row,
        *info[3:7],
        *info[8:],
        dossier.summary_seq,
        dossier.summarised,
    )
    await db.execute(
        "UPDATE entries SET details = NULL"
        " WHERE session = $1 AND seq <= $2 AND details IS NOT NULL",
        row,
        dossier.summarised,
    )
    await db.executemany(
        "INSERT INTO turns (session, id, state, started_ms, finished_ms, first_seq)"
        " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (session, id) DO UPDATE"
        " SET state = excluded.state, finished_ms = excluded.finished_ms",
        [
            (row, one.id, str(one.state), one.started_ms, one.finished_ms, one.first_seq)
            for one in dossier.turns
        ],
    )


async def _turns(db: Statements, row: int, condition: str, *values: Any) -> list[Turn]:
    rows = await db.fetch(
        f"SELECT {_TURN_COLUMNS} FROM turns WHERE session = $1 AND {condition}",  # noqa: S608 - ours
        row,
        *values,
    )
    return [
        Turn(id, TurnState(state), began, ended, await _open_calls(db, row, id, first))
        for id, state, began, ended, first in rows
    ]


async def _open_calls(db: Statements, row: int, turn: str, first: int) -> tuple[Entry, ...]:
    condition = "seq >= $2 AND turn = $3 AND kind IN ('tool_call', 'tool_result') ORDER BY seq"
    return unanswered(await _entries(db, row, condition, first, turn))


async def _entries(db: Statements, row: int, condition: str, *values: Any) -> list[Entry]:
    rows = await db.fetch(
        f"SELECT {ENTRY_COLUMNS} FROM entries WHERE session = $1 AND {condition}",  # noqa: S608 - ours
        row,
        *values,
    )
    return entries_from(rows)
