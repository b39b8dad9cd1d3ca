"""The store's interface, and what both databases have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import anyio.to_thread
import orjson

from openclaw.core.clock import random_id
from openclaw.core.errors import Busy
from openclaw.core.tools import JsonObject
from openclaw.sessions import queries
from openclaw.sessions.lanes import Lane, LaneManager
from openclaw.sessions.queries import Statements
from openclaw.sessions.records import (
    CopyConflict,
    Document,
    Entry,
    Hit,
    Page,
    SessionDetails,
    SessionInfo,
    SessionRef,
    Turn,
    TurnState,
    checked_key,
    checked_title,
    decode,
    encode,
    encoded,
    storable,
)

DEFAULT_LIMIT = 50
_TRIES = 20


_REMOVED_AFTER_MS = 7 * 24 * 3_600_000  # how long expired documents stay


class SessionStore(ABC):
    """Sessions in a database. What differs between the two databases comes first."""

    like: Literal["LIKE", "ILIKE"]  # whichever ignores case
    among: str  # the condition that `id` is in $2, a list in JSON
    repeated = ""  # the condition that a document equals the stored one
    newest_entry: str
    word_search: tuple[str, str, str]  # tables, condition with $3, and order

    def __init__(self, lanes: LaneManager) -> None:
        self._lanes, self._database = lanes, lanes.database

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
        """Create the session unless it exists. `times`: created and last used (default: now)."""

    @abstractmethod
    async def _delete(self, db: Statements, row: int) -> None: ...

    @abstractmethod
    async def keep_media(self, session: SessionRef, data: bytes) -> str:
        """Store an attachment and return its digest; the oldest are deleted if there are too many."""

    @abstractmethod
    async def media(self, session: SessionRef, digest: str) -> bytes | None:
        """An attachment, or None if it is gone."""

    def acquire_lane(
        self, session: SessionRef, *, entitled: bool = False
    ) -> AbstractAsyncContextManager[Lane]:
        """Wait in line until the session is free, and hold it; `NotFound` if it was deleted.

        Callers `entitled` by a queue in the same database go first. A turn unfinished at the end is
        marked as lost. If another process takes over, the body is cancelled and `LaneLost` raised.
        """
        return self._lanes.hold(session, entitled=entitled)

    async def open_session(self, agent: str, key: str) -> SessionRef:
        """This agent's session with this key; created if it doesn't exist."""
        checked_key(agent, "agent id")
        checked_key(key)
        while True:
            for info in await self.find_sessions(key, agent):
                if info.key == key:  # `key` may be another session's id
                    return info.ref
            new = SessionRef(random_id(), agent, key)
            await self._database.write(partial(self._insert_session, session=new))

    async def find_sessions(self, key: str, agent: str | None = None) -> list[SessionInfo]:
        named, values = self._named(storable(key))
        query = (
            f"SELECT {queries.INFO_COLUMNS} FROM sessions s"  # noqa: S608 - ours
            f" WHERE (CAST($1 AS text) IS NULL OR agent = $1) AND ({named})"
        )
        rows = await self._database.read(lambda db: db.fetch(query, agent, *values))
        return sorted(map(queries.info_from, rows), key=lambda info: (info.agent, info.key))

    async def search(self, text: str, *, agent: str | None = None, limit: int = 20) -> list[Hit]:
        """Entries that contain every word of `text`, the best matches first."""
        text = storable(text)
        if queries.without_spaces(text):
            # Scripts that no index can split into words: the newest first.
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
        rows = await self._database.read(lambda db: db.fetch(query, agent, limit, *values))
        # In a thread: texts may be long, and the first snippet imports what reads frames.
        return await anyio.to_thread.run_sync(lambda: [queries.hit_from(row, text) for row in rows])

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
        rows = await self._database.read(lambda db: db.fetch(query, kind, *values, limit))
        return [Document(id, rev, decode(data)) for id, rev, data in rows]

    async def write_document(
        self, kind: str, document: Document, *, expires_ms: int, durable: bool = True
    ) -> bool:
        """Write a document; false if it is no longer at the revision before this one."""
        query = (
            "INSERT INTO documents AS d (kind, id, rev, written_ms, expires_ms, data)"  # noqa: S608 - ours
            f" SELECT $1, $2, CAST($3 AS bigint), {self._lanes.now}, $4, $5 WHERE CAST($3 AS bigint) = 1"
            " OR EXISTS (SELECT 1 FROM documents WHERE kind = $1 AND id = $2)"
            " ON CONFLICT (kind, id) DO UPDATE SET rev = excluded.rev,"
            " written_ms = excluded.written_ms, expires_ms = excluded.expires_ms,"
            f" data = excluded.data WHERE d.rev = excluded.rev - 1 {self.repeated} RETURNING 1"
        )
        values = (kind, document.id, document.rev, expires_ms, encode(document.data))
        write = self._database.write(lambda db: db.fetchval(query, *values), durable=durable)
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
        """Write the document, or `{}`, as changed by `change`, even if others write it too."""
        for _ in range(_TRIES):
            found = await self.documents(kind, [id])
            before = found[0] if found else Document(id, 0, {})
            # Two writers adding the same at once must not mistake each other's write for their own.
            data = {**change(before.data), "write": random_id()}
            document = Document(id, before.rev + 1, data)
            if await self.write_document(kind, document, expires_ms=expires_ms, durable=durable):
                return

    async def seconds_since_written(self, kind: str, id: str) -> float | None:
        """How long ago a document was written, by the store's own clock; None if there is none.

        Negative if the clock was set back meanwhile.
        """
        query = f"SELECT {self._lanes.now} - written_ms FROM documents WHERE kind = $1 AND id = $2"  # noqa: S608 - ours
        age = await self._database.read(lambda db: db.fetchval(query, kind, id))
        return None if age is None else age / 1000

    async def delete_documents(self, kind: str, ids: Sequence[str] = (), *, expired: int) -> None:
        """Remove these documents of a kind, and all that expired a week before `expired`.

        Not at once: a clock that is wrong for a moment must not remove what is still needed.
        """
        query = f"DELETE FROM documents WHERE (kind = $1 AND {self.among}) OR expires_ms < $3"  # noqa: S608 - ours
        listed = orjson.dumps(list(ids)).decode()
        long_ago = expired - _REMOVED_AFTER_MS
        await self._database.write(lambda db: db.execute(query, kind, listed, long_ago))

    async def history(self, session: SessionRef, *, since_compaction: bool = True) -> list[Entry]:
        """The transcript in order; `since_compaction`, only the latest summary and what follows it."""
        return await self._database.read(lambda db: queries.history(db, session, since_compaction))

    async def entries(
        self, session: SessionRef, *, after: int = 0, limit: int = DEFAULT_LIMIT
    ) -> list[Entry]:
        async def read(db: Statements) -> list[Entry]:
            row = await queries.row_of(db, session)
            return await queries.entries(db, row, "seq > $2 ORDER BY seq LIMIT $3", after, limit)

        return await self._database.read(read)

    async def find_turn(self, session: SessionRef, turn: str) -> Turn | None:
        async def read(db: Statements) -> list[Turn]:
            row = await queries.row_of(db, session)
            return await queries.turns(db, row, "id = $2", storable(turn))

        return next(iter(await self._database.read(read)), None)

    async def unfinished_turns(self, session: SessionRef) -> list[Turn]:
        """Running and lost turns, oldest first, with their calls of unknown outcome."""

        async def read(db: Statements) -> list[Turn]:
            row = await queries.row_of(db, session)
            unfinished = "state IN ('running', 'lost') ORDER BY first_seq"
            turns = await queries.turns(db, row, unfinished)
            running = any(turn.state is TurnState.RUNNING for turn in turns)
            if running and not await self._lanes.is_held(db, row):
                # its process died, and nobody has taken the session since
                return [replace(turn, state=TurnState.LOST) for turn in turns]
            return turns

        return await self._database.read(read)

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
        return await self._database.read(lambda db: queries.page(db, *wanted))

    async def count_sessions(self) -> int:
        return await self._database.read(lambda db: db.fetchval("SELECT count(*) FROM sessions"))

    async def show(self, session: SessionRef) -> SessionInfo:
        return await self._database.read(lambda db: queries.show(db, session))

    async def set_title(self, session: SessionRef, title: str | None) -> None:
        line = checked_title(title)
        rename = "UPDATE sessions SET title = $2 WHERE id = $1 RETURNING row"
        row = await self._database.write(lambda db: db.fetchval(rename, session.id, line))
        queries.existing(row, session)

    async def delete(self, session: SessionRef) -> None:
        """Remove a session with everything in it; `Busy` while a turn runs."""

        async def delete(db: Statements) -> None:
            row = await queries.row_of(db, session, self._lanes.row_lock)
            await self._require_free(db, row, session)
            await self._delete(db, row)

        await self._database.transact(delete)

    async def details(self, session: SessionRef) -> SessionDetails:
        return await self._database.read(lambda db: queries.session_details(db, session))

    async def receive_entries(
        self, info: SessionInfo, after: int, entries: Sequence[Entry]
    ) -> None:
        """Add entries unchanged to a session that ends at number `after`, or to a new one.

        `CopyConflict` if it ends at another number, `Busy` while somebody holds it.
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
            ready = zip(entries, encoded(entries), strict=True)
            added = [(one.seq, one.turn, one.at_ms, entry) for one, entry in ready]
            await self._lanes.insert_entries(db, row, added)
            await self._require_free(db, row, info.ref)

        await self._database.transact(receive, durable=False)  # the details come last

    async def receive_details(self, details: SessionDetails) -> None:
        await self._database.transact(lambda db: queries.store_session_details(db, details))

    async def _require_free(self, db: Statements, row: int, session: SessionRef) -> None:
        if await self._lanes.is_held(db, row):
            message = f"a turn of session '{session.key}' is running"
            raise Busy(message, retry_after=self._lanes.lease)
