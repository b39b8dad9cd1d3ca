"""Lanes: the exclusive right to write to a session, and waiting for it. Each store has its own kind."""

import logging
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import anyio

from openclaw.core.clock import random_id
from openclaw.core.errors import DeveloperFacing, InvalidRequest, OpenClawError
from openclaw.core.outcome import Outcome
from openclaw.sessions import queries
from openclaw.sessions.queries import Statements
from openclaw.sessions.records import (
    MESSAGE_KINDS,
    Encoded,
    EntryKind,
    LaneLost,
    NewEntry,
    SessionRef,
    StoreError,
    TurnState,
    Usage,
    checked_key,
    encoded,
    encoded_from_caller,
    storable,
    turn_ending,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[Statements], Coroutine[Any, Any, T]]

LEASE_SECONDS = 9.0  # how long a frozen process keeps others waiting; a dead one is noticed at once
BEATS_PER_LEASE = 3  # renewals in one lease, so that two of them may fail


class Database(Protocol):
    async def read(self, work: Work[T]) -> T: ...

    async def write(self, work: Work[T], *, durable: bool = False) -> T:
        """Commit what `work` writes: one statement, or several that are safe to repeat."""
        ...

    async def transact(self, work: Work[T], *, durable: bool = True) -> T:
        """The same in one transaction. Only a `durable` one must survive a power failure.

        Once begun, it is finished even if its caller is cancelled. If a connection fails during the
        commit, `work` runs again, and must check what it already did.
        """
        ...


@dataclass(frozen=True, slots=True)
class Write:
    """Entries to add to a turn, or between turns, and what happens to the turn with them."""

    step: Literal["begin", "resume", "append", "compact", "finish"]
    turn: str | None
    entries: Sequence[Encoded]
    through: int | None = None  # the last entry that a summary replaces
    outcome: Outcome | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def requires(self) -> str:
        """The state that the turn must have; empty if it must not exist."""
        if self.step == "begin" or self.turn is None:
            return ""
        return str(TurnState.LOST if self.step == "resume" else TurnState.RUNNING)

    @property
    def leaves(self) -> str | None:
        """The state that the turn has afterwards, if it changes."""
        begins = self.step in ("begin", "resume")
        return str(TurnState.RUNNING) if begins else self.outcome and str(self.outcome)

    def refusal(self, state: str | None, running: str | None) -> OpenClawError:
        """Why it cannot be done, given the state of its turn and the running turn, if any."""
        if self.step == "resume":
            return InvalidRequest(f"the session has no lost turn '{self.turn}'")
        if self.step == "begin":
            if state is not None:
                return InvalidRequest(f"the session already has a turn '{self.turn}'")
            return DeveloperFacing(f"turn '{running}' has not been finished")
        if self.turn is not None and state != TurnState.RUNNING:
            return DeveloperFacing(f"turn '{self.turn}' does not run")
        return InvalidRequest(f"a summary cannot replace the entries through {self.through}")


@dataclass(frozen=True, slots=True)
class LaneGrant:
    """A session that is held; `epoch` grows each time it is taken."""

    row: int
    epoch: int
    seq: int  # the number of the last entry


class Lane:
    """The exclusive right to write to one session.

    Every write checks the right in its own transaction, and raises `LaneLost` if another process
    has taken the session over. A write that has begun completes even if its caller is cancelled.

    `on_finish` is called inside the transaction that ends a turn, so that what it does is committed
    with the turn or not at all. If the connection breaks, it is called again in a new transaction,
    but never for a turn that was committed.
    """

    def __init__(self, session: SessionRef, grant: LaneGrant, manager: "LaneManager") -> None:
        self.session = session
        self.at = grant
        self.on_finish: Callable[[Any], Awaitable[None]] | None = None
        self.tidy = True  # false while a turn may be unfinished
        self._sure = True  # whether `at` is known to be the end of the transcript
        self._manager = manager
        self._writing = anyio.Lock()

    async def begin_turn(self, entries: Sequence[NewEntry] = (), *, turn: str | None = None) -> str:
        """Start a turn with its first entries; the id is `turn` or a new one.

        `InvalidRequest` if the session has a turn with this id, so that an order sent twice runs once.
        """
        name = random_id() if turn is None else checked_key(turn, "turn id")
        started = Encoded(EntryKind.TURN_STARTED, "", b"{}", None, None)
        self.tidy = False
        await self._write(Write("begin", name, [started, *encoded_from_caller(entries)]))
        return name

    async def resume_turn(self, turn: str, entries: Sequence[NewEntry] = ()) -> None:
        """Continue a lost turn; `InvalidRequest` if it isn't lost."""
        self.tidy = False
        await self._write(Write("resume", turn, encoded_from_caller(entries)))

    async def append(self, turn: str | None, entries: Sequence[NewEntry]) -> Sequence[int]:
        """Add entries and return their numbers.

        A tool call is on disk before this returns: append it before the tool runs.
        """
        return await self._write(Write("append", turn, encoded_from_caller(entries)))

    async def compact(self, turn: str | None, summary: NewEntry, *, through: int) -> int:
        """Add a summary that replaces every entry up to number `through` in `history`.

        The transcript keeps them, without their details.
        """
        if summary.kind is not EntryKind.COMPACTION:
            raise InvalidRequest("a summary is an entry of the kind compaction")
        return (await self._write(Write("compact", turn, encoded([summary]), through)))[0]

    async def finish_turn(
        self,
        turn: str,
        outcome: Outcome,
        entries: Sequence[NewEntry] = (),
        *,
        usage: Usage | None = None,
        detail: str = "",
    ) -> None:
        """Add the last entries, record how the turn ended, and count its usage, all or nothing.

        When this returns, the turn survives a power failure: only then may it be acknowledged.
        """
        ending = encoded([turn_ending(outcome, detail, usage)])
        ready = [*encoded_from_caller(entries), *ending]
        await self._write(Write("finish", turn, ready, outcome=outcome, usage=usage or Usage()))
        self.tidy = True

    async def _write(self, write: Write) -> range:
        """Commit it, and return the numbers of its entries."""
        # Unacknowledged writes without outside effects need not be on disk yet.
        reaches_out = any(entry.kind is EntryKind.TOOL_CALL for entry in write.entries)

        async def commit(db: Statements) -> None:
            done = await self._manager.commit(db, at, write)
            if done and write.step == "finish" and self.on_finish is not None:
                await self.on_finish(db)

        async with self._writing:
            if not self._sure:
                await self._find_position()
            at, self._sure = self.at, False
            durable = reaches_out or write.step == "finish"
            database = self._manager.database
            alone = self.on_finish is None or write.step != "finish"
            await (database.write if alone else database.transact)(commit, durable=durable)
            self.at, self._sure = replace(at, seq=at.seq + len(write.entries)), True
        return range(at.seq + 1, self.at.seq + 1)

    async def _find_position(self) -> None:
        """Find the end of the transcript after a failed write, which may have succeeded."""
        query = "SELECT seq FROM sessions WHERE row = $1"
        seq = await self._manager.database.read(lambda db: db.fetchval(query, self.at.row))
        if seq is None:
            raise LaneLost("it was deleted")
        self.at = replace(self.at, seq=max(seq, self.at.seq))


@dataclass(slots=True, eq=False)
class LaneRequest:
    """A place in the line for a session; `entitled` ones don't wait behind others here."""

    session: SessionRef
    entitled: bool
    ticket: Any = None
    wanted: str = ""  # the ticket being drawn, if its owner names it
    woken: anyio.Event = field(default_factory=anyio.Event)
    lane: Lane | None = None
    scope: anyio.CancelScope | None = None


@dataclass(slots=True)
class _Line:
    places: deque[LaneRequest] = field(default_factory=deque[LaneRequest])
    drawing: anyio.Lock = field(default_factory=anyio.Lock)

    def wake(self) -> None:
        for place in self.places:
            place.woken.set()


# A write changes something only if the session still has the epoch (which a takeover raises) and ends at
# the number that the lane saw last, and its turn has the state that the step requires. So it can be
# sent again if the connection broke meanwhile.
# $1 row, $2 epoch, $3 last number, $4 entries, $5 messages, $6 turn, $7 the state that it must have,
# $8 the last entry that a summary replaces, then the usage.
ADVANCE = """
UPDATE sessions SET seq = seq + $4, messages = messages + $5,
  updated_ms = CASE WHEN updated_ms < {now} THEN {now} ELSE updated_ms END,
  summary_seq = CASE WHEN $8 >= 0 THEN seq + $4 ELSE summary_seq END,
  summarised = coalesce($8, summarised),
  input_tokens = input_tokens + $9, output_tokens = output_tokens + $10,
  cache_read_tokens = cache_read_tokens + $11, cache_write_tokens = cache_write_tokens + $12,
  requests = requests + $13, tool_calls = tool_calls + $14
WHERE row = $1 AND epoch = $2 AND seq = $3 AND coalesce($8, summarised) BETWEEN summarised AND seq
  AND coalesce((SELECT state FROM turns WHERE session = $1 AND id = $6), '') = $7
  -- No other turn runs. The order and the first condition are for the index: there may be many.
  AND coalesce((SELECT id FROM turns WHERE session = $1 AND state IN ('running', 'lost')
    AND state = 'running' ORDER BY first_seq LIMIT 1) = $6, true)
RETURNING {now} AS now_ms
"""


class LaneManager(ABC):
    """Manages a process's waiting for sessions: one line per session, in order of arrival."""

    # First and longest pause between two checks of a session that another process holds.
    look_seconds: ClassVar[tuple[float, float]]
    now: ClassVar[str]  # the time in milliseconds, in a statement
    row_lock: ClassVar[str] = ""  # what makes a SELECT lock its row

    def __init__(self, database: Database, lease: float) -> None:
        self.database = database
        self.lease = lease
        self._lines: dict[str, _Line] = {}

    @abstractmethod
    async def insert_entries(
        self, db: Statements, row: int, entries: Iterable[tuple[int, str | None, int, Encoded]]
    ) -> None:
        """Add entries, each with its number, turn and time."""

    @abstractmethod
    async def _try(self, place: LaneRequest) -> LaneGrant | None:
        """Take the session if nobody is ahead; draw a ticket first if necessary."""

    @abstractmethod
    async def _hand_in(self, place: LaneRequest) -> None:
        """Leave the line or the session; an unfinished turn is marked as lost."""

    @abstractmethod
    async def is_held(self, db: Statements, row: int) -> bool:
        """Whether a live ticket holds or awaits the session. Runs in a transaction."""

    @abstractmethod
    async def _add(self, db: Statements, write: Write, values: Sequence[Any]) -> bool:
        """Write it if `ADVANCE` succeeds with these `values`."""

    async def commit(self, db: Statements, at: LaneGrant, write: Write) -> bool:
        """Write it; false if an earlier attempt, whose connection broke, already did."""
        count = len(write.entries)
        messages = sum(entry.kind in MESSAGE_KINDS for entry in write.entries)
        turn = None if write.turn is None else storable(write.turn)
        values = (at.row, at.epoch, at.seq, count, messages, turn, write.requires, write.through)
        if await self._add(db, write, (*values, *write.usage.counted)):
            return True
        if await _was_written(db, at, count):
            return False
        query = "SELECT id, state FROM turns WHERE session = $1 AND (id = $2 OR state = 'running')"
        turns = [tuple(one) for one in await db.fetch(query, at.row, turn)]
        state = next((state for id, state in turns if id == turn), None)
        running = next((id for id, state in turns if state == "running"), None)
        raise write.refusal(state, running)

    async def give_up_turns(self, db: Statements, grant: LaneGrant) -> None:
        """Mark the holder's unfinished turn as lost, unless the session was taken over."""
        query = f"SELECT epoch FROM sessions WHERE row = $1{self.row_lock}"  # noqa: S608 - ours
        if await db.fetchval(query, grant.row) == grant.epoch:
            await queries.give_up_turns(db, grant.row, self.now)

    @asynccontextmanager
    async def hold(self, session: SessionRef, *, entitled: bool = False) -> AsyncGenerator[Lane]:
        place = LaneRequest(session, entitled)
        line = self._lines.setdefault(session.id, _Line())
        line.places.append(place)
        try:
            lane = place.lane = Lane(session, await self._granted(line, place), self)
            with anyio.CancelScope() as scope:
                place.scope = scope
                yield lane
            if scope.cancelled_caught:
                raise LaneLost("another process took it over")
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave(line, place)

    async def _granted(self, line: _Line, place: LaneRequest) -> LaneGrant:
        async with line.drawing:  # tickets are drawn in order of arrival
            grant = await self._try(place)
        pause, longest = self.look_seconds
        while grant is None:
            first = place.entitled or line.places[0] is place
            spread = random.uniform(0.5, 1.0)  # noqa: S311 - spreads load
            with anyio.move_on_after(pause * spread if first else None):
                await place.woken.wait()
            place.woken = anyio.Event()
            if place.entitled or line.places[0] is place:
                pause = min(2 * pause, longest)
                grant = await self._try(place)
        return grant

    async def _leave(self, line: _Line, place: LaneRequest) -> None:
        try:
            await self._hand_in(place)
        except StoreError as error:
            # Its lease expires, since nobody renews it any more.
            logger.warning("could not leave the lane of a session: %s", error)
        finally:
            line.places.remove(place)
            if not line.places:
                del self._lines[place.session.id]
            line.wake()

    def tickets(self) -> list[Any]:
        """Those to renew. May be called on another thread, hence the copies."""
        places = (place for line in list(self._lines.values()) for place in list(line.places))
        return [place.ticket for place in places if place.ticket is not None]

    def renewed(self, asked: Iterable[Any], alive: set[Any]) -> None:
        """Cancel holders and waiters whose tickets are gone."""
        gone = set(asked) - alive
        for line in self._lines.values():
            for place in line.places:
                if place.ticket in gone and place.scope is not None:
                    place.scope.cancel("another process took the session over")


async def _was_written(db: Statements, at: LaneGrant, count: int) -> bool:
    """Whether `count` entries after this position already exist. Raises `LaneLost`."""
    found = await db.fetchrow("SELECT epoch, seq FROM sessions WHERE row = $1", at.row)
    if found is None:
        raise LaneLost("it was deleted")
    epoch, seq = found
    if epoch != at.epoch:
        raise LaneLost("another process took it over")
    if seq < at.seq:
        raise StoreError("the session lost entries that were on disk")
    if seq not in (at.seq, at.seq + count):
        raise StoreError("the session was written by somebody who did not hold it")
    return count > 0 and seq == at.seq + count
