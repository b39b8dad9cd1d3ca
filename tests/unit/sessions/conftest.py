"""The stores that must behave alike, and a way to make their holders die."""

import itertools
import sqlite3
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.postgres_server import Server

from openclaw.core.clock import SystemClock
from openclaw.sessions.postgres.address import parsed
from openclaw.sessions.postgres.pool import Database, Result, Work
from openclaw.sessions.postgres.store import open_postgres_store
from openclaw.sessions.records import SessionRef
from openclaw.sessions.sqlite.store import SqliteStore, open_sqlite_store
from openclaw.sessions.store import SessionStore

_FORGET = "DELETE FROM openclaw.tickets WHERE id = (SELECT min(id) FROM openclaw.tickets)"


class TickingClock(SystemClock):
    """No two times are the same, so that what came first is plain."""

    def __init__(self) -> None:
        self._ticks = itertools.count(1_800_000_000_000)

    def now_ms(self) -> int:
        return next(self._ticks)


@dataclass
class Subject:
    """A store under test; `take_away` makes it think that a lane's holder died."""

    store: SessionStore
    take_away: Callable[[SessionRef], None]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "state" / "sessions.db"


def forget_tickets(database: Path) -> None:
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM tickets WHERE id = (SELECT min(id) FROM tickets)")
    connection.close()


@pytest.fixture
async def file_store(database: Path) -> AsyncGenerator[SqliteStore]:
    async with open_sqlite_store(database, TickingClock()) as store:
        yield store


def _space_writes(database: Database) -> None:
    """No two times of the server's clock are the same, either."""
    write = database.write

    async def spaced(work: Work[Result], *, durable: bool = True) -> Result:
        done = await write(work)
        await write(lambda db: db.execute("SELECT pg_sleep(0.001)"))
        return done

    database.write = spaced


@pytest.fixture(params=["file", "postgres"])
async def subject(request: pytest.FixtureRequest, database: Path) -> AsyncGenerator[Subject]:
    if request.param == "postgres":
        server: Server = request.getfixturevalue("postgres")
        url: str = request.getfixturevalue("postgres_url")
        name = url.partition("@/")[2].partition("?")[0]
        async with open_postgres_store(parsed(url)) as shared:
            _space_writes(shared.database)
            yield Subject(shared, lambda session: server.run(_FORGET, name))
        return
    async with open_sqlite_store(database, TickingClock()) as store:
        yield Subject(store, lambda session: forget_tickets(database))


@pytest.fixture
def store(subject: Subject) -> SessionStore:
    return subject.store
