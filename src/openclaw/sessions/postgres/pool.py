"""Connections to the database, and work that outlives the loss of one.

Every connection has `search_path` set to the schema `openclaw`, so that statements name their
tables plainly. What runs on a connection of the pool leaves nothing behind on it: no session lock,
no LISTEN, no setting; for those there is `Database.connect`.
"""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.lowlevel

from openclaw.sessions.errors import StoreUnavailable
from openclaw.sessions.postgres.address import Address
from openclaw.sessions.postgres.failures import (
    explain,
    is_lost,
    is_of_driver,
    is_passing,
    require_driver,
    translated,
)
from openclaw.version import __version__

if TYPE_CHECKING:
    from typing import TypeAlias

    import asyncpg

    Connection: TypeAlias = asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any]

Result = TypeVar("Result")
Work = Callable[["Connection"], Awaitable[Result]]

SCHEMA = "openclaw"

MOST_CONNECTIONS = 8
"""In one process at most, besides those that it keeps for itself: each statement takes
milliseconds, so that a few serve many turns, and a server has few to give."""

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 30.0
"""The longest that one statement may take; the server stops it, and we stop waiting a bit later."""

WRITE_SECONDS = 12.0
"""After so long a connection is taken for dead and what it was to write is sent on another."""

IDLE_TRANSACTION_SECONDS = 5.0
"""How long a process that froze inside of a transaction may keep its locks."""

RECONNECT_SECONDS = 30.0
"""How long work waits for a server that restarts before it fails."""

_PAUSE_SECONDS = (0.05, 1.0)
_HURRY_SECONDS = 2.0
"""First and longest pause between two tries to connect."""


class Database:
    """A pool of connections that mends itself."""

    def __init__(self, address: Address, *, patience: float = RECONNECT_SECONDS) -> None:
        self._address = address
        self._patience = patience
        self._pool: asyncpg.Pool[Any] | None = None

    @property
    def place(self) -> str:
        """Which server and database this is, for messages."""
        return self._address.place

    async def open(self) -> None:
        """Make the pool and try one connection, so that a wrong address is noticed at once."""
        import asyncpg

        with translated(self.place):
            pool = asyncpg.create_pool(
                min_size=0,
                max_size=MOST_CONNECTIONS,
                max_inactive_connection_lifetime=300.0,
                reset=_leave_as_it_is,
                **self._arguments(),
            )
            self._pool = await pool
            try:
                await self._pool.release(await self._pool.acquire(timeout=CONNECT_SECONDS))
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        """Close every connection; those in use get a moment to come back."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(STATEMENT_SECONDS) as scope:
                await pool.close()
            if scope.cancelled_caught:
                pool.terminate()

    def hurry(self) -> None:
        """Try for a moment at most from now on, also what is being tried: the process ends."""
        self._patience = min(self._patience, _HURRY_SECONDS)

    async def connect(self) -> "asyncpg.Connection[Any]":
        """A connection of one's own, for LISTEN and for locks that last; the caller closes it."""
        import asyncpg

        with translated(self.place):
            return await asyncpg.connect(**self._arguments())

    async def read(self, work: Work[Result]) -> Result:
        """What `work` returns; tried again where the connection fails."""
        return await self._insist(work, STATEMENT_SECONDS)

    async def write(self, work: Work[Result]) -> Result:
        """The same for work that changes something: once begun it is finished, though cancelled.

        The connection may fail while it commits, and then `work` runs once more: it must be of a
        kind that finds out what it did already.
        """
        done: list[Result] = []
        await anyio.lowlevel.checkpoint()
        with anyio.CancelScope(shield=True):
            done.append(await self._insist(work, WRITE_SECONDS))
        return done[0]

    async def transact(self, work: Work[Result]) -> Result:
        """The same in one transaction of several statements."""

        async def inside(connection: "Connection") -> Result:
            async with connection.transaction():
                return await work(connection)

        return await self.write(inside)

    async def _insist(self, work: Work[Result], limit: float) -> Result:
        pause, longest = _PAUSE_SECONDS
        began = anyio.current_time()
        while True:
            try:
                return await self._attempt(work, limit)
            except Exception as error:
                if not is_of_driver(error):
                    raise
                if not is_passing(error) or anyio.current_time() >= began + self._patience:
                    raise explain(error, self.place) from None
            await anyio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load
            pause = min(2 * pause, longest)

    async def _attempt(self, work: Work[Result], limit: float) -> Result:
        pool = self._pool
        if pool is None:
            raise StoreUnavailable("the session store was closed")
        connection = await pool.acquire(timeout=STATEMENT_SECONDS)
        failed = False
        done: list[Result] = []
        try:
            with anyio.fail_after(limit):
                done.append(await work(connection))
        except Exception as error:
            failed = is_of_driver(error) and is_lost(error)
            raise
        finally:
            with anyio.CancelScope(shield=True):
                if failed:
                    connection.terminate()
                await pool.release(connection)
        return done[0]

    def _arguments(self) -> dict[str, Any]:
        address = self._address
        milliseconds = {
            "statement_timeout": STATEMENT_SECONDS,
            "idle_in_transaction_session_timeout": IDLE_TRANSACTION_SECONDS,
        }
        settings = {name: str(int(seconds * 1000)) for name, seconds in milliseconds.items()}
        tls = {"system": True, "verify-full": "verify-full", None: None}[address.tls]
        return {
            "dsn": address.url.reveal(),
            "ssl": tls,
            "timeout": CONNECT_SECONDS,
            "command_timeout": STATEMENT_SECONDS + 5.0,
            "server_settings": {
                "application_name": f"openclaw {__version__}",
                "search_path": SCHEMA,
                "jit": "off",  # its start costs more than any statement of ours
                **settings,
            },
        }


@asynccontextmanager
async def open_database(
    address: Address, *, patience: float = RECONNECT_SECONDS
) -> AsyncGenerator[Database]:
    """The database at `address`, for as long as the context lasts."""
    require_driver()
    database = Database(address, patience=patience)
    await database.open()
    try:
        yield database
    finally:
        await database.close()


async def _leave_as_it_is(connection: "Connection") -> None:
    """Spares a round trip each time: nothing of ours changes a connection of the pool."""
