"""What servers ask, say and change of their own accord."""

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.connection_bench import Bench, has_line_with, knowing, until
from tests.support.fake_http_server import FakeHttpServer
from tests.support.loop_time import pass_time, pass_time_after

from openclaw.mcp import negotiation
from openclaw.mcp_client.errors import TimedOut
from openclaw.mcp_client.session.era_memory import Era, EraMemory, identity

pytestmark = pytest.mark.subprocess

ERAS = pytest.mark.parametrize("discover", ["refuse", "answer"])


def asking(step: str, discover: str) -> dict[str, Any]:
    return {"tools": [{"name": "ask", "does": {step: {}}}], "discover": discover}


async def answer_of(bench: Bench, spec: dict[str, Any], **deps: Any) -> Any:
    async with bench.serve(spec, deps=deps, sampling=True) as server:
        result = await server.call_tool("ask", {})
        return json.loads(result["content"][0]["text"])


@ERAS
async def test_roots_are_the_workspaces(bench: Bench, discover: str, tmp_path: Path):
    answer = await answer_of(bench, asking("roots", discover), roots=[tmp_path])
    assert answer["roots"] == [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]


async def test_sampling_is_refused_unless_somebody_takes_it(bench: Bench):
    answer = await answer_of(bench, asking("sampling", "refuse"))
    assert answer["message"] == "Sampling not supported"


@ERAS
async def test_sampling_is_handed_to_whoever_takes_it(bench: Bench, discover: str):
    asked: list[Any] = []

    async def model(server: str, params: Any) -> dict[str, Any]:
        asked.append((server, params["maxTokens"]))
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hello"}}

    answer = await answer_of(bench, asking("sampling", discover), on_sampling=model)
    assert answer["content"]["text"] == "hello"
    assert asked == [("fake", 50)]


async def test_elicitation_is_declined_where_nobody_can_be_asked(bench: Bench):
    assert await answer_of(bench, asking("elicit", "refuse")) == {"action": "decline"}


@ERAS
async def test_elicitation_is_forwarded_to_whoever_can_ask(bench: Bench, discover: str):
    async def person(server: str, params: Any) -> dict[str, Any]:
        assert params["message"] == "Your name?"
        return {"action": "accept", "content": {"name": "Ann"}}

    answer = await answer_of(bench, asking("elicit", discover), on_elicitation=person)
    assert answer == {"action": "accept", "content": {"name": "Ann"}}


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_remote_call_does_not_run_out_of_time_while_a_person_thinks(
    bench: Bench, transport: str
):
    async def person(server: str, params: Any) -> dict[str, Any]:
        pass_time(700)  # longer than the call may take
        return {"action": "accept", "content": {"name": "Ann"}}

    spec: dict[str, Any] = {
        "tools": [
            {"name": "ask", "inputSchema": {"type": "object"}, "does": {"elicit": {}}},
            {"name": "sleep", "inputSchema": {"type": "object"}, "does": {"sleep": 30}},
        ],
        "discover": "refuse",
    }
    async with FakeHttpServer(spec).running() as server:
        url = server.url if transport == "http" else server.sse_url
        entry = {"url": url, "transport": transport, "toolTimeout": 600_000}
        remote = bench.to(entry, deps={"on_elicitation": person})
        async with bench.run(remote) as connection:
            result = await connection.call_tool("ask", {})
            assert json.loads(result["content"][0]["text"])["content"] == {"name": "Ann"}
            async with anyio.create_task_group() as group:
                group.start_soon(
                    pass_time_after, lambda: b'"sleep"' in server.requests[-1].body, 600
                )
                with pytest.raises(TimedOut):
                    await connection.call_tool("sleep", {})


async def test_a_host_that_fails_to_answer_is_a_refusal(bench: Bench):
    async def nobody(server: str, params: Any) -> dict[str, Any]:
        raise RuntimeError("secret detail")

    for step, given in (("sampling", "on_sampling"), ("elicit", "on_elicitation")):
        answer = await answer_of(bench, asking(step, "refuse"), **{given: nobody})
        assert answer["message"] == "the host refused"


@pytest.mark.requirement("D-6")
@ERAS
async def test_changed_tools_are_listed_again_without_a_restart(
    bench: Bench, discover: str, tmp_path: Path
):
    new = [{"name": "new", "inputSchema": {"type": "object"}}]
    requests = tmp_path / "requests"
    spec = {
        "tools": [{"name": "change", "does": {"changeTools": new}}],
        "discover": discover,
        "faults": {"requestsFile": str(requests)},
    }
    async with bench.serve(spec) as server:
        heard: list[list[str]] = []
        server.on_listing = lambda: heard.append([tool.name for tool in server.listing.tools])
        pid = server.snapshot.pid
        if discover == "answer":
            await until(lambda: "subscriptions/listen" in requests.read_text())
        await server.call_tool("change", {})
        await until(lambda: ["new"] in heard)
        assert server.snapshot.pid == pid


@ERAS
async def test_updated_resources_are_told_where_wanted(bench: Bench, discover: str, tmp_path: Path):
    resource = {"uri": "mem://a", "name": "a", "text": "new"}
    requests = tmp_path / "requests"
    spec = {
        "tools": [{"name": "update", "does": {"updateResource": resource}}],
        "resources": [{**resource, "text": "old"}],
        "discover": discover,
        "faults": {"requestsFile": str(requests)},
    }
    async with bench.serve(spec) as server:
        heard: list[str] = []
        server.on_resource_updated = heard.append
        await server.subscribe(["mem://a"])
        await until(lambda: "mem://a" in requests.read_text())
        await server.call_tool("update", {})
        await until(lambda: heard == ["mem://a"])


async def test_a_lost_subscription_is_made_up_for_by_listing_again(bench: Bench, tmp_path: Path):
    requests = tmp_path / "requests"
    cancelled = [
        {"method": "notifications/cancelled", "params": {"requestId": number}}
        for number in range(1, 20)
    ]
    lines = "\n".join(json.dumps({"jsonrpc": "2.0", **each}) for each in cancelled)
    spec = {
        "tools": [{"name": "lose", "does": {"raw": lines}}],
        "discover": "answer",
        "faults": {"requestsFile": str(requests)},
    }
    async with bench.serve(spec) as server:
        relisted = anyio.Event()
        server.on_listing = relisted.set
        await until(lambda: "subscriptions/listen" in requests.read_text())
        await server.call_tool("lose", {})
        with anyio.fail_after(60):
            await relisted.wait()


async def test_a_listener_to_progress_that_fails_hurts_nobody(
    bench: Bench, caplog: pytest.LogCaptureFixture
):
    def fail(*_: Any) -> None:
        raise RuntimeError("mine")

    steps = {"progress": {"times": 1}, "text": "done"}
    connection = bench.connection({"tools": [{"name": "go", "does": steps}]})
    async with bench.run(connection) as server:
        result = await server.call_tool("go", {}, on_progress=fail)
        assert result["content"][0]["text"] == "done"
    assert sum("could not be handed on" in r.getMessage() for r in caplog.records) == 1


@pytest.mark.requirement("FR-4.5")
async def test_a_servers_log_goes_to_ours_redacted_and_nowhere_else(
    bench: Bench, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    message = {"level": "error", "data": "token s3cret-word\x1b[31m gone"}
    line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": message})

    tools = [{"name": "log", "does": {"raw": line, "text": "ok"}}]
    async with bench.serve({"tools": tools}, deps={"redactor": knowing("s3cret-word")}) as server:
        await server.call_tool("log", {})
    said = [r for r in caplog.records if "says" in r.getMessage()]
    assert [(r.levelname, r.getMessage()) for r in said] == [
        ("WARNING", "MCP server 'fake' says: token [REDACTED] [31m gone")
    ]


async def test_what_a_server_calls_itself_is_printable_and_without_secrets(bench: Bench):
    spec: dict[str, Any] = {
        "name": "a s3cret-word\x1b[31m\nname",
        "instructions": "say s3cret-word",
        "tools": [{"name": "do-s3cret-word"}, {"name": "do"}],
    }
    async with bench.serve(spec, deps={"redactor": knowing("s3cret-word")}) as server:
        assert server.snapshot.server_name == "a [REDACTED] [31m name"
        assert server.listing.instructions == "say [REDACTED]"
        assert [tool.name for tool in server.listing.tools] == ["do"]
        assert server.listing.dropped == (
            "tools: 'do-[REDACTED]' was left out (its name contains a secret)",
        )


@pytest.mark.requirement("NFR-2.1")
@pytest.mark.parametrize(
    "revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
)
async def test_every_revision_is_spoken(bench: Bench, revision: str):
    spec = {
        "tools": [{"name": "meta", "does": {"meta": 1}}],
        "revisions": [revision],
        "discover": "answer" if revision == "2026-07-28" else "refuse",
    }
    async with bench.serve(spec) as server:
        assert server.snapshot.protocol == revision
        assert (server.snapshot.server_name, server.snapshot.server_version) == ("fake", "1.0.0")
        meta = json.loads((await server.call_tool("meta", {}))["content"][0]["text"])
        modern = "io.modelcontextprotocol/protocolVersion" in meta
        assert modern == (revision == "2026-07-28")


async def test_a_server_that_ignores_the_question_stalls_once_in_its_life(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(negotiation, "STALL", 600.0)
    requests = tmp_path / "requests"
    faults = {"requestsFile": str(requests)}
    spec = {"tools": [{"name": "echo"}], "discover": "ignore", "faults": faults}
    settings: dict[str, Any] = {"timeout": 3_600_000}
    async with bench.run(bench.connection(spec, **settings), ready=False) as server:
        await pass_time_after(lambda: has_line_with(requests, "server/discover"), 600)
        await server.wait_ready(90)
        assert server.snapshot.protocol == "2025-11-25"
    async with bench.serve(spec, **settings) as server:
        assert server.snapshot.protocol == "2025-11-25"


async def test_a_server_that_dies_of_the_question_is_not_asked_again(bench: Bench):
    spec = {"tools": [{"name": "echo"}], "faults": {"crashOn": ["server/discover"]}}
    async with bench.serve(spec) as server:
        assert server.snapshot.restarts == 1
        await server.call_tool("echo", {})


async def test_a_remembered_old_server_that_became_new_is_greeted_anew(bench: Bench):
    spec = {"tools": [{"name": "echo"}], "revisions": ["2026-07-28"], "discover": "answer"}
    connection = bench.connection(spec)
    memory = EraMemory(bench.directory, identity(connection.config))
    memory.remember(Era.LEGACY)
    async with bench.run(connection) as server:
        assert server.snapshot.protocol == "2026-07-28"
    assert memory.recall() is Era.MODERN


async def test_a_slow_starter_that_is_new_is_still_greeted_right(bench: Bench):
    spec = {
        "tools": [{"name": "echo"}],
        "revisions": ["2026-07-28"],
        "discover": "answer",
        "faults": {"startDelay": 2.5},
    }
    async with bench.serve(spec) as server:
        assert server.snapshot.protocol == "2026-07-28"
        await server.call_tool("echo", {})
