"""Calls over the pipes of real server processes."""

import json
import os
import shlex
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.connection_bench import Bench, LoopWatch, knowing, until
from tests.support.fake_server import command
from tests.support.loop_time import pass_time

from openclaw.core.errors import ServerUnavailable
from openclaw.mcp_client.errors import (
    CallFailed,
    Interrupted,
    InvalidResult,
    RemoteError,
    TimedOut,
    TooLarge,
    Unavailable,
)
from openclaw.mcp_client.lifecycle.server_state import ServerState

pytestmark = pytest.mark.subprocess


def text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


async def test_a_call_gives_the_servers_decoded_result(bench: Bench):
    async with bench.serve({"tools": [{"name": "echo"}]}) as server:
        assert [tool.name for tool in server.listing.tools] == ["echo"]
        assert json.loads(text(await server.call_tool("echo", {"größe": "😀", "n": 2**70}))) == {
            "größe": "😀",
            "n": 2**70,
        }


async def test_calls_to_one_server_run_side_by_side(bench: Bench, tmp_path: Path):
    requests = tmp_path / "requests"
    spec = {
        "tools": [{"name": "hang", "does": {"hang": 1}}, {"name": "quick"}],
        "faults": {"requestsFile": str(requests)},
    }
    async with bench.serve(spec) as server, anyio.create_task_group() as group:
        nothing: dict[str, Any] = {}
        for _ in range(2):
            group.start_soon(server.call_tool, "hang", nothing)
        await until(lambda: requests.read_text().count('"hang"') == 2)
        with anyio.fail_after(60):
            await server.call_tool("quick", {})
        group.cancel_scope.cancel()


@pytest.mark.requirement("FR-1.14")
async def test_a_call_that_takes_too_long_is_cancelled_at_the_server(bench: Bench):
    async with bench.serve({"tools": [{"name": "hang", "does": {"hang": 1}}]}) as server:
        with pytest.raises(TimedOut, match=r"0\.2 s"):
            await server.call_tool("hang", {}, timeout=0.2)
        assert server.snapshot.state is ServerState.READY


@pytest.mark.requirement("FR-6.3")
async def test_progress_extends_the_time_a_call_has(bench: Bench):
    steps = {"progress": {"times": 8, "every": 0.02}, "text": "done"}
    async with bench.serve({"tools": [{"name": "long", "does": steps}]}) as server:
        heard: list[tuple[float, float | None, str | None]] = []

        def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((progress, total, message))
            pass_time(40)

        result = await server.call_tool("long", {}, timeout=60, on_progress=hear)
        assert text(result) == "done"
        assert heard[-1] == (8.0, 8.0, "step 8")


async def test_whoever_stops_waiting_tells_the_server(bench: Bench, tmp_path: Path):
    tool = {"name": "hang", "inputSchema": {"type": "object"}, "does": {"hang": 1}}
    program, arguments = command({"tools": [tool]})
    log = tmp_path / "stdin"
    tee = f"tee {log} | exec {shlex.join([program, *arguments])}"
    entry = {"command": "sh", "args": ["-c", tee]}
    async with bench.run(bench.to(entry)) as server, anyio.create_task_group() as group:
        group.start_soon(server.call_tool, "hang", dict[str, Any]())
        await until(lambda: "tools/call" in log.read_text())
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            await until(lambda: "notifications/cancelled" in log.read_text())
    sent = [json.loads(line) for line in log.read_text().splitlines()]
    call = next(message for message in sent if message["method"] == "tools/call")
    assert sent[-1]["method"] == "notifications/cancelled"
    assert sent[-1]["params"]["requestId"] == call["id"]


async def test_an_error_answer_carries_code_and_message(bench: Bench):
    does = {"error": {"code": -32050, "message": "no such luck"}}
    async with bench.serve({"tools": [{"name": "fail", "does": does}]}) as server:
        with pytest.raises(RemoteError, match="no such luck") as caught:
            await server.call_tool("fail", {})
        assert caught.value.code == -32050


async def test_a_server_that_dies_in_a_call_leaves_it_undecided_and_unrepeated(
    bench: Bench, tmp_path: Path
):
    spec = {
        "tools": [{"name": "die", "does": {"crash": 3}}],
        "faults": {"pidFile": str(tmp_path / "pids")},
    }
    async with bench.serve(spec) as server:
        bench.clock.ahead += 61
        with pytest.raises(Interrupted, match=r"exited with code 3.*may or may not have happened"):
            await server.call_tool("die", {})
        await server.wait_ready(60)
    assert len((tmp_path / "pids").read_text().split()) == 2


async def test_half_a_line_and_death_is_an_interruption(bench: Bench):
    async with bench.serve({"tools": [{"name": "half", "does": {"halfLine": 1}}]}) as server:
        with pytest.raises(Interrupted, match="exited with code 1"):
            await server.call_tool("half", {})


@pytest.mark.requirement("FR-3.2")
async def test_a_killed_server_answers_the_next_call_within_a_second(bench: Bench):
    async with bench.serve({"tools": [{"name": "echo"}]}) as server:
        bench.clock.ahead += 11
        pid = server.snapshot.pid
        assert pid is not None
        changed = anyio.Event()
        server.on_state = changed.set
        os.kill(pid, signal.SIGKILL)
        await changed.wait()
        with anyio.fail_after(60):  # a second, where the machine has nothing else to do
            await server.call_tool("echo", {})
        assert server.snapshot.last_error == "killed by SIGKILL"
        assert server.snapshot.pid != pid


@pytest.mark.requirement("FR-6.1")
async def test_a_call_waits_for_a_restart_that_is_near(bench: Bench):
    async with bench.serve({"tools": [{"name": "echo"}]}) as server:
        os.kill(server.snapshot.pid or 0, signal.SIGKILL)
        await until(lambda: server.snapshot.state is ServerState.ERROR)
        assert 0 < (server.snapshot.next_retry_in or 0) <= 1
        await server.call_tool("echo", {})


@pytest.mark.requirement("FR-6.2")
async def test_a_call_does_not_wait_for_a_restart_that_is_far(bench: Bench):
    spec = {"faults": {"exitAtStart": 7}}
    async with bench.run(bench.connection(spec), ready=False) as server:
        while server.snapshot.restarts < 4:
            bench.clock.ahead += 0 if server.snapshot.state is ServerState.CONNECTING else 20
            server._signal()
            await anyio.sleep(0.01)
        with pytest.raises(Unavailable, match=r"restarting in \d s") as caught:
            await server.call_tool("echo", {})
        assert caught.value.retry_in is not None
        assert 0 < caught.value.retry_in <= 8  # so that it was not waited for


@pytest.mark.requirement("FR-1.11")
async def test_a_server_that_never_starts_fails_after_its_restarts(bench: Bench):
    spec = {"faults": {"exitAtStart": 7}}
    async with bench.run(bench.connection(spec, maxRestarts=1), ready=False) as server:
        with pytest.raises(ServerUnavailable, match=r"failed .exited with code 7"):
            await server.wait_ready(10)
        assert (server.snapshot.state, server.snapshot.restarts) == (ServerState.FAILED, 1)


@pytest.mark.requirement("FR-1.10")
async def test_without_restarts_a_crash_is_final_until_asked(bench: Bench):
    spec = {"tools": [{"name": "die", "does": {"crash": 1}}, {"name": "echo"}]}
    async with bench.serve(spec, restartOnCrash=False) as server:
        with pytest.raises(Interrupted):
            await server.call_tool("die", {})
        with pytest.raises(Unavailable, match="failed"):
            await server.call_tool("echo", {})
        server.restart()
        await server.wait_ready(10)
        await server.call_tool("echo", {})


async def test_an_answer_over_the_limit_is_that_calls_error_and_the_server_restarts(bench: Bench):
    spec = {"tools": [{"name": "big", "does": {"giant": 3_000_000}}, {"name": "echo"}]}
    async with bench.serve(spec, maxMessageBytes=1_000_000) as server:
        bench.clock.ahead += 11
        with pytest.raises(TooLarge, match="limit of 1000000 bytes"):
            await server.call_tool("big", {})
        await server.call_tool("echo", {})
        assert server.snapshot.restarts == 1


async def test_only_the_call_whose_answer_was_too_long_is_blamed(bench: Bench):
    spec = {
        "tools": [
            {"name": "big", "does": {"sleep": 0.1, "giant": 3_000_000}},
            {"name": "hang", "does": {"hang": 1}},
        ]
    }
    async with bench.serve(spec, maxMessageBytes=1_000_000) as server:
        outcomes: dict[str, type[Exception]] = {}

        async def call(tool: str) -> None:
            try:
                await server.call_tool(tool, {})
            except CallFailed as error:
                outcomes[tool] = type(error)

        async with anyio.create_task_group() as group:
            group.start_soon(call, "hang")
            group.start_soon(call, "big")
        assert outcomes == {"big": TooLarge, "hang": Interrupted}


@pytest.mark.parametrize("depth", [400, 20_000])
async def test_a_bottomless_answer_is_that_calls_error_alone(bench: Bench, depth: int):
    tools = [{"name": "deep", "does": {"deep": depth}}, {"name": "echo"}]
    async with bench.serve({"tools": tools}) as server:
        with pytest.raises(InvalidResult, match="nested too deeply"):
            await server.call_tool("deep", {})
        await server.call_tool("echo", {})
        assert server.snapshot.restarts == 0


async def test_half_a_character_costs_only_itself(bench: Bench):
    content = [{"type": "text", "text": "CUT"}]
    line = json.dumps({"jsonrpc": "2.0", "id": 4, "result": {"content": content}})
    line = line.replace("CUT", r"emoji \ud83d")  # as JavaScript cuts one
    tools = [{"name": "cut", "does": {"raw": line, "hang": 1}}]
    async with bench.serve({"tools": tools, "discover": "refuse"}) as server:
        result = await server.call_tool("cut", {})
        assert result["content"] == [{"type": "text", "text": "emoji \ufffd"}]


@pytest.mark.requirement("FR-6.4")
async def test_a_malformed_answer_is_that_calls_error(bench: Bench):
    line = '{"jsonrpc": "2.0", "id": 4, "result": {oops'  # after two handshakes and the tools
    tools = [{"name": "bad", "does": {"raw": line, "hang": 1}}]
    async with bench.serve({"tools": tools, "discover": "refuse"}) as server:
        with pytest.raises(InvalidResult, match="not JSON"):
            await server.call_tool("bad", {})


@pytest.mark.requirement("FR-6.4")
@pytest.mark.parametrize(
    "result",
    [{"content": "text"}, {"content": [{"text": "no type"}]}, {"other": 1}, {"content": [1]}],
)
async def test_a_result_of_another_shape_is_refused(bench: Bench, result: dict[str, Any]):
    async with bench.serve({"tools": [{"name": "odd", "does": {"result": result}}]}) as server:
        with pytest.raises(InvalidResult, match="content blocks"):
            await server.call_tool("odd", {})


async def test_noise_on_stdout_is_logged_and_skipped(
    bench: Bench, caplog: pytest.LogCaptureFixture
):
    spec = {"tools": [{"name": "echo"}], "faults": {"stdoutNoise": 3}}
    async with bench.serve(spec, deps={"redactor": knowing("noise 1 on")}) as server:
        await server.call_tool("echo", {})
    noise = [record.getMessage() for record in caplog.records if "wrote to its" in record.message]
    assert [line.rpartition(": ")[2] for line in noise] == [
        "noise 0 on stdout",
        "[REDACTED] stdout",
        "noise 2 on stdout",
    ]


@pytest.mark.requirement("FR-7.3")
async def test_the_last_lines_of_stderr_are_kept_and_redacted(
    bench: Bench, caplog: pytest.LogCaptureFixture
):
    spec = {"tools": [{"name": "echo"}], "faults": {"stderrFlood": 5000}}
    async with bench.serve(spec, deps={"redactor": knowing("line 4999")}) as server:
        tail = server.snapshot.stderr
        assert (len(tail), tail[0], tail[-1]) == (200, "stderr line 4800", "stderr [REDACTED]")
    shown = [record for record in caplog.records if "stderr" in record.message]
    assert 50 < len(shown) < 300


async def test_a_huge_answer_arrives_whole_and_the_loop_stays_free(bench: Bench):
    spec = {"tools": [{"name": "big", "does": {"giant": 20_000_000}}]}
    async with bench.serve(spec) as server, LoopWatch().watching() as watch:
        assert len(text(await server.call_tool("big", {}))) == 20_000_000
        assert watch.longest < 0.25


async def test_a_large_argument_reaches_a_server_that_reads_slowly(bench: Bench):
    async with bench.serve({"tools": [{"name": "echo"}]}) as server:
        words = "y" * 3_000_000
        results: list[int] = []

        async def call() -> None:
            results.append(len(text(await server.call_tool("echo", {"words": words}))))

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(call)
        assert results == [len(words) + len('{"words": ""}')] * 4


async def test_what_was_never_sent_is_sent_to_the_successor(bench: Bench):
    async with bench.serve({"tools": [{"name": "echo"}]}) as server:
        bench.clock.ahead += 11
        link = server._session
        assert link is not None
        os.kill(server.snapshot.pid or 0, signal.SIGKILL)
        await link.caller.lost.wait()
        server._session = link  # as for a caller that took it just before
        assert json.loads(text(await server.call_tool("echo", {"a": 1}))) == {"a": 1}


async def test_resources_and_prompts_are_read(bench: Bench):
    message = {"role": "user", "content": {"type": "text", "text": "Hello {who}"}}
    spec = {
        "resources": [{"uri": "mem://a", "name": "a", "text": "alpha"}],
        "resourceTemplates": [{"uriTemplate": "mem://t/{x}", "name": "t"}],
        "prompts": [{"name": "greet", "messages": [message]}],
        "instructions": "Be kind.",
    }
    async with bench.serve(spec) as server:
        listing = server.listing
        assert [r.uri for r in listing.resources] == ["mem://a"]
        assert [t.uri_template for t in listing.resource_templates] == ["mem://t/{x}"]
        assert [p.name for p in listing.prompts] == ["greet"]
        assert listing.instructions == "Be kind."
        assert (await server.read_resource("mem://a"))["contents"][0]["text"] == "alpha"
        prompt = await server.get_prompt("greet", {"who": "Ann"})
        assert prompt["messages"][0]["content"]["text"] == "Hello Ann"


@pytest.mark.requirement("FR-1.2")
async def test_a_disabled_server_is_never_started(bench: Bench):
    async with bench.run(bench.connection({}, enabled=False), ready=False) as server:
        with pytest.raises(ServerUnavailable, match="disabled"):
            await server.wait_ready(1)
        assert server.snapshot.state is ServerState.DISABLED


@pytest.mark.requirement("FR-1.15")
async def test_a_lazy_server_starts_with_its_first_call(bench: Bench):
    connection = bench.connection({"tools": [{"name": "echo"}]}, lazy=True)
    async with bench.run(connection, ready=False) as server:
        await anyio.wait_all_tasks_blocked()
        assert server.snapshot.state is ServerState.DISCONNECTED
        await server.call_tool("echo", {})
        assert server.snapshot.state is ServerState.READY
