"""What gateways share: orders waiting for a worker, their events, and the list of gateways.

Times are the database's. `sql/101_orders.sql` describes the statements and the order in which they
lock. A worker holds an order by `(msg_id, read_ct)`: the count grows each time the message is taken,
so that a worker that froze notices.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import asyncpg
import orjson

from openclaw.core.errors import Busy, NotFound
from openclaw.sessions.lanes import BEATS_PER_LEASE
from openclaw.sessions.postgres.lease_thread import OwnLoop, run_on_thread
from openclaw.sessions.postgres.pool import Database
from openclaw.sessions.records import LaneLost, SessionRef

if TYPE_CHECKING:
    from openclaw.sessions.postgres.pool import Connection

logger = logging.getLogger(__name__)

Finishing = Callable[[Any], Awaitable[None]]  # called in the transaction that ends a turn

LEASE_SECONDS = 5.0  # how long a worker that died or froze keeps others from its order
READY_PATIENCE_SECONDS = 1.5  # how long an order is left to gateways whose MCP servers are ready
DEAD_SECONDS = 10.0  # after which a silent gateway counts as dead
KEPT_SECONDS = 3600.0  # how long an answer is kept for repeated requests

_FUTURE_SECONDS = 60.0  # more than any lease, so that only a clock that was set back leads there
_SESSION_RETRY = 5.0
_TOTAL_RETRY = 10.0
_NOT_HELD = "OC001"
_PRUNED_AT_ONCE = 500
_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class QueuedOrder:
    id: int
    session: str
    turn: str
    agent: str
    msg_id: int
    read_ct: int
    entry: str
    watchers: Sequence[str]
    attempts: int
    cancelled: bool
    pin: str | None
    body: bytes


_ORDER_FIELDS = tuple(one.name for one in fields(QueuedOrder))


@dataclass(frozen=True, slots=True)
class EnqueueResult:
    id: int
    created: bool


@dataclass(frozen=True, slots=True)
class CancelResult:
    """The result of a cancellation. `runner` must be notified; `more` means that another order follows."""

    known: bool
    runner: str | None
    more: bool
    watchers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of an order, numbered without gaps, as one JSON document."""

    order: int
    first: int
    last: int
    body: bytes


@dataclass(frozen=True, slots=True)
class QueueStats:
    waiting: int = 0
    oldest_seconds: float = 0.0
    running: int = 0


class OrderQueue:
    def __init__(self, database: Database, gateway: str) -> None:
        self._database = database
        self._gateway = gateway
        self.depth = QueueStats()  # as last measured

    async def enqueue(
        self,
        session: SessionRef,
        turn: str,
        body: bytes,
        *,
        most: int,
        most_in_all: int,
        pin: str | None = None,
    ) -> EnqueueResult:
        """Accept an order; when this returns, it survives the end of this process.

        Raises `Busy` if `most` orders wait in the session, or `most_in_all` everywhere when that was
        last measured. Only the gateway `pin` may run it, while it is alive; by default the one with
        the session's own MCP servers, if there are any.
        """
        if self.depth.waiting >= most_in_all:
            raise Busy(
                f"{self.depth.waiting} turns are waiting; try again in {_TOTAL_RETRY:.0f} s",
                retry_after=_TOTAL_RETRY,
            )

        values = (session.id, turn, session.agent, self._gateway, body, most, pin)
        query = "SELECT * FROM give_order($1, $2, $3, $4, $5, $6, $7)"

        async def work(connection: "Connection") -> Any:
            try:
                return await connection.fetchrow(query, *values)
            except asyncpg.NoDataFoundError:
                raise NotFound("the session was deleted") from None

        row = await self._database.write(work)
        if row["id"] is None:
            raise Busy(
                f"{row['ahead']} turns are waiting in this session; "
                f"try again in {_SESSION_RETRY:.0f} s",
                retry_after=_SESSION_RETRY,
            )
        return EnqueueResult(row["id"], row["created"])

    async def claim(
        self,
        most: int,
        ready: Sequence[str],
        *,
        lease: float = LEASE_SECONDS,
        patience: float = READY_PATIENCE_SECONDS,
    ) -> list[QueuedOrder]:
        """Up to `most` orders to run, each held for `lease` seconds; `ready` agents first."""
        values = (self._gateway, most, lease, list(ready), patience, DEAD_SECONDS)
        query = "SELECT * FROM take_orders($1, $2, $3, $4, $5, $6)"
        rows = await self._database.execute(query, *values)
        return [QueuedOrder(**{name: row[name] for name in _ORDER_FIELDS}) for row in rows]

    async def keep_renewing(
        self,
        held: Callable[[], Sequence[QueuedOrder]],
        renewed: Callable[[QueuedOrder, bool | None], None],
    ) -> None:
        """Renew the leases of what `held` returns, on a thread that calls it.

        `renewed` is called on the event loop with whether each must stop, None if it is lost.
        """
        loop = OwnLoop()

        async def use(connection: "asyncpg.Connection[Any]") -> None:
            while not connection.is_closed():
                stuck, orders = loop.is_stuck(), held()
                if orders and not stuck:
                    with anyio.fail_after(LEASE_SECONDS):  # a connection may die silently
                        stops = await self.renew(connection, orders)
                    for order in orders:
                        loop.call(renewed, order, stops.get(order.id))
                await anyio.sleep(LEASE_SECONDS / BEATS_PER_LEASE)

        trouble = "the leases of turns could not be renewed"
        await run_on_thread(partial(self._database.stay_connected, use, trouble))

    async def renew(
        self, connection: "Connection", orders: Sequence[QueuedOrder]
    ) -> dict[int, bool]:
        """Renew leases; returns which orders are still held, and whether each must stop."""
        by_message = {order.msg_id: order.id for order in orders}
        held = [order.msg_id for order in orders], [order.read_ct for order in orders]
        query = "SELECT * FROM renew_orders($1, $2, $3)"
        rows = await connection.fetch(query, *held, LEASE_SECONDS)
        return {by_message[row["msg_id"]]: row["cancelled"] for row in rows}

    def finishing(
        self,
        order: QueuedOrder,
        outcome: str,
        reply: bytes,
        events: int,
        then: Callable[[bool], None],
    ) -> Finishing:
        """Returns a function that ends the order with its turn; `LaneLost` if it is no longer held.

        Before the commit, `then` is called with whether another order of the session follows.
        """

        async def work(connection: "Connection") -> None:
            values = (order.id, order.msg_id, order.read_ct, outcome, reply, events)
            try:
                more = await connection.fetchval(
                    "SELECT finish_order($1, $2, $3, $4, $5, $6)", *values
                )
            except asyncpg.PostgresError as error:
                if error.sqlstate == _NOT_HELD:
                    raise LaneLost("another gateway took the turn over") from None
                raise
            then(bool(more))

        return work

    async def finish(self, order: QueuedOrder, outcome: str, reply: bytes) -> bool:
        """End an order that never became a turn; true if another order of its session follows."""
        follows: list[bool] = []
        work = self.finishing(order, outcome, reply, 0, follows.append)

        async def inside(connection: "Connection") -> None:
            # Lock in the usual order: the session, then its orders.
            await connection.execute(
                "SELECT 1 FROM sessions WHERE id = $1 FOR NO KEY UPDATE", order.session
            )
            await work(connection)

        await self._database.transact(inside)
        return follows[-1]

    async def release(self, order: QueuedOrder, *, blameless: bool) -> bool:
        """Let another worker have the order at once; false if it was no longer ours."""
        query, held = "SELECT return_order($1, $2, $3, $4)", (order.msg_id, order.read_ct)
        [(returned,)] = await self._database.execute(query, order.id, *held, blameless)
        return returned

    async def cancel(self, order: int, reply: bytes) -> CancelResult:
        async def work(connection: "Connection") -> Any:
            stopped = await connection.fetchrow("SELECT * FROM cancel_order($1, $2)", order, reply)
            watchers = await connection.fetchval("SELECT watchers FROM orders WHERE id = $1", order)
            return stopped, watchers

        row, watchers = await self._database.transact(work)
        return CancelResult(row["known"], row["runner"], row["more"], tuple(watchers or ()))

    async def watch(self, order: int) -> str | None:
        query = (
            "UPDATE orders SET watchers = array_append(array_remove(watchers, $2), $2)"
            " WHERE id = $1 RETURNING CASE state WHEN 'running' THEN runner END"
        )
        rows = await self._database.execute(query, order, self._gateway)
        return rows[0][0] if rows else None

    async def answer(self, order: int) -> bytes | None:
        """The answer, once the order has ended."""
        query = "SELECT state = 'done', reply FROM orders WHERE id = $1"
        found = await self._database.fetch(query, order)
        if not found:
            raise NotFound("the session of this turn was deleted")
        done, reply = found[0]
        return reply or b"" if done else None

    async def find(self, turn: str) -> list[tuple[int, str]]:
        """Orders with this turn id, and their sessions' keys: the unfinished ones first."""
        query = (
            "SELECT o.id, s.key FROM orders o JOIN sessions s ON s.id = o.session"
            " WHERE o.turn = $1 ORDER BY o.state = 'done', o.id DESC"
        )
        return [(row["id"], row["key"]) for row in await self._database.fetch(query, turn)]

    async def unfinished_of(self, key: str, agent: str | None) -> list[int]:
        query = (
            "SELECT o.id FROM orders o JOIN sessions s ON s.id = o.session"
            " WHERE o.state <> 'done' AND s.key = $1 AND ($2::text IS NULL OR s.agent = $2)"
            " ORDER BY o.id DESC"
        )
        return [row["id"] for row in await self._database.fetch(query, key, agent)]

    async def forget_future(self) -> None:
        """Bring times in the future back to now.

        If the database's clock was set back, what was written before would stay unavailable, or
        gateways that are gone would count as alive, for as long as the clock was set back.
        """

        async def work(connection: "Connection") -> None:
            await connection.execute(
                "UPDATE pgmq.q_openclaw_turns SET vt = clock_timestamp()"
                " WHERE vt > clock_timestamp() + make_interval(secs => $1)",
                _FUTURE_SECONDS,
            )
            await connection.execute(
                "UPDATE gateways SET seen_at = clock_timestamp()"
                " WHERE seen_at > clock_timestamp() + make_interval(secs => $1)",
                _FUTURE_SECONDS,
            )

        await self._database.transact(work)

    async def measure(self) -> QueueStats:
        [row] = await self._database.fetch(
            "SELECT count(*) FILTER (WHERE state = 'waiting'),"
            " coalesce(extract(epoch FROM clock_timestamp() - min(given_at)"
            "   FILTER (WHERE state = 'waiting')), 0)::float8,"
            " count(*) FILTER (WHERE state = 'running')"
            " FROM orders WHERE state <> 'done'"
        )
        self.depth = QueueStats(*row)
        return self.depth

    async def prune(self, kept: float = KEPT_SECONDS) -> int:
        """Delete orders that ended long ago, and messages whose session was deleted."""

        async def work(connection: "Connection") -> int:
            await connection.execute(
                "DELETE FROM pgmq.q_openclaw_turns q WHERE q.read_ct > 1 AND NOT EXISTS"
                " (SELECT 1 FROM orders o WHERE o.id = (q.message ->> 'order')::bigint)"
            )
            return await connection.fetchval(
                "WITH old AS (SELECT id FROM orders WHERE state = 'done'"
                "  AND done_at < clock_timestamp() - make_interval(secs => $1)"
                "  ORDER BY done_at LIMIT $2 FOR UPDATE SKIP LOCKED),"
                " gone AS (DELETE FROM orders o USING old WHERE o.id = old.id RETURNING 1)"
                " SELECT count(*) FROM gone",
                kept,
                _PRUNED_AT_ONCE,
            )

        return await self._database.transact(work)

    async def keep_events(self, batches: Sequence[EventBatch]) -> None:
        """Store these events; a database crash may lose the last ones."""

        async def work(connection: "Connection") -> None:
            await connection.execute("SET LOCAL synchronous_commit = off")
            await connection.execute(
                "INSERT INTO order_events (order_id, first, last, body)"
                " SELECT n.* FROM unnest($1::bigint[], $2::int[], $3::int[], $4::bytea[])"
                " AS n (order_id, first, last, body) WHERE EXISTS"
                " (SELECT 1 FROM orders o WHERE o.id = n.order_id FOR KEY SHARE)"
                " ON CONFLICT DO NOTHING",
                [one.order for one in batches],
                [one.first for one in batches],
                [one.last for one in batches],
                [one.body for one in batches],
            )

        await self._database.transact(work)

    async def events_after(self, order: int, number: int) -> list[EventBatch]:
        rows = await self._database.fetch(
            "SELECT order_id, first, last, body FROM order_events"
            " WHERE order_id = $1 AND last > $2 ORDER BY last LIMIT $3",
            order,
            number,
            _ROWS_AT_ONCE,
        )
        return [EventBatch(*row) for row in rows]


BEAT_SECONDS = 2.0
_FORGOTTEN_SECONDS = 86_400.0


class Gateways:
    def __init__(self, database: Database, gateway: str) -> None:
        self._database = database
        self._gateway = gateway

    async def heartbeat(self, facts: Mapping[str, Any]) -> None:
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

        # Not worth waiting for: unlike a write, it stops when cancelled.
        await self._database.read(work)

    async def listed(self) -> list[dict[str, Any]]:
        """The gateways, oldest first, with what each reports about itself."""
        found = await self._database.fetch(
            "SELECT id, extract(epoch FROM clock_timestamp() - seen_at)::float8,"
            " extract(epoch FROM clock_timestamp() - started_at)::float8,"
            " facts::text FROM gateways ORDER BY started_at"
        )
        return [
            {
                "id": id,
                "this": id == self._gateway,
                "alive": seen <= DEAD_SECONDS,
                "seenSecondsAgo": round(seen, 1),
                "upSeconds": round(up, 1),
                **orjson.loads(facts),
            }
            for id, seen, up, facts in found
        ]

    async def set_home(self, session: str, servers: Sequence[str]) -> None:
        """Record which of a session's own MCP servers are in this gateway, or that none are."""
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

    async def clear_home(self, session: str, gateway: str) -> list[str]:
        """Forget a session's gateway, which is gone; returns the servers it had."""

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


# A message may get lost with the connection or its sender, so waiters also poll the tables.
# Messages are sent in separate transactions that don't wait for the disk, because PostgreSQL
# commits only one notifying transaction at a time.

MOST_PAYLOAD_BYTES = 7900  # PostgreSQL's own limit is 8000

_WAKE = "openclaw_wake"
_CHECK_SECONDS = 3.0  # how often a quiet connection is checked

Message = dict[str, Any]


def channel_of(gateway: str) -> str:
    return f"openclaw_{gateway}"


class GatewayChannel:
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
        self.connected = anyio.Event()

    def wake(self) -> None:
        self._post(_WAKE, "")

    def tell(self, gateway: str, message: Mapping[str, Any]) -> None:
        if gateway == self._gateway:
            self._on_message(dict(message))
        else:
            self._post(channel_of(gateway), orjson.dumps(message).decode())

    def _post(self, channel: str, payload: str) -> None:
        if self.connected.is_set() and (not self._posts or self._posts[-1] != (channel, payload)):
            self._posts.append((channel, payload))
            self._news.set()

    async def run(self) -> None:
        await self._database.stay_connected(self._stay, "cannot listen for other gateways")

    async def _stay(self, connection: "asyncpg.Connection[Any]") -> None:
        connection.add_termination_listener(lambda _: self._news.set())
        await connection.execute("SET synchronous_commit = off")
        await connection.add_listener(_WAKE, self._heard_wake)
        await connection.add_listener(channel_of(self._gateway), self._heard)
        self.connected.set()
        self._on_connected()
        try:
            while not connection.is_closed():
                with anyio.move_on_after(_CHECK_SECONDS):
                    await self._news.wait()
                self._news = anyio.Event()
                await self._send(connection)
        finally:
            self.connected = anyio.Event()
            self._posts.clear()

    async def _send(self, connection: "asyncpg.Connection[Any]") -> None:
        posts, self._posts = self._posts, []
        with anyio.fail_after(_CHECK_SECONDS):
            await connection.execute(
                "SELECT pg_notify(n.channel, n.payload)"
                " FROM unnest($1::text[], $2::text[]) AS n (channel, payload)",
                [channel for channel, _ in posts],
                [payload for _, payload in posts],
            )

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
