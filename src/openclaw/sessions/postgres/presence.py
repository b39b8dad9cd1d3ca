"""A connection by which the other gateways know that this process lives.

It holds an advisory lock that ends with it, renews the leases of whoever waits or holds here, and
hears which sessions were left elsewhere. It is made when the first lane is wanted and made anew
when it breaks.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio

from openclaw.sessions.errors import StoreError, StoreUnavailable
from openclaw.sessions.postgres.failures import explain, is_lost, is_of_driver
from openclaw.sessions.postgres.pool import RECONNECT_SECONDS, Database
from openclaw.sessions.postgres.tickets import CHANNEL, OWNER_LOCKS, renew

if TYPE_CHECKING:
    import asyncpg

logger = logging.getLogger(__name__)

BEATS_PER_LEASE = 3
"""Renewals in one lease, so that two of them may fail."""

_PAUSE_SECONDS = 0.25
_CLOSE_SECONDS = 2.0


class Presence:
    """One process among those who share the database.

    `tokens` names the tickets to renew, `on_alive` is told which of those exist still, and
    `on_left` which session somebody left.
    """

    def __init__(
        self,
        database: Database,
        lease: float,
        *,
        tokens: Callable[[], list[str]],
        on_alive: Callable[[list[str], set[str]], None],
        on_left: Callable[[str], None],
    ) -> None:
        self._database = database
        self._lease = lease
        self._tokens = tokens
        self._on_alive = on_alive
        self._on_left = on_left
        self._wanted = anyio.Event()
        self._known = anyio.Event()
        self._broken = anyio.Event()
        self._owner = 0

    async def owner(self) -> int:
        """The number by which this process is known; waits until it is."""
        self._wanted.set()
        if not self._known.is_set():
            with anyio.move_on_after(RECONNECT_SECONDS):
                await self._known.wait()
        if not self._known.is_set():
            raise StoreUnavailable(
                f"the session store on PostgreSQL ({self._database.place}) cannot be reached"
            )
        return self._owner

    async def run(self) -> None:
        """Be present for as long as the store is open."""
        await self._wanted.wait()
        told = ""
        while True:
            try:
                await self._be_present()
                told = ""
            except StoreError as error:
                if told != error.message:  # once, however long it lasts
                    logger.warning("the database does not hear that this process lives: %s", error)
                told = error.message
            await anyio.sleep(_PAUSE_SECONDS)

    async def _be_present(self) -> None:
        connection = await self._database.connect()
        try:
            self._broken = anyio.Event()
            connection.add_termination_listener(self._on_break)
            await self._announce(connection)
            while not self._broken.is_set():
                await self._beat(connection)
                with anyio.move_on_after(self._lease / BEATS_PER_LEASE):
                    await self._broken.wait()
        except Exception as error:
            if not is_of_driver(error):
                raise
            if not is_lost(error):
                raise explain(error, self._database.place) from None
            logger.info("the connection that shows that this process lives broke")
        finally:
            await _closed(connection)

    async def _announce(self, connection: "asyncpg.Connection[Any]") -> None:
        """Take a number that nobody has: the former one's lock may not be free yet."""
        while True:
            owner = await connection.fetchval("SELECT nextval('owners')::integer")
            locked = await connection.fetchval(
                "SELECT pg_try_advisory_lock($1, $2)", OWNER_LOCKS, owner
            )
            if locked:
                break
        await connection.add_listener(CHANNEL, self._on_notice)
        self._owner = owner
        self._known.set()

    async def _beat(self, connection: "asyncpg.Connection[Any]") -> None:
        tokens = self._tokens()
        if not tokens:
            return
        with anyio.fail_after(self._lease / BEATS_PER_LEASE):  # a connection may die silently
            alive = await renew(connection, tokens, self._owner, self._lease)
        self._on_alive(tokens, alive)

    def _on_notice(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        self._on_left(str(payload))

    def _on_break(self, connection: Any) -> None:
        self._broken.set()


async def _closed(connection: "asyncpg.Connection[Any]") -> None:
    with anyio.CancelScope(shield=True):
        with anyio.move_on_after(_CLOSE_SECONDS) as scope:
            if not connection.is_closed():
                await connection.close()
        if scope.cancelled_caught:
            connection.terminate()
