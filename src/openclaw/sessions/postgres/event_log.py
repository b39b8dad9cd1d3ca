"""What happened in turns, kept so that a watcher who missed some of it can catch up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openclaw.sessions.postgres.pool import Database

if TYPE_CHECKING:
    from openclaw.sessions.postgres.pool import Connection

_ROWS_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Stretch:
    """Events of an order, numbered from `first` to `last` without gaps, as one piece of JSON."""

    order: int
    first: int
    last: int
    body: bytes


class EventLog:
    """The events of orders."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, stretches: Sequence[Stretch]) -> None:
        """Keep these. A crash of the database may lose the last ones: they are news, no records."""

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
        """The stretches that have events beyond `number`, in order."""

        async def work(connection: "Connection") -> list[Any]:
            return await connection.fetch(
                "SELECT order_id, first, last, body FROM order_events"
                " WHERE order_id = $1 AND last > $2 ORDER BY last LIMIT $3",
                order,
                number,
                _ROWS_AT_ONCE,
            )

        rows = await self._database.read(work)
        return [Stretch(row["order_id"], row["first"], row["last"], row["body"]) for row in rows]
