"""Connections to the database, and work that survives the loss of one.

Work on a pooled connection leaves no state behind: no session lock, no LISTEN, no setting. For those,
use `Database.connect`.
"""

import logging
import random
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from math import inf
from typing import TYPE_CHECKING, Any, Self, TypeVar

import anyio
import anyio.lowlevel
import asyncpg

from openclaw.sessions.postgres.address import Address
from openclaw.sessions.records import StoreError
from openclaw.version import __version__

if TYPE_CHECKING:
    from typing import TypeAlias

    Connection: TypeAlias = asyncpg.Connection[Any] | asyncpg.pool.PoolConnectionProxy[Any]

logger = logging.getLogger(__name__)

# The connection is gone, or the server is stopping or starting.
_LOST = ("08", "57P01", "57P02", "57P03", "57P05", "25P03")
_TRY_AGAIN = ("40P01", "40001", "53300")  # deadlock, serialization failure, no connection free


def is_of_driver(error: BaseException) -> bool:
    """Whether the driver, the server or the network raised it."""
    kinds = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
    if isinstance(error, kinds) or not isinstance(error, AssertionError):
        return isinstance(error, kinds)
    # If a connection is cut at the wrong moment, the driver's own assertions fail.
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = trace.tb_frame.f_globals.get("__name__", "") if trace is not None else ""
    return str(module).partition(".")[0] == "asyncpg"


def is_lost(error: BaseException) -> bool:
    """Whether the connection failed, so that another one may work."""
    if isinstance(error, asyncpg.PostgresError):
        return _code(error).startswith(_LOST)
    if isinstance(error, ssl.SSLCertVerificationError | asyncpg.ClientConfigurationError):
        return False
    return is_of_driver(error)


def is_transient(error: BaseException) -> bool:
    """Whether a retry may well succeed."""
    if isinstance(error, asyncpg.PostgresError) and _code(error) in _TRY_AGAIN:
        return True
    return is_lost(error)


_LATE = ("did not answer in time", None)
_FULL = ("has no space left", "free some space and try again")
_READ_ONLY = (
    "cannot be written: {said}",
    "connect to the primary, as a user who owns the schema 'openclaw'",
)
_POOLED = (
    "is behind a connection pooler, such as PgBouncer, which keeps no settings and locks",
    "give sessions.store the address of the server itself; gateways keep a few connections each",
)
_REASONS: dict[str, tuple[str, str | None]] = {  # and hints, by prefix of the server's codes
    "08P01": _POOLED,  # PgBouncer refuses settings that a connection starts with
    "28": ("refuses this user or password", "check the address in sessions.store"),
    "3D000": ("has no such database", "create it with createdb"),
    "25006": _READ_ONLY,
    "42501": _READ_ONLY,
    "53100": _FULL,
    "53200": _FULL,
    "53300": ("has no connection free", "raise max_connections, or run fewer gateways"),
    "57014": _LATE,
    "55P03": _LATE,
    "": ("does not work: {said} ({code})", None),
}


def explain(error: BaseException, place: str) -> StoreError:
    hint = None
    if isinstance(error, asyncpg.PostgresError):
        code, said = _code(error), error.args[0] if error.args else type(error).__name__
        problem, hint = next(why for start, why in _REASONS.items() if code.startswith(start))
        problem = problem.format(said=said, code=code)
    elif isinstance(error, ssl.SSLCertVerificationError):
        problem = f"has a certificate that is not trusted: {error.verify_message}"
        hint = "add ?sslrootcert=FILE with your own authority, or choose another sslmode"
    elif isinstance(error, TimeoutError):
        problem, hint = _LATE
    elif isinstance(error, OSError):
        problem = f"cannot be reached: {error.strerror or 'no connection'}"
    elif isinstance(error, asyncpg.ClientConfigurationError):
        problem = "has an address that is not understood"
    else:  # the driver's own message may repeat parts of the address
        problem = f"does not work: {type(error).__name__}"
    return StoreError(f"the session store on PostgreSQL ({place}) {problem}", hint=hint)


def _code(error: "asyncpg.PostgresError") -> str:
    return getattr(error, "sqlstate", None) or ""


@contextmanager
def translated(place: str) -> Generator[None]:
    try:
        yield
    except Exception as error:
        if not is_of_driver(error):
            raise
        raise explain(error, place) from None


Result = TypeVar("Result")
Work = Callable[["Connection"], Awaitable[Result]]

SCHEMA = "openclaw"

MOST_CONNECTIONS = 8  # statements take milliseconds, so a few serve many turns
CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 30.0  # after which the server stops a statement; we stop waiting a bit later
WRITE_SECONDS = 12.0  # after which a connection counts as dead, and its write is sent on another
IDLE_TRANSACTION_SECONDS = 5.0  # how long a process frozen in a transaction keeps its locks
RECONNECT_SECONDS = 30.0  # how long work waits for a server that restarts before it fails
_PAUSE_SECONDS = (0.05, 1.0)  # first and longest pause between two tries to connect
_HURRY_SECONDS = 2.0
_CLOSE_SECONDS = 2.0
_AGAIN_SECONDS = (0.1, 2.0)  # shortest and longest pause before a lasting connection is made again


class Database:
    def __init__(self, address: Address, *, patience: float = RECONNECT_SECONDS) -> None:
        self._address = address
        self._patience = patience
        self._pool: asyncpg.Pool[Any] | None = None

    @property
    def place(self) -> str:
        return self._address.place

    @asynccontextmanager
    async def pooled(self) -> AsyncGenerator[Self]:
        """Open the pool while the block runs; a wrong address fails at once."""
        pool: asyncpg.Pool[Any] | None = None
        try:
            with translated(self.place):
                pool = self._pool = await asyncpg.create_pool(
                    min_size=0,
                    max_size=MOST_CONNECTIONS,
                    max_inactive_connection_lifetime=300.0,
                    reset=_leave_as_it_is,
                    **self._arguments(),
                )
                connection = await pool.acquire(timeout=CONNECT_SECONDS)
                pooled = await self._is_pooled(connection)
                await pool.release(connection)
            if pooled:
                problem, hint = _POOLED
                raise StoreError(
                    f"the session store on PostgreSQL ({self.place}) {problem}", hint=hint
                )
            yield self
        finally:
            self._pool = None
            with anyio.CancelScope(shield=True), anyio.move_on_after(STATEMENT_SECONDS) as scope:
                if pool is not None:
                    await pool.close()
            if pool is not None and scope.cancelled_caught:
                pool.terminate()

    async def _is_pooled(self, connection: "Connection") -> bool:
        """Whether a pooler forgets our settings, or gives each transaction another connection."""
        query = "SELECT pg_backend_pid(), current_setting('search_path')"
        row = await connection.fetchrow(query)
        assert row is not None
        pid: int = row[0]
        if row[1] != SCHEMA:
            return True
        if pid == connection.get_server_pid():
            return False
        other = await self.connect()
        try:
            # Of those that wait, a pooler takes the connection that was used last.
            async with other.transaction():
                taken: int = await other.fetchval("SELECT pg_backend_pid()")
                now: int = await connection.fetchval("SELECT pg_backend_pid()")
                return taken == pid or now != pid
        finally:
            await other.close(timeout=_CLOSE_SECONDS)

    def hurry(self) -> None:
        """From now on, give up quickly, because the process is ending."""
        self._patience = min(self._patience, _HURRY_SECONDS)

    async def connect(self) -> "asyncpg.Connection[Any]":
        """A connection for LISTEN and for locks that last; the caller closes it."""
        with translated(self.place):
            return await asyncpg.connect(**self._arguments())

    async def stay_connected(
        self, use: "Callable[[asyncpg.Connection[Any]], Awaitable[None]]", trouble: str
    ) -> None:
        """Run `use` on a dedicated connection, and again on a new one whenever that breaks.

        Pauses grow with the length of an outage, which is logged once, as `trouble` and its reason.
        """
        shortest, longest = _AGAIN_SECONDS
        worked, logged = anyio.current_time(), ""
        while True:
            opened = inf
            try:
                async with self._lasting() as connection:
                    opened = anyio.current_time()
                    await use(connection)
                level, news = logging.INFO, "a connection to the database broke"
            except StoreError as error:
                level, news = logging.WARNING, f"{trouble}: {error.message}"
            now = anyio.current_time()
            if now - opened > longest:  # one that breaks at once doesn't count
                worked, logged = now, ""
            if news != logged:
                logger.log(level, "%s", news)
            logged = news
            await anyio.sleep(min(max(shortest, (now - worked) / 10), longest))

    @asynccontextmanager
    async def _lasting(self) -> "AsyncGenerator[asyncpg.Connection[Any]]":
        """A connection; raises `StoreError` for an error that a retry would not fix."""
        connection = await self.connect()
        try:
            yield connection
        except Exception as error:
            if not is_of_driver(error):
                raise
            connection.terminate()  # closing it would wait for a server that may be gone
            if not is_lost(error):
                raise explain(error, self.place) from None
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSE_SECONDS) as scope:
                if not connection.is_closed():
                    await connection.close()
            if scope.cancelled_caught:
                connection.terminate()

    async def read(self, work: Work[Result]) -> Result:
        return await self._insist(work, STATEMENT_SECONDS)

    async def write(self, work: Work[Result], *, durable: bool = True) -> Result:
        """Like `sessions.lanes.Database`; every commit is durable."""
        done: list[Result] = []
        await anyio.lowlevel.checkpoint()
        with anyio.CancelScope(shield=True):
            done.append(await self._insist(work, WRITE_SECONDS))
        return done[0]

    async def transact(self, work: Work[Result], *, durable: bool = True) -> Result:
        async def inside(connection: "Connection") -> Result:
            async with connection.transaction():
                return await work(connection)

        return await self.write(inside)

    async def fetch(self, query: str, *values: Any) -> "list[asyncpg.Record]":
        return await self.read(lambda db: db.fetch(query, *values))

    async def execute(self, query: str, *values: Any) -> "list[asyncpg.Record]":
        """The rows of one statement that changes something and is safe to repeat."""
        return await self.write(lambda db: db.fetch(query, *values))

    async def _insist(self, work: Work[Result], limit: float) -> Result:
        pause, longest = _PAUSE_SECONDS
        began = anyio.current_time()
        while True:
            try:
                return await self._attempt(work, limit)
            except Exception as error:
                if not is_of_driver(error):
                    raise
                if not is_transient(error) or anyio.current_time() >= began + self._patience:
                    raise explain(error, self.place) from None
            await anyio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load
            pause = min(2 * pause, longest)

    async def _attempt(self, work: Work[Result], limit: float) -> Result:
        pool = self._pool
        if pool is None:
            raise StoreError("the session store was closed")
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
        return {
            "dsn": self._address.url.reveal(),
            "ssl": self._address.tls,
            "timeout": CONNECT_SECONDS,
            "command_timeout": STATEMENT_SECONDS + 5.0,
            "server_settings": {
                "application_name": f"openclaw {__version__}",
                "search_path": SCHEMA,
                "jit": "off",  # starting it costs more than any of our statements
                "statement_timeout": f"{STATEMENT_SECONDS:g}s",
                "idle_in_transaction_session_timeout": f"{IDLE_TRANSACTION_SECONDS:g}s",
            },
        }


async def _leave_as_it_is(connection: "Connection") -> None:
    """Saves a round trip each time: we never change a pooled connection's state."""
