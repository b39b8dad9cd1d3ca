"""Fifty servers that take a second each, as a configuration starts them, with the whole bridge.

`python benchmarks/bench_many_servers.py [--json]`
"""

import json
import logging
import os
import sys
import tempfile
import time
from pathlib import Path

import anyio
from harness import Contender, compare, report

from openclaw.config.load import parse_config
from openclaw.config.merge import effective_agents
from openclaw.runtime.host import open_servers
from openclaw.secrets.redactor import Redactor

SERVER = Path(__file__).with_name("echo_server.py")
SERVERS = 50


async def started() -> tuple[float, float]:
    """Seconds until the manager is open, and until every server is ready."""
    entry = {"command": sys.executable, "args": ["-S", str(SERVER), "1.0"]}
    entries = {f"s{number}": entry | {"env": {"N": str(number)}} for number in range(SERVERS)}
    with tempfile.TemporaryDirectory() as directory:
        environ = {**os.environ, "OPENCLAW_STATE_DIR": directory}
        text = json.dumps({"mcp": {"servers": entries}})
        loaded = parse_config(text, environ, source=Path(directory) / "openclaw.json")
        agents = effective_agents(loaded.config)
        began = time.perf_counter()
        async with open_servers(loaded, environ, Redactor(), agents) as servers:
            manager = servers.manager
            opened = time.perf_counter() - began
            await manager.wait_for_tools("main", timeout=60)
            ready = time.perf_counter() - began
            assert len(manager.tools("main").specs()) >= SERVERS
    return opened, ready


def main() -> None:
    opened: list[float] = []

    def run() -> float:
        first, ready = anyio.run(started)
        opened.append(first)
        return ready

    found = compare(
        f"{SERVERS} servers of 1 s start-up, all ready",
        [Contender("openclaw", run)],
        rounds=3,
        warmup=0,
    )
    times = ", ".join(f"{seconds * 1000:.0f}" for seconds in opened)
    report(
        [found], notes=[f"the manager was open after {times} ms (the first time it is imported)"]
    )


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main()
