"""The one thread of a process that writes, so that the event loop never waits for a disk.

Work that queues up while a commit is under way is committed together: each piece in a savepoint of
its own, one commit and one sync to disk for all of them.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from openclaw.sessions.errors import StoreError, StoreUnavailable
from openclaw.sessions.file.failures import explain
from openclaw.sessions.file.schema import begin, open_writer

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]

_BATCH = 64
"""Pieces of work in one transaction at most, so that the first of them does not wait for ever."""


@dataclass(slots=True)
class _Job:
    work: Work[Any]
    durable: bool
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class Writer:
    """Runs work in transactions, in the order in which it came."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False

    async def start(self) -> None:
        """Open the database for writing."""
        connection = await anyio.to_thread.run_sync(open_writer, self._path)
        self._thread = threading.Thread(
            target=self._serve, args=(connection,), name="openclaw-session-writer", daemon=True
        )
        self._thread.start()

    async def close(self) -> None:
        """Finish what was submitted, then close the database."""
        self._closed = True
        self._jobs.put(None)
        if self._thread is not None:
            await anyio.to_thread.run_sync(self._thread.join)

    async def run(self, work: Work[Result], *, durable: bool) -> Result:
        """Commit `work` and return what it returned; an exception undoes it alone.

        With `durable` the commit has reached the disk; without, it survives this process's end and
        not a loss of power. Cancellation waits for the commit: nothing is ever half done.
        """
        if self._closed:
            raise StoreUnavailable("the session store was closed")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._jobs.put(_Job(work, durable, loop, future))
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
            self._jobs.put(None)  # seen too early: what came before it is committed first
        return batch

    def _commit(self, connection: sqlite3.Connection, batch: Sequence[_Job]) -> None:
        durable = any(job.durable for job in batch)
        try:
            # A durable commit syncs the whole log, with every commit that went before it.
            connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            begin(connection)
            for job in batch:
                _attempt(connection, job)
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it, whatever it is
            for job in batch:
                job.error = self._explained(error)
            _roll_back(connection)

    def _explained(self, error: Exception) -> StoreError:
        if isinstance(error, sqlite3.Error):
            return explain(error, self._path)
        return StoreUnavailable(f"the session store {self._path} does not work: {error!r}")


def _roll_back(connection: sqlite3.Connection) -> None:
    """Leave the transaction, if the failure has left one; the next one begins afresh."""
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _attempt(connection: sqlite3.Connection, job: _Job) -> None:
    connection.execute("SAVEPOINT piece")
    try:
        job.result = job.work(connection)
    except sqlite3.Error:
        raise  # the database itself failed: nothing in this transaction can be trusted
    except Exception as error:  # noqa: BLE001 - it belongs to whoever submitted the work
        job.error = error
        connection.execute("ROLLBACK TO piece")
    connection.execute("RELEASE piece")


def _deliver(batch: Sequence[_Job]) -> None:
    for job in batch:
        try:
            job.loop.call_soon_threadsafe(_resolve, job)
        except RuntimeError:  # its loop has ended, and with it whoever waited
            continue


def _resolve(job: _Job) -> None:
    if job.future.done():
        return
    if job.error is not None:
        job.future.set_exception(job.error)
    else:
        job.future.set_result(job.result)
