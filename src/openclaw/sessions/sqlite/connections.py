"""Connections to the database file: one thread of the process writes, a few read.

Work that queues up during a commit is committed together: each piece in its own savepoint, one
commit and one sync to disk for all of them.
"""

import asyncio
import contextlib
import os
import queue
import random
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from openclaw.config.paths import CLOEXEC
from openclaw.config.state_version import NewerState
from openclaw.sessions.records import StoreError
from openclaw.sessions.sqlite import schema
from openclaw.sessions.sqlite.schema import APPLICATION_ID

Result = TypeVar("Result")

_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_READ_ONLY = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)
_LEAST_FREE = 1 << 16  # SQLite maps pieces of 32 kB


def explain(error: Exception, path: Path) -> StoreError:
    if isinstance(error, OSError):
        return StoreError(f"the session store {path} cannot be opened: {error.strerror}")
    code, hint = _code(error), None
    if code in _CORRUPT:
        problem = f"is damaged: {error}"
        hint = "move the file and its -wal and -shm files away, or restore them from a backup"
    elif code in _READ_ONLY:
        problem = f"cannot be written: {error}"
        hint = "check the owner and the mode of the file and of its directory"
    elif code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _is_full(path)):
        problem, hint = "has no space left", "free some space and try again"
    elif code in _BUSY:
        problem = "is locked by another process"
        hint = "look for a suspended process that holds the lock"
    else:
        problem = f"does not work: {error if isinstance(error, sqlite3.Error) else repr(error)}"
    return StoreError(f"the session store {path} {problem}", hint=hint)


def _is_full(path: Path) -> bool:
    try:
        return shutil.disk_usage(path.parent).free < _LEAST_FREE
    except OSError:
        return False


@contextmanager
def translated(path: Path) -> Generator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise explain(error, path) from error


WRITE_WAIT_SECONDS = 30.0  # for other processes' transactions, which take milliseconds each
READ_WAIT_SECONDS = 5.0  # readers wait only while a crashed process's log is recovered
_RETRY_SECONDS = (0.0005, 0.008)  # about the length of a commit; random so that nobody starves
_READ_CACHE_KIB = 16 * 1024  # for listings, which read rows all over the table
_WAL_LIMIT_BYTES = 64 * 1024 * 1024


def prepare(path: Path, back_up: Callable[[], Path]) -> str | None:
    """Create or migrate the database; returns what to tell the user about a migration."""
    with translated(path):
        _create_private(path)
        connection = _connect(path, READ_WAIT_SECONDS)
        try:
            if _pragma(connection, "application_id") == APPLICATION_ID:
                _refuse_newer(connection, path)  # before anything is changed
            _enter_wal(connection, path)
            return _migrate(connection, path, back_up)
        finally:
            connection.close()


def open_writer(path: Path) -> sqlite3.Connection:
    overwritten = "secure_delete = ON"  # deleted content
    return _connect(path, 0.0, f"journal_size_limit = {_WAL_LIMIT_BYTES}", overwritten)


def open_reader(path: Path) -> sqlite3.Connection:
    return _connect(path, READ_WAIT_SECONDS, "query_only = ON", f"cache_size = -{_READ_CACHE_KIB}")


def begin(connection: sqlite3.Connection, wait: float = WRITE_WAIT_SECONDS) -> None:
    """Start a write transaction, after those of other processes."""
    _once_free(lambda: connection.execute("BEGIN IMMEDIATE"), wait)


def _once_free(attempt: Callable[[], Result], wait: float) -> Result:
    """Try again while other processes are in the way."""
    deadline = time.monotonic() + wait
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(random.uniform(*_RETRY_SECONDS))  # noqa: S311 - spreads load, no secret


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _connect(path: Path, wait: float, *settings: str) -> sqlite3.Connection:
    with translated(path):
        connection = sqlite3.connect(
            path, timeout=wait, isolation_level=None, check_same_thread=False, cached_statements=256
        )
        for setting in settings:
            connection.execute(f"PRAGMA {setting}")
        return connection


def _create_private(path: Path) -> None:
    """SQLite gives its log files the mode of the database file."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | CLOEXEC, 0o600))
    except FileExistsError:
        # Don't open it: closing it would drop the locks of all connections of this process, and
        # another process would remove the log.
        if sys.platform != "win32" and path.stat().st_mode & 0o077:
            with suppress(PermissionError):  # not ours, and `doctor` says so
                path.chmod(0o600)


def _enter_wal(connection: sqlite3.Connection, path: Path) -> None:
    if _pragma(connection, "journal_mode") == "wal":
        return
    mode = _once_free(lambda: _pragma(connection, "journal_mode = WAL"), WRITE_WAIT_SECONDS)
    if mode != "wal":
        raise StoreError(
            f"the file system of {path} cannot share a database between processes",
            hint="keep the state directory on a local disk, not on a network share",
        )


def _migrate(connection: sqlite3.Connection, path: Path, back_up: Callable[[], Path]) -> str | None:
    scripts, message = sorted(schema.SQL.glob("*.sql")), None
    found = _pragma(connection, "user_version"), _pragma(connection, "application_id")
    if found == (len(scripts), APPLICATION_ID):
        return None
    begin(connection)  # before checking again, because another process may be creating the tables
    try:
        version = _checked_version(connection, path)
        if 0 < version < len(scripts):
            steps = f"from version {version} to {len(scripts)}"
            message = f"{path} was migrated {steps}; a backup is in {back_up()}"
        for number, script in enumerate(scripts[version:], version + 1):
            for statement in filter(str.strip, script.read_text(encoding="utf-8").split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise
    return message


def _refuse_newer(connection: sqlite3.Connection, path: Path) -> int:
    version: int = _pragma(connection, "user_version")
    if version > schema.newest():
        raise NewerState(path, version, schema.newest())
    return version


def _checked_version(connection: sqlite3.Connection, path: Path) -> int:
    version: int = _pragma(connection, "user_version")
    owner = _pragma(connection, "application_id")
    tables = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
    fresh = (version, owner) == (0, 0) and tables is None
    if owner != APPLICATION_ID and not fresh:
        raise StoreError(f"{path} is a database of another program")
    return _refuse_newer(connection, path)


def _pragma(connection: sqlite3.Connection, text: str) -> Any:
    return connection.execute(f"PRAGMA {text}").fetchone()[0]


_BATCH = 64  # most pieces of work in one transaction, so that the first doesn't wait for ever


@dataclass(slots=True)
class _Job:
    work: "Query[Any]"
    durable: bool
    future: Future[Any] = field(default_factory=Future[Any])
    result: Any = None
    error: Exception | None = None


def _roll_back(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _attempt(connection: sqlite3.Connection, job: _Job) -> None:
    connection.execute("SAVEPOINT piece")
    try:
        job.result = at_once(job.work(Statements(connection)))
    except sqlite3.Error:
        raise  # the database itself failed: nothing in this transaction can be trusted
    except Exception as error:  # noqa: BLE001 - raised in the caller
        job.error = error
        connection.execute("ROLLBACK TO piece")
    connection.execute("RELEASE piece")


def _deliver(batch: Sequence[_Job]) -> None:
    for job in batch:
        if job.error is not None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


class Statements:
    """A connection for the shared queries, in its own thread, where they never wait."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetch(self, query: str, /, *args: Any) -> list[tuple[Any, ...]]:
        return self._connection.execute(_numbered(query), args).fetchall()

    async def fetchrow(self, query: str, /, *args: Any) -> tuple[Any, ...] | None:
        return self._connection.execute(_numbered(query), args).fetchone()

    async def fetchval(self, query: str, /, *args: Any) -> Any:
        row = await self.fetchrow(query, *args)
        return None if row is None else row[0]

    async def execute(self, query: str, /, *args: Any) -> None:
        self._connection.execute(_numbered(query), args)

    async def executemany(self, command: str, args: Iterable[Sequence[Any]], /) -> None:
        self._connection.executemany(_numbered(command), args)


@lru_cache
def _numbered(query: str) -> str:
    return query.replace("$", "?")  # as in $1; our statements contain no other `$`


def at_once(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("a query waited")


Query = Callable[[Statements], Coroutine[Any, Any, Result]]


_MOST_READERS = 4  # more would only wait for the same processors


class SqliteDatabase:
    """One connection writes, in a thread. A few read, opened when needed, each used by one caller."""

    def __init__(self, path: Path, now_ms: Callable[[], int]) -> None:
        self._path, self._now_ms = path, now_ms
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._idle: list[sqlite3.Connection] = []
        self._limiter = anyio.CapacityLimiter(_MOST_READERS)
        self._closed = False

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncGenerator["SqliteDatabase"]:
        connection = await anyio.to_thread.run_sync(open_writer, self._path)
        connection.create_function("now_ms", 0, self._now_ms)
        writer = threading.Thread(
            target=self._serve, args=(connection,), name="openclaw-session-writer", daemon=True
        )
        writer.start()
        try:
            yield self
        finally:
            self._closed = True
            with anyio.CancelScope(shield=True):
                while self._idle:
                    await anyio.to_thread.run_sync(self._idle.pop().close)
                # Only now: of two that close at once, neither is the last, which removes the log.
                self._jobs.put(None)
                await anyio.to_thread.run_sync(writer.join)

    async def read(self, work: Query[Result]) -> Result:
        """Run `work` in a thread, on one consistent view of the database."""
        self._require_open()
        return await anyio.to_thread.run_sync(self._read, work, limiter=self._limiter)

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("the session store was closed")

    def _read(self, work: Query[Result]) -> Result:
        with translated(self._path):
            connection = self._idle.pop() if self._idle else self._open_reader()
            try:
                connection.execute("BEGIN")
                return at_once(work(Statements(connection)))
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if self._closed:
                    connection.close()
                else:
                    self._idle.append(connection)

    def _open_reader(self) -> sqlite3.Connection:
        connection = open_reader(self._path)
        connection.create_function("now_ms", 0, self._now_ms)
        return connection

    async def write(self, work: Query[Result], *, durable: bool = False) -> Result:
        return await self.transact(work, durable=durable)

    async def transact(self, work: Query[Result], *, durable: bool = True) -> Result:
        """Commit `work` and return its result; an exception undoes only this work.

        Only a `durable` commit survives a power failure. Cancellation waits for the commit.
        """
        self._require_open()
        job = _Job(work, durable)
        job.future.set_running_or_notify_cancel()  # it can no longer be cancelled
        future = asyncio.wrap_future(job.future)
        self._jobs.put(job)
        with anyio.CancelScope(shield=True):
            await asyncio.wait([future])
        return future.result()

    def _serve(self, connection: sqlite3.Connection) -> None:
        try:
            while batch := self._next_batch():
                self._commit(connection, batch)
                _deliver(batch)
        finally:
            connection.close()

    def _next_batch(self) -> list[_Job]:
        batch: list[_Job] = []
        job = self._jobs.get()
        while job is not None:
            batch.append(job)
            if len(batch) == _BATCH or self._jobs.empty():
                return batch
            job = self._jobs.get_nowait()
        if batch:
            self._jobs.put(None)  # stop after this batch
        return batch

    def _commit(self, connection: sqlite3.Connection, batch: Sequence[_Job]) -> None:
        durable = any(job.durable for job in batch)
        try:
            # A durable commit syncs the whole log, including all earlier commits.
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            begin(connection)
            for job in batch:
                _attempt(connection, job)
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - delivered to the callers, whatever it is
            for job in batch:
                job.error = explain(error, self._path)
            _roll_back(connection)
