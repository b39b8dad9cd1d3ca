"""The PostgreSQL store: sessions that many machines share."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from openclaw.core.clock import Clock
from openclaw.core.errors import Busy
from openclaw.core.ids import random_id
from openclaw.media.files import ALL_BYTES, LOOK_EVERY_BYTES, SESSION_BYTES, digest_of
from openclaw.sessions import queries as shared
from openclaw.sessions.copying import CopyConflict, Dossier
from openclaw.sessions.model import (
    Document,
    Entry,
    Hit,
    SessionInfo,
    SessionRef,
    checked_key,
    decode,
    encode,
    searchable,
    storable,
)
from openclaw.sessions.postgres import queries, tickets
from openclaw.sessions.postgres.lanes import LaneDesk, PostgresLane
from openclaw.sessions.postgres.migrations import migrate
from openclaw.sessions.postgres.pool import RECONNECT_SECONDS, Address, Database, open_database
from openclaw.sessions.postgres.queries import as_vector
from openclaw.sessions.postgres.transcript import NOW_MS
from openclaw.sessions.queries import SqlStore, Statements
from openclaw.sessions.rows import found_row
from openclaw.sessions.store import DEFAULT_LIMIT, LEASE_SECONDS

if TYPE_CHECKING:
    from openclaw.sessions.postgres.pool import Connection

T = TypeVar("T")

_REMOVE_OLDEST_MEDIA = """
DELETE FROM media USING (
  SELECT session AS owner, digest AS old,
    sum(octet_length(data)) OVER (ORDER BY kept_at DESC, session, digest) AS total
  FROM media WHERE session = $1 OR $1 IS NULL
) AS sums WHERE session = owner AND digest = old AND total > $2
"""


async def receive_entries(
    connection: "Connection", info: SessionInfo, after: int, entries: Sequence[Entry]
) -> int:
    """Add entries to a session that ends at `after`, and return its row. In a transaction."""
    await connection.execute(
        "INSERT INTO sessions (id, agent, key, name_digest, key_digest, created_ms, updated_ms)"
        " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
        info.id,
        info.agent,
        info.key,
        queries.name_digest(info.agent, info.key),
        queries.key_digest(info.key),
        info.created_ms,
        info.updated_ms,
    )
    last = entries[-1].seq if entries else after
    row = await connection.fetchval(
        "UPDATE sessions SET seq = $2 WHERE id = $1 AND seq = $3"
        " RETURNING row, set_config('synchronous_commit', 'off', true)",  # the dossier syncs it
        info.id,
        last,
        after,
    )
    if row is None:
        raise CopyConflict("somebody else writes to the target's session")
    texts = [searchable(entry.text) for entry in entries]
    await connection.execute(
        "INSERT INTO entries (session, seq, turn, kind, at_ms, call_id, text, data, details, words)"
        " SELECT $1, e.seq, e.turn, e.kind, e.at_ms, e.call_id, e.text, e.data, e.details,"
        " e.words::tsvector FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[],"
        " $6::text[], $7::text[], $8::bytea[], $9::bytea[], $10::text[])"
        " AS e (seq, turn, kind, at_ms, call_id, text, data, details, words)",
        row,
        [entry.seq for entry in entries],
        [entry.turn for entry in entries],
        [str(entry.kind) for entry in entries],
        [entry.at_ms for entry in entries],
        [None if entry.call_id is None else storable(entry.call_id) for entry in entries],
        texts,
        [encode(entry.data) for entry in entries],
        [None if entry.details is None else encode(entry.details) for entry in entries],
        [as_vector(text) for text in texts],
    )
    return row


class PostgresStore(SqlStore):
    """A `SessionStore` that many processes on many machines may share."""

    like = "ILIKE"

    def __init__(self, database: Database, desk: LaneDesk, clock: Clock | None) -> None:
        self.database = database
        self._desk = desk
        self._clock = clock
        self._unseen = LOOK_EVERY_BYTES

    async def open_session(self, agent: str, key: str) -> SessionRef:
        checked_key(agent, "agent id")
        checked_key(key)
        found = await self.database.read(lambda db: queries.find_exact(db, agent, key))
        return found or await self.database.write(partial(self._create, agent, key))

    async def _read(self, work: Callable[[Statements], Coroutine[Any, Any, T]]) -> T:
        return await self.database.read(work)

    async def _write(self, work: Callable[[Statements], Coroutine[Any, Any, T]]) -> T:
        return await self.database.write(work)

    def acquire_lane(
        self, session: SessionRef, *, entitled: bool = False
    ) -> AbstractAsyncContextManager[PostgresLane]:
        return self._desk.hold(session, entitled=entitled)

    async def find_sessions(self, key: str, agent: str | None = None) -> list[SessionInfo]:
        return await self.database.read(lambda db: queries.find(db, storable(key), agent))

    async def keep_media(self, session: SessionRef, data: bytes) -> str:
        digest = digest_of(data)

        async def keep(db: "Connection") -> None:
            row = await shared.row_of(db, session)
            await db.execute(
                "INSERT INTO media (session, digest, data) VALUES ($1, $2, $3)"
                " ON CONFLICT (session, digest) DO UPDATE SET kept_at = now()",
                row,
                digest,
                data,
            )
            await db.execute(_REMOVE_OLDEST_MEDIA, row, SESSION_BYTES)
            if self._unseen >= LOOK_EVERY_BYTES:
                await db.execute(_REMOVE_OLDEST_MEDIA, None, ALL_BYTES)

        self._unseen += len(data)
        await self.database.transact(keep)
        if self._unseen >= LOOK_EVERY_BYTES:
            self._unseen = 0
        return digest

    async def media(self, session: SessionRef, digest: str) -> bytes | None:
        return await self.database.read(
            lambda db: db.fetchval(
                "SELECT data FROM media JOIN sessions ON row = session"
                " WHERE id = $1 AND digest = $2",
                session.id,
                digest,
            )
        )

    async def delete(self, session: SessionRef) -> None:
        await self.database.transact(partial(self._delete, session))

    async def search(self, text: str, *, agent: str | None = None, limit: int = 20) -> list[Hit]:
        return await self.database.read(lambda db: queries.search(db, storable(text), agent, limit))

    async def documents(
        self, kind: str, ids: Sequence[str] | None = None, *, limit: int = DEFAULT_LIMIT
    ) -> list[Document]:
        rows = await self.database.read(
            lambda db: db.fetch(
                "SELECT id, rev, data FROM documents WHERE kind = $1 AND ($2::text[] IS NULL"
                " OR id = ANY ($2)) ORDER BY written_ms DESC, id LIMIT $3",
                kind,
                ids,
                limit,
            )
        )
        return [Document(row["id"], row["rev"], decode(row["data"])) for row in rows]

    async def write_document(
        self, kind: str, document: Document, *, expires_ms: int, durable: bool = True
    ) -> bool:
        data = encode(document.data)

        async def write(db: "Connection") -> bool:
            done = await db.fetchval(
                "INSERT INTO documents AS d (kind, id, rev, written_ms, expires_ms, data)"  # noqa: S608 - ours
                f" SELECT $1, $2, $3::bigint, {NOW_MS}, $4, $5 WHERE $3::bigint = 1 OR EXISTS"
                " (SELECT 1 FROM documents WHERE kind = $1 AND id = $2)"
                " ON CONFLICT (kind, id) DO UPDATE SET rev = excluded.rev,"
                " written_ms = excluded.written_ms, expires_ms = excluded.expires_ms,"
                # written before a connection broke, it may be there already
                " data = excluded.data WHERE d.rev = excluded.rev - 1"
                " OR (d.rev = excluded.rev AND d.data = excluded.data) RETURNING true",
                kind,
                document.id,
                document.rev,
                expires_ms,
                data,
            )
            return done is True

        return await self.database.write(write)

    async def delete_documents(self, kind: str, ids: Sequence[str] = (), *, expired: int) -> None:
        await self.database.write(
            lambda db: db.execute(
                "DELETE FROM documents WHERE (kind = $1 AND id = ANY ($2)) OR expires_ms < $3",
                kind,
                ids,
                expired,
            )
        )

    async def dossier(self, session: SessionRef) -> Dossier:
        async def read(db: "Connection") -> Dossier:
            async with db.transaction(isolation="repeatable_read", readonly=True):
                return await shared.dossier(db, session)

        return await self.database.read(read)

    async def receive_entries(
        self, info: SessionInfo, after: int, entries: Sequence[Entry]
    ) -> None:
        async def receive(db: "Connection") -> None:
            row = await receive_entries(db, info, after, entries)
            await self._require_free(db, row, info.ref)

        await self.database.transact(receive)

    async def receive_dossier(self, dossier: Dossier) -> None:
        await self.database.transact(lambda db: shared.receive_dossier(db, dossier))

    async def _create(self, agent: str, key: str, db: "Connection") -> SessionRef:
        now = self._clock.now_ms() if self._clock else None
        await db.execute(
            "INSERT INTO sessions (id, agent, key, name_digest, key_digest,"  # noqa: S608 - ours
            " created_ms, updated_ms)"
            f" SELECT $1, $2, $3, $4, $5, now_ms, now_ms FROM coalesce($6::bigint, {NOW_MS}) now_ms"
            " ON CONFLICT (name_digest) DO NOTHING",
            random_id(),
            agent,
            key,
            queries.name_digest(agent, key),
            queries.key_digest(key),
            now,
        )
        found = await queries.find_exact(db, agent, key)
        assert found is not None
        return found

    async def _delete(self, session: SessionRef, db: "Connection") -> None:
        row = found_row(
            await db.fetchval("SELECT row FROM sessions WHERE id = $1 FOR UPDATE", session.id),
            session,
        )
        await self._require_free(db, row, session)
        await db.execute("DELETE FROM sessions WHERE row = $1", row)

    async def _require_free(self, db: "Connection", row: int, session: SessionRef) -> None:
        lease = self._desk.lease
        if await tickets.is_held(db, row, lease):
            raise Busy(f"a turn of session '{session.key}' is running", retry_after=lease)


@asynccontextmanager
async def open_postgres_store(
    address: Address,
    *,
    clock: Clock | None = None,
    lease: float = LEASE_SECONDS,
    create: bool = True,
    patience: float = RECONNECT_SECONDS,
) -> AsyncGenerator[PostgresStore]:
    """The store in the database at `address`, whose schema is made or brought up to date.

    Times are the database's own unless there is a `clock`. Without `create`, a database that holds
    no store is refused and nothing is changed. `patience` is how long to wait for a server that
    went away.
    """
    async with open_database(address, patience=patience) as database:
        await migrate(database, create=create)
        desk = LaneDesk(database, clock, lease=lease)
        failure: BaseException | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(desk.run, name="session leases")
            try:
                yield PostgresStore(database, desk, clock)
            except Exception as error:  # noqa: BLE001 - raised again below, outside the group
                failure = error
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
