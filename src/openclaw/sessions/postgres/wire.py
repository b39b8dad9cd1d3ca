"""Messages between gateways, by NOTIFY on one connection of a gateway's own.

A message may get lost, with the connection or with its sender: whoever waits for one looks into the
tables as well, now and then. Messages are sent in transactions of their own that wait for no disk,
because PostgreSQL lets one transaction at a time commit that notifies.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import orjson
from anyio.abc import TaskStatus

from openclaw.core.errors import OpenClawError
from openclaw.sessions.postgres.failures import is_of_driver, translated
from openclaw.sessions.postgres.pool import Database

if TYPE_CHECKING:
    import asyncpg

logger = logging.getLogger(__name__)

MOST_PAYLOAD_BYTES = 7900
"""PostgreSQL's own limit is 8000."""

_WAKE = "openclaw_wake"
_PAUSE_SECONDS = (0.05, 2.0)
_CHECK_SECONDS = 3.0
"""How often a quiet connection is tried, so that one that was cut is noticed."""

Message = dict[str, Any]


def channel_of(gateway: str) -> str:
    """Where a gateway listens."""
    return f"openclaw_{gateway}"


def payload_of(message: Mapping[str, Any]) -> str:
    """A message as it travels."""
    return orjson.dumps(message).decode()


class Wire:
    """A gateway's end. `on_wake` is called where there may be work, `on_message` with what is for us.

    `on_connected` is called each time that the connection stands: what was sent before may be lost.
    """

    def __init__(
        self,
        database: Database,
        gateway: str,
        *,
        on_wake: Callable[[], None],
        on_message: Callable[[Message], None],
        on_connected: Callable[[], None],
    ) -> None:
        self._database = database
        self._gateway = gateway
        self._on_wake = on_wake
        self._on_message = on_message
        self._on_connected = on_connected
        self._posts: list[tuple[str, str]] = []
        self._news = anyio.Event()
        self.connected = False

    def wake(self) -> None:
        """Tell the others that there may be work."""
        self._post(_WAKE, "")

    def tell(self, gateway: str, message: Mapping[str, Any]) -> None:
        """Tell one gateway; this one itself hears it at once."""
        if gateway == self._gateway:
            self._on_message(dict(message))
        else:
            self._post(channel_of(gateway), payload_of(message))

    def _post(self, channel: str, payload: str) -> None:
        if self.connected and (not self._posts or self._posts[-1] != (channel, payload)):
            self._posts.append((channel, payload))
            self._news.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Stay connected; ready once it is for the first time, or once that has failed."""
        pause, longest = _PAUSE_SECONDS
        connection = await self._tried()
        task_status.started()
        while True:
            if connection is not None:
                pause = _PAUSE_SECONDS[0]
                await self._use(connection)
            await anyio.sleep(pause)
            connection = await self._tried()
            pause = min(2 * pause, longest)

    async def _tried(self) -> "asyncpg.Connection[Any] | None":
        try:
            return await self._connect()
        except OpenClawError as error:
            logger.warning("cannot listen for other gateways: %s", error.message)
            return None

    async def _connect(self) -> "asyncpg.Connection[Any]":
        connection = await self._database.connect()
        try:
            with translated(self._database.place):
                await connection.execute("SET synchronous_commit = off")
                await connection.add_listener(_WAKE, self._heard_wake)
                await connection.add_listener(channel_of(self._gateway), self._heard)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _use(self, connection: "asyncpg.Connection[Any]") -> None:
        self.connected = True
        self._on_connected()
        try:
            await self._send_until_broken(connection)
        finally:
            self.connected = False
            self._posts.clear()
            connection.terminate()

    async def _send_until_broken(self, connection: "asyncpg.Connection[Any]") -> None:
        connection.add_termination_listener(lambda _: self._news.set())
        while not connection.is_closed():
            with anyio.move_on_after(_CHECK_SECONDS):
                await self._news.wait()
            self._news = anyio.Event()
            posts, self._posts = self._posts, []
            try:
                with anyio.fail_after(_CHECK_SECONDS):
                    await connection.execute(
                        "SELECT pg_notify(n.channel, n.payload)"
                        " FROM unnest($1::text[], $2::text[]) AS n (channel, payload)",
                        [channel for channel, _ in posts],
                        [payload for _, payload in posts],
                    )
            except Exception as error:
                if not is_of_driver(error):  # which a lapse of time is too
                    raise
                logger.info("the connection to other gateways broke: %s", type(error).__name__)
                return

    def _heard_wake(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        if pid != connection.get_server_pid():
            self._on_wake()

    def _heard(self, connection: Any, pid: int, channel: str, payload: object) -> None:
        try:
            message: Any = orjson.loads(str(payload))
        except orjson.JSONDecodeError:
            logger.warning("a message from another gateway cannot be read")
            return
        self._on_message(message)
