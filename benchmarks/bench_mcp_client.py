"""A tool call through our client and through the SDK's own, to the same server, in one run.

`python benchmarks/bench_mcp_client.py [--json]`
"""

import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import psutil
from harness import Comparison, Contender, compare, report
from mcp import Client, StdioServerParameters

from openclaw.config.agent_schema import McpServerConfig
from openclaw.mcp_client.lifecycle.connection import ServerConnection
from openclaw.mcp_client.session.connect import ConnectionDeps
from openclaw.mcp_client.transport.orphan_reaper import OrphanReaper
from openclaw.secrets.refs import Secret

SERVER = Path(__file__).with_name("echo_server.py")
CALLS, IN_FLIGHT, BATCH = 200, 64, 1000
BIG = 50_000_000

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


async def resolve(values: Mapping[str, str]) -> dict[str, Secret]:
    return {name: Secret(value) for name, value in values.items()}


def connection(name: str, reaper: OrphanReaper, *arguments: str) -> ServerConnection:
    config = McpServerConfig(command=sys.executable, args=("-S", str(SERVER), *arguments))
    deps = ConnectionDeps(resolve_secrets=resolve, environ=dict(os.environ), reaper=reaper)
    return ServerConnection(name, config, deps)


@asynccontextmanager
async def ours() -> AsyncGenerator[Call]:
    reaper = OrphanReaper()
    server = connection("bench", reaper)
    async with anyio.create_task_group() as group:
        await group.start(server.run)
        await server.wait_ready(30)
        yield server.call_tool
        server.stop()
    await reaper.aclose()


@asynccontextmanager
async def theirs() -> AsyncGenerator[Call]:
    parameters = StdioServerParameters(command=sys.executable, args=["-S", str(SERVER)])
    async with Client(parameters, mode="legacy") as client:
        yield client.call_tool


async def one_at_a_time(call: Call) -> float:
    """The median of some calls, one after the other."""
    times: list[float] = []
    for number in range(CALLS):
        started = time.perf_counter()
        await call("echo", {"n": number})
        times.append(time.perf_counter() - started)
    return sorted(times)[CALLS // 2]


async def many_at_once(call: Call) -> float:
    """Seconds a call, with many in flight."""
    numbers = iter(range(BATCH))

    async def work() -> None:
        for number in numbers:
            await call("echo", {"n": number})

    started = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(IN_FLIGHT):
            group.start_soon(work)
    return (time.perf_counter() - started) / BATCH


async def one_big_result(call: Call) -> float:
    started = time.perf_counter()
    await call("big", {"size": BIG})
    return time.perf_counter() - started


def plain_big_result() -> float:
    """The same bytes through a pipe and the standard library's parser, and nothing else."""
    request = {"id": 1, "method": "tools/call", "params": {"arguments": {"size": BIG}}}
    with subprocess.Popen(
        [sys.executable, "-S", str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"id": 0, "method": "ping"}\n')
        process.stdin.flush()
        process.stdout.readline()
        started = time.perf_counter()
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
        json.loads(process.stdout.readline())
        took = time.perf_counter() - started
        process.stdin.close()
    return took


async def fifty_servers() -> float:
    """Seconds until fifty servers are ready that each take one second to start."""
    reaper = OrphanReaper()
    took = 0.0
    servers = [connection(f"s{number}", reaper, "1.0") for number in range(50)]
    started = time.perf_counter()
    async with anyio.create_task_group() as group:
        for server in servers:
            group.start_soon(server.run)
        for server in servers:
            await server.wait_ready(60)
        took = time.perf_counter() - started
        for server in servers:
            server.stop()
    await reaper.aclose()
    return took


async def after_a_kill() -> float:
    """Seconds from the notice of a killed server to the answer of the next call."""
    reaper = OrphanReaper()
    took = 0.0
    server = connection("killed", reaper)
    async with anyio.create_task_group() as group:
        await group.start(server.run)
        await server.wait_ready(30)
        await anyio.sleep(10.1)  # it has proven itself
        gone = anyio.Event()
        server.on_state = gone.set
        psutil.Process(server.snapshot.pid).kill()
        started = time.perf_counter()
        await gone.wait()
        await server.call_tool("echo", {})
        took = time.perf_counter() - started
        server.stop()
    await reaper.aclose()
    return took


def comparisons() -> list[Comparison]:
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(theirs()) as sdk,
        portal.wrap_async_context_manager(ours()) as own,
    ):

        def contender(
            name: str, measure: Callable[[Call], Awaitable[float]], call: Call
        ) -> Contender:
            return Contender(name, lambda: portal.call(measure, call))

        pairs = (("SDK's client", sdk), ("openclaw", own))
        return [
            compare(
                "one call, one at a time (p50)",
                [contender(name, one_at_a_time, call) for name, call in pairs],
                limit=0.5,
            ),
            compare(
                f"one call, {IN_FLIGHT} in flight",
                [contender(name, many_at_once, call) for name, call in pairs],
                rounds=7,
                limit=0.667,
            ),
            compare(
                f"a result of {BIG // 1_000_000} MB",
                [
                    Contender("pipe and json", plain_big_result),
                    contender("openclaw", one_big_result, own),
                ],
                rounds=5,
                limit=3.0,
            ),
            compare(
                "fifty servers of 1 s start-up (s), and the first call after a kill (s)",
                [
                    Contender("fifty ready", lambda: portal.call(fifty_servers)),
                    Contender("call after SIGKILL", lambda: portal.call(after_a_kill)),
                ],
                rounds=2,
                warmup=0,
            ),
        ]


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    report(comparisons())
