"""Which gateways there are, and what each of them runs. All times are of the database's clock."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from openclaw.sessions.postgres.pool import Database
from openclaw.sessions.postgres.queue import DEAD_SECONDS

if TYPE_CHECKING:
    from openclaw.sessions.postgres.pool import Connection

BEAT_SECONDS = 2.0
_FORGOTTEN_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """A gateway as it last said it was, `seen_seconds` ago."""

    id: str
    alive: bool
    seen_seconds: float
    up_seconds: float
    facts: Mapping[str, Any]


class Gateways:
    """The gateways that share the database."""

    def __init__(self, database: Database, gateway: str) -> None:
        self._database = database
        self._gateway = gateway

    async def beat(self, facts: Mapping[str, Any]) -> None:
        """Say that this gateway lives, and how it is."""
        text = orjson.dumps(facts).decode()

        async def work(connection: "Connection") -> None:
            await connection.execute(
                "INSERT INTO gateways (id, facts) VALUES ($1, $2::jsonb) ON CONFLICT (id)"
                " DO UPDATE SET facts = excluded.facts, seen_at = clock_timestamp()",
                self._gateway,
                text,
            )

        await self._database.write(work)

    async def leave(self) -> None:
        """Say that this gateway is gone, on purpose; and forget those that died long ago."""

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
        """Every gateway, the longest running first."""

        async def work(connection: "Connection") -> list[Any]:
            return await connection.fetch(
                "SELECT id, extract(epoch FROM clock_timestamp() - seen_at)::float8 AS seen,"
                " extract(epoch FROM clock_timestamp() - started_at)::float8 AS up,"
                " facts::text AS facts FROM gateways ORDER BY started_at"
            )

        return [
            GatewayRow(
                id=row["id"],
                alive=row["seen"] <= DEAD_SECONDS,
                seen_seconds=row["seen"],
                up_seconds=row["up"],
                facts=orjson.loads(row["facts"]),
            )
            for row in await self._database.read(work)
        ]

    async def settle_home(self, session: str, servers: Sequence[str]) -> None:
        """Say which MCP servers of a session's own live in this gateway; none ends its stay."""

        async def work(connection: "Connection") -> None:
            if not servers:
                await connection.execute(
                    "DELETE FROM session_homes WHERE session = $1 AND gateway = $2",
                    session,
                    self._gateway,
                )
                return
            await connection.execute(
                "INSERT INTO session_homes (session, gateway, servers) VALUES ($1, $2, $3)"
                " ON CONFLICT (session) DO UPDATE"
                " SET gateway = excluded.gateway, servers = excluded.servers",
                session,
                self._gateway,
                list(servers),
            )

        await self._database.write(work)

    async def abandon_home(self, session: str, gateway: str) -> list[str]:
        """Take note that a session's home is gone; returns the servers that went with it."""

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
