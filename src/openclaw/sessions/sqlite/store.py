"""The file store: sessions in one SQLite database."""

import logging
import sqlite3
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
import orjson

from openclaw.core.clock import Clock
from openclaw.media.files import AttachmentFiles
from openclaw.sessions import queries as shared
from openclaw.sessions.liveness import is_gone, own_mark
from openclaw.sessions.model import (
    Encoded,
    Entry,
    EntryKind,
    SessionRef,
    Turn,
    encoded,
)
from openclaw.sessions.sqlite import connections
from openclaw.sessions.sqlite.connections import Readers, Statements, Writer, at_once
from openclaw.sessions.store import (
    BEATS_PER_LEASE,
    LEASE_SECONDS,
    Grant,
    Lane,
    LaneDesk,
    LaneLost,
    Place,
    SessionStore,
    StoreError,
    Work,
    Write,
    beating,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")


# ---- transcripts


def _value(db: sqlite3.Connection, query: str, *values: Any) -> Any:
    found = db.execute(query, values).fetchone()
    return None if found is None else found[0]


@dataclass(frozen=True, slots=True)
class _Transcript:
    """A session in a transaction that writes to it."""

    db: sqlite3.Connection
    row: int
    now_ms: int

    def write(self, write: Write, epoch: int) -> range:
        found = self.db.execute(
            "SELECT epoch, (SELECT state FROM turns WHERE session = ?1 AND id = ?2),"
            # The order and the first condition are for the index: a session may have many turns.
            " (SELECT id FROM turns WHERE session = ?1 AND state IN ('running', 'lost')"
            " AND state = 'running' ORDER BY first_seq)"
            " FROM sessions WHERE row = ?1",
            (self.row, write.turn),
        ).fetchone()
        if found is None or found[0] != epoch:
            raise LaneLost("it was deleted" if found is None else "another process took it over")
        refusal = write.refusal(*found[1:])
        if refusal is not None:
            raise refusal
        if write.step == "compact":
            self._summarise(write)
        numbers = self._add(write)
        if write.step == "begin":
            self.db.execute(
                "INSERT INTO turns (session, id, state, started_ms, first_seq)"
                " VALUES (?, ?, 'running', ?, ?)",
                (self.row, write.turn, self.now_ms, numbers[0]),
            )
        elif write.step in ("resume", "finish"):
            ended = write.outcome is not None
            self.db.execute(
                "UPDATE turns SET state = ?, finished_ms = ? WHERE session = ? AND id = ?",
                (write.outcome or "running", self.now_ms if ended else None, self.row, write.turn),
            )
        return numbers

    def _summarise(self, write: Write) -> None:
        """Make the entry that comes next the summary."""
        before = _value(
            self.db,
            "SELECT summarised FROM sessions WHERE row = ?1 AND ?2 BETWEEN summarised AND seq",
            self.row,
            write.through,
        )
        if before is None:
            raise write.not_summarised()
        self.db.execute(
            "UPDATE entries SET details = NULL"
            " WHERE session = ? AND seq > ? AND seq <= ? AND details IS NOT NULL",
            (self.row, before, write.through),
        )
        self.db.execute(
            "UPDATE sessions SET summary_seq = seq + 1, summarised = ? WHERE row = ?",
            (write.through, self.row),
        )

    def _add(self, write: Write) -> range:
        last = _value(
            self.db,
            "UPDATE sessions SET seq = seq + ?, messages = messages + ?,"
            " updated_ms = max(updated_ms, ?), input_tokens = input_tokens + ?,"
            " output_tokens = output_tokens + ?, cache_read_tokens = cache_read_tokens + ?,"
            " cache_write_tokens = cache_write_tokens + ?, requests = requests + ?,"
            " tool_calls = tool_calls + ? WHERE row = ? RETURNING seq",
            *(len(write.entries), write.messages, self.now_ms, *write.usage.counted, self.row),
        )
        numbers = range(last - len(write.entries) + 1, last + 1)
        for number, entry in zip(numbers, write.entries, strict=True):
            self.insert(number, write.turn, self.now_ms, entry)
        return numbers

    def insert(self, number: int, turn: str | None, at_ms: int, one: Encoded) -> None:
        added = self.db.execute(
            "INSERT INTO entries (session, seq, turn, kind, at_ms, call_id, text, data, details)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (self.row, number, turn, one.kind, at_ms, one.call_id, one.text, one.data, one.details),
        )
        if one.text:
            values = (added.lastrowid, one.text)
            self.db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", values)


# ---- tickets
#
# To get a session, draw a ticket. The oldest live ticket holds the session. A ticket is dead once its
# process is, if this machine can tell, or once its lease has expired. Leases are measured on the
# monotonic clock, which all processes of a machine share and nobody can set.


@dataclass(frozen=True, slots=True)
class _Tickets:
    """The tickets at a moment, as one process sees them in a transaction."""

    db: sqlite3.Connection
    mark: str
    monotonic: float
    now_ms: int
    lease: float

    def is_dead(self, owner: str, expires: float) -> bool:
        if expires <= self.monotonic:
            return True
        if owner == self.mark:
            return False
        # No lease is this long: the clock, and so the machine, started again.
        began_before_boot = expires > self.monotonic + 100 * self.lease
        return began_before_boot or is_gone(owner)

    def try_grant(self, session: SessionRef, ticket: int | None) -> tuple[int, Grant | None]:
        """Take the session if `ticket` is the oldest live one.

        Without a ticket, or if others took it for dead, a new one is drawn first.
        """
        db, row = self.db, at_once(shared.row_of(Statements(self.db), session))
        if ticket is None or _value(db, "SELECT 1 FROM tickets WHERE id = ?", ticket) is None:
            ticket = _value(
                db,
                "INSERT INTO tickets (session, owner, expires) VALUES (?, ?, ?) RETURNING id",
                *(row, self.mark, self.monotonic + self.lease),
            )
        assert ticket is not None
        while ahead := db.execute(
            "SELECT id, owner, expires FROM tickets WHERE session = ? AND id < ?"
            " ORDER BY id LIMIT 1",
            (row, ticket),
        ).fetchone():
            other, owner, expires = ahead
            if not self.is_dead(owner, expires):
                return ticket, None
            db.execute("DELETE FROM tickets WHERE id = ?", (other,))
        raised = "UPDATE sessions SET epoch = epoch + 1 WHERE row = ? RETURNING epoch"
        return ticket, Grant(row, _value(db, raised, row), self._give_up_turns(row))

    def is_free(self, ticket: int) -> bool:
        """Whether the ticket ahead is gone or dead, or this one is."""
        found = self.db.execute(
            "SELECT owner, expires FROM tickets WHERE id < ?1 AND session ="
            " (SELECT session FROM tickets WHERE id = ?1) ORDER BY id LIMIT 1",
            (ticket,),
        ).fetchone()
        return found is None or self.is_dead(*found)

    def is_held(self, row: int) -> bool:
        found = self.db.execute("SELECT owner, expires FROM tickets WHERE session = ?", (row,))
        return any(not self.is_dead(*ticket) for ticket in found)

    def renew(self, tickets: Sequence[int]) -> set[int]:
        rows = self.db.execute(
            "UPDATE tickets SET expires = ? WHERE id IN (SELECT value FROM json_each(?))"
            " RETURNING id",
            (self.monotonic + self.lease, orjson.dumps(sorted(tickets)).decode()),
        )
        return {row[0] for row in rows}

    def hand_in(self, ticket: int, lane: Lane | None) -> None:
        self.db.execute("DELETE FROM tickets WHERE id = ?", (ticket,))
        if lane is not None:
            row, epoch = lane.grant.row, lane.grant.epoch
            if _value(self.db, "SELECT epoch FROM sessions WHERE row = ?", row) == epoch:
                self._give_up_turns(row)

    def _give_up_turns(self, row: int) -> tuple[Turn, ...]:
        return at_once(shared.give_up_turns(Statements(self.db), row, self.now_ms))


# ---- lanes


class FileLane(Lane):
    def __init__(self, session: SessionRef, grant: Grant, desk: "_Desk") -> None:
        super().__init__(session, grant)
        self._desk = desk

    async def _write(self, write: Write) -> Sequence[int]:
        def commit(db: sqlite3.Connection) -> range:
            transcript = _Transcript(db, self.grant.row, self._desk.clock.now_ms())
            return transcript.write(write, self.epoch)

        # What was not acknowledged, and reaches nothing outside, need not be on disk yet.
        reaches_out = any(entry.kind is EntryKind.TOOL_CALL for entry in write.entries)
        return await self._desk.writer.run(commit, durable=reaches_out or write.step == "finish")


class _Desk(LaneDesk[FileLane]):
    look_seconds = (0.005, 0.05)

    def __init__(self, path: Path, clock: Clock, mark: str, lease: float) -> None:
        super().__init__(lease)
        self.writer, self.readers, self.clock, self._mark = Writer(path), Readers(path), clock, mark

    def tickets_in(self, db: sqlite3.Connection) -> _Tickets:
        return _Tickets(db, self._mark, self.clock.monotonic(), self.clock.now_ms(), self.lease)

    async def beat(self) -> None:
        while True:
            await anyio.sleep(self.lease / BEATS_PER_LEASE)
            tickets = self.tickets()
            if not tickets:
                continue
            try:
                alive = await self._with_tickets(partial(_Tickets.renew, tickets=tickets))
            except StoreError as error:
                logger.warning("could not renew the leases of sessions: %s", error)
                continue
            self.renewed(tickets, alive)

    async def _with_tickets(self, work: Callable[[_Tickets], T]) -> T:
        return await self.writer.run(lambda db: work(self.tickets_in(db)), durable=False)

    async def _try(self, place: Place[FileLane]) -> FileLane | None:
        place.ticket, grant = await self._with_tickets(
            lambda found: found.try_grant(place.session, place.ticket)
        )
        return grant and FileLane(place.session, grant, self)

    async def _is_worth_trying(self, place: Place[FileLane]) -> bool:
        """Doesn't take the write lock."""
        return await self.readers.run(lambda db: self.tickets_in(db).is_free(place.ticket))

    async def _hand_in(self, place: Place[FileLane]) -> None:
        if place.ticket is not None:
            await self._with_tickets(lambda found: found.hand_in(place.ticket, place.lane))


# ---- the store

MEDIA_DIRECTORY = "media"  # beside the database, for the attachments of its sessions


class FileStore(SessionStore):
    like = "LIKE"
    among = "id IN (SELECT value FROM json_each($2))"
    newest_entry = "e.row DESC"
    word_search = ("words JOIN entries e ON e.row = words.rowid", "words MATCH $3", "rank")
    _desk: _Desk

    def __init__(self, desk: _Desk, media: AttachmentFiles) -> None:
        super().__init__(desk)
        self._media = media

    async def _read(self, work: Work[T]) -> T:
        return await self._desk.readers.run(lambda db: at_once(work(Statements(db))))

    async def _write(self, work: Work[T], *, durable: bool = False) -> T:
        return await self._transact(work, durable=durable)

    async def _transact(self, work: Work[T], *, durable: bool = True) -> T:
        return await self._desk.writer.run(
            lambda db: at_once(work(Statements(db))), durable=durable
        )

    def _now(self) -> tuple[str, list[Any]]:
        return "$6", [self._desk.clock.now_ms()]

    def _named(self, key: str) -> tuple[str, list[Any]]:
        return "key = $2 OR id = $2", [key]

    def _words(self, text: str) -> str | None:
        """Each word as FTS5 takes it literally, or the beginning of a longer one."""
        doubled = [word.replace('"', '""') for word in text.split()]
        return " ".join(f'"{word}"*' for word in doubled) or None

    async def _insert_session(
        self, db: shared.Statements, session: SessionRef, times: tuple[int, int] | None = None
    ) -> None:
        await db.execute(
            "INSERT INTO sessions (id, agent, key, created_ms, updated_ms)"
            " VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING",
            *astuple(session),
            *(times or [self._desk.clock.now_ms()] * 2),
        )

    async def _insert_entries(
        self, db: shared.Statements, row: int, entries: Sequence[Entry]
    ) -> None:
        transcript = _Transcript(cast("Statements", db).connection, row, 0)
        for one, ready in zip(entries, encoded(entries), strict=True):
            transcript.insert(one.seq, one.turn, one.at_ms, ready)

    async def _delete(self, db: shared.Statements, row: int) -> None:
        await db.execute(
            "INSERT INTO words (words, rowid, text)"
            " SELECT 'delete', row, text FROM entries WHERE session = $1 AND text != ''",
            row,
        )
        for table in ("entries", "turns", "tickets"):
            await db.execute(f"DELETE FROM {table} WHERE session = $1", row)  # noqa: S608 - constants
        await db.execute("DELETE FROM sessions WHERE row = $1", row)

    async def _is_held(self, db: shared.Statements, row: int) -> bool:
        return self._desk.tickets_in(cast("Statements", db).connection).is_held(row)

    async def delete(self, session: SessionRef) -> None:
        await super().delete(session)
        await anyio.to_thread.run_sync(self._media.delete, session.id)

    async def keep_media(self, session: SessionRef, data: bytes) -> str:
        with connections.translated(self._media.root):
            return await anyio.to_thread.run_sync(self._media.keep, session.id, data)

    async def media(self, session: SessionRef, digest: str) -> bytes | None:
        return await anyio.to_thread.run_sync(self._media.read, session.id, digest)


@asynccontextmanager
async def open_file_store(
    path: Path, clock: Clock, *, lease: float = LEASE_SECONDS
) -> AsyncGenerator[FileStore]:
    await anyio.to_thread.run_sync(connections.prepare, path)
    desk = _Desk(path, clock, await anyio.to_thread.run_sync(own_mark), lease)
    await desk.writer.start()
    try:
        async with beating(desk.beat):
            media = AttachmentFiles(path.with_name(MEDIA_DIRECTORY))
            yield FileStore(desk, media)
    finally:
        with anyio.CancelScope(shield=True):
            await desk.readers.close()
            await desk.writer.close()
