"""Takes sessions, and notices when they are taken away.

A worker that got a session's next turn from a queue in the same database is `entitled`: it goes ahead
of those waiting, and takes the session from another entitled holder that the queue has given up on.
"""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from openclaw.core.clock import random_id
from openclaw.sessions import queries
from openclaw.sessions.lanes import (
    ADVANCE,
    BEATS_PER_LEASE,
    LaneGrant,
    LaneManager,
    LaneRequest,
    Write,
)
from openclaw.sessions.postgres.lease_thread import OwnLoop, run_on_thread
from openclaw.sessions.postgres.pool import RECONNECT_SECONDS, Database
from openclaw.sessions.queries import Statements, bare
from openclaw.sessions.records import Encoded, StoreError

if TYPE_CHECKING:
    import asyncpg

    from openclaw.sessions.postgres.pool import Connection

# The database's own time, which is the same for every gateway.
NOW_MS = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"

# A single statement, so one transaction and one round trip. After the values of `ADVANCE`:
# $15 the state that the turn has afterwards, if it changes, then the entries.
_ADD = f"""
WITH lane AS ({ADVANCE.format(now=NOW_MS)}), added AS (
  INSERT INTO entries (session, seq, turn, kind, at_ms, call_id, text, data, details, words)
  SELECT $1, $3 + e.number, $6, e.kind, now_ms, e.call_id, e.text, e.data, e.details,
    e.words::tsvector
  FROM lane, unnest($16::text[], $17::text[], $18::text[], $19::bytea[], $20::bytea[], $21::text[])
    WITH ORDINALITY AS e (kind, call_id, text, data, details, words, number)
), begun AS (
  INSERT INTO turns (session, id, state, started_ms, first_seq)
  SELECT $1, $6, $15::text, now_ms, $3 + 1 FROM lane WHERE $7 = '' AND $15 IS NOT NULL
), changed AS (
  UPDATE turns SET state = $15, finished_ms = CASE WHEN $15 <> 'running' THEN now_ms END
  FROM lane WHERE session = $1 AND id = $6 AND state <> $15
), forgotten AS (
  UPDATE entries SET details = NULL FROM lane
  WHERE session = $1 AND entries.seq <= $8 AND details IS NOT NULL
)
SELECT now_ms FROM lane
"""  # noqa: S608 - constants

_WORD = re.compile(r"\w+")

_LONGEST_WORD_BYTES = 255
_MOST_BYTES = 256 * 1024  # how much of a text is indexed: PostgreSQL's limit is a megabyte


def search_words(text: str) -> list[str]:
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
    return " ".join(search_words(text)) or None


def as_query(text: str) -> str | None:
    return " & ".join(f"{word}:*" for word in search_words(text)) or None


# ---- tickets
#
# To get a session, draw a ticket, under a lock on the session's row, so that the numbers are in
# order of arrival. The oldest live ticket holds the session. A ticket is dead
#
# - once its lease has expired, by the database's clock: its process is frozen, or cut off. If it
#   expired very long ago or ends far in the future, the clock was probably set, and the process
#   gets another lease's time to renew it;
# - once its owner's advisory lock has been free for `SUSPICION_SECONDS`: its process is gone, and
#   not just about to replace a lost connection.
#
# Neither counts within one lease after the server started: until then, everyone may reconnect.

OWNER_LOCKS = 0x4F43_4C57  # the first key of the advisory locks that live processes hold
CHANNEL = "openclaw_lanes"  # announces sessions that were left while others wait for them
SUSPICION_SECONDS = 1.0

# $1 row, $2 token, $3 owner, $4 entitled, $5 lease; taken at once if nobody else is there.
_DRAW = """
WITH drawn AS (
  INSERT INTO tickets (session, token, owner, entitled, expires, holding)
  SELECT $1, $2, $3, $4, clock_timestamp() + $5 * interval '1 s',
    NOT EXISTS (SELECT FROM tickets WHERE session = $1 AND token <> $2)
  ON CONFLICT (token) DO UPDATE
    SET owner = excluded.owner, expires = excluded.expires, holding = excluded.holding,
      missing_since = NULL
  RETURNING id, holding
), taken AS (
  UPDATE sessions SET epoch = epoch + 1 FROM drawn WHERE row = $1 AND drawn.holding
  RETURNING epoch, seq
)
SELECT drawn.id, taken.epoch, taken.seq,
  EXISTS (SELECT FROM turns WHERE session = $1 AND state = 'running') AS unfinished
FROM drawn LEFT JOIN taken ON true
"""

_SETTLED = "clock_timestamp() > pg_postmaster_start_time() + {lease} * interval '1 s'"
_GONE = f"pg_try_advisory_xact_lock_shared({OWNER_LOCKS}, owner)"
_EXPIRED = "expires BETWEEN clock_timestamp() - interval '1 h' AND clock_timestamp()"
_CLOCK_WAS_SET = (
    "expires NOT BETWEEN clock_timestamp() - interval '1 h' AND clock_timestamp() + interval '1 h'"
)

# $1 row, $2 id of the ticket, $3 owner, $4 entitled, $5 lease
_AHEAD = f"""
SELECT id, entitled AND $4 AS replaced, missing_since IS NOT NULL AS suspected,
  {_SETTLED.format(lease="$5")} AND {_EXPIRED} AS expired,
  missing_since <= clock_timestamp() - {SUSPICION_SECONDS} * interval '1 s' AS overdue,
  {_CLOCK_WAS_SET} AS misdated,
  missing_since <= clock_timestamp() - $5 * interval '1 s' AS never_renewed,
  {_SETTLED.format(lease="$5")} AND owner <> $3 AND {_GONE} AS gone
FROM tickets WHERE session = $1 AND id <> $2 AND (holding OR (id < $2 AND NOT $4))
"""  # noqa: S608 - constants


# $1 tokens, $2 owner, $3 lease
_RENEW = """
UPDATE tickets SET owner = $2, missing_since = NULL,
  expires = clock_timestamp() + $3 * interval '1 s'
WHERE token = ANY($1) RETURNING token
"""

# $1 token, $2 channel, $3 id of the session
_LEAVE = """
WITH gone AS (DELETE FROM tickets WHERE token = $1 RETURNING id, session)
SELECT set_config('synchronous_commit', 'off', true), (SELECT pg_notify($2, $3)
  WHERE EXISTS (SELECT FROM tickets t WHERE t.session = gone.session AND t.id <> gone.id))
FROM gone
"""


def _columns(one: Encoded) -> tuple[Any, ...]:
    return str(one.kind), one.call_id, one.text, one.data, one.details, as_vector(one.text)


async def _are_dead(db: "Connection", ahead: Sequence[Any]) -> bool:
    """Remove the dead ones of these tickets; true if all were dead."""
    dead = [
        one["id"]
        for one in ahead
        if one["replaced"]
        or one["expired"]
        or (one["gone"] and one["overdue"])
        or (one["misdated"] and one["never_renewed"])
    ]
    odd = {one["id"] for one in ahead if one["gone"] or one["misdated"]}
    doubted = [one["id"] for one in ahead if one["id"] in odd and not one["suspected"]]
    trusted = [one["id"] for one in ahead if one["id"] not in odd and one["suspected"]]
    if doubted or trusted:
        await db.execute(
            "UPDATE tickets SET missing_since = CASE WHEN id = ANY($1) THEN clock_timestamp() END"
            " WHERE id = ANY($1) OR id = ANY($2)",
            doubted,
            trusted,
        )
    if dead:
        await db.execute("DELETE FROM tickets WHERE id = ANY($1)", dead)
    return len(dead) == len(ahead)


class PostgresLanes(LaneManager):
    """Has its own connection, opened when the first lane is requested and again if it breaks.

    It uses it to hold an advisory lock, renew leases, and hear which sessions were left elsewhere,
    on a thread of its own: what blocks the event loop does not keep it from that.
    """

    look_seconds = (0.005, 0.25)  # in case a process dies or its notice is lost
    now = NOW_MS
    row_lock = " FOR NO KEY UPDATE"
    database: Database

    def __init__(self, database: Database, lease: float) -> None:
        super().__init__(database, lease)
        self._wanted = anyio.Event()
        self._known = anyio.Event()
        self._owner = 0

    async def _add(self, db: Statements, write: Write, values: Sequence[Any]) -> bool:
        columns = zip(*map(_columns, write.entries), strict=True)
        entries = list(map(list, columns)) or [[]] * 6
        return await db.fetchval(_ADD, *values, write.leaves, *entries) is not None

    async def insert_entries(
        self, db: Statements, row: int, entries: Iterable[tuple[int, str | None, int, Encoded]]
    ) -> None:
        await db.executemany(
            "INSERT INTO entries"
            " (session, seq, turn, at_ms, kind, call_id, text, data, details, words)"
            " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10::text::tsvector)",
            [(row, *at, *_columns(entry)) for *at, entry in entries],
        )

    async def is_held(self, db: Statements, row: int) -> bool:
        settled = _SETTLED.format(lease="$2::float8")
        query = (
            f"SELECT EXISTS (SELECT FROM tickets WHERE session = $1"  # noqa: S608 - constants
            f" AND NOT ({settled} AND ({_EXPIRED} OR {_GONE})))"
        )
        return await db.fetchval(query, row, self.lease)

    async def _try(self, place: LaneRequest) -> LaneGrant | None:
        owner = await self._present_as()
        place.wanted = place.wanted or random_id()  # the same if the transaction is tried again
        grant = await self.database.transact(lambda db: self._grant(db, place, owner))
        place.ticket = place.wanted  # it certainly exists now, so its loss can be noticed
        return grant

    async def _grant(self, db: "Connection", place: LaneRequest, owner: int) -> LaneGrant | None:
        """Take the session, in a transaction; None if a live process is ahead."""
        row = await queries.row_of(db, place.session, self.row_lock)
        drawn = await db.fetchrow(_DRAW, row, place.wanted, owner, place.entitled, self.lease)
        assert drawn is not None
        ticket, epoch, seq, unfinished = drawn
        if epoch is None:
            ahead = await db.fetch(_AHEAD, row, ticket, owner, place.entitled, self.lease)
            if not await _are_dead(db, ahead):
                return None
            await db.execute("UPDATE tickets SET holding = true WHERE id = $1", ticket)
            taken = await db.fetchrow(
                "UPDATE sessions SET epoch = epoch + 1 WHERE row = $1 RETURNING epoch, seq", row
            )
            assert taken is not None
            epoch, seq = taken
        lost = await queries.give_up_turns(db, row, self.now) if unfinished else 0
        return LaneGrant(row, epoch, seq + lost)

    async def _hand_in(self, place: LaneRequest) -> None:
        """Also wakes waiters in other processes.

        It need not reach the disk: nobody renews a ticket that comes back after a crash.
        """
        unfinished = place.lane.at if place.lane is not None and not place.lane.tidy else None

        async def leave(db: "Connection") -> None:
            if unfinished is not None:
                await self.give_up_turns(db, unfinished)
            await db.execute(_LEAVE, place.wanted, CHANNEL, place.session.id)

        if unfinished is not None:
            await self.database.transact(leave)
        elif place.wanted:
            await self.database.write(leave)

    async def _present_as(self) -> int:
        """Wait for this process's owner number, and return it."""
        self._wanted.set()
        with anyio.move_on_after(RECONNECT_SECONDS):
            await self._known.wait()
        if not self._known.is_set():
            raise StoreError(
                f"the session store on PostgreSQL ({self.database.place}) cannot be reached"
            )
        return self._owner

    async def run(self) -> None:
        await self._wanted.wait()
        trouble = "cannot renew the leases of this process's sessions in PostgreSQL"
        use = partial(self._be_present, OwnLoop())
        await run_on_thread(partial(self.database.stay_connected, use, trouble))

    async def _be_present(self, loop: OwnLoop, connection: "asyncpg.Connection[Any]") -> None:
        broken = anyio.Event()
        connection.add_termination_listener(lambda _: broken.set())
        await self._announce(loop, connection)
        while not broken.is_set():
            if not loop.is_stuck():
                await self._beat(loop, connection)
            with anyio.move_on_after(self.lease / BEATS_PER_LEASE):
                await broken.wait()

    async def _announce(self, loop: OwnLoop, connection: "asyncpg.Connection[Any]") -> None:
        """Take a number that nobody has: the previous one's lock may not be free yet."""
        lock, owner = "SELECT pg_try_advisory_lock($1, $2)", 0
        while not owner or not await connection.fetchval(lock, OWNER_LOCKS, owner):
            owner = await connection.fetchval("SELECT nextval('owners')::integer")
        await connection.add_listener(CHANNEL, partial(loop.call, self._on_notice))
        self._owner = owner
        loop.call(self._known.set)

    async def _beat(self, loop: OwnLoop, connection: "asyncpg.Connection[Any]") -> None:
        tickets = self.tickets()
        if not tickets:
            return
        with anyio.fail_after(self.lease / BEATS_PER_LEASE):  # a connection may die silently
            alive = await connection.fetch(_RENEW, tickets, self._owner, self.lease)
        loop.call(self.renewed, tickets, {row["token"] for row in alive})

    def _on_notice(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        line = self._lines.get(str(payload))
        if line is not None:
            line.wake()
