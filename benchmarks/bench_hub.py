"""A tool call through the hub and without it, by the same client to the same server, in one run.

Before a call is sent, its line in the audit log is on the disk: how long that takes is the disk's affair,
so the hub is measured with the log and without it.

`python benchmarks/bench_hub.py [--json]`
"""

import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.from_thread
from bench_mcp_client import IN_FLIGHT, SERVER, Call, many_at_once, one_at_a_time
from harness import Comparison, Contender, compare, report
from mcp import Client, StdioServerParameters

PROGRAM = Path(sys.executable).with_name("openclaw")
_ECHO = "mcp_bench_echo"


@asynccontextmanager
async def direct() -> AsyncGenerator[Call]:
    parameters = StdioServerParameters(command=sys.executable, args=["-S", str(SERVER)])
    async with Client(parameters, mode="legacy") as client:
        yield client.call_tool


@asynccontextmanager
async def through_hub(*, audit: bool) -> AsyncGenerator[Call]:
    state = Path(tempfile.mkdtemp())
    servers = {"bench": {"command": sys.executable, "args": ["-S", str(SERVER)]}}
    config = {"mcp": {"servers": servers}, "audit": {"enabled": audit}}
    (state / "openclaw.json").write_text(json.dumps(config))
    environ = {"PATH": os.environ["PATH"], "OPENCLAW_STATE_DIR": str(state), "HOME": str(state)}
    parameters = StdioServerParameters(command=str(PROGRAM), args=["mcp-hub"], env=environ)
    try:
        async with Client(parameters, mode="legacy") as client:
            await client.list_tools()
            yield lambda tool, arguments: client.call_tool(_ECHO, arguments)
    finally:
        await anyio.to_thread.run_sync(lambda: shutil.rmtree(state, ignore_errors=True))


def comparisons() -> list[Comparison]:
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(direct()) as plain,
        portal.wrap_async_context_manager(through_hub(audit=True)) as hub,
        portal.wrap_async_context_manager(through_hub(audit=False)) as unrecorded,
    ):

        def contender(
            name: str, measure: Callable[[Call], Awaitable[float]], call: Call
        ) -> Contender:
            return Contender(name, lambda: portal.call(measure, call))

        pairs = (
            ("direct", plain),
            ("through the hub, without the audit log", unrecorded),
            ("through the hub", hub),
        )
        return [
            compare(
                "one call, one at a time (p50)",
                [contender(name, one_at_a_time, call) for name, call in pairs],
            ),
            compare(
                f"one call, {IN_FLIGHT} in flight",
                [contender(name, many_at_once, call) for name, call in pairs],
                rounds=7,
                limit=1.5,
            ),
        ]


if __name__ == "__main__":
    report(comparisons())
