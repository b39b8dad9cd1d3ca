"""Ends and edges: half-closed pipes, a reaper that dies, a host that runs out of things."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.connection_bench import Bench, has_line_with, is_running, until
from tests.support.loop_time import pass_time_after

from openclaw.mcp_client.errors import Interrupted, InvalidResult, TooLarge
from openclaw.mcp_client.lifecycle import connection
from openclaw.mcp_client.lifecycle.server_state import ServerState
from openclaw.mcp_client.transport import child_process, orphan_reaper_main
from openclaw.mcp_client.transport.orphan_reaper import MARKER, OrphanReaper

pytestmark = pytest.mark.subprocess

HALF_CLOSED = """
import json, os, sys, time
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {},
                  "serverInfo": {"name": "s", "version": "1"}}
    elif message.get("method") == "tools/call":
        os.close(int(sys.argv[1]))
        time.sleep(600)
    else:
        result = None
    if "id" in message:
        answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
ASKS_FIRST = """
import json, sys
def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
def roots(name):
    send({"id": name, "method": "roots/list"})
    return json.loads(sys.stdin.readline()).get("result")
capabilities = {"tools": {"listChanged": True}, "experimental": {"streaming": True}}
early = None
for line in sys.stdin:
    message = json.loads(line)
    method, answer = message.get("method"), {"error": {"code": -32601, "message": "no"}}
    if method == "server/discover" and sys.argv[1] == "modern":
        answer = {"result": {"supportedVersions": ["2026-07-28"], "capabilities": capabilities,
                             "ttlMs": "long"}}
    elif method == "initialize":
        early = roots("early")
        answer = {"result": {"protocolVersion": "2025-11-25", "capabilities": capabilities,
                             "serverInfo": {"name": "s", "version": "1"}}}
    elif method == "tools/list":
        answer = {"result": {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}}
    elif method == "tools/call":
        later = roots("later") if sys.argv[1] == "legacy" else None
        text = json.dumps([early, later])
        answer = {"result": {"content": [{"type": "text", "text": text}]}}
    elif method == "subscriptions/listen":
        print("listens", file=sys.stderr, flush=True)
    if "id" in message:
        send({"id": message["id"], **answer})
"""
SLEEP = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]


async def test_a_server_may_ask_before_it_answers_the_greeting(bench: Bench, tmp_path: Path):
    script = tmp_path / "server.py"
    script.write_text(ASKS_FIRST)
    entry = {"command": sys.executable, "args": [str(script), "legacy"]}
    async with bench.run(bench.to(entry)) as server:
        result = await server.call_tool("x", {})
        early, later = json.loads(result["content"][0]["text"])
        assert early == later == {"roots": []}


async def test_a_server_whose_greeting_the_sdk_would_refuse_is_still_used(
    bench: Bench, tmp_path: Path
):
    script = tmp_path / "server.py"
    script.write_text(ASKS_FIRST)
    entry = {"command": sys.executable, "args": [str(script), "modern"]}
    async with bench.run(bench.to(entry)) as server:
        await until(lambda: "listens" in server.snapshot.stderr)
        assert server.snapshot.protocol == "2026-07-28"
        assert server.state is ServerState.READY
        await server.call_tool("x", {})


async def test_a_server_that_closes_its_output_is_gone(bench: Bench, tmp_path: Path):
    script = tmp_path / "server.py"
    script.write_text(HALF_CLOSED)
    entry = {"command": sys.executable, "args": [str(script), "1"]}
    async with bench.run(bench.to(entry)) as server:
        with pytest.raises(Interrupted, match="it closed its output"):
            await server.call_tool("x", {})


async def test_a_server_that_closes_its_input_is_gone_with_the_next_call(
    bench: Bench, tmp_path: Path
):
    script = tmp_path / "server.py"
    script.write_text(HALF_CLOSED)
    entry = {"command": sys.executable, "args": [str(script), "0"]}
    async with bench.run(bench.to(entry)) as server, anyio.create_task_group() as group:
        failures: list[str] = []

        async def call() -> None:
            try:
                await server.call_tool("x", {}, timeout=60)
            except Interrupted as failure:
                failures.append(failure.reason)

        group.start_soon(call)
        link = server._session
        assert link is not None
        pipe: Any = link.caller.transport
        await until(lambda: bool(failures) or not pipe._pipe.write(b"{}\n"))
        await until(lambda: failures == ["it closed its input"])


async def test_a_server_that_wrote_too_much_does_not_hold_up_its_restart(bench: Bench):
    spec = {"tools": [{"name": "big", "does": {"giant": 9_000_000}}]}
    patient = {"grace": child_process.Grace(stdin=600.0)}  # what a server has that does not leave
    connection = bench.connection(spec, deps=patient, maxMessageBytes=1_000_000)
    async with bench.run(connection) as server:
        bench.clock.ahead += 11
        with pytest.raises(TooLarge):
            await server.call_tool("big", {})
        await server.wait_ready(60)


async def test_a_server_that_wants_input_for_ever_is_refused(bench: Bench):
    forever = {"resultType": "input_required", "requestState": "again"}
    tools = [{"name": "ask", "does": {"result": forever}}]
    async with bench.serve({"tools": tools, "discover": "answer"}) as server:
        with pytest.raises(InvalidResult, match="more than 10 times"):
            await server.call_tool("ask", {})


async def test_input_that_is_not_mcps_is_refused(bench: Bench):
    odd = {"resultType": "input_required", "inputRequests": {"a": {"method": "format/disk"}}}
    tools = [{"name": "ask", "does": {"result": odd}}]
    async with bench.serve({"tools": tools, "discover": "answer"}) as server:
        with pytest.raises(InvalidResult, match="malformed input request"):
            await server.call_tool("ask", {})


async def test_what_the_system_lacks_now_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
):
    def scarce(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patched:
        await bench.reaper.start()
        patched.setattr(child_process.subprocess, "Popen", scarce)
        connection = bench.connection({"tools": []})
        async with bench.run(connection, ready=False) as server:
            await until(lambda: server.snapshot.state is ServerState.ERROR)
            assert server.snapshot.last_error == "cannot start it now: Too many open files"
            patched.undo()
            await server.wait_ready(10)


async def test_a_reaper_that_died_is_replaced_and_knows_the_old_groups(bench: Bench):
    reaper = bench.reaper
    async with bench.serve({}) as first:
        dead = reaper._process
        assert dead is not None
        dead.kill()
        dead.wait()
        async with bench.serve({}) as second, bench.serve({}):
            assert reaper._process is not None
            assert reaper._process is not dead
            assert {first.snapshot.pid, second.snapshot.pid} <= reaper._groups


async def test_a_closed_reaper_ends_what_it_still_knows():
    reaper = OrphanReaper()
    await reaper.start()
    orphan = subprocess.Popen(SLEEP, start_new_session=True)
    reaper.watch(orphan.pid)
    await reaper.aclose()
    assert orphan.wait(60) == -signal.SIGTERM


async def test_without_an_interpreter_there_is_no_reaper_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    reaper = OrphanReaper()
    await reaper.start()
    reaper.watch(1)
    await reaper.aclose()
    assert "no reaper" in caplog.text


def test_the_reaper_follows_its_orders(monkeypatch: pytest.MonkeyPatch):
    def orders(words: bytes) -> set[int] | None:
        source, sink = os.pipe()
        os.write(sink, words)
        os.close(sink)
        saved = os.dup(0)
        os.dup2(source, 0)
        os.close(source)
        try:
            return orphan_reaper_main.watch()
        finally:
            os.dup2(saved, 0)
            os.close(saved)

    assert orders(b"+5\n+6\n-5\n+7\n") == {6, 7}
    assert orders(b"+5\nquit\n") is None


def test_the_reaper_ends_groups_and_marked_processes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(orphan_reaper_main, "GRACE", 0.2)
    stubborn = [
        sys.executable,
        "-S",
        "-c",
        "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)",
    ]
    grouped = subprocess.Popen(stubborn, start_new_session=True, stdout=subprocess.PIPE)
    assert grouped.stdout is not None
    grouped.stdout.readline()
    marked = subprocess.Popen(SLEEP, env={MARKER: "host-42.x"})
    other = subprocess.Popen(SLEEP, env={MARKER: "host-43.x"})
    orphan_reaper_main.end({grouped.pid, 2**22 - 1}, f"{MARKER}=host-42".encode())
    assert (grouped.wait(60), marked.wait(60)) == (-signal.SIGKILL, -signal.SIGKILL)
    assert is_running(other.pid)
    other.kill()
    other.wait()
    grouped.stdout.close()


@pytest.mark.parametrize("method", ["resources/list", "prompts/list"])
async def test_a_listing_that_hangs_costs_that_listing_alone(bench: Bench, method: str):
    spec = {"tools": [{"name": "echo"}], "resources": [], "prompts": []}
    prompt = {"name": "hello"}
    resource = {"uri": "a:1", "name": "a"}
    other = {"prompts": [prompt]} if method == "resources/list" else {"resources": [resource]}
    whole = {**spec, **other, "faults": {"hang": [method]}}
    async with bench.serve(whole, timeout=30_000) as server:
        assert [tool.name for tool in server.listing.tools] == ["echo"]
        assert len(server.listing.prompts) + len(server.listing.resources) == 1


async def test_a_listing_that_was_given_up_keeps_nobody_waiting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(connection, "OTHERS_PATIENCE", 3600)
    requests = tmp_path / "requests"
    faults = {"hang": ["prompts/list"], "requestsFile": str(requests)}
    spec = {"tools": [{"name": "echo"}], "prompts": [], "faults": faults, "discover": "answer"}
    async with bench.run(bench.connection(spec, timeout=600_000), ready=False) as server:

        def only_prompts_are_missing() -> bool:
            return server.lists_privately and has_line_with(requests, "prompts/list")

        await pass_time_after(only_prompts_are_missing, 600)
        await server.wait_ready(90)
        assert [tool.name for tool in server.listing.tools] == ["echo"]


_TAKES_ITS_TIME = """
import signal, sys, time
from pathlib import Path

def leave(*_):
    time.sleep(1)
    Path(sys.argv[1]).write_text("saved")
    raise SystemExit

signal.signal(signal.SIGTERM, leave)
Path(sys.argv[2]).touch()
time.sleep(600)
"""


async def test_a_host_with_little_time_leaves_and_the_reaper_lets_the_server_finish(tmp_path: Path):
    saved, ready, reaper = tmp_path / "saved", tmp_path / "ready", OrphanReaper()
    program = child_process.Program(
        command=sys.executable,
        arguments=("-S", "-c", _TAKES_ITS_TIME, str(saved), str(ready)),
        environment={},
        directory=None,
    )
    child = await child_process.spawn(program, reaper, child_process.SHORT_GRACE)
    await until(ready.exists)
    await child.shut_down()
    assert not saved.exists()
    child.close_pipes()
    await reaper.aclose()
    await until(saved.exists)
    await until(lambda: not is_running(child.pid))
