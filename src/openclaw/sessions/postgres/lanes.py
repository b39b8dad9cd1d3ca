"""Taking a session, writing to it, and noticing when it was taken away.

A worker that a queue in the same database gave a session's next turn is `entitled`: it goes ahead of
those who wait, and takes the session from another entitled holder, whom the queue has given up.
`PostgresLane.on_finish` is called inside the transaction that ends the turn, so that what it does is
committed with the turn or not at all. If the connection breaks, it is called again in a new
transaction, but never for a turn that was committed.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio

from openclaw.core.clock import random_id
from openclaw.sessions import queries
from openclaw.sessions.model import Encoded, SessionRef, Turn, storable
from openclaw.sessions.postgres.pool import RECONNECT_SECONDS, Database
from openclaw.sessions.queries import Statements, bare, existing
from openclaw.sessions.store import (
    BEATS_PER_LEASE,
    Grant,
    Lane,
    LaneDesk,
    LaneLost,
    Place,
    StoreError,
    StoreUnavailable,
    Write,
)

if TYPE_CHECKING:
    import asyncpg

    from openclaw.sessions.postgres.pool import Connection

# ---- transcripts
#
# Each write is one statement, and so a transaction by itself. It only writes if the session still has
# the epoch, which a takeover raises, and ends at the number that the lane saw last. So a write can be
# sent again if the connection broke during its commit.

# The database's own time, which is the same for every gateway.
NOW_MS = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint"

# $1 row, $2 epoch, $3 last number, $4 entries, $5 messages, $6 turn; then the entries.
_ADVANCE = f"""
WITH lane AS (
  UPDATE sessions SET seq = seq + $4, messages = messages + $5,
    updated_ms = greatest(updated_ms, {NOW_MS}){{more}}
  WHERE row = $1 AND epoch = $2 AND seq = $3 AND {{condition}}
  RETURNING {NOW_MS} AS now_ms
), added AS (
  INSERT INTO entries (session, seq, turn, kind, at_ms, call_id, text, data, details, words)
  SELECT $1, $3 + e.number, $6, e.kind, lane.now_ms, e.call_id, e.text, e.data, e.details,
    e.words::tsvector
  FROM lane, unnest($7::text[], $8::text[], $9::text[], $10::bytea[], $11::bytea[], $12::text[])
    WITH ORDINALITY AS e (kind, call_id, text, data, details, words, number)
){{parts}}
SELECT now_ms FROM lane
"""  # noqa: S608 - constants
_RUNNING = "EXISTS (SELECT FROM turns WHERE session = $1 AND id = $6 AND state = 'running')"

_WHERE_RUNNING = f"($6::text IS NULL OR {_RUNNING})"

_STATEMENTS = {
    "begin": _ADVANCE.format(
        more="",
        condition="NOT EXISTS"
        " (SELECT FROM turns WHERE session = $1 AND (id = $6 OR state = 'running'))",
        parts=""", turn AS (
  INSERT INTO turns (session, id, state, started_ms, first_seq)
  SELECT $1, $6, 'running', lane.now_ms, $3 + 1 FROM lane
)""",
    ),
    "resume": _ADVANCE.format(
        more="",
        condition="EXISTS (SELECT FROM turns WHERE session = $1 AND id = $6 AND state = 'lost')"
        " AND NOT EXISTS (SELECT FROM turns WHERE session = $1 AND state = 'running')",
        parts=""", turn AS (
  UPDATE turns SET state = 'running', finished_ms = NULL FROM lane
  WHERE session = $1 AND id = $6
)""",
    ),
    "append": _ADVANCE.format(more="", condition=_WHERE_RUNNING, parts=""),
    "compact": _ADVANCE.format(
        more=", summary_seq = seq + $4, summarised = $13",
        condition=f"{_WHERE_RUNNING} AND $13::bigint BETWEEN summarised AND seq",
        parts=""", forgotten AS (
  UPDATE entries SET details = NULL FROM lane
  WHERE session = $1 AND entries.seq <= $13 AND entries.details IS NOT NULL
)""",
    ),
    "finish": _ADVANCE.format(
        more=""", input_tokens = input_tokens + $14, output_tokens = output_tokens + $15,
    cache_read_tokens = cache_read_tokens + $16, cache_write_tokens = cache_write_tokens + $17,
    requests = requests + $18, tool_calls = tool_calls + $19""",
        condition=_RUNNING,
        parts=""", ended AS (
  UPDATE turns SET state = $13, finished_ms = lane.now_ms FROM lane
  WHERE session = $1 AND id = $6
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


async def commit(connection: "Connection", at: Grant, write: Write) -> bool:
    """Write it; false if an earlier try, whose connection broke, has done so already."""
    turn = None if write.turn is None else storable(write.turn)
    values: list[Any] = [len(write.entries), write.messages, turn, *columns(write.entries)]
    if write.step == "compact":
        values.append(write.through)
    if write.outcome is not None:
        values += [str(write.outcome), *write.usage.counted]
    statement = _STATEMENTS[write.step]
    if await connection.fetchval(statement, at.row, at.epoch, at.seq, *values) is not None:
        return True
    if await was_written(connection, at, len(write.entries)):
        return False
    rows = await connection.fetch(
        "SELECT id, state FROM turns WHERE session = $1 AND (id = $2 OR state = 'running')",
        at.row,
        turn,
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


# ---- tickets
#
# To get a session, draw a ticket, under a lock on the session's row, so that the numbers are in the
# order of arrival. The oldest live ticket holds the session. A ticket is dead
#
# - once its lease has expired, by the database's clock: its process is frozen, or cut off;
# - once its owner's advisory lock has been free for `SUSPICION_SECONDS`: its process is gone, and
#   not only about to replace a lost connection.
#
# Neither counts within one lease after the server started: until then, everyone may come back.

OWNER_LOCKS = 0x4F43_4C57  # the first half of the advisory locks that live processes hold
CHANNEL = "openclaw_lanes"  # tells the id of a session that was left while others wait for it
SUSPICION_SECONDS = 1.0

_LOCK_SESSION = "SELECT row FROM sessions WHERE id = $1 FOR NO KEY UPDATE"

# $1 row, $2 token, $3 owner, $4 entitled, $5 lease; taken at once where nobody else is there.
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
_EXPIRED = "expires <= clock_timestamp()"

# $1 row, $2 id of the ticket, $3 owner, $4 entitled, $5 lease
_AHEAD = f"""
SELECT id, entitled AND $4 AS replaced, missing_since IS NOT NULL AS suspected,
  {_SETTLED.format(lease="$5")} AND {_EXPIRED} AS expired,
  missing_since <= clock_timestamp() - {SUSPICION_SECONDS} * interval '1 s' AS overdue,
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


async def _are_dead(db: "Connection", ahead: Sequence[Any]) -> bool:
    """Remove those of these tickets that are dead; true if all were."""
    dead = [
        one["id"]
        for one in ahead
        if one["replaced"] or one["expired"] or (one["gone"] and one["overdue"])
    ]
    doubted = [one["id"] for one in ahead if one["gone"] and not one["suspected"]]
    trusted = [one["id"] for one in ahead if one["suspected"] and not one["gone"]]
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


async def is_held(connection: Statements, row: int, lease: float) -> bool:
    """Whether a live ticket holds or awaits the session. Runs in a transaction."""
    settled = _SETTLED.format(lease="$2::float8")
    return await connection.fetchval(
        f"SELECT EXISTS (SELECT FROM tickets WHERE session = $1"  # noqa: S608 - constants
        f" AND NOT ({settled} AND ({_EXPIRED} OR {_GONE})))",
        row,
        lease,
    )


async def give_up_turns(connection: "Connection", row: int) -> tuple[Turn, ...]:
    now = await connection.fetchval(f"SELECT {NOW_MS}")
    return await queries.give_up_turns(connection, row, now)


# ---- lanes

OnFinish = Callable[["Connection"], Awaitable[None]]


class PostgresLane(Lane):
    """Every write is on disk when it returns."""

    def __init__(self, session: SessionRef, grant: Grant, database: Database) -> None:
        super().__init__(session, grant)
        self.on_finish: OnFinish | None = None
        self.tidy = True  # false while a turn may be unfinished
        self._at = grant
        self._sure = True
        self._database = database
        self._writing = anyio.Lock()

    async def _write(self, write: Write) -> range:
        if write.step in ("begin", "resume"):
            self.tidy = False

        async def write_once(connection: "Connection") -> None:
            if write.step != "finish" or self.on_finish is None:
                await commit(connection, at, write)
                return
            async with connection.transaction():
                if await commit(connection, at, write):
                    await self.on_finish(connection)

        async with self._writing:
            if not self._sure:
                await self._find_position()
            at = self._at
            try:
                await self._database.write(write_once)
            except StoreError:
                self._sure = False  # it may have been written all the same
                raise
            self._at = replace(at, seq=at.seq + len(write.entries))
        if write.step == "finish":
            self.tidy = True
        return range(at.seq + 1, self._at.seq + 1)

    async def _find_position(self) -> None:
        seq = await self._database.read(
            lambda db: db.fetchval("SELECT seq FROM sessions WHERE row = $1", self._at.row)
        )
        if seq is None:
            raise LaneLost("it was deleted")
        self._at = replace(self._at, seq=max(seq, self._at.seq))
        self._sure = True


class Desk(LaneDesk[PostgresLane]):
    """Has a connection of its own, made when the first lane is wanted and again if it breaks.

    On it, it holds an advisory lock, renews leases, and hears which sessions were left elsewhere.
    """

    look_seconds = (0.005, 0.25)  # for one that dies, or was not heard: others say that they leave

    def __init__(self, database: Database, lease: float) -> None:
        super().__init__(lease)
        self._database = database
        self._wanted = anyio.Event()
        self._known = anyio.Event()
        self._broken = anyio.Event()
        self._owner = 0

    async def _try(self, place: Place[PostgresLane]) -> PostgresLane | None:
        owner = await self._present_as()
        place.wanted = place.wanted or random_id()  # the same if the transaction is tried again
        grant = await self._database.transact(lambda db: self._grant(db, place, owner))
        place.ticket = place.wanted  # it is there for certain, so that it can be missed
        return grant and PostgresLane(place.session, grant, self._database)

    async def _grant(
        self, db: "Connection", place: Place[PostgresLane], owner: int
    ) -> Grant | None:
        """Take the session, in a transaction; None if a live process is ahead."""
        row = existing(await db.fetchval(_LOCK_SESSION, place.session.id), place.session)
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
        lost = await give_up_turns(db, row) if unfinished else ()
        return Grant(row, epoch, lost, seq + len(lost))

    async def _hand_in(self, place: Place[PostgresLane]) -> None:
        """Also wakes those who wait for the session elsewhere.

        It need not reach the disk: nobody renews a ticket that comes back after a crash.
        """
        unfinished = place.lane.grant if place.lane is not None and not place.lane.tidy else None

        async def leave(db: "Connection") -> None:
            if unfinished is not None:
                lock = "SELECT epoch FROM sessions WHERE row = $1 FOR NO KEY UPDATE"
                if await db.fetchval(lock, unfinished.row) == unfinished.epoch:
                    await give_up_turns(db, unfinished.row)
            await db.execute(_LEAVE, place.wanted, CHANNEL, place.session.id)

        if unfinished is not None:
            await self._database.transact(leave)
        elif place.wanted:
            await self._database.write(leave)

    async def _present_as(self) -> int:
        """The number by which this process is known, once it has one."""
        self._wanted.set()
        with anyio.move_on_after(RECONNECT_SECONDS):
            await self._known.wait()
        if not self._known.is_set():
            raise StoreUnavailable(
                f"the session store on PostgreSQL ({self._database.place}) cannot be reached"
            )
        return self._owner

    async def run(self) -> None:
        await self._wanted.wait()
        trouble = "the database does not hear that this process lives"
        await self._database.stay_connected(self._be_present, trouble)

    async def _be_present(self, connection: "asyncpg.Connection[Any]") -> None:
        self._broken = anyio.Event()
        connection.add_termination_listener(lambda _: self._broken.set())
        await self._announce(connection)
        while not self._broken.is_set():
            await self._beat(connection)
            with anyio.move_on_after(self.lease / BEATS_PER_LEASE):
                await self._broken.wait()

    async def _announce(self, connection: "asyncpg.Connection[Any]") -> None:
        """Take a number that nobody has: the former one's lock may not be free yet."""
        lock, owner = "SELECT pg_try_advisory_lock($1, $2)", 0
        while not owner or not await connection.fetchval(lock, OWNER_LOCKS, owner):
            owner = await connection.fetchval("SELECT nextval('owners')::integer")
        await connection.add_listener(CHANNEL, self._on_notice)
        self._owner = owner
        self._known.set()

    async def _beat(self, connection: "asyncpg.Connection[Any]") -> None:
        tickets = self.tickets()
        if not tickets:
            return
        with anyio.fail_after(self.lease / BEATS_PER_LEASE):  # a connection may die silently
            alive = await connection.fetch(_RENEW, tickets, self._owner, self.lease)
        self.renewed(tickets, {row["token"] for row in alive})

    def _on_notice(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        line = self._lines.get(str(payload))
        if line is not None:
            line.wake()
