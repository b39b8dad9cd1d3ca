"""Writing a transcript: each write is one statement, and so a transaction by itself.

A statement only writes if the session still has the epoch, which a takeover raises, and ends at the
number that the lane saw last. So a write can be sent again if the connection broke during its commit.
"""

import re
from collections.abc import Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from openclaw.sessions.model import Encoded, storable
from openclaw.sessions.queries import bare
from openclaw.sessions.store import Grant, LaneLost, StoreUnavailable, Write

if TYPE_CHECKING:
    from openclaw.sessions.postgres.pool import Connection

# The database's own time, which is the same for every gateway.
NOW_MS = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"

# $1 row, $2 epoch, $3 last number, $4 entries, $5 messages, $6 time, $7 turn; then the entries.
_ADVANCE = f"""
WITH lane AS (
  UPDATE sessions SET seq = seq + $4, messages = messages + $5,
    updated_ms = greatest(updated_ms, coalesce($6::bigint, {NOW_MS})){{more}}
  WHERE row = $1 AND epoch = $2 AND seq = $3 AND {{condition}}
  RETURNING coalesce($6::bigint, {NOW_MS}) AS now_ms
), added AS (
  INSERT INTO entries (session, seq, turn, kind, at_ms, call_id, text, data, details, words)
  SELECT $1, $3 + e.number, $7, e.kind, lane.now_ms, e.call_id, e.text, e.data, e.details,
    e.words::tsvector
  FROM lane, unnest($8::text[], $9::text[], $10::text[], $11::bytea[], $12::bytea[], $13::text[])
    WITH ORDINALITY AS e (kind, call_id, text, data, details, words, number)
){{parts}}
SELECT now_ms FROM lane
"""  # noqa: S608 - constants
_RUNNING = "EXISTS (SELECT FROM turns WHERE session = $1 AND id = $7 AND state = 'running')"

_WHERE_RUNNING = f"($7::text IS NULL OR {_RUNNING})"

_STATEMENTS = {
    "begin": _ADVANCE.format(
        more="",
        condition="NOT EXISTS"
        " (SELECT FROM turns WHERE session = $1 AND (id = $7 OR state = 'running'))",
        parts=""", turn AS (
  INSERT INTO turns (session, id, state, started_ms, first_seq)
  SELECT $1, $7, 'running', lane.now_ms, $3 + 1 FROM lane
)""",
    ),
    "resume": _ADVANCE.format(
        more="",
        condition="EXISTS (SELECT FROM turns WHERE session = $1 AND id = $7 AND state = 'lost')"
        " AND NOT EXISTS (SELECT FROM turns WHERE session = $1 AND state = 'running')",
        parts=""", turn AS (
  UPDATE turns SET state = 'running', finished_ms = NULL FROM lane
  WHERE session = $1 AND id = $7
)""",
    ),
    "append": _ADVANCE.format(more="", condition=_WHERE_RUNNING, parts=""),
    "compact": _ADVANCE.format(
        more=", summary_seq = seq + $4, summarised = $14",
        condition=f"{_WHERE_RUNNING} AND $14::bigint BETWEEN summarised AND seq",
        parts=""", forgotten AS (
  UPDATE entries SET details = NULL FROM lane
  WHERE session = $1 AND entries.seq <= $14 AND entries.details IS NOT NULL
)""",
    ),
    "finish": _ADVANCE.format(
        more=""", input_tokens = input_tokens + $15, output_tokens = output_tokens + $16,
    cache_read_tokens = cache_read_tokens + $17, cache_write_tokens = cache_write_tokens + $18,
    requests = requests + $19, tool_calls = tool_calls + $20""",
        condition=_RUNNING,
        parts=""", ended AS (
  UPDATE turns SET state = $14, finished_ms = lane.now_ms FROM lane
  WHERE session = $1 AND id = $7
)""",
    ),
}


_WORD = re.compile(r"\w+")

_LONGEST_WORD_BYTES = 255
_MOST_BYTES = 256 * 1024  # how much of a text is indexed: PostgreSQL refuses a megabyte


def words_of(text: str) -> list[str]:
    """The words of `text`, each once, without case and accents, in order."""
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
    return " ".join(words_of(text)) or None


def as_query(text: str) -> str | None:
    return " & ".join(f"{word}:*" for word in words_of(text)) or None


def _values(write: Write, now_ms: int | None) -> list[Any]:
    entries = write.entries
    values: list[Any] = [
        len(entries),
        write.messages,
        now_ms,
        None if write.turn is None else storable(write.turn),
        *columns(entries),
    ]
    if write.step == "compact":
        values.append(write.through)
    if write.outcome is not None:
        values += [str(write.outcome), *astuple(write.usage)]
    return values


def columns(entries: Sequence[Encoded]) -> list[list[Any]]:
    """Kind, call, text, data, details and words of entries, as arrays for `unnest`."""
    return [
        [str(entry.kind) for entry in entries],
        [None if entry.call_id is None else storable(entry.call_id) for entry in entries],
        [entry.text for entry in entries],
        [entry.data for entry in entries],
        [entry.details for entry in entries],
        [as_vector(entry.text) for entry in entries],
    ]


async def commit(connection: "Connection", at: Grant, write: Write, now_ms: int | None) -> bool:
    """Write it; false if an earlier try, whose connection broke, has done so already.

    Without `now_ms`, the time is the database's.
    """
    statement, values = _STATEMENTS[write.step], _values(write, now_ms)
    if await connection.fetchval(statement, at.row, at.epoch, at.seq, *values) is not None:
        return True
    if await was_written(connection, at, len(write.entries)):
        return False
    rows = await connection.fetch(
        "SELECT id, state FROM turns WHERE session = $1 AND (id = $2 OR state = 'running')",
        at.row,
        None if write.turn is None else storable(write.turn),
    )
    states: dict[str, str] = {row["id"]: row["state"] for row in rows}
    running = next((name for name, state in states.items() if state == "running"), None)
    raise write.refusal(states.get(write.turn or ""), running) or write.not_summarised()


async def was_written(connection: "Connection", at: Grant, count: int) -> bool:
    """Whether so many entries after this position are there already. Raises `LaneLost`."""
    found = await connection.fetchrow("SELECT epoch, seq FROM sessions WHERE row = $1", at.row)
    if found is None:
        raise LaneLost("it was deleted")
    if found["epoch"] != at.epoch:
        raise LaneLost("another process took it over")
    if found["seq"] < at.seq:
        raise StoreUnavailable("the session lost entries that were on disk")
    if found["seq"] not in (at.seq, at.seq + count):
        raise StoreUnavailable("the session was written by somebody who did not hold it")
    return count > 0 and found["seq"] == at.seq + count
