"""The session store: appending to long sessions, listing many, what durability costs.

    python benchmarks/bench_sessions.py [--json]
    python benchmarks/bench_sessions.py --stores [--json]
    python benchmarks/bench_sessions.py --stress [--postgres] [--turns 500] [--kills 60]

The second form compares the stores: a file against a PostgreSQL server on this machine that syncs
each commit to disk. The third is the stress run in full size: 8 processes on 20 shared sessions,
killed and frozen at random, checked for anything lost, doubled or out of order; a server crashes
once besides.
"""

import gc
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from harness import Comparison, Contender, compare, report
from tests.support.postgres_server import make_store, own_server
from tests.support.session_stress import StressPlan, run_stress

from openclaw.core.clock import SystemClock
from openclaw.core.outcome import Outcome
from openclaw.sessions.postgres.address import parsed
from openclaw.sessions.postgres.store import PostgresStore, open_postgres_store
from openclaw.sessions.records import EntryKind, NewEntry, SessionRef
from openclaw.sessions.sqlite.store import SqliteStore, open_sqlite_store

APPENDS = 20
WORDS = "the quick brown fox jumps over the lazy dog and asks for the weather in Oslo " * 4


def message(number: int) -> NewEntry:
    data = {"parts": [{"content": f"{number} {WORDS}", "part_kind": "text"}], "kind": "response"}
    return NewEntry(EntryKind.ASSISTANT_MESSAGE, data, f"{number} {WORDS}")


async def fill(store: SqliteStore, session: SessionRef, messages: int) -> None:
    async with store.acquire_lane(session) as lane:
        for start in range(0, messages, 1000):
            size = min(1000, messages - start)
            await lane.append(None, [message(start + step) for step in range(size)])


async def append_some(store: SqliteStore, session: SessionRef) -> None:
    async with store.acquire_lane(session) as lane:
        for number in range(APPENDS):
            await lane.append(None, [message(number)])


async def one_turn(store: SqliteStore | PostgresStore, session: SessionRef) -> None:
    """A turn with a tool call, as the agent writes it."""
    async with store.acquire_lane(session) as lane:
        turn = await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {}, "what time is it")])
        await lane.append(turn, [NewEntry(EntryKind.TOOL_CALL, {}, call_id="c")])
        await lane.append(turn, [NewEntry(EntryKind.TOOL_RESULT, {}, call_id="c")])
        await lane.finish_turn(turn, Outcome.OK, [message(1)])


class Bench:
    """Stores that live in an event loop of their own, for contenders that do not."""

    def __init__(self, portal: BlockingPortal, directory: Path, stack: ExitStack) -> None:
        self.portal = portal
        self.directory = directory
        self.stack = stack

    def store(self, name: str) -> SqliteStore:
        opened = open_sqlite_store(self.directory / name, SystemClock())
        return self.stack.enter_context(self.portal.wrap_async_context_manager(opened))

    def contender(self, name: str, work: Callable[..., Awaitable[Any]], *given: Any) -> Contender:
        return Contender(name, lambda: self.portal.call(work, *given) and None)

    def appending(self) -> Comparison:
        contenders: list[Contender] = []
        for messages in (100, 100_000):
            store = self.store(f"{messages}.db")
            session = self.portal.call(store.open_session, "main", "long")
            self.portal.call(fill, store, session, messages)
            name = f"{APPENDS} appends to a session of {messages}"
            contenders.append(self.contender(name, append_some, store, session))
        return compare("appending", contenders, rounds=40, warmup=3, limit=2.0)

    def listing(self) -> Comparison:
        path = self.directory / "many.db"
        store = self.store("many.db")
        make_sessions(path, 100_000)

        async def every() -> None:
            page = await store.list_sessions(limit=None)
            assert len(page.sessions) == 100_000

        async def first_page(search: str | None) -> None:
            page = await store.list_sessions("main", limit=50, search=search)
            assert len(page.sessions) == 50

        async def rare() -> None:
            assert len((await store.list_sessions(search="itle 99999")).sessions) == 1

        return compare(
            "listing in a store of 100,000 sessions (goal: under 200 ms)",
            [
                tidied(Contender("every row, plain sqlite3", lambda: plain_rows(path))),
                tidied(self.contender("every session, at once", every)),
                self.contender("a page of 50", first_page, None),
                self.contender("a page of 50, narrowed by a word", first_page, "title"),
                self.contender("the one session with a title", rare),
            ],
            rounds=15,
        )

    def stores(self, url: str) -> list[Comparison]:
        """A file and a server: a turn, many at once, and a page among 10,000 sessions."""
        shared = self.stack.enter_context(
            self.portal.wrap_async_context_manager(open_postgres_store(parsed(url)))
        )
        path = self.directory / "stores.db"
        stores = {"file": self.store("stores.db"), "PostgreSQL": shared}
        make_sessions(path, 10_000)
        self.portal.call(make_server_sessions, shared, 10_000)

        async def page(store: SqliteStore | PostgresStore) -> None:
            assert len((await store.list_sessions("main", limit=50)).sessions) == 50

        async def together(store: SqliteStore | PostgresStore) -> None:
            async with anyio.create_task_group() as group:
                for number in range(20):
                    session = await store.open_session("main", f"together {number}")
                    group.start_soon(one_turn, store, session)

        async def turn(store: SqliteStore | PostgresStore) -> None:
            await one_turn(store, await store.open_session("main", "alone"))

        return [
            compare(
                title,
                [self.contender(name, work, store) for name, store in stores.items()],
                rounds=40,
                warmup=3,
            )
            for title, work in (
                ("a turn with a tool call, durable", turn),
                ("20 such turns at once", together),
                ("a page of 50 among 10,000 sessions", page),
            )
        ]

    def durability(self) -> Comparison:
        store = self.store("turns.db")
        session = self.portal.call(store.open_session, "main", "k")
        return compare(
            "what a durable turn costs",
            [
                commits(self.directory / "full.db", "FULL", 2),
                commits(self.directory / "normal.db", "NORMAL", 2),
                self.contender("a turn with a tool call (2 of 6 synced)", one_turn, store, session),
            ],
            rounds=60,
            warmup=3,
        )


def tidied(contender: Contender) -> Contender:
    """Time it alone; what it leaves to be collected must not be charged to the next one."""

    def run() -> float:
        started = time.perf_counter()
        contender.run()
        took = time.perf_counter() - started
        gc.collect()
        return took

    return Contender(contender.name, run)


def commits(path: Path, synchronous: str, count: int) -> Contender:
    """Plain commits of a small row, as the floor."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute(f"PRAGMA synchronous = {synchronous}")
    database.execute("CREATE TABLE t (x)")

    def run() -> None:
        for _ in range(count):
            database.execute("INSERT INTO t VALUES (?)", (WORDS,))

    return Contender(f"{count} plain commits, synchronous={synchronous}", run)


def make_sessions(path: Path, count: int) -> None:
    database = sqlite3.connect(path)
    database.executemany(
        "INSERT INTO sessions (id, agent, key, title, created_ms, updated_ms, messages, seq)"
        " VALUES (?, 'main', ?, ?, ?, ?, 4, 12)",
        (
            (f"{n:016x}", f"mcp-{n}", f"Title {n}", n, 1_700_000_000_000 + n * 7919 % count)
            for n in range(count)
        ),
    )
    database.commit()
    database.close()


async def make_server_sessions(store: PostgresStore, count: int) -> None:
    await store.database.write(
        lambda db: db.execute(
            "INSERT INTO sessions (id, agent, key, name_digest, key_digest, title, created_ms,"
            " updated_ms, messages, seq) SELECT to_hex(n), 'main', 'mcp-' || n,"
            " decode(md5('n' || n), 'hex'), decode(md5('k' || n), 'hex'), 'Title ' || n, n,"
            " 1700000000000 + n * 7919 % $1, 4, 12 FROM generate_series(1, $1::bigint) n",
            count,
        )
    )


def plain_rows(path: Path) -> None:
    database = sqlite3.connect(path)
    rows = database.execute("SELECT * FROM sessions ORDER BY updated_ms DESC, row DESC").fetchall()
    assert len(rows) == 100_000
    database.close()


def option(name: str, default: int) -> int:
    return int(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else default


def stress(directory: str) -> dict[str, Any]:
    plan = StressPlan(
        directory, turns=option("--turns", 500), kills=option("--kills", 60), freezes=3
    )
    if "--postgres" not in sys.argv:
        return run_stress(plan)
    with own_server() as server:
        make_store(server.facts.url())

        def crash() -> None:
            server.stop("immediate")
            server.start()

        return run_stress(replace(plan, url=server.facts.url()), halfway=crash)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        if "--stress" in sys.argv:
            print(json.dumps(stress(directory)))
            return
        with ExitStack() as stack:
            durable = {"fsync": "on", "full_page_writes": "on"}
            server = stack.enter_context(own_server(**durable)) if "--stores" in sys.argv else None
            portal = stack.enter_context(start_blocking_portal())
            bench = Bench(portal, Path(directory), stack.enter_context(ExitStack()))
            if server is not None:
                report(bench.stores(server.facts.url()))
                return
            report([bench.appending(), bench.listing(), bench.durability()])


if __name__ == "__main__":
    main()
