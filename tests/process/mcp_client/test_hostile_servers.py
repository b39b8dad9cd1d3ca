"""Servers that flood, lie or never end: the loop stays free, and the others answer throughout."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.connection_bench import Bench, LoopWatch, has_line_with, until
from tests.support.loop_time import pass_time, pass_time_after

from openclaw.mcp.client import MAX_SERVER_REQUESTS
from openclaw.mcp_client import bounds
from openclaw.mcp_client.errors import TimedOut, TooLarge
from openclaw.mcp_client.lifecycle.connection import ServerConnection
from openclaw.mcp_client.lifecycle.server_state import ServerState

pytestmark = pytest.mark.subprocess

# Measuring coverage makes our own code several times as slow.
HELD_UP = 3.0 if "COVERAGE_RUN" in os.environ else 0.25
ECHO = {"name": "echo"}

GREETING = """
import json, sys, time
def send(message): sys.stdout.write(json.dumps(message) + "\\n"); sys.stdout.flush()
def answer(message):
    if message.get("method") == "initialize":
        send({"jsonrpc": "2.0", "id": message["id"], "result": {"protocolVersion": "2025-11-25",
              "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}})
    elif message.get("method") == "tools/list":
        send({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}})
    elif "id" in message and "method" in message and message["method"] != "tools/call":
        send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}})
"""


def script(tmp_path: Path, body: str) -> dict[str, Any]:
    path = tmp_path / "server.py"
    path.write_text(GREETING + body)
    return {"command": sys.executable, "args": [str(path)]}


async def answering(server: ServerConnection) -> None:
    while True:
        with anyio.fail_after(60):  # a second, where the machine has nothing else to do
            await server.call_tool("echo", {})
        await anyio.sleep(0.01)


async def test_a_flood_of_notifications_holds_up_nobody(
    bench: Bench, caplog: pytest.LogCaptureFixture
):
    flood = {"name": "flood", "does": {"notifications": 200_000, "text": "done"}}
    async with (
        bench.serve({"tools": [flood]}) as flooding,
        bench.serve({"tools": [ECHO]}) as quiet,
        LoopWatch().watching() as watch,
        anyio.create_task_group() as group,
    ):
        group.start_soon(answering, quiet)
        result = await flooding.call_tool("flood", {}, timeout=300)
        assert result["content"][0]["text"] == "done"
        assert watch.longest < HELD_UP
        group.cancel_scope.cancel()
    warnings = [r for r in caplog.records if "too many notifications" in r.getMessage()]
    assert 1 <= len(warnings) < 20


async def test_a_message_of_millions_of_values_is_refused_before_it_is_built(
    bench: Bench, tmp_path: Path
):
    body = """
for line in sys.stdin:
    message = json.loads(line)
    answer(message)
    if message.get("method") == "tools/call":
        sys.stdout.write('{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":[%s0]}}\\n'
                         % (message["id"], "{}," * 8_000_000))
        sys.stdout.flush()
"""
    async with (
        bench.run(bench.to(script(tmp_path, body))) as server,
        LoopWatch().watching() as watch,
    ):
        with pytest.raises(TooLarge, match="1000000 values"):
            await server.call_tool("bomb", {})
        assert watch.longest < HELD_UP
        assert server.snapshot.state is ServerState.READY


async def test_a_large_answer_counts_even_if_its_server_exits_right_after_it(
    bench: Bench, tmp_path: Path
):
    body = """
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "tools/call":
        content = [{"type": "text", "text": "\\u00e9" * 4_000_000}]
        line = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"content": content}})
        sys.stdout.write(line + "\\n")
        sys.stdout.flush()
        os._exit(0)
    answer(message)
"""
    async with bench.run(bench.to(script(tmp_path, "import os\n" + body))) as server:
        result = await server.call_tool("large", {}, timeout=300)
        assert len(result["content"][0]["text"]) == 4_000_000


async def test_a_server_that_asks_without_listening_does_not_fill_our_memory(
    bench: Bench, tmp_path: Path
):
    body = """
for line in sys.stdin:
    message = json.loads(line)
    answer(message)
    if message.get("method") == "notifications/initialized": break
ping = json.dumps({"jsonrpc": "2.0", "id": "x" * 500, "method": "ping"}) + "\\n"
for _ in range(100): sys.stdout.write(ping * 1000)
sys.stdout.flush()
open("flooded", "w").close()
time.sleep(600)
"""
    entry = script(tmp_path, body) | {"cwd": str(tmp_path), "timeout": 600_000, "maxRestarts": 0}
    async with (
        bench.run(bench.to(entry), ready=False) as server,
        LoopWatch().watching() as watch,
    ):
        await pass_time_after((tmp_path / "flooded").exists, 600)
        await until(lambda: server.snapshot.state is ServerState.FAILED)
        assert watch.longest < HELD_UP
        assert "did not list" in (server.snapshot.last_error or "")


async def test_a_server_that_never_reads_does_not_block_its_callers(bench: Bench, tmp_path: Path):
    body = """
for line in sys.stdin:
    message = json.loads(line)
    answer(message)
    if message.get("method") == "tools/list": break
time.sleep(600)
"""
    entry = script(tmp_path, body)
    async with bench.run(bench.to(entry)) as server, LoopWatch().watching() as watch:
        big = {"words": "x" * 2_000_000}

        async def call() -> None:
            with pytest.raises(TimedOut):
                await server.call_tool("deaf", big, timeout=0.3)

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(call)
        assert watch.longest < HELD_UP


async def test_endless_pages_are_cut(bench: Bench, caplog: pytest.LogCaptureFixture):
    async with bench.serve({"tools": [ECHO], "faults": {"endlessPages": True}}) as server:
        assert len(server.listing.tools) == bounds.MAX_PAGES
        assert any("there are too many" in note for note in server.listing.dropped)


async def test_more_tools_than_we_take_are_left_out(bench: Bench):
    tools = [{"name": f"t{n}"} for n in range(bounds.MAX_TOOLS + 5)]
    async with bench.serve({"tools": tools, "pageSize": 500}) as server:
        assert len(server.listing.tools) == bounds.MAX_TOOLS


async def test_a_malformed_tool_costs_that_tool_alone(bench: Bench):
    tools: list[dict[str, Any]] = [
        {"name": "good"},
        {"name": "bad", "inputSchema": "no object"},
        {"name": "huge", "description": "x" * 300_000},
    ]
    async with bench.serve({"tools": tools}) as server:
        assert [tool.name for tool in server.listing.tools] == ["good"]
        assert [note.split("'")[1] for note in server.listing.dropped] == ["bad", "huge"]


@pytest.mark.parametrize("second", ["refuse", "hang"])
async def test_a_catalogue_that_cannot_be_listed_again_stays_as_it_was(
    bench: Bench, tmp_path: Path, second: str
):
    body = """
listed = 0
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "tools/list":
        listed += 1
        if listed == 1:
            send({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": [
                  {"name": "change", "inputSchema": {"type": "object"}}]}})
        elif "SECOND" == "refuse":
            send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -1, "message": "busy"}})
        continue
    answer(message)
    if message.get("method") == "tools/call":
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        send({"jsonrpc": "2.0", "id": message["id"], "result": {"content": [
              {"type": "text", "text": str(listed)}]}})
"""
    entry = {**script(tmp_path, body.replace("SECOND", second)), "timeout": 600_000}
    async with bench.run(bench.to(entry)) as server:

        async def listed(times: int) -> None:
            with anyio.fail_after(60):
                while True:
                    result = await server.call_tool("change", {})
                    if int(result["content"][0]["text"]) == times:
                        return

        await listed(2)
        pass_time(600)
        await listed(3)
        assert [tool.name for tool in server.listing.tools] == ["change"]
        assert server.snapshot.restarts == 0


async def test_a_slow_listing_is_a_failed_connection(bench: Bench, tmp_path: Path):
    requests = tmp_path / "requests"
    faults = {"slow": {"tools/list": 30}, "requestsFile": str(requests)}
    connection = bench.connection(
        {"tools": [ECHO], "faults": faults}, timeout=600_000, maxRestarts=0
    )
    async with bench.run(connection, ready=False) as server:
        await pass_time_after(lambda: has_line_with(requests, "tools/list"), 600)
        await until(lambda: server.snapshot.state is ServerState.FAILED)
        assert server.snapshot.last_error == "it did not list its tools within 600 s"


@pytest.mark.requirement("FR-1.9")
async def test_a_server_that_never_shakes_hands_is_a_failed_connection(bench: Bench):
    spec = {"faults": {"hang": ["initialize", "server/discover"]}}
    async with bench.run(bench.connection(spec, timeout=300, maxRestarts=0), ready=False) as server:
        await until(lambda: server.snapshot.state is ServerState.FAILED)
        assert server.snapshot.last_error == "no handshake within 0.3 s"


async def test_batches_odd_ids_and_nonsense_are_lived_with(bench: Bench):
    lines = [
        '[{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"in a batch"}}, 7]',
        '{"jsonrpc":"2.0","id":{"a":1},"result":{}}',
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}',
        '{"jsonrpc":"2.0","id":[1],"method":"ping"}',
        '{"jsonrpc":"2.0","method":["list"]}',
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{}}}',
        '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}',
        '{"jsonrpc":"2.0","id":"99999","result":{}}',
        "3",
        "",
    ]
    tools = [{"name": f"say{n}", "does": {"raw": line}} for n, line in enumerate(lines)]
    async with bench.serve({"tools": tools}) as server:
        for tool in tools:
            await server.call_tool(str(tool["name"]), {})
        assert server.snapshot.restarts == 0


async def test_many_requests_of_a_server_at_once_are_refused_past_a_bound(
    bench: Bench, tmp_path: Path
):
    others, others_refused = 100 - MAX_SERVER_REQUESTS, tmp_path / "refused"
    body = """
answers = {}
for line in sys.stdin:
    message = json.loads(line)
    answer(message)
    if message.get("method") == "tools/call":
        call = message["id"]
        for n in range(100):
            send({"jsonrpc": "2.0", "id": f"q{n}", "method": "elicitation/create",
                  "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}})
    elif "method" not in message:
        answers[message["id"]] = message
        if len(answers) == MOST:
            open(MARK, "w").close()
        if len(answers) == 100:
            refused = sum("error" in a for a in answers.values())
            send({"jsonrpc": "2.0", "id": call, "result": {"content": [
                  {"type": "text", "text": json.dumps(refused)}]}})
"""
    release = anyio.Event()
    asked = 0

    async def person(server: str, params: Any) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        await release.wait()
        return {"action": "decline"}

    entry = script(tmp_path, f"MOST, MARK = {others}, {str(others_refused)!r}\n{body}")
    connection = bench.to(entry, deps={"on_elicitation": person})
    async with bench.run(connection) as server, anyio.create_task_group() as group:
        refused: list[int] = []

        async def call() -> None:
            result = await server.call_tool("ask", {}, timeout=60)
            refused.append(json.loads(result["content"][0]["text"]))

        group.start_soon(call)
        await until(others_refused.exists)
        await until(lambda: asked == MAX_SERVER_REQUESTS)
        pass_time(61)  # longer than the call has, which is not the server's fault
        await anyio.wait_all_tasks_blocked()
        release.set()
        await until(lambda: bool(refused))
        assert refused == [others]
