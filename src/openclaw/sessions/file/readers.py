"""Connections for reading, which in WAL mode wait for nobody and hinder nobody."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from openclaw.sessions.errors import StoreUnavailable
from openclaw.sessions.file.failures import translated
from openclaw.sessions.file.schema import open_reader

Result = TypeVar("Result")

_MOST = 4
"""Connections at most; more would only wait for the same processors."""


class Readers:
    """A few connections, opened when first needed and used by one reader at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._limiter = anyio.CapacityLimiter(_MOST)
        self._closed = False

    async def run(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        """What `work` returns, computed in a thread on one consistent view of the database."""
        if self._closed:
            raise StoreUnavailable("the session store was closed")
        return await anyio.to_thread.run_sync(self._with_connection, work, limiter=self._limiter)

    async def close(self) -> None:
        """Close every connection, once those in use have come back."""
        self._closed = True
        await anyio.to_thread.run_sync(self._close_idle)

    def _with_connection(self, work: Callable[[sqlite3.Connection], Result]) -> Result:
        with translated(self._path):
            connection = self._idle.pop() if self._idle else open_reader(self._path)
            try:
                connection.execute("BEGIN")
                return work(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._put_back(connection)

    def _put_back(self, connection: sqlite3.Connection) -> None:
        if self._closed:
            connection.close()
        else:
            self._idle.append(connection)

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()
