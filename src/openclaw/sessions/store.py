"""What every store promises, and what both databases do alike."""

import logging
import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Generic, Literal, TypeVar

import anyio
import orjson

from openclaw.core.clock import random_id
from openclaw.core.errors import (
    Busy,
    DeveloperFacing,
    InvalidRequest,
    OpenClawError,
    OperatorFacing,
    UserFacing,
)
from openclaw.core.tools import JsonObject
from openclaw.sessions import queries
from openclaw.sessions.model import (
    MESSAGE_KINDS,
    Document,
    Dossier,
    Encoded,
    Entry,
    EntryKind,
    Hit,
    NewEntry,
    Outcome,
    Page,
    SessionInfo,
    SessionRef,
    Turn,
    TurnState,
    Usage,
    checked_key,
    checked_title,
    decode,
    encode,
    encoded,
    encoded_from_caller,
    storable,
    turn_ending,
)
from openclaw.sessions.queries import Statements

logger = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[Statements], Coroutine[Any, Any, T]]

DEFAULT_LIMIT = 50
_TRIES = 20

LEASE_SECONDS = 9.0  # how long a frozen process keeps others waiting; a dead one is noticed at once
BEATS_PER_LEASE = 3  # renewals in one lease, so that two of them may fail


@dataclass(frozen=True, slots=True)
class Write:
    """Entries to add to a turn, or between turns, and what happens to the turn with them."""

    step: Literal["begin", "resume", "append", "compact", "finish"]
    turn: str | None
    entries: Sequence[Encoded]
    through: int = 0  # what a summary replaces
    outcome: Outcome | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def messages(self) -> int:
        return sum(entry.kind in MESSAGE_KINDS for entry in self.entries)

    def refusal(self, state: str | None, running: str | None) -> OpenClawError | None:
        """Why it cannot be done, given the state of its turn and the turn that runs, if any."""
        if self.step == "begin":
            if state is not None:
                return InvalidRequest(f"the session already has a turn '{self.turn}'")
            if running is not None:
                return DeveloperFacing(f"turn '{running}' has not been finished")
        elif self.step == "resume":
            if state != TurnState.LOST or running is not None:
                return InvalidRequest(f"the session has no lost turn '{self.turn}'")
        elif self.turn is not None and state != TurnState.RUNNING:
            return DeveloperFacing(f"turn '{self.turn}' does not run")
        return None

    def not_summarised(self) -> InvalidRequest:
        return InvalidRequest(f"a summary cannot replace the entries through {self.through}")


@dataclass(frozen=True, slots=True)
class Grant:
    """A session that was taken; `epoch` grows each time. Its last holder left `lost_turns`."""

    row: int
    epoch: int
    lost_turns: tuple[Turn, ...]
    seq: int = 0  # the number of the last entry, where a lane needs to know it


class Lane(ABC):
    """The exclusive right to write to one session.

    Every write checks the right in its own transaction, and raises `LaneLost` if another process
    has taken the session over. A write that has begun is finished even if its caller is cancelled.
    """

    def __init__(self, session: SessionRef, grant: Grant) -> None:
        self.session = session
        self.grant = grant
        self.epoch = grant.epoch
        self.lost_turns = grant.lost_turns

    @abstractmethod
    async def _write(self, write: Write) -> Sequence[int]:
        """Commit it, and return the numbers of its entries."""

    async def begin_turn(self, entries: Sequence[NewEntry] = (), *, turn: str | None = None) -> str:
        """Start a turn with its first entries; the id is `turn` or a new one.

        `InvalidRequest` if the session has this id, so that an order sent twice is carried out once.
        """
        name = random_id() if turn is None else checked_key(turn, "turn id")
        started = Encoded(EntryKind.TURN_STARTED, "", b"{}", None, None)
        await self._write(Write("begin", name, [started, *encoded_from_caller(entries)]))
        return name

    async def resume_turn(self, turn: str, entries: Sequence[NewEntry] = ()) -> None:
        """Continue a turn that was lost; `InvalidRequest` if it was not."""
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
        """Add the last entries, say how the turn ended, and count its usage, all or nothing.

        When this returns, the turn survives a loss of power: only then may it be acknowledged.
        """
        ending = encoded([turn_ending(outcome, detail, usage)])
        ready = [*encoded_from_caller(entries), *ending]
        await self._write(Write("finish", turn, ready, outcome=outcome, usage=usage or Usage()))


L = TypeVar("L", bound=Lane)


@dataclass(slots=True, eq=False)
class Place(Generic[L]):
    """A place in the line for a session; `entitled` ones don't wait behind others here."""

    session: SessionRef
    entitled: bool
    ticket: Any = None
    wanted: str = ""  # the ticket that is being drawn, where its owner names it
    woken: anyio.Event = field(default_factory=anyio.Event)
    lane: L | None = None
    scope: anyio.CancelScope | None = None


@dataclass(slots=True)
class _Line(Generic[L]):
    places: deque[Place[L]] = field(default_factory=deque[Place[L]])
    drawing: anyio.Lock = field(default_factory=anyio.Lock)

    def wake(self) -> None:
        for place in self.places:
            place.woken.set()


@asynccontextmanager
async def beating(beat: Callable[[], Coroutine[Any, Any, None]]) -> AsyncGenerator[None]:
    """Run `beat` while this lasts; an error of the body is raised as it is, not in a group."""
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(beat, name="session leases")
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised again below, outside the group
            failure = error
        group.cancel_scope.cancel()
    if failure is not None:
        raise failure


class LaneDesk(ABC, Generic[L]):
    """Where a process waits for sessions: one line for each, in the order of arrival."""

    # First and longest pause between two looks at a session that another process holds.
    look_seconds: ClassVar[tuple[float, float]]

    def __init__(self, lease: float) -> None:
        self.lease = lease
        self._lines: dict[str, _Line[L]] = {}

    @abstractmethod
    async def _try(self, place: Place[L]) -> L | None:
        """Take the session if nobody is ahead; draw a ticket first if there is none."""

    async def _is_worth_trying(self, place: Place[L]) -> bool:
        return True

    @abstractmethod
    async def _hand_in(self, place: Place[L]) -> None:
        """Leave the line, or the session; an unfinished turn is lost."""

    @asynccontextmanager
    async def hold(self, session: SessionRef, *, entitled: bool = False) -> AsyncGenerator[L]:
        place: Place[L] = Place(session, entitled)
        line = self._lines.setdefault(session.id, _Line[L]())
        line.places.append(place)
        try:
            lane = place.lane = await self._granted(line, place)
            with anyio.CancelScope() as scope:
                place.scope = scope
                yield lane
            if scope.cancelled_caught:
                raise LaneLost("another process took it over")
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave(line, place)

    async def _granted(self, line: _Line[L], place: Place[L]) -> L:
        async with line.drawing:  # tickets are drawn in the order of arrival
            lane = await self._try(place)
        pause, longest = self.look_seconds
        while lane is None:
            first = place.entitled or line.places[0] is place
            spread = random.uniform(0.5, 1.0)  # noqa: S311 - spreads load
            with anyio.move_on_after(pause * spread if first else None):
                await place.woken.wait()
            place.woken = anyio.Event()
            if place.entitled or line.places[0] is place:
                pause = min(2 * pause, longest)
                if await self._is_worth_trying(place):
                    lane = await self._try(place)
        return lane

    async def _leave(self, line: _Line[L], place: Place[L]) -> None:
        try:
            await self._hand_in(place)
        except StoreError as error:
            # Its lease runs out by itself, since nobody renews it from now on.
            logger.warning("could not leave the lane of a session: %s", error)
        finally:
            line.places.remove(place)
            if not line.places:
                del self._lines[place.session.id]
            line.wake()

    def tickets(self) -> list[Any]:
        places = (place for line in self._lines.values() for place in line.places)
        return [place.ticket for place in places if place.ticket is not None]

    def renewed(self, asked: Iterable[Any], alive: set[Any]) -> None:
        """Cancel those whose tickets are gone."""
        gone = set(asked) - alive
        for line in self._lines.values():
            for place in line.places:
                if place.ticket in gone and place.scope is not None:
                    place.scope.cancel("another process took the session over")


class SessionStore(ABC):
    """Sessions in a database. What differs between the two databases comes first."""

    like: Literal["LIKE", "ILIKE"]  # whichever ignores case
    among: str  # the condition that `id` is in $2, a list in JSON
    repeated = ""  # the condition that a document is the same as the stored one
    row_lock: str = ""  # what makes a SELECT lock its row
    newest_entry: str
    word_search: tuple[str, str, str]  # tables, condition with $3, and order

    def __init__(self, desk: LaneDesk[Any]) -> None:
        self._desk = desk

    @abstractmethod
    async def _read(self, work: Work[T]) -> T: ...
    @abstractmethod
    async def _write(self, work: Work[T], *, durable: bool = False) -> T:
        """Commit what `work` writes: one statement, or several that may be done twice."""

    @abstractmethod
    async def _transact(self, work: Work[T], *, durable: bool = True) -> T: ...
    @abstractmethod
    def _now(self) -> tuple[str, list[Any]]:
        """The time in a statement of five values, and the sixth value if it needs one."""

    @abstractmethod
    def _named(self, key: str) -> tuple[str, list[Any]]:
        """The condition that a session has this key or id, with its values from $2 on."""

    @abstractmethod
    def _words(self, text: str) -> str | None:
        """A query for every word of `text`; None if there is none."""

    @abstractmethod
    async def _insert_session(
        self, db: Statements, session: SessionRef, times: tuple[int, int] | None = None
    ) -> None:
        """Create the session, unless it exists. `times` are when it was made and used, else now."""

    @abstractmethod
    async def _insert_entries(self, db: Statements, row: int, entries: Sequence[Entry]) -> None: ...
    @abstractmethod
    async def _delete(self, db: Statements, row: int) -> None: ...
    @abstractmethod
    async def _is_held(self, db: Statements, row: int) -> bool: ...

    @abstractmethod
    async def keep_media(self, session: SessionRef, data: bytes) -> str:
        """Keep an attachment and return its digest; the oldest are deleted if there are too many."""

    @abstractmethod
    async def media(self, session: SessionRef, digest: str) -> bytes | None:
        """An attachment, or None if it is gone."""

    def acquire_lane(self, session: SessionRef) -> AbstractAsyncContextManager[Lane]:
        """Wait in line until the session is free, and hold it; `NotFound` if it was deleted.

        A turn that is unfinished when the body ends is marked as lost. If another process takes
        the session over, the body is cancelled and `LaneLost` raised.
        """
        return self._desk.hold(session)

    async def open_session(self, agent: str, key: str) -> SessionRef:
        """The session of this agent with this key, which is created if there is none."""
        checked_key(agent, "agent id")
        checked_key(key)
        while True:
            for info in await self.find_sessions(key, agent):
                if info.key == key:  # it may be another one's id
                    return info.ref
            new = SessionRef(random_id(), agent, key)
            await self._write(partial(self._insert_session, session=new))

    async def find_sessions(self, key: str, agent: str | None = None) -> list[SessionInfo]:
        named, values = self._named(storable(key))
        query = (
            f"SELECT {queries.INFO_COLUMNS} FROM sessions s"  # noqa: S608 - ours
            f" WHERE (CAST($1 AS text) IS NULL OR agent = $1) AND ({named})"
        )
        rows = await self._read(lambda db: db.fetch(query, agent, *values))
        return sorted(map(queries.info_from, rows), key=lambda info: (info.agent, info.key))

    async def search(self, text: str, *, agent: str | None = None, limit: int = 20) -> list[Hit]:
        """Entries that contain every word of `text`, the best matches first."""
        text = storable(text)
        if queries.without_spaces(text):
            # Scripts that no index can cut into words: the newest first.
            values = [queries.containing(word) for word in text.split()]
            each = [f"e.text {self.like} ${n} ESCAPE '\\'" for n, _ in enumerate(values, 3)]
            tables, condition, order = "entries e", " AND ".join(each), self.newest_entry
        elif (words := self._words(text)) is not None:
            (tables, condition, order), values = self.word_search, [words]
        else:
            return []
        query = (
            f"SELECT {queries.INFO_COLUMNS}, e.seq AS number, e.kind, e.at_ms, e.text"  # noqa: S608 - ours
            f" FROM {tables} JOIN sessions s ON s.row = e.session WHERE {condition}"
            f" AND (CAST($1 AS text) IS NULL OR s.agent = $1) ORDER BY {order} LIMIT $2"
        )
        rows = await self._read(lambda db: db.fetch(query, agent, limit, *values))
        return [queries.hit_from(row, text) for row in rows]

    async def documents(
        self, kind: str, ids: Sequence[str] | None = None, *, limit: int = DEFAULT_LIMIT
    ) -> list[Document]:
        """Documents of a kind, those with these ids or all, the last written first."""
        chosen, values = (
            ("", []) if ids is None else (f"AND {self.among}", [orjson.dumps(list(ids)).decode()])
        )
        query = (
            f"SELECT id, rev, data FROM documents WHERE kind = $1 {chosen}"  # noqa: S608 - ours
            f" ORDER BY written_ms DESC, id LIMIT ${len(values) + 2}"
        )
        rows = await self._read(lambda db: db.fetch(query, kind, *values, limit))
        return [Document(id, rev, decode(data)) for id, rev, data in rows]

    async def write_document(
        self, kind: str, document: Document, *, expires_ms: int, durable: bool = True
    ) -> bool:
        """Write a document; false if it is no longer at the revision before this one."""
        now, values = self._now()
        query = (
            "INSERT INTO documents AS d (kind, id, rev, written_ms, expires_ms, data)"  # noqa: S608 - ours
            f" SELECT $1, $2, CAST($3 AS bigint), {now}, $4, $5 WHERE CAST($3 AS bigint) = 1"
            " OR EXISTS (SELECT 1 FROM documents WHERE kind = $1 AND id = $2)"
            " ON CONFLICT (kind, id) DO UPDATE SET rev = excluded.rev,"
            " written_ms = excluded.written_ms, expires_ms = excluded.expires_ms,"
            f" data = excluded.data WHERE d.rev = excluded.rev - 1 {self.repeated} RETURNING 1"
        )
        given = (kind, document.id, document.rev, expires_ms, encode(document.data), *values)
        write = self._write(lambda db: db.fetchval(query, *given), durable=durable)
        return await write is not None

    async def update_document(
        self,
        kind: str,
        id: str,
        change: Callable[[JsonObject], JsonObject],
        *,
        expires_ms: int,
        durable: bool = True,
    ) -> None:
        """Write what `change` makes of the document, or of `{}`, even if others do so too."""
        for _ in range(_TRIES):
            found = await self.documents(kind, [id])
            before = found[0] if found else Document(id, 0, {})
            # Two that add the same at once must not take each other's write for their own.
            data = {**change(before.data), "write": random_id()}
            document = Document(id, before.rev + 1, data)
            if await self.write_document(kind, document, expires_ms=expires_ms, durable=durable):
                return

    async def delete_documents(self, kind: str, ids: Sequence[str] = (), *, expired: int) -> None:
        """Remove these documents of a kind, and all that expired before `expired`."""
        query = f"DELETE FROM documents WHERE (kind = $1 AND {self.among}) OR expires_ms < $3"  # noqa: S608 - ours
        listed = orjson.dumps(list(ids)).decode()
        await self._write(lambda db: db.execute(query, kind, listed, expired))

    async def history(self, session: SessionRef, *, since_compaction: bool = True) -> list[Entry]:
        """The transcript in order; `since_compaction`, the latest summary and what came after it."""
        return await self._read(lambda db: queries.history(db, session, since_compaction))

    async def entries(
        self, session: SessionRef, *, after: int = 0, limit: int = DEFAULT_LIMIT
    ) -> list[Entry]:
        async def read(db: Statements) -> list[Entry]:
            row = await queries.row_of(db, session)
            return await queries.entries(db, row, "seq > $2 ORDER BY seq LIMIT $3", after, limit)

        return await self._read(read)

    async def find_turn(self, session: SessionRef, turn: str) -> Turn | None:
        async def read(db: Statements) -> list[Turn]:
            row = await queries.row_of(db, session)
            return await queries.turns(db, row, "id = $2", storable(turn))

        return next(iter(await self._read(read)), None)

    async def unfinished_turns(self, session: SessionRef) -> list[Turn]:
        """Turns that run now or were lost, oldest first, with their calls of unknown outcome."""

        async def read(db: Statements) -> list[Turn]:
            row = await queries.row_of(db, session)
            unfinished = "state IN ('running', 'lost') ORDER BY first_seq"
            turns = await queries.turns(db, row, unfinished)
            running = any(turn.state is TurnState.RUNNING for turn in turns)
            if running and not await self._is_held(db, row):
                # its process died, and nobody has taken the session since
                return [replace(turn, state=TurnState.LOST) for turn in turns]
            return turns

        return await self._read(read)

    async def list_sessions(
        self,
        agent: str | None = None,
        *,
        limit: int | None = DEFAULT_LIMIT,
        cursor: str | None = None,
        search: str | None = None,
        conversations: bool = False,
    ) -> Page:
        """Sessions, the most recently used first; `search` is for keys and titles.

        With `conversations`, those that programs began are left out (`PROGRAM_KEYS`).
        """
        wanted = (self.like, agent, conversations, search, cursor, limit)
        return await self._read(lambda db: queries.page(db, *wanted))

    async def count_sessions(self) -> int:
        return await self._read(lambda db: db.fetchval("SELECT count(*) FROM sessions"))

    async def show(self, session: SessionRef) -> SessionInfo:
        return await self._read(lambda db: queries.show(db, session))

    async def set_title(self, session: SessionRef, title: str | None) -> None:
        line = checked_title(title)
        rename = "UPDATE sessions SET title = $2 WHERE id = $1 RETURNING row"
        row = await self._write(lambda db: db.fetchval(rename, session.id, line))
        queries.existing(row, session)

    async def delete(self, session: SessionRef) -> None:
        """Remove a session with everything in it; `Busy` while a turn runs."""

        async def delete(db: Statements) -> None:
            row = await queries.row_of(db, session, self.row_lock)
            await self._require_free(db, row, session)
            await self._delete(db, row)

        await self._transact(delete)

    async def dossier(self, session: SessionRef) -> Dossier:
        return await self._read(lambda db: queries.dossier(db, session))

    async def receive_entries(
        self, info: SessionInfo, after: int, entries: Sequence[Entry]
    ) -> None:
        """Add entries as they are to a session that ends at number `after`, or to a new one.

        `CopyConflict` if it ends elsewhere, `Busy` while somebody holds it.
        """

        async def receive(db: Statements) -> None:
            await self._insert_session(db, info.ref, (info.created_ms, info.updated_ms))
            row = await db.fetchval(
                "UPDATE sessions SET seq = $2 WHERE id = $1 AND seq = $3 RETURNING row",
                info.id,
                entries[-1].seq if entries else after,
                after,
            )
            if row is None:
                raise CopyConflict("somebody else writes to the target's session")
            await self._insert_entries(db, row, entries)
            await self._require_free(db, row, info.ref)

        await self._transact(receive, durable=False)  # the dossier comes last

    async def receive_dossier(self, dossier: Dossier) -> None:
        await self._transact(lambda db: queries.receive_dossier(db, dossier))

    async def _require_free(self, db: Statements, row: int, session: SessionRef) -> None:
        if await self._is_held(db, row):
            message = f"a turn of session '{session.key}' is running"
            raise Busy(message, retry_after=self._desk.lease)


class LaneLost(UserFacing):
    """Raised when another process took the session over, so that nothing more may be written."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"this turn no longer holds its session: {reason}",
            hint="what was committed before is kept; send the message again",
        )


class CopyConflict(UserFacing):
    """Raised when the target has another session of this name, or continued this one."""


class StoreError(OperatorFacing):
    """Raised when the session store does not work; every leaf says how to fix it."""


class StoreUnavailable(StoreError):
    """Raised when the store cannot be opened or reached."""


class StoreMissing(StoreUnavailable):
    """Raised when there is no store where one was to be read."""


class StoreCorrupt(StoreError):
    """Raised when the store's file is damaged or belongs to another program."""


class StoreReadOnly(StoreError):
    """Raised when the store may be read and not written."""


class StoreFull(StoreError):
    """Raised when no space is left to write to."""


class StoreTooNew(StoreError):
    """Raised when the store was written by a newer version of this program."""
