"""The file store: sessions in one SQLite database."""

import sqlite3
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from openclaw.core.clock import Clock
from openclaw.core.errors import Busy
from openclaw.core.ids import random_id
from openclaw.media.files import AttachmentFiles
from openclaw.sessions import queries as shared
from openclaw.sessions.copying import CopyConflict, Dossier
from openclaw.sessions.liveness import own_mark
from openclaw.sessions.model import (
    Document,
    Encoded,
    Entry,
    Hit,
    SessionInfo,
    SessionRef,
    checked_key,
    encode,
    searchable,
    storable,
)
from openclaw.sessions.queries import SqlStore
from openclaw.sessions.sqlite import connections, lanes, queries
from openclaw.sessions.sqlite.connections import Readers, Statements, Writer, at_once
from openclaw.sessions.sqlite.lanes import FileLane, LaneDesk
from openclaw.sessions.store import DEFAULT_LIMIT, LEASE_SECONDS

T = TypeVar("T")
MEDIA_DIRECTORY = "media"  # beside the database, for the attachments of its sessions


def receive_entries(
    connection: sqlite3.Connection, info: SessionInfo, after: int, entries: Sequence[Entry]
) -> int:
    """Add entries to a session that ends at `after`, and return its row."""
    connection.execute(
        "INSERT INTO sessions (id, agent, key, created_ms, updated_ms) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT DO NOTHING",
        (info.id, info.agent, info.key, info.created_ms, info.updated_ms),
    )
    row = queries.row_of(connection, info.ref)
    last = entries[-1].seq if entries else after
    moved = connection.execute(
        "UPDATE sessions SET seq = ? WHERE row = ? AND seq = ? RETURNING row", (last, row, after)
    ).fetchone()
    if moved is None:
        raise CopyConflict("somebody else writes to the target's session")
    for one in entries:
        details = None if one.details is None else encode(one.details)
        ready = Encoded(one.kind, searchable(one.text), encode(one.data), one.call_id, details)
        lanes.insert_entry(connection, row, one.seq, one.turn, one.at_ms, ready)
    return row


class FileStore(SqlStore):
    like = "LIKE"

    def __init__(
        self,
        writer: Writer,
        readers: Readers,
        desk: LaneDesk,
        clock: Clock,
        media: AttachmentFiles,
    ) -> None:
        self._media = media
        self._writer = writer
        self._readers = readers
        self._desk = desk
        self._clock = clock

    async def open_session(self, agent: str, key: str) -> SessionRef:
        checked_key(agent, "agent id")
        checked_key(key)
        found = await self._readers.run(lambda db: queries.find_exact(db, agent, key))
        return found or await self._writer.run(partial(self._create, agent, key), durable=False)

    async def _read(self, work: Callable[[Statements], Coroutine[Any, Any, T]]) -> T:
        return await self._readers.run(lambda db: at_once(work(Statements(db))))

    async def _write(self, work: Callable[[Statements], Coroutine[Any, Any, T]]) -> T:
        return await self._writer.run(lambda db: at_once(work(Statements(db))), durable=False)

    def acquire_lane(self, session: SessionRef) -> AbstractAsyncContextManager[FileLane]:
        return self._desk.hold(session)

    async def find_sessions(self, key: str, agent: str | None = None) -> list[SessionInfo]:
        return await self._readers.run(lambda db: queries.find(db, storable(key), agent))

    async def delete(self, session: SessionRef) -> None:
        await self._writer.run(partial(self._delete, session), durable=True)
        await anyio.to_thread.run_sync(self._media.delete, session.id)

    async def keep_media(self, session: SessionRef, data: bytes) -> str:
        with connections.translated(self._media.root):
            return await anyio.to_thread.run_sync(self._media.keep, session.id, data)

    async def media(self, session: SessionRef, digest: str) -> bytes | None:
        return await anyio.to_thread.run_sync(self._media.read, session.id, digest)

    async def search(self, text: str, *, agent: str | None = None, limit: int = 20) -> list[Hit]:
        return await self._readers.run(lambda db: queries.search(db, storable(text), agent, limit))

    async def documents(
        self, kind: str, ids: Sequence[str] | None = None, *, limit: int = DEFAULT_LIMIT
    ) -> list[Document]:
        return await self._readers.run(lambda db: queries.documents(db, kind, ids, limit))

    async def write_document(
        self, kind: str, document: Document, *, expires_ms: int, durable: bool = True
    ) -> bool:
        row = (kind, document.id, document.rev, self._clock.now_ms(), expires_ms)
        data = encode(document.data)

        def write(db: sqlite3.Connection) -> bool:
            done = db.execute(
                "INSERT INTO documents (kind, id, rev, written_ms, expires_ms, data)"
                " SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE ?3 = 1 OR EXISTS"
                " (SELECT 1 FROM documents WHERE kind = ?1 AND id = ?2)"
                " ON CONFLICT (kind, id) DO UPDATE SET rev = ?3, written_ms = ?4, expires_ms = ?5,"
                " data = ?6 WHERE rev = ?3 - 1",
                (*row, data),
            )
            return done.rowcount == 1

        return await self._writer.run(write, durable=durable)

    async def delete_documents(self, kind: str, ids: Sequence[str] = (), *, expired: int) -> None:
        def remove(db: sqlite3.Connection) -> None:
            db.executemany(
                "DELETE FROM documents WHERE kind = ? AND id = ?", [(kind, id) for id in ids]
            )
            db.execute("DELETE FROM documents WHERE expires_ms < ?", (expired,))

        await self._writer.run(remove, durable=False)

    async def dossier(self, session: SessionRef) -> Dossier:
        return await self._read(lambda db: shared.dossier(db, session))

    async def receive_entries(
        self, info: SessionInfo, after: int, entries: Sequence[Entry]
    ) -> None:
        def receive(db: sqlite3.Connection) -> None:
            row = receive_entries(db, info, after, entries)
            self._require_free(db, row, info.ref)

        await self._writer.run(receive, durable=False)

    async def receive_dossier(self, dossier: Dossier) -> None:
        await self._writer.run(
            lambda db: at_once(shared.receive_dossier(Statements(db), dossier)), durable=True
        )

    def _create(self, agent: str, key: str, db: sqlite3.Connection) -> SessionRef:
        now = self._clock.now_ms()
        db.execute(
            "INSERT INTO sessions (id, agent, key, created_ms, updated_ms) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (agent, key) DO NOTHING",
            (random_id(), agent, key, now, now),
        )
        found = queries.find_exact(db, agent, key)
        assert found is not None
        return found

    def _delete(self, session: SessionRef, db: sqlite3.Connection) -> None:
        row = queries.row_of(db, session)
        self._require_free(db, row, session)
        db.execute(
            "INSERT INTO words (words, rowid, text)"
            " SELECT 'delete', row, text FROM entries WHERE session = ? AND text != ''",
            (row,),
        )
        for table in ("entries", "turns", "tickets"):
            db.execute(f"DELETE FROM {table} WHERE session = ?", (row,))  # noqa: S608 - constants
        db.execute("DELETE FROM sessions WHERE row = ?", (row,))

    def _require_free(self, db: sqlite3.Connection, row: int, session: SessionRef) -> None:
        moment = self._desk.moment()
        if lanes.held(db, row, moment):
            raise Busy(f"a turn of session '{session.key}' is running", retry_after=moment.lease)


@asynccontextmanager
async def open_file_store(
    path: Path, clock: Clock, *, lease: float = LEASE_SECONDS
) -> AsyncGenerator[FileStore]:
    await anyio.to_thread.run_sync(connections.prepare, path)
    writer, readers = Writer(path), Readers(path)
    mark = await anyio.to_thread.run_sync(own_mark)
    desk = LaneDesk(writer, readers, clock, mark=mark, lease=lease)
    await writer.start()
    failure: BaseException | None = None
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(desk.beat, name="session leases")
            try:
                media = AttachmentFiles(path.with_name(MEDIA_DIRECTORY))
                yield FileStore(writer, readers, desk, clock, media)
            except Exception as error:  # noqa: BLE001 - raised again below, outside the group
                failure = error
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await readers.close()
            await writer.close()
    if failure is not None:
        raise failure
