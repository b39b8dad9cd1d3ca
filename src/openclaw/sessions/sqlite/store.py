"""The SQLite store: sessions in one database file."""

import logging
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import orjson

from openclaw.config import state_backup
from openclaw.core.clock import Clock
from openclaw.media.stored_files import AttachmentFiles
from openclaw.sessions import queries
from openclaw.sessions.lanes import (
    ADVANCE,
    BEATS_PER_LEASE,
    LEASE_SECONDS,
    LaneGrant,
    LaneManager,
    LaneRequest,
    Write,
)
from openclaw.sessions.liveness import is_gone, is_running, own_mark
from openclaw.sessions.queries import Statements
from openclaw.sessions.records import Encoded, SessionRef, StoreError
from openclaw.sessions.sqlite import connections
from openclaw.sessions.sqlite.connections import SqliteDatabase
from openclaw.sessions.store import SessionStore
from openclaw.sessions.task_groups import helper_tasks

logger = logging.getLogger(__name__)


_LEASES_WHILE_BUSY = 20  # three minutes


class SqliteLanes(LaneManager):
    """To get a session, draw a ticket. The oldest live ticket holds the session.

    A ticket is dead once its process is, if this machine can tell, or once its lease has expired and
    the process does not run, or has been too busy to renew it for much longer.
    Leases are measured on the monotonic clock, which all processes of a machine share and nobody can
    set.
    """

    look_seconds = (0.005, 0.05)
    now = "now_ms()"

    def __init__(self, database: SqliteDatabase, clock: Clock, mark: str, lease: float) -> None:
        super().__init__(database, lease)
        self._clock, self._mark = clock, mark

    async def insert_entries(
        self, db: Statements, row: int, entries: Iterable[tuple[int, str | None, int, Encoded]]
    ) -> None:
        for seq, turn, at_ms, one in entries:
            added = await db.fetchval(
                "INSERT INTO entries (session, seq, turn, kind, at_ms, call_id, text, data, details)"
                " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING row",
                *(row, seq, turn, one.kind, at_ms, one.call_id, one.text, one.data, one.details),
            )
            if one.text:
                await db.execute("INSERT INTO words (rowid, text) VALUES ($1, $2)", added, one.text)

    async def _add(self, db: Statements, write: Write, values: Sequence[Any]) -> bool:
        now = await db.fetchval(ADVANCE.format(now=self.now), *values)
        if now is None:
            return False
        row, _, last, _, _, turn, *_ = values
        numbered = enumerate(write.entries, last + 1)
        await self.insert_entries(db, row, [(seq, turn, now, entry) for seq, entry in numbered])
        if write.step == "begin":
            await db.execute(
                "INSERT INTO turns (session, id, state, started_ms, first_seq)"
                " VALUES ($1, $2, $3, $4, $5)",
                *(row, turn, write.leaves, now, last + 1),
            )
        elif write.leaves is not None:
            await db.execute(
                "UPDATE turns SET state = $3, finished_ms = $4 WHERE session = $1 AND id = $2",
                *(row, turn, write.leaves, now if write.outcome else None),
            )
        if write.through is not None:
            await queries.forget_details(db, row, write.through)
        return True

    async def beat(self) -> None:
        while True:
            await anyio.sleep(self.lease / BEATS_PER_LEASE)
            tickets = self.tickets()
            if not tickets:
                continue
            try:
                rows = await self.database.transact(
                    lambda db: db.fetch(
                        "UPDATE tickets SET expires = $1"
                        " WHERE id IN (SELECT value FROM json_each($2)) RETURNING id",
                        self._clock.monotonic() + self.lease,
                        orjson.dumps(tickets).decode(),  # noqa: B023 - run before the next one
                    ),
                    durable=False,
                )
            except StoreError as error:
                logger.warning("could not renew the leases of sessions: %s", error)
                continue
            self.renewed(tickets, {id for (id,) in rows})

    async def _try(self, place: LaneRequest) -> LaneGrant | None:
        place.ticket, grant = await self.database.transact(
            lambda db: self._grant(db, place.session, place.ticket), durable=False
        )
        return grant

    async def _grant(
        self, db: Statements, session: SessionRef, ticket: int | None
    ) -> tuple[int, LaneGrant | None]:
        """Take the session if `ticket` is the oldest live one.

        Without a ticket, or if others considered it dead, a new one is drawn first.
        """
        row = await queries.row_of(db, session)
        if await db.fetchval("SELECT 1 FROM tickets WHERE id = $1", ticket) is None:
            ticket = await db.fetchval(
                "INSERT INTO tickets (session, owner, expires) VALUES ($1, $2, $3) RETURNING id",
                *(row, self._mark, self._clock.monotonic() + self.lease),
            )
        assert ticket is not None
        while ahead := await db.fetchrow(
            "SELECT id, owner, expires FROM tickets WHERE session = $1 AND id < $2"
            " ORDER BY id LIMIT 1",
            *(row, ticket),
        ):
            other, owner, expires = ahead
            if not self._is_dead(owner, expires):
                return ticket, None
            await db.execute("DELETE FROM tickets WHERE id = $1", other)
        await queries.give_up_turns(db, row, self.now)
        taken = "UPDATE sessions SET epoch = epoch + 1 WHERE row = $1 RETURNING epoch, seq"
        [(epoch, seq)] = await db.fetch(taken, row)
        return ticket, LaneGrant(row, epoch, seq)

    def _is_dead(self, owner: str, expires: float) -> bool:
        now = self._clock.monotonic()
        if expires <= now:
            # An import or a computation may keep a process that runs from renewing its lease.
            patience = _LEASES_WHILE_BUSY * self.lease
            return expires + patience <= now or not is_running(owner)
        if owner == self._mark:
            return False
        # No lease is this long: the clock, and so the machine, was restarted.
        began_before_boot = expires > now + 100 * self.lease
        return began_before_boot or is_gone(owner)

    async def is_held(self, db: Statements, row: int) -> bool:
        found = await db.fetch("SELECT owner, expires FROM tickets WHERE session = $1", row)
        return any(not self._is_dead(owner, expires) for owner, expires in found)

    async def _hand_in(self, place: LaneRequest) -> None:
        async def leave(db: Statements) -> None:
            await db.execute("DELETE FROM tickets WHERE id = $1", place.ticket)
            if place.lane is not None and not place.lane.tidy:
                await self.give_up_turns(db, place.lane.at)

        if place.ticket is not None:
            await self.database.transact(leave, durable=False)


MEDIA_DIRECTORY = "media"  # beside the database, for the attachments of its sessions


class SqliteStore(SessionStore):
    like = "LIKE"
    among = "id IN (SELECT value FROM json_each($2))"
    newest_entry = "e.row DESC"
    word_search = ("words JOIN entries e ON e.row = words.rowid", "words MATCH $3", "rank")

    def __init__(self, lanes: SqliteLanes, media: AttachmentFiles) -> None:
        super().__init__(lanes)
        self._media = media

    def _named(self, key: str) -> tuple[str, list[Any]]:
        return "key = $2 OR id = $2", [key]

    def _words(self, text: str) -> str | None:
        """Each word quoted for FTS5, as a prefix."""
        doubled = [word.replace('"', '""') for word in text.split()]
        return " ".join(f'"{word}"*' for word in doubled) or None

    async def _insert_session(
        self, db: Statements, session: SessionRef, times: tuple[int, int] | None = None
    ) -> None:
        await db.execute(
            "INSERT INTO sessions (id, agent, key, created_ms, updated_ms)"
            " VALUES ($1, $2, $3, coalesce($4, now_ms()), coalesce($5, now_ms()))"
            " ON CONFLICT DO NOTHING",
            *astuple(session),
            *(times or (None, None)),
        )

    async def _delete(self, db: Statements, row: int) -> None:
        await db.execute(
            "INSERT INTO words (words, rowid, text)"
            " SELECT 'delete', row, text FROM entries WHERE session = $1 AND text != ''",
            row,
        )
        for table in ("entries", "turns", "tickets"):
            await db.execute(f"DELETE FROM {table} WHERE session = $1", row)  # noqa: S608 - constants
        await db.execute("DELETE FROM sessions WHERE row = $1", row)

    async def delete(self, session: SessionRef) -> None:
        await super().delete(session)
        await anyio.to_thread.run_sync(self._media.delete, session.id)

    async def keep_media(self, session: SessionRef, data: bytes) -> str:
        with connections.translated(self._media.directory):
            return await anyio.to_thread.run_sync(self._media.keep, session.id, data)

    async def media(self, session: SessionRef, digest: str) -> bytes | None:
        return await anyio.to_thread.run_sync(self._media.read, session.id, digest)


@asynccontextmanager
async def open_sqlite_store(
    path: Path, clock: Clock, *, lease: float = LEASE_SECONDS, state: Path | None = None
) -> AsyncGenerator[SqliteStore]:
    """The store in this file; before it is migrated, it is backed up in the state directory."""
    back_up = partial(state_backup.back_up, state or path.parent, clock.now_ms(), path)
    migrated = await anyio.to_thread.run_sync(connections.prepare, path, back_up)
    if migrated is not None:
        logger.warning(migrated)
    mark = await anyio.to_thread.run_sync(own_mark)
    async with SqliteDatabase(path, clock.now_ms).opened() as database, helper_tasks() as tasks:
        lanes = SqliteLanes(database, clock, mark, lease)
        tasks.start_soon(lanes.beat, name="session leases")
        yield SqliteStore(lanes, AttachmentFiles(path.with_name(MEDIA_DIRECTORY)))
