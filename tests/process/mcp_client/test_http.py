"""Remote servers on loopback: both transports, headers, logins and lost connections."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.connection_bench import Bench, until
from tests.support.fake_http_server import FakeHttpServer
from tests.support.loop_time import pass_time

from openclaw.mcp_client.errors import (
    CallFailed,
    Interrupted,
    InvalidResult,
    RemoteError,
    TimedOut,
    Unavailable,
)
from openclaw.mcp_client.lifecycle.server_state import ServerState

OBJECT = {"type": "object"}
ECHO = {"name": "echo", "inputSchema": OBJECT}
TRANSPORTS = pytest.mark.parametrize("transport", ["http", "sse"])


def tool(name: str, does: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "inputSchema": OBJECT, "does": does}


def entry(fake: FakeHttpServer, transport: str | None, **settings: Any) -> dict[str, Any]:
    url = fake.sse_url if transport == "sse" else fake.url
    named = {} if transport is None else {"transport": transport}
    return {"url": url, **named, **settings}


@TRANSPORTS
async def test_a_remote_server_is_used_like_a_local_one(bench: Bench, transport: str):
    async with (
        FakeHttpServer({"tools": [ECHO]}).running() as fake,
        bench.run(bench.to(entry(fake, transport))) as server,
    ):
        assert [each.name for each in server.listing.tools] == ["echo"]
        result = await server.call_tool("echo", {"a": "ä"})
        assert json.loads(result["content"][0]["text"]) == {"a": "ä"}
        assert server.snapshot.transport == transport
        assert server.snapshot.pid is None


async def test_the_newest_revision_carries_its_headers(bench: Bench):
    fake = FakeHttpServer({"tools": [ECHO], "discover": "answer"})
    async with fake.running(), bench.run(bench.to(entry(fake, "http"))) as server:
        await server.call_tool("echo", {})
        assert server.snapshot.protocol == "2026-07-28"
        headers = next(r.headers for r in fake.requests if b"tools/call" in r.body)
        assert headers["mcp-protocol-version"] == "2026-07-28"
        assert (headers["mcp-method"], headers["mcp-name"]) == ("tools/call", "echo")


@pytest.mark.requirement("FR-1.8")
@TRANSPORTS
async def test_headers_are_resolved_and_sent_with_every_request(bench: Bench, transport: str):
    fake = FakeHttpServer({"tools": [ECHO]}, headers={"Authorization": "Bearer t0ken"})
    given = {"headers": {"Authorization": "secret://Bearer t0ken"}}
    async with (
        fake.running(),
        bench.run(bench.to(entry(fake, transport, **given))) as server,
    ):
        await server.call_tool("echo", {})
        assert {r.headers["authorization"] for r in fake.requests} == {"Bearer t0ken"}


@TRANSPORTS
async def test_a_refusal_is_a_state_of_its_own_until_restarted(bench: Bench, transport: str):
    fake = FakeHttpServer({"tools": [ECHO]}, headers={"Authorization": "right"})
    async with (
        fake.running(),
        bench.run(bench.to(entry(fake, transport)), ready=False) as server,
    ):
        await until(lambda: server.snapshot.state is ServerState.NEEDS_LOGIN)
        assert "401" in (server.snapshot.last_error or "")
        with pytest.raises(Unavailable, match="needs login"):
            await server.call_tool("echo", {})
        fake.required = {}
        server.restart()
        await server.wait_ready(10)


async def test_a_login_that_runs_out_is_noticed_at_the_next_call(bench: Bench):
    fake = FakeHttpServer({"tools": [ECHO]})
    async with fake.running(), bench.run(bench.to(entry(fake, "http"))) as server:
        fake.required = {"authorization": "renewed"}
        with pytest.raises(RemoteError, match="needs a login"):
            await server.call_tool("echo", {})
        await until(lambda: server.snapshot.state is ServerState.NEEDS_LOGIN)


async def test_a_server_that_knows_only_sse_is_found(bench: Bench):
    fake = FakeHttpServer({"tools": [ECHO]}, only_sse=True)
    async with fake.running():
        given = {"url": fake.sse_url}
        async with bench.run(bench.to(given)) as server:
            await server.call_tool("echo", {})
            assert server.snapshot.transport == "sse"


async def test_a_named_transport_is_not_replaced(bench: Bench):
    fake = FakeHttpServer({"tools": [ECHO]}, only_sse=True)
    async with fake.running():
        given = {"url": fake.sse_url, "transport": "http", "maxRestarts": 0}
        async with bench.run(bench.to(given), ready=False) as server:
            await until(lambda: server.snapshot.state is ServerState.FAILED)
            assert server.snapshot.last_error == "the server answered 404"


@TRANSPORTS
async def test_a_dropped_connection_comes_back(bench: Bench, transport: str):
    spec = {"tools": [ECHO, tool("hang", {"hang": 1})]}
    async with (
        FakeHttpServer(spec).running() as fake,
        bench.run(bench.to(entry(fake, transport))) as server,
    ):
        bench.clock.ahead += 11
        outcome: list[CallFailed] = []

        async def call() -> None:
            try:
                await server.call_tool("hang", {}, timeout=5)
            except CallFailed as failure:
                outcome.append(failure)

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await until(lambda: b'"hang"' in fake.requests[-1].body)
            fake.drop_connections()
        assert isinstance(outcome[0], Interrupted)
        with anyio.fail_after(60):
            while True:
                try:
                    await server.call_tool("echo", {})
                    break
                except (Interrupted, Unavailable):  # the server had forgotten our session
                    await until(lambda: server.snapshot.state is ServerState.READY)


async def test_a_forgotten_session_is_opened_anew(bench: Bench):
    async with (
        FakeHttpServer({"tools": [ECHO]}).running() as fake,
        bench.run(bench.to(entry(fake, "http"))) as server,
    ):
        bench.clock.ahead += 11
        fake._session = "another"
        await server.call_tool("echo", {})
        assert server.snapshot.restarts == 1


@pytest.mark.requirement("E-8")
async def test_an_unreachable_server_is_tried_again_and_then_failed(bench: Bench):
    given = {"url": "http://127.0.0.1:9/mcp", "maxRestarts": 1}
    async with bench.run(bench.to(given), ready=False) as server:
        await until(lambda: server.snapshot.state is ServerState.FAILED)
        assert "cannot be reached" in (server.snapshot.last_error or "")
        assert server.snapshot.restarts == 1


@pytest.mark.requirement("FR-6.3")
@TRANSPORTS
async def test_time_and_progress_hold_for_remote_calls_too(bench: Bench, transport: str):
    tools = [
        tool("hang", {"hang": 1}),
        tool("long", {"progress": {"times": 6, "every": 0.02}, "text": "done"}),
    ]
    async with (
        FakeHttpServer({"tools": tools}).running() as fake,
        bench.run(bench.to(entry(fake, transport))) as server,
    ):
        heard: list[float] = []

        def hear(progress: float, total: float | None, words: str | None) -> None:
            heard.append(progress)
            pass_time(20)

        result = await server.call_tool("long", {}, timeout=30, on_progress=hear)
        assert result["content"][0]["text"] == "done"
        assert heard
        with pytest.raises(TimedOut):
            await server.call_tool("hang", {}, timeout=0.2)


@TRANSPORTS
async def test_events_larger_than_a_mebibyte_arrive(bench: Bench, transport: str):
    async with (
        FakeHttpServer({"tools": [tool("big", {"giant": 3_000_000})]}).running() as fake,
        bench.run(bench.to(entry(fake, transport))) as server,
    ):
        result = await server.call_tool("big", {})
        assert len(result["content"][0]["text"]) == 3_000_000


async def test_a_bottomless_remote_answer_is_that_calls_error(bench: Bench):
    tools = [tool("deep", {"deep": 20_000}), ECHO]
    async with (
        FakeHttpServer({"tools": tools}).running() as fake,
        bench.run(bench.to(entry(fake, "http"))) as server,
    ):
        with pytest.raises(InvalidResult):
            await server.call_tool("deep", {})
        await server.call_tool("echo", {})


@TRANSPORTS
async def test_changed_tools_of_a_remote_server_are_listed_again(bench: Bench, transport: str):
    change = tool("change", {"changeTools": [{"name": "new", "inputSchema": OBJECT}]})
    async with (
        FakeHttpServer({"tools": [change]}).running() as fake,
        bench.run(bench.to(entry(fake, transport))) as server,
    ):
        await server.call_tool("change", {})
        await until(lambda: [each.name for each in server.listing.tools] == ["new"])


async def test_a_remote_server_may_ask_for_the_roots(bench: Bench, tmp_path: Path):
    async with (
        FakeHttpServer({"tools": [tool("ask", {"roots": {}})]}).running() as fake,
        bench.run(bench.to(entry(fake, "http"), deps={"roots": [tmp_path]})) as server,
    ):
        result = await server.call_tool("ask", {})
        assert tmp_path.as_uri() in result["content"][0]["text"]
