"""The file store: sessions in one SQLite database."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
import anyio.to_thread
import orjson

from openclaw.core.clock import Clock
from openclaw.core.ids import random_id
from openclaw.media.files import AttachmentFiles
from openclaw.sessions import queries as shared
from openclaw.sessions.liveness import own_mark
from openclaw.sessions.model import (
    Document,
    Encoded,
    Entry,
    SessionInfo,
    SessionRef,
    encode,
    searchable,
)
from openclaw.sessions.sqlite import connections, lanes
from openclaw.sessions.sqlite.connections import Readers, Statements, Writer, at_once
from openclaw.sessions.sqlite.lanes import FileLane, LaneDesk
from openclaw.sessions.store import LEASE_SECONDS, CopyConflict, SessionStore, Work

T = TypeVar("T")
_INSERT_SESSION = (
    "INSERT INTO sessions (id, agent, key, created_ms, updated_ms) VALUES ($1, $2, $3, $4, $5)"
    " ON CONFLICT DO NOTHING"
)
MEDIA_DIRECTORY = "media"  # beside the database, for the attachments of its sessions


class FileStore(SessionStore):
    like = "LIKE"
    among = "id IN (SELECT value FROM json_each($2))"
    newest_entry = "e.row DESC"
    word_search = ("words JOIN entries e ON e.row = words.rowid", "words MATCH $3", "rank")

    def __init__(
        self,
        writer: Writer,
        readers: Readers,
        desk: LaneDesk,
        clock: Clock,
        media: AttachmentFiles,
    ) -> None:
        self.lease = desk.lease
        self._media = media
        self._writer = writer
        self._readers = readers
        self._desk = desk
        self._clock = clock

    async def _read(self, work: Work[T]) -> T:
        return await self._readers.run(lambda db: at_once(work(Statements(db))))

    async def _write(self, work: Work[T]) -> T:
        return await self._transact(work, durable=False)

    async def _transact(self, work: Work[T], *, durable: bool = True) -> T:
        return await self._writer.run(lambda db: at_once(work(Statements(db))), durable=durable)

    def _list(self, ids: Sequence[str]) -> str:
        return orjson.dumps(list(ids)).decode()

    def _named(self, key: str) -> tuple[str, list[Any]]:
        return "key = $2 OR id = $2", [key]

    def _words(self, text: str) -> str | None:
        """Each word as FTS5 takes it literally, matching also longer words that begin so."""
        doubled = [word.replace('"', '""') for word in text.split()]
        return " ".join(f'"{word}"*' for word in doubled) or None

    async def _find_id(self, db: shared.Statements, agent: str, key: str) -> str | None:
        return await db.fetchval(
            "SELECT id FROM sessions WHERE agent = $1 AND key = $2", agent, key
        )

    async def _create(self, db: shared.Statements, agent: str, key: str) -> None:
        now = self._clock.now_ms()
        await db.execute(_INSERT_SESSION, random_id(), agent, key, now, now)

    async def _delete(self, db: shared.Statements, row: int) -> None:
        await db.execute(
            "INSERT INTO words (words, rowid, text)"
            " SELECT 'delete', row, text FROM entries WHERE session = $1 AND text != ''",
            row,
        )
        for table in ("entries", "turns", "tickets"):
            await db.execute(f"DELETE FROM {table} WHERE session = $1", row)  # noqa: S608 - constants
        await db.execute("DELETE FROM sessions WHERE row = $1", row)

    async def _receive(
        self, db: shared.Statements, info: SessionInfo, after: int, entries: Sequence[Entry]
    ) -> int:
        values = (info.id, info.agent, info.key, info.created_ms, info.updated_ms)
        await db.execute(_INSERT_SESSION, *values)
        last = entries[-1].seq if entries else after
        row = await db.fetchval(
            "UPDATE sessions SET seq = $1 WHERE id = $2 AND seq = $3 RETURNING row",
            last,
            info.id,
            after,
        )
        if row is None:
            raise CopyConflict("somebody else writes to the target's session")
        connection = cast("Statements", db).connection
        for one in entries:
            details = None if one.details is None else encode(one.details)
            ready = Encoded(one.kind, searchable(one.text), encode(one.data), one.call_id, details)
            lanes.insert_entry(connection, row, one.seq, one.turn, one.at_ms, ready)
        return row

    async def _is_held(self, db: shared.Statements, row: int) -> bool:
        return lanes.held(cast("Statements", db).connection, row, self._desk.moment())

    def acquire_lane(self, session: SessionRef) -> AbstractAsyncContextManager[FileLane]:
        return self._desk.hold(session)

    async def delete(self, session: SessionRef) -> None:
        await super().delete(session)
        await anyio.to_thread.run_sync(self._media.delete, session.id)

    async def keep_media(self, session: SessionRef, data: bytes) -> str:
        with connections.translated(self._media.root):
            return await anyio.to_thread.run_sync(self._media.keep, session.id, data)

    async def media(self, session: SessionRef, digest: str) -> bytes | None:
        return await anyio.to_thread.run_sync(self._media.read, session.id, digest)

    async def write_document(
        self, kind: str, document: Document, *, expires_ms: int, durable: bool = True
    ) -> bool:
        values = (kind, document.id, document.rev, self._clock.now_ms(), expires_ms)
        data = encode(document.data)
        written = await self._transact(
            lambda db: db.fetchval(
                "INSERT INTO documents (kind, id, rev, written_ms, expires_ms, data)"
                " SELECT $1, $2, $3, $4, $5, $6 WHERE $3 = 1 OR EXISTS"
                " (SELECT 1 FROM documents WHERE kind = $1 AND id = $2)"
                " ON CONFLICT (kind, id) DO UPDATE SET rev = $3, written_ms = $4, expires_ms = $5,"
                " data = $6 WHERE rev = $3 - 1 RETURNING 1",
                *values,
                data,
            ),
            durable=durable,
        )
        return written is not None


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
