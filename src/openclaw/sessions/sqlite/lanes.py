"""Lanes: waiting for a session, holding it, and noticing when it was taken away."""

import logging
import random
import sqlite3
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, field, replace
from functools import partial

import anyio
import orjson

from openclaw.core.clock import Clock
from openclaw.core.errors import DeveloperFacing, InvalidRequest
from openclaw.sessions.liveness import is_gone
from openclaw.sessions.model import (
    MESSAGE_KINDS,
    Encoded,
    EntryKind,
    Outcome,
    SessionRef,
    Turn,
    TurnState,
    Usage,
)
from openclaw.sessions.queries import row_of, running_turns
from openclaw.sessions.sqlite.connections import Readers, Statements, Writer, at_once
from openclaw.sessions.store import Lane, LaneLost, StoreError


@dataclass(frozen=True, slots=True)
class Fence:
    row: int
    epoch: int

    def check(self, connection: sqlite3.Connection) -> None:
        found = connection.execute(
            "SELECT epoch FROM sessions WHERE row = ?", (self.row,)
        ).fetchone()
        if found is None:
            raise LaneLost("it was deleted")
        if found[0] != self.epoch:
            raise LaneLost("another process took it over")


def begin_turn(
    connection: sqlite3.Connection, fence: Fence, turn: str, entries: Sequence[Encoded], now_ms: int
) -> None:
    fence.check(connection)
    if _turn_state(connection, fence.row, turn) is not None:
        raise InvalidRequest(f"the session already has a turn '{turn}'")
    running = connection.execute(
        "SELECT id FROM turns WHERE session = ? AND state = 'running'", (fence.row,)
    ).fetchone()
    if running is not None:
        raise DeveloperFacing(f"turn '{running[0]}' has not been finished")
    started = Encoded(EntryKind.TURN_STARTED, "", b"{}", None, None)
    numbers = add_entries(connection, fence.row, turn, [started, *entries], now_ms)
    connection.execute(
        "INSERT INTO turns (session, id, state, started_ms, first_seq) VALUES (?, ?, ?, ?, ?)",
        (fence.row, turn, TurnState.RUNNING, now_ms, numbers[0]),
    )


def resume_turn(
    connection: sqlite3.Connection, fence: Fence, turn: str, entries: Sequence[Encoded], now_ms: int
) -> None:
    fence.check(connection)
    if _turn_state(connection, fence.row, turn) != TurnState.LOST:
        raise InvalidRequest(f"the session has no lost turn '{turn}'")
    add_entries(connection, fence.row, turn, entries, now_ms)
    connection.execute(
        "UPDATE turns SET state = 'running', finished_ms = NULL WHERE session = ? AND id = ?",
        (fence.row, turn),
    )


def append(
    connection: sqlite3.Connection,
    fence: Fence,
    turn: str | None,
    entries: Sequence[Encoded],
    now_ms: int,
) -> range:
    fence.check(connection)
    _require_running(connection, fence.row, turn)
    return add_entries(connection, fence.row, turn, entries, now_ms)


def compact(
    connection: sqlite3.Connection,
    fence: Fence,
    turn: str | None,
    summary: Encoded,
    through: int,
    now_ms: int,
) -> int:
    fence.check(connection)
    _require_running(connection, fence.row, turn)
    last, before = connection.execute(
        "SELECT seq, summarised FROM sessions WHERE row = ?", (fence.row,)
    ).fetchone()
    if not before <= through <= last:
        raise InvalidRequest(f"a summary through {through} must be between {before} and {last}")
    number = add_entries(connection, fence.row, turn, [summary], now_ms)[0]
    connection.execute(
        "UPDATE entries SET details = NULL"
        " WHERE session = ? AND seq > ? AND seq <= ? AND details IS NOT NULL",
        (fence.row, before, through),
    )
    connection.execute(
        "UPDATE sessions SET summary_seq = ?, summarised = ? WHERE row = ?",
        (number, through, fence.row),
    )
    return number


def finish_turn(
    connection: sqlite3.Connection,
    fence: Fence,
    turn: str,
    outcome: Outcome,
    entries: Sequence[Encoded],
    usage: Usage,
    now_ms: int,
) -> None:
    fence.check(connection)
    _require_running(connection, fence.row, turn)
    add_entries(connection, fence.row, turn, entries, now_ms)
    connection.execute(
        "UPDATE turns SET state = ?, finished_ms = ? WHERE session = ? AND id = ?",
        (outcome, now_ms, fence.row, turn),
    )
    connection.execute(
        "UPDATE sessions SET input_tokens = input_tokens + ?, output_tokens = output_tokens + ?,"
        " cache_read_tokens = cache_read_tokens + ?, cache_write_tokens = cache_write_tokens + ?,"
        " requests = requests + ?, tool_calls = tool_calls + ? WHERE row = ?",
        (*astuple(usage), fence.row),
    )


def add_entries(
    connection: sqlite3.Connection,
    row: int,
    turn: str | None,
    entries: Sequence[Encoded],
    now_ms: int,
) -> range:
    messages = sum(entry.kind in MESSAGE_KINDS for entry in entries)
    (last,) = connection.execute(
        "UPDATE sessions SET seq = seq + ?, messages = messages + ?,"
        " updated_ms = max(updated_ms, ?) WHERE row = ? RETURNING seq",
        (len(entries), messages, now_ms, row),
    ).fetchone()
    numbers = range(last - len(entries) + 1, last + 1)
    for number, entry in zip(numbers, entries, strict=True):
        insert_entry(connection, row, number, turn, now_ms, entry)
    return numbers


def insert_entry(
    connection: sqlite3.Connection,
    row: int,
    number: int,
    turn: str | None,
    at_ms: int,
    one: Encoded,
) -> None:
    added = connection.execute(
        "INSERT INTO entries (session, seq, turn, kind, at_ms, call_id, text, data, details)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (row, number, turn, one.kind, at_ms, one.call_id, one.text, one.data, one.details),
    )
    if one.text:
        connection.execute(
            "INSERT INTO words (rowid, text) VALUES (?, ?)", (added.lastrowid, one.text)
        )


def _require_running(connection: sqlite3.Connection, row: int, turn: str | None) -> None:
    if turn is not None and _turn_state(connection, row, turn) != TurnState.RUNNING:
        raise DeveloperFacing(f"turn '{turn}' does not run")


def _turn_state(connection: sqlite3.Connection, row: int, turn: str) -> str | None:
    found = connection.execute(
        "SELECT state FROM turns WHERE session = ? AND id = ?", (row, turn)
    ).fetchone()
    return None if found is None else found[0]


# Whoever wants a session draws a ticket. The oldest live ticket holds the session. A ticket is dead
# once its process is, where this machine can tell, or once its lease has run out. Leases are
# measured on the monotonic clock, which all processes of one machine share and nobody can set.


@dataclass(frozen=True, slots=True)
class Grant:
    """A session that was taken: its row, the new fence, and turns that its last holder left."""

    row: int
    epoch: int
    lost_turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    mark: str
    monotonic: float
    now_ms: int
    lease: float


def try_grant(
    connection: sqlite3.Connection, session: SessionRef, ticket: int | None, moment: Moment
) -> tuple[int, Grant | None]:
    """Take the session where `ticket` is the oldest live one.

    Without a ticket, or where others have judged it dead, a new one is drawn first.
    """
    row = at_once(row_of(Statements(connection), session))
    if ticket is None or not _exists(connection, ticket):
        ticket = _draw(connection, row, moment)
    if _drop_dead(connection, row, ticket, moment):
        return ticket, None
    (epoch,) = connection.execute(
        "UPDATE sessions SET epoch = epoch + 1 WHERE row = ? RETURNING epoch", (row,)
    ).fetchone()
    return ticket, Grant(row, epoch, _give_up_turns(connection, row, moment.now_ms))


def is_free(connection: sqlite3.Connection, ticket: int, moment: Moment) -> bool:
    """True where it is worth trying: the ticket ahead is gone or dead, or this one is."""
    found = connection.execute(
        "SELECT owner, expires FROM tickets WHERE id < ?1 AND session ="
        " (SELECT session FROM tickets WHERE id = ?1) ORDER BY id LIMIT 1",
        (ticket,),
    ).fetchone()
    return found is None or _is_dead(found[0], found[1], moment)


def held(connection: sqlite3.Connection, row: int, moment: Moment) -> bool:
    tickets = connection.execute("SELECT owner, expires FROM tickets WHERE session = ?", (row,))
    return any(not _is_dead(owner, expires, moment) for owner, expires in tickets)


def renew(connection: sqlite3.Connection, tickets: Iterable[int], moment: Moment) -> set[int]:
    wanted = orjson.dumps(sorted(tickets)).decode()
    rows = connection.execute(
        "UPDATE tickets SET expires = ? WHERE id IN (SELECT value FROM json_each(?)) RETURNING id",
        (moment.monotonic + moment.lease, wanted),
    )
    return {row[0] for row in rows}


def hand_in(
    connection: sqlite3.Connection, ticket: int, grant: Grant | None, moment: Moment
) -> None:
    """Leave the queue, or the session; a turn that was not finished by then is lost."""
    _drop(connection, ticket)
    if grant is None:
        return
    found = connection.execute("SELECT epoch FROM sessions WHERE row = ?", (grant.row,)).fetchone()
    if found == (grant.epoch,):
        _give_up_turns(connection, grant.row, moment.now_ms)


def _draw(connection: sqlite3.Connection, row: int, moment: Moment) -> int:
    drawn = connection.execute(
        "INSERT INTO tickets (session, owner, expires) VALUES (?, ?, ?)",
        (row, moment.mark, moment.monotonic + moment.lease),
    )
    assert drawn.lastrowid is not None
    return drawn.lastrowid


def _exists(connection: sqlite3.Connection, ticket: int) -> bool:
    found = connection.execute("SELECT 1 FROM tickets WHERE id = ?", (ticket,)).fetchone()
    return found is not None


def _drop_dead(connection: sqlite3.Connection, row: int, ticket: int, moment: Moment) -> bool:
    while ahead := connection.execute(
        "SELECT id, owner, expires FROM tickets WHERE session = ? AND id < ? ORDER BY id LIMIT 1",
        (row, ticket),
    ).fetchone():
        other, owner, expires = ahead
        if not _is_dead(owner, expires, moment):
            return True
        _drop(connection, other)
    return False


def _drop(connection: sqlite3.Connection, ticket: int) -> None:
    connection.execute("DELETE FROM tickets WHERE id = ?", (ticket,))


def _is_dead(owner: str, expires: float, moment: Moment) -> bool:
    if expires <= moment.monotonic:
        return True
    if owner == moment.mark:
        return False
    # Nobody's lease is this long: the clock began anew, so the machine did too.
    began_before_boot = expires > moment.monotonic + 100 * moment.lease
    return began_before_boot or is_gone(owner)


def _give_up_turns(connection: sqlite3.Connection, row: int, now_ms: int) -> tuple[Turn, ...]:
    """Mark turns that still run as lost: whoever began them no longer holds the session."""
    lost: list[Turn] = []
    for turn in at_once(running_turns(Statements(connection), row)):
        data = orjson.dumps({"openCalls": [call.call_id for call in turn.open_calls]})
        ending = Encoded(EntryKind.TURN_LOST, "", data, None, None)
        add_entries(connection, row, turn.id, [ending], now_ms)
        connection.execute(
            "UPDATE turns SET state = 'lost', finished_ms = ? WHERE session = ? AND id = ?",
            (now_ms, row, turn.id),
        )
        lost.append(replace(turn, state=TurnState.LOST, finished_ms=now_ms))
    return tuple(lost)


logger = logging.getLogger(__name__)

BEATS_PER_LEASE = 3  # renewals in one lease, so that two of them may fail

_POLL_SECONDS = (0.005, 0.05)
"""First and longest pause between two looks at a session that another process holds."""


@dataclass(slots=True, eq=False)
class _Place:
    session: SessionRef
    ticket: int | None = None
    at_head: anyio.Event = field(default_factory=anyio.Event)
    grant: Grant | None = None
    scope: anyio.CancelScope | None = None


class FileLane(Lane):
    def __init__(self, session: SessionRef, grant: Grant, writer: Writer, clock: Clock) -> None:
        super().__init__(session, grant.epoch, grant.lost_turns)
        self._fence = Fence(grant.row, grant.epoch)
        self._writer = writer
        self._now_ms = clock.now_ms

    async def _begin(self, turn: str, entries: list[Encoded]) -> None:
        """Nothing of it was acknowledged yet, so that a sync can wait."""
        await self._writer.run(
            lambda db: begin_turn(db, self._fence, turn, entries, self._now_ms()),
            durable=_reaches_out(entries),
        )

    async def _resume(self, turn: str, entries: list[Encoded]) -> None:
        await self._writer.run(
            lambda db: resume_turn(db, self._fence, turn, entries, self._now_ms()), durable=False
        )

    async def _append(self, turn: str | None, entries: list[Encoded]) -> Sequence[int]:
        return await self._writer.run(
            lambda db: append(db, self._fence, turn, entries, self._now_ms()),
            durable=_reaches_out(entries),
        )

    async def _compact(self, turn: str | None, summary: Encoded, through: int) -> int:
        return await self._writer.run(
            lambda db: compact(db, self._fence, turn, summary, through, self._now_ms()),
            durable=False,
        )

    async def _finish(
        self, turn: str, outcome: Outcome, entries: list[Encoded], usage: Usage
    ) -> None:
        await self._writer.run(
            lambda db: finish_turn(db, self._fence, turn, outcome, entries, usage, self._now_ms()),
            durable=True,
        )


class LaneDesk:
    def __init__(
        self, writer: Writer, readers: Readers, clock: Clock, *, mark: str, lease: float
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._clock = clock
        self.lease = lease
        self._mark = mark
        self._queues: dict[str, deque[_Place]] = {}
        self._occupied = anyio.Event()

    @asynccontextmanager
    async def hold(self, session: SessionRef) -> AsyncGenerator[FileLane]:
        place = self._queue_up(session)
        try:
            grant = place.grant = await self._granted(place)
            with anyio.CancelScope() as scope:
                place.scope = scope
                yield FileLane(session, grant, self._writer, self._clock)
            if scope.cancelled_caught:
                raise LaneLost("another process took it over")
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave(place)

    async def beat(self) -> None:
        while True:
            await self._occupied.wait()
            await anyio.sleep(self.lease / BEATS_PER_LEASE)
            await self._renew()

    def _queue_up(self, session: SessionRef) -> _Place:
        place = _Place(session)
        self._queues.setdefault(session.id, deque()).append(place)
        self._occupied.set()
        return place

    async def _granted(self, place: _Place) -> Grant:
        while (grant := await self._try(place)) is None:
            await self._head_of_process(place)
            await self._until_free(place)
        return grant

    async def _head_of_process(self, place: _Place) -> None:
        while self._queues[place.session.id][0] is not place:
            await place.at_head.wait()
            place.at_head = anyio.Event()

    async def _try(self, place: _Place) -> Grant | None:
        place.ticket, grant = await self._writer.run(
            lambda db: try_grant(db, place.session, place.ticket, self.moment()),
            durable=False,
        )
        return grant

    async def _until_free(self, place: _Place) -> None:
        """Look now and then whether the process ahead has left, without taking the write lock."""
        ticket = place.ticket
        assert ticket is not None
        pause, longest = _POLL_SECONDS
        while not await self._readers.run(partial(is_free, ticket=ticket, moment=self.moment())):
            await anyio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load
            pause = min(2 * pause, longest)

    async def _leave(self, place: _Place) -> None:
        ticket = place.ticket
        try:
            if ticket is not None:
                await self._writer.run(
                    lambda db: hand_in(db, ticket, place.grant, self.moment()),
                    durable=False,
                )
        except StoreError as error:
            # Its lease runs out by itself, since nobody renews it from now on.
            logger.warning("could not leave the lane of a session: %s", error)
        finally:
            queue = self._queues[place.session.id]
            queue.remove(place)
            if queue:
                queue[0].at_head.set()
            else:
                del self._queues[place.session.id]
            if not self._queues:
                self._occupied = anyio.Event()

    async def _renew(self) -> None:
        places = {
            place.ticket: place
            for queue in self._queues.values()
            for place in queue
            if place.ticket is not None
        }
        if not places:
            return
        try:
            alive = await self._writer.run(
                lambda db: renew(db, places, self.moment()), durable=False
            )
        except StoreError as error:
            logger.warning("could not renew the leases of sessions: %s", error)
            return
        for ticket, place in places.items():
            if ticket not in alive and place.scope is not None:
                place.scope.cancel("another process took the session over")

    def moment(self) -> Moment:
        return Moment(self._mark, self._clock.monotonic(), self._clock.now_ms(), self.lease)


def _reaches_out(entries: Sequence[Encoded]) -> bool:
    """True where something outside is about to happen, which must not be forgotten."""
    return any(entry.kind is EntryKind.TOOL_CALL for entry in entries)
