"""Lanes: waiting for a session, holding it, and noticing when it was taken away.

Two things are here for a queue of turns that lives in the same database:

- `PostgresStore.acquire_lane(session, entitled=True)` is for a worker that the queue has given the
  session's next turn. It goes ahead of those who wait, and takes the session at once from another
  entitled holder, whom the queue has given up; it waits only for a holder that is not of the queue.
- `PostgresLane.on_finish`, where it is set, is called with the connection inside the transaction
  that ends the turn, after the fence was checked and all was written: what it does is committed
  with the turn or not at all. Where the connection breaks it may be called again in a new
  transaction, after the first was undone; it is never called for a turn that was committed.
"""

import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from openclaw.core.clock import Clock
from openclaw.core.ids import random_id
from openclaw.sessions.model import (
    Encoded,
    EntryKind,
    Outcome,
    SessionRef,
    Usage,
)
from openclaw.sessions.postgres import tickets, transcript
from openclaw.sessions.postgres.pool import Database
from openclaw.sessions.postgres.tickets import Presence
from openclaw.sessions.postgres.transcript import Behind, Position, Write
from openclaw.sessions.store import Lane, LaneLost, StoreError, StoreUnavailable

if TYPE_CHECKING:
    from openclaw.sessions.postgres.pool import Connection

logger = logging.getLogger(__name__)

OnFinish = Callable[["Connection"], Awaitable[None]]
_Step = Callable[["Connection", Position], Awaitable[None]]

_LOOK_SECONDS = (0.005, 0.25)
"""First and longest pause between two looks at a session that another process holds: one that
leaves is heard of at once, so that this is for one that dies, or was not heard."""


@dataclass(slots=True, eq=False)
class _Place:
    session: SessionRef
    entitled: bool
    token: str = field(default_factory=random_id)
    woken: anyio.Event = field(default_factory=anyio.Event)
    drawn: bool = False
    known: bool = False  # true once its ticket is there for certain, so that it can be missed
    lane: "PostgresLane | None" = None
    scope: anyio.CancelScope | None = None


@dataclass(slots=True)
class _Line:
    places: deque[_Place] = field(default_factory=deque[_Place])
    drawing: anyio.Lock = field(default_factory=anyio.Lock)


class PostgresLane(Lane):
    def __init__(
        self, session: SessionRef, grant: tickets.Grant, database: Database, clock: Clock | None
    ) -> None:
        super().__init__(session, grant.epoch, grant.lost_turns)
        self.on_finish: OnFinish | None = None
        self.grant = grant
        self.tidy = True  # false while a turn may be unfinished
        self._at = Position(grant.row, grant.epoch, grant.seq)
        self._sure = True
        self._unsynced: list[tuple[Position, _Step]] = []
        self._database = database
        self._clock = clock
        self._writing = anyio.Lock()

    async def _begin(self, turn: str, entries: list[Encoded]) -> None:
        """On disk: whoever runs it reads it back from the store."""
        write = self._write(turn, entries, durable=True)
        self.tidy = False
        await self._do(
            write, lambda db, at: transcript.begin_turn(db, at, write), len(write.entries) + 1
        )

    async def _resume(self, turn: str, entries: list[Encoded]) -> None:
        write = self._write(turn, entries, durable=True)
        self.tidy = False
        await self._do(write, lambda db, at: transcript.resume_turn(db, at, write))

    async def _append(self, turn: str | None, entries: list[Encoded]) -> Sequence[int]:
        reaches_out = any(entry.kind is EntryKind.TOOL_CALL for entry in entries)
        write = self._write(turn, entries, durable=reaches_out)
        return await self._do(write, lambda db, at: transcript.append(db, at, write))

    async def _compact(self, turn: str | None, summary: Encoded, through: int) -> int:
        write = self._write(turn, [summary], durable=True)  # read back, too
        numbers = await self._do(write, lambda db, at: transcript.compact(db, at, write, through))
        return numbers[0]

    async def _finish(
        self, turn: str, outcome: Outcome, entries: list[Encoded], usage: Usage
    ) -> None:
        write = self._write(turn, entries, durable=True)
        await self._do(write, partial(self._end, write, outcome, usage))
        self.tidy = True

    async def _end(
        self, write: Write, outcome: Outcome, usage: Usage, connection: "Connection", at: Position
    ) -> None:
        if self.on_finish is None:
            await transcript.finish_turn(connection, at, write, outcome, usage)
            return
        async with connection.transaction():
            if await transcript.finish_turn(connection, at, write, outcome, usage):
                await self.on_finish(connection)

    def _write(self, turn: str | None, entries: Sequence[Encoded], *, durable: bool) -> Write:
        return Write(turn, entries, self._clock.now_ms() if self._clock else None, durable)

    async def _do(self, write: Write, step: _Step, count: int | None = None) -> range:
        """Write `count` entries and return their numbers; one write at a time."""
        count = len(write.entries) if count is None else count
        async with self._writing:
            if not self._sure:
                await self._find_position()
            try:
                await self._send(self._at, step)
            except StoreError:
                self._sure = False  # it may have been written all the same
                raise
            self._unsynced = [] if write.durable else [*self._unsynced, (self._at, step)]
            last = self._at.seq + count
            self._at = replace(self._at, seq=last)
        return range(last - count + 1, last + 1)

    async def _send(self, at: Position, step: _Step) -> None:
        """Write; after a crash of the server, first what it forgot."""
        try:
            await self._database.write(lambda db: step(db, at))
        except Behind as crash:
            forgotten = [(was, then) for was, then in self._unsynced if was.seq >= crash.seq]
            if not forgotten or forgotten[0][0].seq != crash.seq:
                raise StoreUnavailable("the session lost entries that were on disk") from None
            logger.warning("the database server crashed: %d writes are sent again", len(forgotten))
            for was, then in forgotten:
                await self._database.write(partial(_at, then, was))
            await self._database.write(lambda db: step(db, at))

    async def _find_position(self) -> None:
        seq = await self._database.read(
            lambda db: db.fetchval("SELECT seq FROM sessions WHERE row = $1", self._at.row)
        )
        if seq is None:
            raise LaneLost("it was deleted")
        self._at = replace(self._at, seq=max(seq, self._at.seq))
        self._sure = True


async def _at(step: _Step, at: Position, connection: "Connection") -> None:
    await step(connection, at)


class LaneDesk:
    def __init__(self, database: Database, clock: Clock | None, *, lease: float) -> None:
        self._database = database
        self._clock = clock
        self.lease = lease
        self._lines: dict[str, _Line] = {}
        self._presence = Presence(
            database,
            lease,
            tokens=self._tokens,
            on_alive=self._on_alive,
            on_left=self._on_left,
        )

    async def run(self) -> None:
        await self._presence.run()

    @asynccontextmanager
    async def hold(
        self, session: SessionRef, *, entitled: bool = False
    ) -> AsyncGenerator[PostgresLane]:
        place = _Place(session, entitled)
        line = self._lines.setdefault(session.id, _Line())
        line.places.append(place)
        try:
            grant = await self._granted(line, place)
            lane = place.lane = PostgresLane(session, grant, self._database, self._clock)
            with anyio.CancelScope() as scope:
                place.scope = scope
                yield lane
            if scope.cancelled_caught:
                raise LaneLost("another process took it over")
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave(line, place)

    async def _granted(self, line: _Line, place: _Place) -> tickets.Grant:
        async with line.drawing:  # tickets are drawn as their owners came
            grant = await self._try(place)
        pause, longest = _LOOK_SECONDS
        while grant is None:
            first = place.entitled or line.places[0] is place
            with anyio.move_on_after(pause if first else None):
                await place.woken.wait()
            place.woken = anyio.Event()
            if place.entitled or line.places[0] is place:
                grant = await self._try(place)
                pause = min(2 * pause, longest)
        return grant

    async def _try(self, place: _Place) -> tickets.Grant | None:
        owner = await self._presence.owner()
        claim = tickets.Claim(place.token, owner, place.entitled, self.lease)
        place.drawn = True
        grant = await self._database.transact(
            lambda db: tickets.try_grant(db, place.session, claim)
        )
        place.known = True
        return grant

    async def _leave(self, line: _Line, place: _Place) -> None:
        try:
            if place.drawn:
                await self._hand_in(place)
        except StoreError as error:
            # Its lease runs out by itself, since nobody renews it from now on.
            logger.warning("could not leave the lane of a session: %s", error)
        finally:
            line.places.remove(place)
            if not line.places:
                del self._lines[place.session.id]
            _wake(line)

    async def _hand_in(self, place: _Place) -> None:
        lane = place.lane
        if lane is None or lane.tidy:
            await self._database.write(lambda db: tickets.hand_in(db, place.session, place.token))
            return
        now = self._clock.now_ms() if self._clock else None
        await self._database.transact(
            lambda db: tickets.abandon(db, place.session, place.token, lane.grant, now)
        )

    def _tokens(self) -> list[str]:
        return [
            place.token for line in self._lines.values() for place in line.places if place.known
        ]

    def _on_alive(self, asked: list[str], alive: set[str]) -> None:
        gone = set(asked) - alive
        for line in self._lines.values():
            for place in line.places:
                if place.token in gone and place.scope is not None:
                    place.scope.cancel("another process took the session over")

    def _on_left(self, session: str) -> None:
        line = self._lines.get(session)
        if line is not None:
            _wake(line)


def _wake(line: _Line) -> None:
    for place in line.places:
        place.woken.set()
