"""A session store in memory, which keeps the promises of the others and forgets all at the end."""

from collections import deque
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, field, replace

import anyio
import anyio.lowlevel

from openclaw.core.clock import Clock, SystemClock
from openclaw.core.errors import Busy, DeveloperFacing, InvalidRequest, NotFound
from openclaw.core.ids import random_id
from openclaw.media.files import digest_of
from openclaw.sessions.model import (
    CALLER_KINDS,
    MESSAGE_KINDS,
    PROGRAM_KEYS,
    Document,
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
    searchable,
    turn_ending,
)
from openclaw.sessions.store import DEFAULT_LIMIT, LaneLost

_RETRY_SECONDS = 1.0


@dataclass(eq=False)
class _Place:
    came: anyio.Event = field(default_factory=anyio.Event)


@dataclass
class _Session:
    ref: SessionRef
    created_ms: int
    updated_ms: int
    used: int
    title: str | None = None
    usage: Usage = field(default_factory=Usage)
    entries: list[Entry] = field(default_factory=list[Entry])
    turns: dict[str, Turn] = field(default_factory=dict[str, Turn])
    media: dict[str, bytes] = field(default_factory=dict[str, bytes])
    epoch: int = 0
    summary: Entry | None = None
    summarised: int = 0
    queue: deque[_Place] = field(default_factory=deque[_Place])

    @property
    def info(self) -> SessionInfo:
        messages = sum(entry.kind in MESSAGE_KINDS for entry in self.entries)
        return SessionInfo(
            self.ref.id,
            self.ref.agent,
            self.ref.key,
            self.title,
            self.created_ms,
            self.updated_ms,
            messages,
            len(self.entries),
            *astuple(self.usage),
        )

    def add(self, turn: str | None, entries: Sequence[NewEntry], now_ms: int) -> range:
        first = len(self.entries) + 1
        added = [
            Entry(
                number,
                turn,
                new.kind,
                now_ms,
                decode(encode(new.data)),
                searchable(new.text),
                new.call_id,
                new.details,
            )
            for number, new in enumerate(entries, first)
        ]
        self.entries += added
        self.updated_ms = max(self.updated_ms, now_ms)
        return range(first, len(self.entries) + 1)

    def open_calls(self, turn: str) -> tuple[Entry, ...]:
        own = [entry for entry in self.entries if entry.turn == turn]
        answered = {entry.call_id for entry in own if entry.kind is EntryKind.TOOL_RESULT}
        return tuple(
            entry
            for entry in own
            if entry.kind is EntryKind.TOOL_CALL and entry.call_id not in answered
        )

    def give_up_turns(self, now_ms: int) -> tuple[Turn, ...]:
        lost: list[Turn] = []
        for turn in [turn for turn in self.turns.values() if turn.state is TurnState.RUNNING]:
            calls = self.open_calls(turn.id)
            data = {"openCalls": [call.call_id for call in calls]}
            self.add(turn.id, [NewEntry(EntryKind.TURN_LOST, data)], now_ms)
            lost.append(replace(turn, state=TurnState.LOST, finished_ms=now_ms, open_calls=calls))
        self.turns.update({turn.id: turn for turn in lost})
        return tuple(lost)


class MemoryLane:
    def __init__(self, store: "MemoryStore", record: _Session, lost_turns: Sequence[Turn]) -> None:
        self.session = record.ref
        self.epoch = record.epoch
        self.lost_turns = lost_turns
        self._store = store
        self._record = record

    async def begin_turn(self, entries: Sequence[NewEntry] = (), *, turn: str | None = None) -> str:
        name = random_id() if turn is None else checked_key(turn, "turn id")
        _check_kinds(entries)
        await self._check()
        if name in self._record.turns:
            raise InvalidRequest(f"the session already has a turn '{name}'")
        if any(other.state is TurnState.RUNNING for other in self._record.turns.values()):
            raise DeveloperFacing("another turn has not been finished")
        now = self._store.touch(self._record)
        self._record.add(name, [NewEntry(EntryKind.TURN_STARTED), *entries], now)
        self._record.turns[name] = Turn(name, TurnState.RUNNING, now, None)
        return name

    async def resume_turn(self, turn: str, entries: Sequence[NewEntry] = ()) -> None:
        _check_kinds(entries)
        await self._check()
        found = self._record.turns.get(turn)
        if found is None or found.state is not TurnState.LOST:
            raise InvalidRequest(f"the session has no lost turn '{turn}'")
        self._record.add(turn, entries, self._store.touch(self._record))
        again = replace(found, state=TurnState.RUNNING, finished_ms=None, open_calls=())
        self._record.turns[turn] = again

    async def append(self, turn: str | None, entries: Sequence[NewEntry]) -> Sequence[int]:
        _check_kinds(entries)
        await self._check(turn)
        return self._record.add(turn, entries, self._store.touch(self._record))

    async def compact(self, turn: str | None, summary: NewEntry, *, through: int) -> int:
        if summary.kind is not EntryKind.COMPACTION:
            raise InvalidRequest("a summary is an entry of the kind compaction")
        await self._check(turn)
        record = self._record
        if not record.summarised <= through <= len(record.entries):
            raise InvalidRequest(f"a summary cannot stand for the entries through {through}")
        record.entries[:through] = [
            replace(entry, details=None) for entry in record.entries[:through]
        ]
        (number,) = record.add(turn, [summary], self._store.touch(record))
        record.summary, record.summarised = record.entries[-1], through
        return number

    async def finish_turn(
        self,
        turn: str,
        outcome: Outcome,
        entries: Sequence[NewEntry] = (),
        *,
        usage: Usage | None = None,
        detail: str = "",
    ) -> None:
        _check_kinds(entries)
        await self._check(turn)
        ending = turn_ending(outcome, detail, usage)
        now = self._store.touch(self._record)
        self._record.add(turn, [*entries, ending], now)
        done = replace(self._record.turns[turn], state=TurnState(outcome), finished_ms=now)
        self._record.turns[turn] = done
        self._record.usage += usage or Usage()

    async def _check(self, turn: str | None = None) -> None:
        await anyio.lowlevel.checkpoint()
        if not self._store.holds(self._record):
            raise LaneLost("it was deleted")
        if self._record.epoch != self.epoch:
            raise LaneLost("another process took it over")
        if turn is not None:
            found = self._record.turns.get(turn)
            if found is None or found.state is not TurnState.RUNNING:
                raise DeveloperFacing(f"turn '{turn}' does not run")


class MemoryStore:
    """A `SessionStore` for tests and for runs that are to leave nothing behind."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._sessions: dict[tuple[str, str], _Session] = {}
        self._uses = 0
        self._documents: dict[tuple[str, str], tuple[Document, int]] = {}

    async def open_session(self, agent: str, key: str) -> SessionRef:
        name = (checked_key(agent, "agent id"), checked_key(key))
        if name not in self._sessions:
            now = self._clock.now_ms()
            self._sessions[name] = _Session(SessionRef(random_id(), agent, key), now, now, 0)
            self.touch(self._sessions[name])
        return self._sessions[name].ref

    @asynccontextmanager
    async def acquire_lane(self, session: SessionRef) -> AsyncGenerator[MemoryLane]:
        record = self._record(session)
        place = _Place()
        record.queue.append(place)
        try:
            while record.queue[0] is not place:
                await place.came.wait()
            record.epoch += 1
            epoch = record.epoch
            lost = record.give_up_turns(self._clock.now_ms())
            try:
                yield MemoryLane(self, record, lost)
            finally:
                if record.epoch == epoch:
                    record.give_up_turns(self._clock.now_ms())
        finally:
            self._leave(record, place)

    async def history(self, session: SessionRef, *, since_compaction: bool = True) -> list[Entry]:
        record = self._record(session)
        if not since_compaction or record.summary is None:
            return list(record.entries)
        rest = record.entries[record.summarised :]
        return [record.summary, *(e for e in rest if e.kind is not EntryKind.COMPACTION)]

    async def entries(
        self, session: SessionRef, *, after: int = 0, limit: int = DEFAULT_LIMIT
    ) -> list[Entry]:
        return self._record(session).entries[after : after + limit]

    async def find_turn(self, session: SessionRef, turn: str) -> Turn | None:
        record = self._record(session)
        found = record.turns.get(turn)
        return found and replace(found, open_calls=record.open_calls(turn))

    async def unfinished_turns(self, session: SessionRef) -> list[Turn]:
        record = self._record(session)
        return [
            replace(turn, open_calls=record.open_calls(turn.id))
            for turn in record.turns.values()
            if turn.state in (TurnState.RUNNING, TurnState.LOST)
        ]

    async def list_sessions(
        self,
        agent: str | None = None,
        *,
        limit: int | None = DEFAULT_LIMIT,
        cursor: str | None = None,
        search: str | None = None,
        conversations: bool = False,
    ) -> Page:
        records = sorted(self._sessions.values(), key=lambda record: -record.used)
        wanted = (search or "").casefold()
        found = [
            record
            for record in records
            if (agent is None or record.ref.agent == agent)
            and (wanted in record.ref.key.casefold() or wanted in (record.title or "").casefold())
            and (cursor is None or record.used < _parsed(cursor))
            and not (conversations and record.ref.key.startswith(PROGRAM_KEYS))
        ]
        kept = found if limit is None else found[:limit]
        more = len(kept) < len(found) and kept
        return Page([record.info for record in kept], str(kept[-1].used) if more else None)

    async def count_sessions(self) -> int:
        return len(self._sessions)

    async def find_sessions(self, key: str, agent: str | None = None) -> list[SessionInfo]:
        found = [
            record.info
            for record in self._sessions.values()
            if key in (record.ref.key, record.ref.id) and agent in (None, record.ref.agent)
        ]
        return sorted(found, key=lambda info: (info.agent, info.key))

    async def show(self, session: SessionRef) -> SessionInfo:
        return self._record(session).info

    async def set_title(self, session: SessionRef, title: str | None) -> None:
        self._record(session).title = checked_title(title)

    async def keep_media(self, session: SessionRef, data: bytes) -> str:
        digest = digest_of(data)
        self._record(session).media[digest] = data
        return digest

    async def media(self, session: SessionRef, digest: str) -> bytes | None:
        return self._record(session).media.get(digest)

    async def delete(self, session: SessionRef) -> None:
        if self._record(session).queue:
            raise Busy(f"a turn of session '{session.key}' is running", retry_after=_RETRY_SECONDS)
        del self._sessions[session.agent, session.key]

    async def search(self, text: str, *, agent: str | None = None, limit: int = 20) -> list[Hit]:
        words = text.casefold().split()
        hits = [
            Hit(record.info, entry.seq, entry.kind, entry.at_ms, entry.text[:200])
            for record in self._sessions.values()
            for entry in record.entries
            if words
            and agent in (None, record.ref.agent)
            and all(word in entry.text.casefold() for word in words)
        ]
        return hits[:limit]

    async def documents(
        self, kind: str, ids: Sequence[str] | None = None, *, limit: int = 50
    ) -> list[Document]:
        found = [one for (of, _), (one, _) in reversed(self._documents.items()) if of == kind]
        return [one for one in found if ids is None or one.id in ids][:limit]

    async def write_document(
        self, kind: str, document: Document, *, expires_ms: int, durable: bool = True
    ) -> bool:
        before = self._documents.get((kind, document.id))
        if (before[0].rev if before else 0) != document.rev - 1:
            return False
        self._documents.pop((kind, document.id), None)
        self._documents[kind, document.id] = (document, expires_ms)
        return True

    async def delete_documents(self, kind: str, ids: Sequence[str] = (), *, expired: int) -> None:
        for name, (_, expires) in list(self._documents.items()):
            if (name[0] == kind and name[1] in ids) or expires < expired:
                del self._documents[name]

    def take_away(self, session: SessionRef) -> None:
        """Let whoever is next have the session, as though its holder had died."""
        record = self._record(session)
        self._leave(record, record.queue[0])

    def touch(self, record: _Session) -> int:
        """The time now, at which `record` becomes the one used last."""
        self._uses += 1
        record.used = self._uses
        return self._clock.now_ms()

    def holds(self, record: _Session) -> bool:
        return self._sessions.get((record.ref.agent, record.ref.key)) is record

    def _record(self, session: SessionRef) -> _Session:
        record = self._sessions.get((session.agent, session.key))
        if record is None or record.ref.id != session.id:
            raise NotFound(f"there is no session '{session.key}' of agent '{session.agent}'")
        return record

    def _leave(self, record: _Session, place: _Place) -> None:
        if place in record.queue:
            record.queue.remove(place)
        if record.queue:
            record.queue[0].came.set()


def _check_kinds(entries: Sequence[NewEntry]) -> None:
    for entry in entries:
        if entry.kind not in CALLER_KINDS:
            raise InvalidRequest(f"an entry of the kind {entry.kind} is written by the store")


def _parsed(cursor: str) -> int:
    try:
        return int(cursor)
    except ValueError:
        raise InvalidRequest("this cursor did not come from a listing", field="cursor") from None
