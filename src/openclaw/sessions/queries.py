"""Statements for both databases, in PostgreSQL's syntax, and how to read their rows.

SQLite runs the functions in the connection's thread, where they never wait (`at_once`).
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from openclaw.content.frame import unframed_in_place
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.sessions.records import (
    PROGRAM_KEYS,
    CopyConflict,
    Entry,
    EntryKind,
    Hit,
    Page,
    SessionDetails,
    SessionInfo,
    SessionRef,
    Turn,
    TurnState,
    decode,
    encode,
    storable,
)

T = TypeVar("T")

INFO_COLUMNS = (
    "s.id, s.agent, s.key, s.title, s.created_ms, s.updated_ms, s.messages, s.seq, s.input_tokens,"
    " s.output_tokens, s.cache_read_tokens, s.cache_write_tokens, s.requests, s.tool_calls"
)
ENTRY_COLUMNS = "seq, turn, kind, at_ms, data, text, call_id, details"
_INFO_WIDTH = len(SessionInfo._fields)


def existing(row: T | None, session: SessionRef) -> T:
    """The row that was read; `NotFound` if the session doesn't exist."""
    if row is None:
        raise NotFound(f"there is no session '{session.key}' of agent '{session.agent}'")
    return row


def info_from(row: Iterable[Any]) -> SessionInfo:
    return SessionInfo._make(tuple(row)[:_INFO_WIDTH])


def hit_from(row: Iterable[Any], wanted: str) -> Hit:
    *_, seq, kind, at_ms, text = values = tuple(row)
    return Hit(info_from(values), seq, EntryKind(kind), at_ms, snippet(text, wanted))


def without_spaces(text: str) -> bool:
    """Whether words aren't separate: Thai to Khmer, kana, Han, and Korean, which inflects."""
    return any(
        "\u0e00" <= char <= "\u0eff" or "\u1780" <= char <= "\u17ff" or char >= "\u2e80"
        for char in text
    )


def containing(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


_WORD = re.compile(r"\w+")
_BEFORE = 40
_CHARS = 160
_LONGEST_WORD = 20  # longer ones are cut


def bare(text: str) -> str:
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in plain if not unicodedata.combining(char))


def snippet(text: str, wanted: str) -> str:
    """The part of `text` around the first of the `wanted` words, without any frame."""
    body = " ".join(unframed_in_place(text).split())
    at = min(_place(bare(body), bare(wanted)), len(body))
    start = max(0, at - _BEFORE)
    end = start + _CHARS
    if start and (blank := body.find(" ", start - 1, start + _LONGEST_WORD)) >= 0:
        start = blank + 1
    if end < len(body) and (blank := body.rfind(" ", end - _LONGEST_WORD, end + 1)) >= 0:
        end = blank
    return f"{'…' if start else ''}{body[start:end]}{'…' if end < len(body) else ''}"


def _place(text: str, wanted: str) -> int:
    words = _WORD.findall(wanted)
    begun = (re.search(rf"\b{re.escape(word)}", text) for word in words)
    places = [match.start() for match in begun if match is not None]
    return min(places or [place for word in words if (place := text.find(word)) >= 0] or [0])


_ALL = 2**62  # a LIMIT that cuts nothing off
_TURN_COLUMNS = "id, state, started_ms, finished_ms, first_seq"


class Statements(Protocol):
    async def fetch(self, query: str, /, *args: Any) -> Sequence[Iterable[Any]]: ...
    async def fetchrow(self, query: str, /, *args: Any) -> Iterable[Any] | None: ...
    async def fetchval(self, query: str, /, *args: Any) -> Any: ...
    async def execute(self, query: str, /, *args: Any) -> Any: ...
    async def executemany(self, command: str, args: Iterable[Sequence[Any]], /) -> None: ...


async def row_of(db: Statements, session: SessionRef, lock: str = "") -> int:
    query = f"SELECT row FROM sessions WHERE id = $1{lock}"  # noqa: S608 - ours
    return existing(await db.fetchval(query, session.id), session)


async def show(db: Statements, session: SessionRef) -> SessionInfo:
    query = f"SELECT {INFO_COLUMNS} FROM sessions s WHERE id = $1"  # noqa: S608 - constant names
    return info_from(existing(await db.fetchrow(query, session.id), session))


async def page(
    db: Statements,
    like: str,
    agent: str | None,
    conversations: bool,
    search: str | None,
    cursor: str | None,
    limit: int | None,
) -> Page:
    values: list[Any] = []
    conditions: list[str] = []

    def parameter(value: Any) -> str:
        values.append(value)
        return f"${len(values)}"

    if agent is not None:
        conditions.append(f"agent = {parameter(agent)}")
    if conversations:
        conditions += [f"substr(key, 1, {len(one)}) <> {parameter(one)}" for one in PROGRAM_KEYS]
    if search:
        pattern = parameter(containing(storable(search)))
        either = (f"{column} {like} {pattern} ESCAPE '\\'" for column in ("key", "title"))
        conditions.append(f"({' OR '.join(either)})")
    if cursor is not None:
        try:
            updated, row = map(int, cursor.split("."))
        except ValueError:
            message = "this cursor did not come from a listing"
            raise InvalidRequest(message, field="cursor") from None
        conditions.append(f"(updated_ms, row) < ({parameter(updated)}, {parameter(row)})")
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    most = parameter(_ALL if limit is None else limit + 1)  # one more, if there is a next page
    query = (
        f"SELECT {INFO_COLUMNS}, row FROM sessions s {where}"  # noqa: S608 - ours
        f" ORDER BY updated_ms DESC, row DESC LIMIT {most}"
    )
    rows = await db.fetch(query, *values)
    sessions = [info_from(row) for row in rows[:limit]]
    if not sessions or len(sessions) == len(rows):
        return Page(sessions, None)
    *_, last = rows[len(sessions) - 1]
    return Page(sessions, f"{sessions[-1].updated_ms}.{last}")


async def _summary(db: Statements, session: SessionRef) -> Iterable[Any]:
    query = "SELECT row, summary_seq, summarised FROM sessions WHERE id = $1"
    return existing(await db.fetchrow(query, session.id), session)


async def history(db: Statements, session: SessionRef, since_compaction: bool) -> list[Entry]:
    row, summary, through = await _summary(db, session)
    if not since_compaction or not summary:
        return await entries(db, row, "seq > 0 ORDER BY seq")
    condition = "(seq = $2 OR (seq > $3 AND kind <> 'compaction')) ORDER BY seq <> $2, seq"
    return await entries(db, row, condition, summary, through)


async def turns(db: Statements, row: int, condition: str, *values: Any) -> list[Turn]:
    """Turns with their unanswered calls."""
    found = await _turns(db, row, condition, *values)
    return [replace(one, open_calls=await _open_calls(db, row, one)) for one in found]


async def forget_details(db: Statements, row: int, through: int) -> None:
    query = "UPDATE entries SET details = NULL WHERE session = $1 AND seq <= $2"
    await db.execute(f"{query} AND details IS NOT NULL", row, through)


async def give_up_turns(db: Statements, row: int, now: str) -> int:
    """Mark running turns as lost: whoever began them no longer holds the session.

    Returns how many; each adds an entry.
    """
    lost = await turns(db, row, "state = 'running' ORDER BY first_seq")
    for turn in lost:
        seq = await db.fetchval(
            f"UPDATE sessions SET seq = seq + 1, updated_ms = CASE WHEN updated_ms < {now}"  # noqa: S608 - ours
            f" THEN {now} ELSE updated_ms END WHERE row = $1 RETURNING seq",
            row,
        )
        await db.execute(
            "INSERT INTO entries (session, seq, turn, kind, at_ms, text, data)"  # noqa: S608 - ours
            f" VALUES ($1, $2, $3, 'turn_lost', {now}, '', $4)",
            row,
            seq,
            turn.id,
            encode({"openCalls": [call.call_id for call in turn.open_calls]}),
        )
        given_up = f"UPDATE turns SET state = 'lost', finished_ms = {now}"  # noqa: S608 - ours
        await db.execute(f"{given_up} WHERE session = $1 AND id = $2", row, turn.id)
    return len(lost)


async def session_details(db: Statements, session: SessionRef) -> SessionDetails:
    row, summary, through = await _summary(db, session)
    turns = sorted(await _turns(db, row, "true"), key=lambda turn: (turn.first_seq, turn.id))
    return SessionDetails(await show(db, session), summary, through, tuple(turns))


async def store_session_details(db: Statements, details: SessionDetails) -> None:
    info = details.info
    row = await db.fetchval(
        "UPDATE sessions SET title = $2, created_ms = $3, updated_ms = $4, messages = $5,"
        " input_tokens = $7, output_tokens = $8, cache_read_tokens = $9, cache_write_tokens = $10,"
        " requests = $11, tool_calls = $12, summary_seq = $13, summarised = $14"
        " WHERE id = $1 AND seq = $6 RETURNING row",
        info.id,
        *info[3:],
        *(details.summary_seq, details.summarised),
    )
    if row is None:  # somebody added entries or deleted the session meanwhile
        raise CopyConflict("somebody else writes to the target's session")
    await forget_details(db, row, details.summarised)
    await db.executemany(
        "INSERT INTO turns (session, id, state, started_ms, finished_ms, first_seq)"
        " VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (session, id) DO UPDATE"
        " SET state = excluded.state, finished_ms = excluded.finished_ms",
        [
            (row, one.id, str(one.state), one.started_ms, one.finished_ms, one.first_seq)
            for one in details.turns
        ],
    )


async def _turns(db: Statements, row: int, condition: str, *values: Any) -> list[Turn]:
    rows = await db.fetch(
        f"SELECT {_TURN_COLUMNS} FROM turns WHERE session = $1 AND {condition}",  # noqa: S608 - ours
        row,
        *values,
    )
    return [Turn(id, TurnState(state), *rest) for id, state, *rest in rows]


async def _open_calls(db: Statements, row: int, turn: Turn) -> tuple[Entry, ...]:
    condition = "seq >= $2 AND turn = $3 AND kind IN ('tool_call', 'tool_result') ORDER BY seq"
    found = await entries(db, row, condition, turn.first_seq, turn.id)
    answered = {entry.call_id for entry in found if entry.kind is EntryKind.TOOL_RESULT}
    return tuple(
        entry
        for entry in found
        if entry.kind is EntryKind.TOOL_CALL and entry.call_id not in answered
    )


async def entries(db: Statements, row: int, condition: str, *values: Any) -> list[Entry]:
    rows = await db.fetch(
        f"SELECT {ENTRY_COLUMNS} FROM entries WHERE session = $1 AND {condition}",  # noqa: S608 - ours
        row,
        *values,
    )
    return [
        Entry(seq, turn, EntryKind(kind), at, decode(data), text, call, details and decode(details))
        for seq, turn, kind, at, data, text, call, details in rows
    ]
