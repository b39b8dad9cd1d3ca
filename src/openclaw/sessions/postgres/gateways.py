"""Which gateways there are, what they run and say to each other. Times are the database's."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import orjson
from anyio.abc import TaskStatus

from openclaw.core.errors import OpenClawError
from openclaw.sessions.postgres.pool import Database, is_of_driver, translated
from openclaw.sessions.postgres.queue import DEAD_SECONDS

if TYPE_CHECKING:
    import asyncpg

    from openclaw.sessions.postgres.pool import Connection

BEAT_SECONDS = 2.0
_FORGOTTEN_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class GatewayRow:
    id: str
    alive: bool
    seen_seconds: float
    up_seconds: float
    facts: Mapping[str, Any]


class Gateways:
    def __init__(self, database: Database, gateway: str) -> None:
        self._database = database
        self._gateway = gateway

    async def beat(self, facts: Mapping[str, Any]) -> None:
        await self._database.execute(
            "INSERT INTO gateways (id, facts) VALUES ($1, $2::jsonb) ON CONFLICT (id)"
            " DO UPDATE SET facts = excluded.facts, seen_at = clock_timestamp()",
            self._gateway,
            orjson.dumps(facts).decode(),
        )

    async def leave(self) -> None:
        async def work(connection: "Connection") -> None:
            await connection.execute("DELETE FROM session_homes WHERE gateway = $1", self._gateway)
            await connection.execute(
                "DELETE FROM gateways WHERE id = $1"
                " OR seen_at < clock_timestamp() - make_interval(secs => $2)",
                self._gateway,
                _FORGOTTEN_SECONDS,
            )

        # A goodbye is not worth waiting for: unlike a write, it ends when it is cancelled.
        await self._database.read(work)

    async def rows(self) -> list[GatewayRow]:
        found = await self._database.fetch(
            "SELECT id, extract(epoch FROM clock_timestamp() - seen_at)::float8,"
            " extract(epoch FROM clock_timestamp() - started_at)::float8,"
            " facts::text FROM gateways ORDER BY started_at"
        )
        return [
            GatewayRow(id, seen <= DEAD_SECONDS, seen, up, orjson.loads(facts))
            for id, seen, up, facts in found
        ]

    async def settle_home(self, session: str, servers: Sequence[str]) -> None:
        """Say which of a session's own MCP servers are in this gateway, or that none are."""
        if not servers:
            query = "DELETE FROM session_homes WHERE session = $1 AND gateway = $2"
            await self._database.execute(query, session, self._gateway)
            return
        await self._database.execute(
            "INSERT INTO session_homes (session, gateway, servers) VALUES ($1, $2, $3)"
            " ON CONFLICT (session) DO UPDATE"
            " SET gateway = excluded.gateway, servers = excluded.servers",
            session,
            self._gateway,
            list(servers),
        )

    async def abandon_home(self, session: str, gateway: str) -> list[str]:
        """Forget a session's home, which is gone; returns the servers that were there."""

        async def work(connection: "Connection") -> list[str]:
            found = await connection.fetchval(
                "DELETE FROM session_homes WHERE session = $1 AND gateway = $2 RETURNING servers",
                session,
                gateway,
            )
            await connection.execute(
                "UPDATE orders SET pin = NULL WHERE session = $1 AND pin = $2", session, gateway
            )
            return list(found or ())

        return await self._database.transact(work)


_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Stretch:
    """Events of an order, numbered without gaps, as one piece of JSON."""

    order: int
    first: int
    last: int
    body: bytes


class EventLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, stretches: Sequence[Stretch]) -> None:
        """Keep these, though a crash of the database may lose the last ones."""

        async def work(connection: "Connection") -> None:
            await connection.execute("SET LOCAL synchronous_commit = off")
            await connection.execute(
                "INSERT INTO order_events (order_id, first, last, body)"
                " SELECT n.* FROM unnest($1::bigint[], $2::int[], $3::int[], $4::bytea[])"
                " AS n (order_id, first, last, body) WHERE EXISTS"
                " (SELECT 1 FROM orders o WHERE o.id = n.order_id FOR KEY SHARE)"
                " ON CONFLICT DO NOTHING",
                [one.order for one in stretches],
                [one.first for one in stretches],
                [one.last for one in stretches],
                [one.body for one in stretches],
            )

        await self._database.transact(work)

    async def after(self, order: int, number: int) -> list[Stretch]:
        rows = await self._database.fetch(
            "SELECT order_id, first, last, body FROM order_events"
            " WHERE order_id = $1 AND last > $2 ORDER BY last LIMIT $3",
            order,
            number,
            _ROWS_AT_ONCE,
        )
        return [Stretch(*row) for row in rows]


# A message may get lost with the connection or its sender, so those who wait also look into the
# tables. Messages are sent in transactions of their own that wait for no disk, because PostgreSQL
# commits only one transaction that notifies at a time.

logger = logging.getLogger(__name__)

MOST_PAYLOAD_BYTES = 7900  # PostgreSQL's own limit is 8000

_WAKE = "openclaw_wake"
_PAUSE_SECONDS = (0.05, 2.0)
_CHECK_SECONDS = 3.0  # how often a quiet connection is tried, so that one that was cut is noticed

Message = dict[str, Any]


def channel_of(gateway: str) -> str:
    return f"openclaw_{gateway}"


class Wire:
    """A gateway's end. `on_wake`: there may be work. `on_connected`: messages may have been lost."""

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
        self._post(_WAKE, "")

    def tell(self, gateway: str, message: Mapping[str, Any]) -> None:
        if gateway == self._gateway:
            self._on_message(dict(message))
        else:
            self._post(channel_of(gateway), orjson.dumps(message).decode())

    def _post(self, channel: str, payload: str) -> None:
        if self.connected and (not self._posts or self._posts[-1] != (channel, payload)):
            self._posts.append((channel, payload))
            self._news.set()

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Stay connected; ready once the first attempt has succeeded or failed."""
        pause, longest = _PAUSE_SECONDS
        ready = False
        while True:
            try:
                connection = await self._connect()
            except OpenClawError as error:
                logger.warning("cannot listen for other gateways: %s", error.message)
                connection = None
            if not ready:
                task_status.started()
                ready = True
            if connection is not None:
                pause = _PAUSE_SECONDS[0]
                self.connected = True
                self._on_connected()
                try:
                    await self._send_until_broken(connection)
                finally:
                    self.connected = False
                    self._posts.clear()
                    connection.terminate()
            await anyio.sleep(pause)
            pause = min(2 * pause, longest)

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
                if not is_of_driver(error):  # a timeout is one too
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
