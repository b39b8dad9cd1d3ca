"""How the cost grows: with the size of a message, with tools, with servers, with sessions.

`python benchmarks/bench_growth.py [--json]`. Each curve is measured point by point, with the
contenders of one point interleaved.
"""

import json
import logging
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal
from bench_cli import model
from bench_many_servers import SERVER
from bench_sessions import make_sessions, one_turn
from bench_turn import ours
from harness import Contender, Unable, compare, human
from peers.contenders import ENGINE, OPENCLAW, SDK, Peer, Worker

from openclaw.agent.port import MessageContext
from openclaw.config.load import parse_config
from openclaw.core.clock import SystemClock
from openclaw.runtime.runtime import open_runtime
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.sqlite.store import SqliteStore, open_sqlite_store

SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
TOOLS = (10, 100, 1_000, 5_000)
SERVERS = (1, 5, 10, 25, 50)
IN_A_TURN = (10, 100, 1_000)
BEHIND_A_TURN = (1, 10, 50)
ENTRIES_PER_TURN = 4  # what was asked, the call, its result, the answer
SESSIONS = (100, 1_000, 10_000, 100_000)
CLIENTS = (SDK, ENGINE, OPENCLAW)


@dataclass(frozen=True, slots=True)
class Curve:
    """What one contender took at each point; None where it could not."""

    name: str
    seconds: list[float | None]


@dataclass(frozen=True, slots=True)
class Growth:
    """One question asked with more and more of something."""

    title: str
    of: str
    points: Sequence[int]
    curves: list[Curve]

    def table(self) -> str:
        lines = [self.title, f"  {self.of:<28}" + "".join(f"{point:>12,}" for point in self.points)]
        for curve in self.curves:
            cells = (("could not" if s is None else human(s)) for s in curve.seconds)
            lines.append(f"  {curve.name:<28}" + "".join(f"{cell:>12}" for cell in cells))
        return "\n".join(lines)


def grow(
    title: str,
    of: str,
    points: Sequence[int],
    names: Sequence[str],
    at: Callable[[int], list[Contender]],
    *,
    rounds: int = 5,
) -> Growth:
    curves = [Curve(name, []) for name in names]
    for point in points:
        found = compare(title, at(point), rounds=rounds, warmup=1)
        for curve, row in zip(curves, found.rows, strict=True):
            curve.seconds.append(statistics.median(row.seconds) if row.seconds else None)
    return Growth(title, of, points, curves)


def message_size() -> Growth:
    workers = [Worker(peer) for peer in CLIENTS]
    try:
        for worker in workers:
            worker.open()

        def at(size: int) -> list[Contender]:
            return [
                Contender(peer.name, lambda worker=worker: worker.do("large", size=size))
                for peer, worker in zip(CLIENTS, workers, strict=True)
            ]

        names = [peer.name for peer in CLIENTS]
        return grow("A result of so many bytes", "bytes", SIZES, names, at)
    finally:
        for worker in workers:
            worker.close()


def opened(peer: Peer, servers: int, *arguments: str) -> Contender:
    def run() -> float:
        worker = Worker(peer)
        try:
            worker.open()  # so that everything is imported
            return worker.open(servers, *arguments)
        finally:
            worker.close()

    return Contender(peer.name, run)


def tools() -> Growth:
    return grow(
        "A server with so many tools, connected and listed",
        "tools",
        TOOLS,
        [peer.name for peer in CLIENTS],
        lambda count: [opened(peer, 1, "0", str(count)) for peer in CLIENTS],
        rounds=3,
    )


def servers() -> Growth:
    return grow(
        "So many servers that take 0.2 s each, all connected",
        "servers",
        SERVERS,
        [peer.name for peer in CLIENTS],
        lambda count: [opened(peer, count, "0.2") for peer in CLIENTS],
        rounds=2,
    )


def sessions() -> Growth:
    """A turn that is written, and a page of the list, in a store of so many sessions."""
    names = ["a turn with a tool call", "a page of 50 sessions"]
    with tempfile.TemporaryDirectory() as directory, start_blocking_portal() as portal:

        def at(count: int) -> list[Contender]:
            path = Path(directory) / f"{count}.db"
            portal.call(_created, path)
            make_sessions(path, count)

            async def turn(store: SqliteStore) -> float:
                session = await store.open_session("main", "grown")
                started = time.perf_counter()
                await one_turn(store, session)
                return time.perf_counter() - started

            async def page(store: SqliteStore) -> float:
                started = time.perf_counter()
                await store.list_sessions()
                return time.perf_counter() - started

            async def in_store(work: Callable[[SqliteStore], Any]) -> float:
                async with open_sqlite_store(path, SystemClock()) as store:
                    await work(store)
                    return statistics.median([await work(store) for _ in range(20)])

            return [
                Contender(names[0], lambda: portal.call(in_store, turn)),
                Contender(names[1], lambda: portal.call(in_store, page)),
            ]

        return grow("A store of so many sessions", "sessions", SESSIONS, names, at, rounds=3)


@asynccontextmanager
async def _temporary_store() -> AsyncGenerator[SqliteStore]:
    with tempfile.TemporaryDirectory() as directory:
        async with open_sqlite_store(Path(directory) / "sessions.db", SystemClock()) as store:
            yield store


def history() -> Growth:
    """A turn with a tool call in a conversation of so many entries."""

    async def turn(entries: int) -> float:
        async with _temporary_store() as store:
            one = ours(store, session="grown")
            for _ in range(entries // ENTRIES_PER_TURN):
                await one()
            return await _median(one)

    return _of_turns("A turn in a conversation of so many entries", "entries", turn)


def offered() -> Growth:
    """A turn with a tool call when there are so many tools."""

    async def turn(tools: int) -> float:
        async with _temporary_store() as store:
            one = ours(store, tools)
            await one()
            return await _median(one)

    return _of_turns("A turn with so many tools", "tools", turn)


def connected() -> Growth:
    """A turn that calls a tool of one of so many MCP servers, with everything that a gateway runs."""
    call = {"role": "user", "calls": [{"name": "mcp_s0_echo", "arguments": {"city": "Bern"}}]}
    with tempfile.TemporaryDirectory() as directory, model(Path(directory), call) as url:

        async def turn(servers: int) -> float:
            root = Path(directory) / str(servers)
            root.mkdir(exist_ok=True)
            environ = {**os.environ, "OPENCLAW_STATE_DIR": str(root)}
            entry = {"command": sys.executable, "args": ["-S", str(SERVER)]}
            provider = {"baseUrl": f"{url}/v1", "models": [{"id": "m"}]}
            config = {
                "models": {"providers": {"acme": provider}},
                "dataflow": {"mode": "off"},
                "agents": {"defaults": {"model": "acme/m", "workspace": str(root)}},
                "mcp": {"servers": {f"s{number}": entry for number in range(servers)}},
            }
            loaded = parse_config(json.dumps(config), environ, source=root / "openclaw.json")
            async with open_runtime(loaded, environ, Redactor()) as runtime:
                await runtime.manager.wait_for_tools("main", timeout=60)
                assert len(runtime.manager.tools("main").specs()) >= servers
                number = 0

                async def one() -> str:
                    nonlocal number
                    number += 1
                    return (await runtime.reply(MessageContext("go", f"s{number}"))).text

                assert await one() == "Done."
                return await _median(one)

        return _of_turns("A turn with so many MCP servers", "servers", turn, BEHIND_A_TURN)


def _of_turns(
    title: str,
    of: str,
    turn: Callable[[int], Awaitable[float]],
    points: Sequence[int] = IN_A_TURN,
) -> Growth:
    name = "openclaw, instant model"
    with start_blocking_portal() as portal:

        def at(count: int) -> list[Contender]:
            return [Contender(name, lambda: portal.call(turn, count))]

        return grow(title, of, points, [name], at, rounds=3)


async def _median(turn: Callable[[], Awaitable[str]]) -> float:
    """In processor time, which other work on the machine changes least."""
    took: list[float] = []
    for _ in range(10):
        started = time.thread_time()
        await turn()
        took.append(time.thread_time() - started)
    return statistics.median(took)


async def _created(path: Path) -> None:
    async with open_sqlite_store(path, SystemClock()):
        pass


def growths() -> list[Growth]:
    return [message_size(), tools(), servers(), sessions(), history(), offered(), connected()]


def main() -> None:
    logging.disable(logging.WARNING)
    found = growths()
    if "--json" in sys.argv:
        print(json.dumps({"growths": [asdict(growth) for growth in found]}))
        return
    print("\n\n".join(growth.table() for growth in found))


if __name__ == "__main__":
    try:
        main()
    except Unable as unable:
        sys.exit(f"could not: {unable}")
