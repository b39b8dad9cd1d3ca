"""Several gateways on one PostgreSQL: what they survive, what a turn costs, and how they grow.

python benchmarks/bench_cluster.py [chaos] [cancel] [overhead] [claim] [growth] [--sessions N] [--turns N]
    [--kills N] [--freezes N] [--cuts N] [--upgrades N] [--rounds N] [--seed N]

The server is a real one that syncs to disk. What is compared is run in turns, one after the other.
"""

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import httpx2
import psutil
from tests.support import cluster_life
from tests.support.gateway_kit import Installation
from tests.support.postgres_server import OwnServer

from openclaw.sessions.postgres.address import parsed
from openclaw.sessions.postgres.order_queue import OrderQueue
from openclaw.sessions.postgres.store import open_postgres_store
from openclaw.testing.scripted_model import scripted_model

_DURABLE = {
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "autovacuum_naptime": "10s",
    "shared_buffers": "256MB",
}


@contextmanager
def server() -> Generator[OwnServer]:
    """A server that keeps what it was told, whatever happens to it."""
    one = OwnServer(Path(tempfile.mkdtemp(prefix="openclaw-pg-")), **_DURABLE)
    try:
        one.start()
        yield one
    finally:
        one.stop("immediate")
        shutil.rmtree(one.directory, ignore_errors=True)


@contextmanager
def place() -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="openclaw-bench-") as name:
        yield Path(name)


# ---- what they survive


async def chaos(args: argparse.Namespace) -> None:
    with server() as database, place() as directory:
        async with (
            scripted_model(rules=cluster_life.rules(0.03)) as model,
            cluster_life.cluster(
                directory,
                database.facts.url(),
                model.url,
                tool_seconds=0.1,
                skews=(0, -7200, 7200),
            ) as gateways,
        ):
            life = cluster_life.Life(gateways, args.sessions, args.turns, random.Random(args.seed))
            began = time.perf_counter()
            await life.live(
                args.kills, args.freezes, cuts=args.cuts, upgrades=args.upgrades, every=args.every
            )
            took = time.perf_counter() - began
            found = await cluster_life.verdict(life)
    wrong = [text for text in life.answered.values() if text != "Done."]
    print(
        f"chaos: {args.sessions} sessions x {args.turns} turns on 3 gateways, {life.kills} kills,"
        f" {life.freezes} freezes, {life.cuts} cuts, {life.upgrades} upgrades, clocks two hours"
        f" wrong, {took:.0f} s: lost {found.lost}, doubled {found.doubled},"
        f" out of order {found.out_of_order}; answered otherwise {len(wrong)}; taken over"
        f" {found.resumed}, calls of unknown outcome {found.unknown}, longest takeover"
        f" {found.longest_takeover:.1f} s, clients asked again {life.retries} times"
    )


async def cancel(args: argparse.Namespace) -> None:
    """From the wish to stop, at one gateway, to the end of the turn that another one runs."""
    with server() as database, place() as directory:
        async with (
            scripted_model(rules=cluster_life.rules()) as model,
            cluster_life.cluster(
                directory, database.facts.url(), model.url, (0, 4, 0), tool_seconds=60
            ) as gateways,
            gateways.client(0) as entry,
            gateways.client(2) as other,
        ):
            keys = [f"c{number}" for number in range(args.cancels)]
            times = [await _cancelled(entry, other, key) for key in keys]
    print(
        f"cancel: {args.cancels} turns, given at one gateway, run at another, stopped at a third:"
        f" p50 {statistics.median(times) * 1000:.0f} ms, longest {max(times) * 1000:.0f} ms"
    )


async def _cancelled(entry: httpx2.AsyncClient, other: httpx2.AsyncClient, key: str) -> float:
    body = {"text": f"mark {key}", "sessionKey": key, "idempotencyKey": key}
    began = 0.0
    async with entry.stream("POST", "/api/messages", json=body) as answer:
        async for line in answer.aiter_lines():
            if line == "event: tool_started":
                began = time.perf_counter()
                (await other.post(f"/api/turns/{key}/cancel")).raise_for_status()
            elif line in ("event: error", "event: reply"):
                return time.perf_counter() - began
    raise RuntimeError("the stream ended without an answer")


# ---- what a turn costs


async def overhead(args: argparse.Namespace) -> None:
    """The same turn on a file, through the queue, and through it to another gateway, by turns."""
    with server() as database, place() as directory:
        async with (
            scripted_model(rules=cluster_life.rules()) as model,
            cluster_life.cluster(directory, database.facts.url(), model.url, (16,)) as own,
        ):
            state = directory / "file"
            state.mkdir(mode=0o700)
            alone = cluster_life.Gateway(Installation(state))
            limits = {"limits": {"requestsPerMinute": 10_000_000}}
            alone.installation.configure(model.url, {}, gateway=limits)
            async with alone.stack:
                await alone.start()
                gateways = {"file": alone, "queue": own.gateways[0]}
                times = await _by_turns(gateways, args.rounds)
        elsewhere = directory / "elsewhere"
        elsewhere.mkdir()
        async with (
            scripted_model(rules=cluster_life.rules()) as model,
            cluster_life.cluster(elsewhere, database.facts.url(), model.url, (0, 16)) as two,
        ):
            times |= await _by_turns({"queue, other gateway": two.gateways[0]}, args.rounds)
    base = statistics.median(times["file"])
    for name, figures in times.items():
        middle = statistics.median(figures)
        print(
            f"overhead: {name}: p50 {middle:.1f} ms ({middle - base:+.1f}),"
            f" p95 {statistics.quantiles(figures, n=20)[18]:.1f} ms"
        )


async def _by_turns(
    gateways: dict[str, cluster_life.Gateway], rounds: int
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in gateways}
    for number in range(rounds + 10):
        for name, one in gateways.items():
            async with httpx2.AsyncClient(
                base_url=one.url, trust_env=False, timeout=60, headers=one.installation.headers
            ) as http:
                await http.get("/health")
                body = {"text": "plain", "sessionKey": f"s{number % 10}", "stream": False}
                began = time.perf_counter()
                answer = await http.post("/api/messages", json=body)
                took = (time.perf_counter() - began) * 1000
                assert answer.status_code == 200, answer.text
                if number >= 10:
                    times[name].append(took)
    return times


# ---- what taking one costs


async def claim(args: argparse.Namespace) -> None:
    """Taking one order while so many wait, beside PGMQ's own way to find the heads of groups."""
    with server() as database:
        url = database.facts.url()
        async with open_postgres_store(parsed(url)) as store:
            queue = OrderQueue(store.database, "bench")
            connection = await asyncpg.connect(url, server_settings={"search_path": "openclaw"})
            waiting = 0
            for target in (100, 1000, 10_000):
                await _fill(connection, waiting, target)
                waiting = target
                await connection.execute("ANALYZE; ANALYZE pgmq.q_openclaw_turns")
                ours = await _timed(lambda: _take(queue), args.rounds)
                theirs = await _timed(lambda: _grouped(connection), args.rounds)
                print(
                    f"claim: {target} waiting: p50 {statistics.median(ours):.2f} ms,"
                    f" p95 {statistics.quantiles(ours, n=20)[18]:.2f} ms;"
                    f" pgmq.read_grouped_head p50 {statistics.median(theirs):.2f} ms"
                )
            await connection.close()


async def _fill(connection: Any, first: int, last: int) -> None:
    await connection.execute(
        "INSERT INTO sessions (id, agent, key, name_digest, key_digest, created_ms, updated_ms)"
        " SELECT 's' || n, 'main', 's' || n, n::text::bytea, n::text::bytea, 0, 0"
        f" FROM generate_series({first}, {last - 1}) AS n"
    )
    await connection.execute(
        "SELECT give_order('s' || n, 't', 'main', 'bench', '{}'::bytea, 10, NULL)"
        f" FROM generate_series({first}, {last - 1}) AS n"
    )


async def _take(queue: OrderQueue) -> Callable[[], Awaitable[Any]]:
    [order] = await queue.claim(1, ["main"])
    return lambda: queue.release(order, blameless=True)


async def _grouped(connection: Any) -> Callable[[], Awaitable[Any]]:
    [row] = await connection.fetch(
        "SELECT msg_id FROM pgmq.read_grouped_head('openclaw_turns', 5, 1)"
    )
    return lambda: connection.execute(
        "SELECT pgmq.set_vt('openclaw_turns', $1::bigint, 0)", row["msg_id"]
    )


async def _timed(
    work: Callable[[], Awaitable[Callable[[], Awaitable[Any]]]], n: int
) -> list[float]:
    times: list[float] = []
    for _ in range(n):
        began = time.perf_counter()
        undo = await work()
        times.append((time.perf_counter() - began) * 1000)
        await undo()
    return times


# ---- how they grow


async def growth(args: argparse.Namespace) -> None:
    """Turns a second with one, two and three gateways, and what each turn costs whom."""
    with server() as database, place() as directory:
        async with scripted_model(rules=cluster_life.rules()) as model:
            for count in (1, 2, 3):
                here = directory / str(count)
                here.mkdir()
                url = database.facts.url(database.facts.create())
                async with cluster_life.cluster(here, url, model.url, (16,) * count) as gateways:
                    await _load(gateways, url, database.directory, args.seconds)


async def _load(gateways: cluster_life.Cluster, url: str, directory: Path, seconds: float) -> None:
    await _drive(gateways, 3.0)  # until everything is loaded
    processes = [psutil.Process(one.process.pid) for one in gateways.gateways if one.process]
    before, wal = _cpu(processes), await _wal(url)
    postgres = _server_cpu(directory)
    began = time.perf_counter()
    turns = await _drive(gateways, seconds)
    took = time.perf_counter() - began
    spent = (_cpu(processes) - before) / turns * 1000
    database = (_server_cpu(directory) - postgres) / turns * 1000
    written = (await _wal(url) - wal) / turns / 1024
    print(
        f"growth: {len(processes)} gateway(s): {turns / took:.1f} turns/s; per turn {spent:.1f} ms CPU in"
        f" gateways, {database:.1f} ms in PostgreSQL, {written:.1f} KiB of WAL"
    )


async def _drive(gateways: cluster_life.Cluster, seconds: float) -> int:
    done = [0]
    until = time.perf_counter() + seconds

    async def client(number: int) -> None:
        chosen = number % len(gateways.gateways)
        async with gateways.client(chosen) as http:
            while time.perf_counter() < until:
                body = {"text": "plain", "sessionKey": f"g{number}", "stream": False}
                answer = await http.post("/api/messages", json=body)
                done[0] += answer.status_code == 200

    async with anyio.create_task_group() as group:
        for number in range(8 * len(gateways.gateways)):
            group.start_soon(client, number)
    return done[0]


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)


def _server_cpu(directory: Path) -> float:
    """Of the server in that directory: of its processes, and of those that have ended."""
    for one in psutil.process_iter(["name", "cmdline"]):
        if one.info["name"] == "postgres" and f"{directory}/data" in (one.info["cmdline"] or ()):
            times = one.cpu_times()
            ended = times.children_user + times.children_system
            return times.user + times.system + ended + _cpu(one.children())
    return 0.0


async def _wal(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"))
    finally:
        await connection.close()


PARTS: dict[str, Callable[[argparse.Namespace], Awaitable[None]]] = {
    "chaos": chaos,
    "cancel": cancel,
    "overhead": overhead,
    "claim": claim,
    "growth": growth,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which (default: all)")
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--freezes", type=int, default=4)
    parser.add_argument("--cuts", type=int, default=3, help="of all connections to the database")
    parser.add_argument("--upgrades", type=int, default=1, help="of one gateway after the other")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between two blows")
    parser.add_argument("--cancels", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    for name in args.parts or PARTS:
        anyio.run(PARTS[name], args)


if __name__ == "__main__":
    main()
