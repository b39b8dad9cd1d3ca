"""Lanes: waiting for a session, holding it, and noticing when it was taken away."""

import logging
import random
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import anyio

from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidRequest
from openclaw.core.ids import random_id
from openclaw.sessions.codec import encoded, encoded_from_caller
from openclaw.sessions.errors import LaneLost, StoreError
from openclaw.sessions.file import tickets, transcript
from openclaw.sessions.file.readers import Readers
from openclaw.sessions.file.writer import Writer
from openclaw.sessions.model import (
    EntryKind,
    NewEntry,
    Outcome,
    SessionRef,
    Turn,
    Usage,
    checked_key,
)

logger = logging.getLogger(__name__)

BEATS_PER_LEASE = 3
"""Renewals in one lease, so that two of them may fail."""

_POLL_SECONDS = (0.005, 0.05)
"""First and longest pause between two looks at a session that another process holds."""


@dataclass(slots=True, eq=False)
class _Place:
    """One who waits for a session in this process, or holds it."""

    session: SessionRef
    ticket: int | None = None
    at_head: anyio.Event = field(default_factory=anyio.Event)
    grant: tickets.Grant | None = None
    scope: anyio.CancelScope | None = None


class FileLane:
    """A lane of the file store; see `Lane`."""

    def __init__(
        self, session: SessionRef, grant: tickets.Grant, writer: Writer, clock: Clock
    ) -> None:
        self.session = session
        self.epoch = grant.epoch
        self.lost_turns: Sequence[Turn] = grant.lost_turns
        self._fence = transcript.Fence(grant.row, grant.epoch)
        self._writer = writer
        self._clock = clock

    async def begin_turn(self, entries: Sequence[NewEntry] = (), *, turn: str | None = None) -> str:
        """Start a turn; nothing of it was acknowledged yet, so that a sync can wait."""
        name = random_id() if turn is None else checked_key(turn, "turn id")
        ready = encoded_from_caller(entries)
        await self._writer.run(
            lambda db: transcript.begin_turn(db, self._fence, name, ready, self._clock.now_ms()),
            durable=_reaches_out(entries),
        )
        return name

    async def resume_turn(self, turn: str, entries: Sequence[NewEntry] = ()) -> None:
        """Let a lost turn run again."""
        ready = encoded_from_caller(entries)
        await self._writer.run(
            lambda db: transcript.resume_turn(db, self._fence, turn, ready, self._clock.now_ms()),
            durable=False,
        )

    async def append(self, turn: str | None, entries: Sequence[NewEntry]) -> Sequence[int]:
        """Add entries; a tool call must be on disk before the tool may act."""
        ready = encoded_from_caller(entries)
        return await self._writer.run(
            lambda db: transcript.append(db, self._fence, turn, ready, self._clock.now_ms()),
            durable=_reaches_out(entries),
        )

    async def compact(self, turn: str | None, summary: NewEntry, *, through: int) -> int:
        """Add a summary for the entries up to `through`."""
        if summary.kind is not EntryKind.COMPACTION:
            raise InvalidRequest("a summary is an entry of the kind compaction")
        (ready,) = encoded([summary])
        return await self._writer.run(
            lambda db: transcript.compact(
                db, self._fence, turn, ready, through, self._clock.now_ms()
            ),
            durable=False,
        )

    async def finish_turn(
        self,
        turn: str,
        outcome: Outcome,
        entries: Sequence[NewEntry] = (),
        *,
        usage: Usage | None = None,
        detail: str = "",
    ) -> None:
        """End the turn, on disk."""
        ending = NewEntry(outcome.entry_kind, {"detail": detail} if detail else {})
        ready = [*encoded_from_caller(entries), *encoded([ending])]
        counted = usage or Usage()
        await self._writer.run(
            lambda db: transcript.finish_turn(
                db, self._fence, turn, outcome, ready, counted, self._clock.now_ms()
            ),
            durable=True,
        )


class LaneDesk:
    """Hands lanes out within this process and keeps their leases alive."""

    def __init__(
        self, writer: Writer, readers: Readers, clock: Clock, *, mark: str, lease: float
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._clock = clock
        self._lease = lease
        self._mark = mark
        self._queues: dict[str, deque[_Place]] = {}
        self._occupied = anyio.Event()

    @asynccontextmanager
    async def hold(self, session: SessionRef) -> AsyncGenerator[FileLane]:
        """Wait for the session and hold it; see `SessionStore.acquire_lane`."""
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
        """Renew the leases of all who wait or hold, for as long as there are any."""
        while True:
            await self._occupied.wait()
            await anyio.sleep(self._lease / BEATS_PER_LEASE)
            await self._renew()

    def _queue_up(self, session: SessionRef) -> _Place:
        place = _Place(session)
        self._queues.setdefault(session.id, deque()).append(place)
        self._occupied.set()
        return place

    async def _granted(self, place: _Place) -> tickets.Grant:
        while (grant := await self._try(place)) is None:
            await self._head_of_process(place)
            await self._until_free(place)
        return grant

    async def _head_of_process(self, place: _Place) -> None:
        while self._queues[place.session.id][0] is not place:
            await place.at_head.wait()
            place.at_head = anyio.Event()

    async def _try(self, place: _Place) -> tickets.Grant | None:
        place.ticket, grant = await self._writer.run(
            lambda db: tickets.try_grant(db, place.session, place.ticket, self.moment()),
            durable=False,
        )
        return grant

    async def _until_free(self, place: _Place) -> None:
        """Look now and then whether the process ahead has left, without taking the write lock."""
        ticket = place.ticket
        assert ticket is not None
        pause, longest = _POLL_SECONDS
        while not await self._readers.run(
            partial(tickets.is_free, ticket=ticket, moment=self.moment())
        ):
            await anyio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load
            pause = min(2 * pause, longest)

    async def _leave(self, place: _Place) -> None:
        ticket = place.ticket
        try:
            if ticket is not None:
                await self._writer.run(
                    lambda db: tickets.hand_in(db, ticket, place.grant, self.moment()),
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
                lambda db: tickets.renew(db, places, self.moment()), durable=False
            )
        except StoreError as error:
            logger.warning("could not renew the leases of sessions: %s", error)
            return
        for ticket, place in places.items():
            if ticket not in alive and place.scope is not None:
                place.scope.cancel("another process took the session over")

    def moment(self) -> tickets.Moment:
        """Now, and who asks."""
        return tickets.Moment(
            self._mark, self._clock.monotonic(), self._clock.now_ms(), self._lease
        )


def _reaches_out(entries: Sequence[NewEntry]) -> bool:
    """True where something outside is about to happen, which must not be forgotten."""
    return any(entry.kind is EntryKind.TOOL_CALL for entry in entries)
