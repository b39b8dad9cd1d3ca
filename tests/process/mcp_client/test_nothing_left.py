"""Whatever a server does, nothing of it stays: no process, no descriptor, no task."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.support.connection_bench import Bench, is_running, until

from openclaw.mcp_client.lifecycle.connection import ServerConnection
from openclaw.mcp_client.lifecycle.server_state import ServerState
from openclaw.mcp_client.transport.child_process import Grace

pytestmark = pytest.mark.subprocess

SPAWN = {"name": "spawn", "does": {"spawn": 3}}
ESCAPE = """
import subprocess, sys, os, json
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"],
                         start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
open(sys.argv[1], "w").write(str(child.pid))
os.execv(sys.executable, [sys.executable, "-m", "tests.support.fake_server", "{}"])
"""
HOST = """
import sys, os, json
from pathlib import Path
import anyio
from tests.support.connection_bench import Bench
async def main():
    bench = Bench(Path(sys.argv[1]) / "cache", dict(os.environ))
    spec = {"tools": [{"name": "spawn", "does": {"spawn": 2}}], "faults": {"ignoreEof": True}}
    async with bench.serve(spec) as server:
        result = await server.call_tool("spawn", {})
        pids = [server.snapshot.pid, *json.loads(result["content"][0]["text"])]
        Path(sys.argv[1], "pids").write_text(json.dumps(pids))
        await anyio.sleep_forever()
anyio.run(main)
"""


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def children() -> set[str]:
    pid = os.getpid()
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


async def spawned(server: ServerConnection) -> list[int]:
    result = await server.call_tool("spawn", {})
    return [server.snapshot.pid or 0, *json.loads(result["content"][0]["text"])]


async def test_grandchildren_end_with_a_server_that_leaves_at_once(bench: Bench):
    async with bench.serve({"tools": [SPAWN]}) as server:
        pids = await spawned(server)
        assert all(map(is_running, pids))
    assert not any(map(is_running, pids))


async def test_grandchildren_end_with_a_server_that_crashes(bench: Bench):
    tools = [SPAWN, {"name": "echo"}]
    async with bench.serve({"tools": tools}) as server:
        bench.clock.ahead += 11
        pids = await spawned(server)
        os.kill(pids[0], signal.SIGKILL)
        await until(lambda: server.snapshot.state is not ServerState.READY)
        await server.call_tool("echo", {})
        assert not any(map(is_running, pids))


@pytest.mark.requirement("FR-3.4")
async def test_a_server_that_ignores_everything_is_killed_in_the_end(bench: Bench):
    spec = {"tools": [SPAWN], "faults": {"ignoreEof": True, "ignoreSigterm": True}}
    grace = Grace(stdin=0.25, term=0.15, kill=0.3)
    async with bench.serve(spec, deps={"grace": grace}) as server:
        pids = await spawned(server)
    assert not any(map(is_running, pids))


@pytest.mark.requirement("FR-3.4")
async def test_sigterm_comes_before_sigkill(bench: Bench):
    grace = Grace(stdin=0.1, term=3600)  # without SIGTERM this would last an hour
    async with bench.serve({"faults": {"ignoreEof": True}}, deps={"grace": grace}) as server:
        pass
    assert server.snapshot.state is ServerState.CLOSED


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
async def test_a_grandchild_that_left_the_group_is_found_too(bench: Bench, tmp_path: Path):
    script, note = tmp_path / "escape.py", tmp_path / "pid"
    script.write_text(ESCAPE)
    entry = {"command": sys.executable, "args": [str(script), str(note)]}
    async with bench.run(bench.to(entry)):
        escaped = int(note.read_text())
        assert is_running(escaped)
    await until(lambda: not is_running(escaped))


async def test_nothing_survives_a_host_that_is_killed(tmp_path: Path):
    host = subprocess.Popen([sys.executable, "-c", HOST, str(tmp_path)])
    try:
        note = tmp_path / "pids"
        await until(lambda: note.exists() and note.read_text().endswith("]"), 20)
    finally:
        host.kill()
        host.wait()
    pids = json.loads(note.read_text())
    await until(lambda: not any(map(is_running, pids)))


async def test_twenty_kills_in_a_row_leave_nothing_behind(bench: Bench):
    async with bench.serve({"tools": [{"name": "echo"}]}) as server:
        await server.call_tool("echo", {})
        before = descriptors(), len(children()), len(asyncio.all_tasks())
        for _ in range(20):
            bench.clock.ahead += 61
            os.kill(server.snapshot.pid or 0, signal.SIGKILL)
            await until(lambda: server.snapshot.state is not ServerState.READY)
            await server.call_tool("echo", {})
        await until(lambda: len(asyncio.all_tasks()) <= before[2])
        assert (descriptors(), len(children())) == before[:2]
        assert server.snapshot.restarts == 1


async def test_stopping_leaves_nothing_behind(bench: Bench):
    async with bench.serve({}):
        pass
    before = descriptors(), children(), len(asyncio.all_tasks())
    for _ in range(5):
        async with bench.serve({"tools": [{"name": "echo"}]}) as server:
            await server.call_tool("echo", {})
    assert (descriptors(), children(), len(asyncio.all_tasks())) == before


async def test_a_connection_cancelled_while_it_opens_leaves_nothing_behind(
    bench: Bench, tmp_path: Path
):
    pids = tmp_path / "pids"
    connection = bench.connection({"faults": {"pidFile": str(pids), "startDelay": 30}})
    async with anyio.create_task_group() as group:
        await group.start(connection.run)
        await until(lambda: pids.exists() and pids.read_text().endswith("\n"))
        group.cancel_scope.cancel()
    assert not is_running(int(pids.read_text()))
    assert connection.snapshot.state is ServerState.CLOSED


async def test_one_servers_failure_is_not_the_others(bench: Bench):
    broken = bench.connection({"faults": {"exitAtStart": 1}}, maxRestarts=0)
    async with (
        bench.serve({"tools": [{"name": "echo"}]}) as sound,
        anyio.create_task_group() as group,
    ):
        await group.start(broken.run)
        await until(lambda: broken.snapshot.state is ServerState.FAILED)
        await sound.call_tool("echo", {})
        broken.stop()
