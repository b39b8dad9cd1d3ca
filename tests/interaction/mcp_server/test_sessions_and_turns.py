"""Orders side by side, in turn, cancelled, and watched."""

import json
import signal
from collections.abc import Callable

import anyio
import psutil
import pytest
from mcp import Client
from mcp_types import CallToolResult, TextContent
from tests.interaction.mcp_server.conftest import BIN, Connect, Setup
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import knows

from openclaw.testing.scripted_model import Step, scripted_model


def text_of(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.requirement("O-5")
async def test_a_given_session_key_continues_the_conversation_in_a_later_process(
    setup: Setup, connect: Connect
) -> None:
    key = "../../etc/passwd \U0001f600 \n x"
    async with scripted_model([Step(text="Noted."), Step(text="Blue.")]) as model:
        setup.configure(model.url, {})
        for message in ("My colour is blue.", "What is my colour?"):
            async with connect() as client:
                await client.call_tool("order_openclaw", {"message": message, "sessionKey": key})
    said = [m.get("content") for m in model.requests[1].body["messages"] if m["role"] != "system"]
    assert said == ["My colour is blue.", "Noted.", "What is my colour?"]
    assert {path.name.split("-")[0] for path in setup.state.iterdir()} <= {
        "openclaw.json",
        "workspace",
        "sessions.db",
        "tmp",
        "logs",
        "cache",
        "locks",
        "version.json",
    }


@pytest.mark.requirement("O-4")
async def test_without_a_session_key_orders_share_nothing(setup: Setup, connect: Connect) -> None:
    async with scripted_model([Step(text="One."), Step(text="Two.")]) as model:
        setup.configure(model.url, {})
        async with connect() as client:
            await client.call_tool("order_openclaw", {"message": "first"})
            await client.call_tool("order_openclaw", {"message": "second"})
    messages = [m for m in model.requests[1].body["messages"] if m["role"] != "system"]
    assert [m["content"] for m in messages] == ["second"]


HANG = Step(hang=True)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that another process does; the test's own time limit bounds it."""
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110 (another process has no event of ours)
            await anyio.sleep(0.01)


async def test_orders_of_different_sessions_run_at_once(setup: Setup, connect: Connect) -> None:
    async with scripted_model(default=HANG) as model:
        setup.configure(model.url, {})
        async with connect() as client, anyio.create_task_group() as tasks:
            for number in range(3):
                order = {"message": "go", "sessionKey": f"s{number}"}
                tasks.start_soon(client.call_tool, "order_openclaw", order)
            await until(lambda: len(model.requests) == 3)
            tasks.cancel_scope.cancel()


async def test_orders_of_one_session_run_in_turn_also_from_two_processes(
    setup: Setup, connect: Connect
) -> None:
    answers: list[str] = []
    async with scripted_model([Step(text="One.", delay=0.3)], default=Step(text="Two.")) as model:
        setup.configure(model.url, {})
        async with connect() as first, connect() as second:

            async def order(client: Client, message: str) -> None:
                arguments = {"message": message, "sessionKey": "shared"}
                answers.append(text_of(await client.call_tool("order_openclaw", arguments)))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(order, first, "a")
                await until(lambda: len(model.requests) == 1)
                tasks.start_soon(order, second, "b")
    assert sorted(answers) == ["One.", "Two."]  # two processes: either may be heard first
    messages = [m for m in model.requests[1].body["messages"] if m["role"] != "system"]
    assert [m["content"] for m in messages] == ["a", "One.", "b"]


async def test_a_cancelled_order_stops_and_the_next_one_of_its_session_works(
    setup: Setup, connect: Connect
) -> None:
    async with scripted_model([HANG], default=Step(text="Here.")) as model:
        setup.configure(model.url, {})
        async with connect() as client:
            order = {"message": "never", "sessionKey": "k"}
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "order_openclaw", order)
                await until(lambda: len(model.requests) == 1)
                tasks.cancel_scope.cancel()
            result = await client.call_tool("order_openclaw", {**order, "message": "again"})
    assert text_of(result) == "Here."
    messages = [m for m in model.requests[1].body["messages"] if m["role"] == "user"]
    assert messages[-1]["content"] == "again"


async def test_progress_names_the_tool_that_is_called(setup: Setup, connect: Connect) -> None:
    seen: list[str | None] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(message)

    call = ("mcp_time_get_current_time", {"timezone": "UTC"})
    async with scripted_model([Step(calls=(call,)), Step(text="Done.")]) as model:
        setup.configure(model.url, {"time": {"command": str(BIN / "mcp-server-time")}})
        knows(setup.state, BIN / "mcp-server-time")
        async with connect() as client:
            await client.call_tool(
                "order_openclaw", {"message": "time?"}, progress_callback=on_progress
            )
    assert seen[0] == "working"
    assert "calling mcp_time_get_current_time" in seen


@pytest.mark.requirement("O-10")
@pytest.mark.parametrize("ending", ["the client closes", "SIGTERM"])
async def test_the_server_leaves_with_every_child_even_a_stubborn_one(
    setup: Setup, ending: str
) -> None:
    faults = {"ignoreEof": True, "ignoreSigterm": True, "grandchildren": 1}
    fake = server_entry({"faults": faults})
    async with scripted_model(default=Step(text="Here.")) as model:
        setup.configure(model.url, {"fake": fake})
        process = await anyio.open_process(
            [str(BIN / "openclaw"), "mcp-server"], env=setup.environ, stderr=None
        )
        async with process:
            assert process.stdin is not None
            assert process.stdout is not None
            for message in (HELLO, READY, ORDER):
                await process.stdin.send(json.dumps(message).encode() + b"\n")
            answers = b""
            while b'"id":2' not in answers:
                answers += await process.stdout.receive()
            family = psutil.Process(process.pid).children(recursive=True)
            assert len(family) >= 2
            if ending == "SIGTERM":
                process.send_signal(signal.SIGTERM)
            else:
                await process.stdin.aclose()
            with anyio.fail_after(60):  # 1 s is the promise; the machine may be busy
                await process.wait()
        # The reaper gives each of them five seconds.
        _, alive = psutil.wait_procs(family, timeout=60)
        assert alive == []


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ORDER = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "order_openclaw", "arguments": {"message": "hi"}},
}


async def test_a_broken_configuration_is_told_to_who_orders_and_mended_without_a_restart(
    setup: Setup, connect: Connect
) -> None:
    (setup.state / "openclaw.json").write_text('{ gateway: { port: "x" } }')
    async with scripted_model(default=Step(text="Here.")) as model, connect() as client:
        refused = await client.call_tool("order_openclaw", {"message": "hi"})
        assert refused.is_error
        assert text_of(refused).startswith("Error: 1 problem in ")
        assert "gateway.port" in text_of(refused)
        setup.configure(model.url, {})
        answered = await client.call_tool("order_openclaw", {"message": "hi"})
        assert text_of(answered) == "Here."


async def test_a_changed_rule_holds_from_the_next_order_on_and_a_broken_file_changes_nothing(
    setup: Setup, connect: Connect
) -> None:
    write = Step(calls=(("write", {"path": "note.txt", "content": "hi"}),))
    steps = [step for _ in range(4) for step in (write, Step(text="Done."))]
    async with scripted_model(steps) as model:
        setup.configure(model.url, {})
        config = setup.state / "openclaw.json"
        allowed = json.loads(config.read_text())
        denied = json.dumps(allowed | {"tools": {"deny": ["write"]}})
        results: list[str] = []
        async with connect() as client:
            for content in (json.dumps(allowed), denied, "{ broken", json.dumps(allowed)):
                config.write_text(content)
                await client.call_tool("order_openclaw", {"message": "write it"})
                results.append(model.requests[-1].last_text)
    assert ["Wrote" in result for result in results] == [True, False, False, True]


@pytest.mark.requirement("O-11")
async def test_clawdbot_takes_the_same_orders_under_its_own_name(
    setup: Setup, connect: Connect
) -> None:
    async with scripted_model(default=Step(text="Here.")) as model:
        setup.configure(model.url, {})
        async with connect(program="clawdbot") as client:
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == ["order_clawdbot"]
            assert set(tools[0].input_schema["properties"]) == {"message", "sessionKey"}
            result = await client.call_tool("order_clawdbot", {"message": "hi"})
    assert text_of(result) == "Here."
