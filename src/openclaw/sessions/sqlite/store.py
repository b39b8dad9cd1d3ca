"""The file store: sessions in one SQLite database."""

import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread

from openclaw.core.clock import Clock
from openclaw.core.errors import Busy
from openclaw.core.ids import random_id
from openclaw.media.files import AttachmentFiles
from openclaw.sessions.copying import CopyConflict, Dossier, TurnRecord
from openclaw.sessions.liveness import own_mark
from openclaw.sessions.model import (
    Document,
    Entry,
    Hit,
    Page,
    SessionInfo,
    SessionRef,
    Turn,
    TurnState,
    checked_key,
    checked_title,
    encode,
    searchable,
    storable,
)
from openclaw.sessions.sqlite import connections, lanes, queries
from openclaw.sessions.sqlite.connections import Readers, Writer
from openclaw.sessions.sqlite.lanes import FileLane, LaneDesk
from openclaw.sessions.store import DEFAULT_LIMIT, LEASE_SECONDS

MEDIA_DIRECTORY = "media"  # beside the database, for the attachments of its sessions


def dossier(connection: sqlite3.Connection, session: SessionRef) -> Dossier:
    row = queries.row_of(connection, session)
    summary, summarised = connection.execute(
        "SELECT summary_seq, summarised FROM sessions WHERE row = ?", (row,)
    ).fetchone()
    turns = connection.execute(
        "SELECT id, state, started_ms, finished_ms, first_seq FROM turns WHERE session = ?"
        " ORDER BY first_seq, id",
        (row,),
    )
    (stored,) = connection.execute(
        "SELECT count(*) FROM entries WHERE session = ?", (row,)
    ).fetchone()
    return Dossier(
        queries.show(connection, session),
        summary,
        summarised,
        tuple(TurnRecord(turn[0], TurnState(turn[1]), *turn[2:]) for turn in turns),
        stored,
    )


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
    for entry in entries:
        _add(connection, row, entry)
    return row


def receive_dossier(connection: sqlite3.Connection, dossier: Dossier) -> None:
    info = dossier.info
    row = queries.row_of(connection, info.ref)
    connection.execute(
        "UPDATE sessions SET title = ?, created_ms = ?, updated_ms = ?, messages = ?,"
        " input_tokens = ?, output_tokens = ?, cache_read_tokens = ?, cache_write_tokens = ?,"
        " requests = ?, tool_calls = ?, summary_seq = ?, summarised = ? WHERE row = ?",
        (*info[3:7], *info[8:], dossier.summary_seq, dossier.summarised, row),
    )
    connection.execute(
        "UPDATE entries SET details = NULL WHERE session = ? AND seq <= ? AND details IS NOT NULL",
        (row, dossier.summarised),
    )
    connection.executemany(
        "INSERT INTO turns (session, id, state, started_ms, finished_ms, first_seq)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (session, id) DO UPDATE"
        " SET state = ?3, finished_ms = ?5",
        [
            (row, turn.id, turn.state, turn.started_ms, turn.finished_ms, turn.first_seq)
            for turn in dossier.turns
        ],
    )


def _add(connection: sqlite3.Connection, row: int, entry: Entry) -> None:
    text = searchable(entry.text)
    details = None if entry.details is None else encode(entry.details)
    added = connection.execute(
        "INSERT INTO entries (session, seq, turn, kind, at_ms, call_id, text, data, details)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            row,
            entry.seq,
            entry.turn,
            entry.kind,
            entry.at_ms,
            entry.call_id,
            text,
            encode(entry.data),
            details,
        ),
    )
    if text:
        connection.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (added.lastrowid, text))


class FileStore:
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

    def acquire_lane(self, session: SessionRef) -> AbstractAsyncContextManager[FileLane]:
        return self._desk.hold(session)

    async def history(self, session: SessionRef, *, since_compaction: bool = True) -> list[Entry]:
        return await self._readers.run(lambda db: queries.history(db, session, since_compaction))

    async def entries(
        self, session: SessionRef, *, after: int = 0, limit: int = DEFAULT_LIMIT
    ) -> list[Entry]:
        return await self._readers.run(lambda db: queries.entries_after(db, session, after, limit))

    async def find_turn(self, session: SessionRef, turn: str) -> Turn | None:
        return await self._readers.run(
            lambda db: queries.find_turn(db, queries.row_of(db, session), storable(turn))
        )

    async def unfinished_turns(self, session: SessionRef) -> list[Turn]:
        return await self._readers.run(
            lambda db: queries.unfinished_turns(db, queries.row_of(db, session))
        )

    async def list_sessions(
        self,
        agent: str | None = None,
        *,
        limit: int | None = DEFAULT_LIMIT,
        cursor: str | None = None,
        search: str | None = None,
        conversations: bool = False,
    ) -> Page:
        return await self._readers.run(
            lambda db: queries.list_sessions(db, agent, limit, cursor, search, conversations)
        )

    async def count_sessions(self) -> int:
        return await self._readers.run(
            lambda db: db.execute("SELECT count(*) FROM sessions").fetchone()[0]
        )

    async def find_sessions(self, key: str, agent: str | None = None) -> list[SessionInfo]:
        return await self._readers.run(lambda db: queries.find(db, storable(key), agent))

    async def show(self, session: SessionRef) -> SessionInfo:
        return await self._readers.run(lambda db: queries.show(db, session))

    async def set_title(self, session: SessionRef, title: str | None) -> None:
        line = checked_title(title)

        def rename(db: sqlite3.Connection) -> None:
            row = queries.row_of(db, session)
            db.execute("UPDATE sessions SET title = ? WHERE row = ?", (line, row))

        await self._writer.run(rename, durable=False)

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
        return await self._readers.run(lambda db: dossier(db, session))

    async def receive_entries(
        self, info: SessionInfo, after: int, entries: Sequence[Entry]
    ) -> None:
        def receive(db: sqlite3.Connection) -> None:
            row = receive_entries(db, info, after, entries)
            self._require_free(db, row, info.ref)

        await self._writer.run(receive, durable=False)

    async def receive_dossier(self, dossier: Dossier) -> None:
        await self._writer.run(lambda db: receive_dossier(db, dossier), durable=True)

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
