"""A tool call through the whole bridge (policy, call, redaction, framing, detection, audit on disk)
against the SDK client's bare call, to the same server, in one run; and fifty servers at once.

`python benchmarks/bench_bridge.py [--json]`
"""

import json
import logging
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
from bench_mcp_client import IN_FLIGHT, Call, many_at_once, one_at_a_time, theirs
from harness import Comparison, Contender, compare, report

from openclaw.config.load import parse_config
from openclaw.config.merge import effective_agents
from openclaw.core.tools import CallContext
from openclaw.mcp_client.manager import McpManager
from openclaw.runtime import open_servers
from openclaw.secrets.redactor import Redactor

SERVER = Path(__file__).with_name("echo_server.py")
SECRETS = 50


@asynccontextmanager
async def house(servers: dict[str, Any]) -> AsyncGenerator[McpManager]:
    """Servers as a configuration starts them, with everything on that is on by default."""
    with tempfile.TemporaryDirectory() as directory:
        text = json.dumps({"mcp": {"servers": servers}, "tools": {"deny": ["exec", "mcp_x_*"]}})
        environ = {**os.environ, "OPENCLAW_STATE_DIR": directory}
        loaded = parse_config(text, environ, source=Path(directory) / "openclaw.json")
        redactor = Redactor()
        for number in range(SECRETS):
            redactor.register(f"secret-value-number-{number:04d}")
        agents = effective_agents(loaded.config)
        async with open_servers(loaded, environ, redactor, agents) as manager:
            yield manager


@asynccontextmanager
async def bridged() -> AsyncGenerator[Call]:
    async with house(
        {"bench": {"command": sys.executable, "args": ["-S", str(SERVER)]}}
    ) as manager:
        await manager.settle("main", timeout=30)
        source = manager.tools("main")
        context = CallContext(agent="main", session="bench", call_id="1")

        async def call(tool: str, arguments: dict[str, Any]) -> Any:
            result = await source.call(f"mcp_bench_{tool}", arguments, context)
            assert not result.is_error
            return result

        yield call


async def fifty_servers() -> float:
    """Seconds until fifty servers are ready that each take one second to start."""
    entry = {"command": sys.executable, "args": ["-S", str(SERVER), "1.0"]}
    started = time.perf_counter()
    async with house(
        {f"s{number}": entry | {"env": {"N": str(number)}} for number in range(50)}
    ) as m:
        opened = time.perf_counter() - started
        await m.settle("main", timeout=60)
        took = time.perf_counter() - started
        assert len(m.tools("main").specs()) >= 50
    print(f"opened after {opened * 1000:.0f} ms", file=sys.stderr)
    return took


def comparisons() -> list[Comparison]:
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(theirs()) as sdk,
        portal.wrap_async_context_manager(bridged()) as own,
    ):

        def contender(
            name: str, measure: Callable[[Call], Awaitable[float]], call: Call
        ) -> Contender:
            return Contender(name, lambda: portal.call(measure, call))

        pairs = (("SDK's client, bare", sdk), ("openclaw, whole bridge", own))
        return [
            compare(
                "one call, one at a time (p50)",
                [contender(name, one_at_a_time, call) for name, call in pairs],
                limit=0.8,
            ),
            compare(
                f"one call, {IN_FLIGHT} in flight",
                [contender(name, many_at_once, call) for name, call in pairs],
                rounds=7,
                limit=0.667,
            ),
            compare(
                "fifty servers of 1 s start-up, all ready",
                [Contender("openclaw", lambda: portal.call(fifty_servers))],
                rounds=3,
                warmup=0,
            ),
        ]


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    report(comparisons())
