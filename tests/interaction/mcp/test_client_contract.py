"""What our client does with a server, at every revision and over every transport.

The server is `fake_server`, which shares no code with ours: as a process on stdio, over Streamable
HTTP, and over HTTP+SSE at the revision that has nothing else.
"""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.connection_bench import OBJECT, Bench, has_line_with, until
from tests.support.fake_http_server import FakeHttpServer

from openclaw.mcp.revisions import REVISIONS
from openclaw.mcp_client.errors import RemoteError
from openclaw.mcp_client.lifecycle.connection import ServerConnection

pytestmark = pytest.mark.subprocess

EVERY = tuple(REVISIONS)
LATEST = "2026-07-28"
WITH_QUESTIONS = tuple(name for name, one in REVISIONS.items() if one.form_elicitation)


def at(*revisions: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("revision", revisions)


@pytest.fixture(params=["stdio", "remote"])
def transport(request: pytest.FixtureRequest) -> str:
    return request.param


class Host:
    """A client of one revision over one transport; `serve` has it use a server."""

    def __init__(self, bench: Bench, transport: str, revision: str) -> None:
        self._bench, self._transport = bench, transport
        self._revision = REVISIONS[revision]
        self.requests_file = bench.directory.with_name("requests")

    @asynccontextmanager
    async def serve(self, spec: dict[str, Any], **deps: Any) -> AsyncGenerator[ServerConnection]:
        whole = {
            **spec,
            "tools": [{"inputSchema": OBJECT, **tool} for tool in spec.get("tools", ())],
            "revisions": [self._revision.name],
            "discover": "answer" if self._revision.stateless else "refuse",
            "faults": {"requestsFile": str(self.requests_file)},
        }
        if self._transport == "stdio":
            async with self._bench.serve(whole, deps=deps, sampling=True) as server:
                yield server
            return
        async with FakeHttpServer(whole).running() as fake:
            http = self._revision.streamable_http
            url, kind = (fake.url, "http") if http else (fake.sse_url, "sse")
            entry = {"url": url, "transport": kind, "sampling": True}
            async with self._bench.run(self._bench.to(entry, deps=deps)) as server:
                yield server

    def has_asked_for(self, words: str) -> bool:
        return has_line_with(self.requests_file, words)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[Bench]:
    bench = Bench(tmp_path / "cache", dict(os.environ))
    yield bench
    await bench.reaper.aclose()


@pytest.fixture
def host(bench: Bench, transport: str, revision: str) -> Host:
    return Host(bench, transport, revision)


def text(result: dict[str, Any]) -> str:
    return "\n".join(block["text"] for block in result["content"])


def asks(step: str) -> dict[str, Any]:
    return {"tools": [{"name": "ask", "does": {step: {}}}]}


@at(*EVERY)
async def test_a_revision_is_agreed_on_and_the_server_introduces_itself(
    host: Host, revision: str
) -> None:
    async with host.serve({"tools": [], "instructions": "Be kind."}) as server:
        assert server.snapshot.protocol == revision
        assert (server.snapshot.server_name, server.snapshot.server_version) == ("fake", "1.0.0")
        assert server.listing.instructions == "Be kind."


@at(LATEST)
async def test_each_request_says_who_asks(host: Host, revision: str) -> None:
    async with host.serve({"tools": [{"name": "meta", "does": {"meta": 1}}]}) as server:
        meta = json.loads(text(await server.call_tool("meta", {})))
    assert meta["io.modelcontextprotocol/protocolVersion"] == revision
    assert "elicitation" in meta["io.modelcontextprotocol/clientCapabilities"]
    assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "openclaw"


@at(*EVERY)
async def test_tools_are_listed_to_the_last_page_and_called(host: Host) -> None:
    spec = {"tools": [{"name": name} for name in ("one", "two", "three")], "pageSize": 1}
    async with host.serve(spec) as server:
        assert [tool.name for tool in server.listing.tools] == ["one", "two", "three"]
        assert json.loads(text(await server.call_tool("two", {"a": "ä"}))) == {"a": "ä"}


@at(*EVERY)
async def test_a_tool_that_fails_is_told_from_a_request_that_is_refused(host: Host) -> None:
    error = {"code": -32055, "message": "not today", "data": {"until": "tomorrow"}}
    tools = [
        {"name": "fail", "does": {"errorText": "no such city"}},
        {"name": "refuse", "does": {"error": error}},
    ]
    async with host.serve({"tools": tools}) as server:
        failed = await server.call_tool("fail", {})
        assert (failed["isError"], text(failed)) == (True, "no such city")
        with pytest.raises(RemoteError, match="not today") as refused:
            await server.call_tool("refuse", {})
        assert refused.value.code == -32055


@at(*EVERY)
async def test_structured_content_and_blocks_of_every_kind_arrive_as_they_were_sent(
    host: Host,
) -> None:
    result = {
        "content": [
            {"type": "text", "text": "18 °C"},
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "mem://a", "name": "a"},
            {"type": "resource", "resource": {"uri": "mem://a", "text": "alpha"}},
        ],
        "structuredContent": {"celsius": 18},
    }
    tools = [{"name": "weather", "does": {"result": result}}]
    async with host.serve({"tools": tools}) as server:
        arrived = await server.call_tool("weather", {})
    assert arrived["content"] == result["content"]
    assert arrived["structuredContent"] == {"celsius": 18}


@at(*EVERY)
async def test_progress_arrives_while_a_call_runs(host: Host) -> None:
    steps = {"progress": {"times": 3}, "text": "done"}
    heard: list[tuple[float, float | None, str | None]] = []

    def hear(done: float, total: float | None, message: str | None) -> None:
        heard.append((done, total, message))

    async with host.serve({"tools": [{"name": "work", "does": steps}]}) as server:
        assert text(await server.call_tool("work", {}, on_progress=hear)) == "done"
    assert heard[0][:2] == (1, 3)
    assert [done for done, _, _ in heard] == sorted(done for done, _, _ in heard)


@at(*EVERY)
async def test_calls_run_side_by_side_and_one_that_is_given_up_ends_alone(host: Host) -> None:
    tools = [{"name": "hang", "does": {"hang": 1}}, {"name": "echo"}]
    async with host.serve({"tools": tools}) as server:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(partial(server.call_tool, "hang", {}))
                await until(lambda: host.has_asked_for('"hang"'))
                assert json.loads(text(await server.call_tool("echo", {"n": 1}))) == {"n": 1}
                scope.cancel()
        assert json.loads(text(await server.call_tool("echo", {"n": 2}))) == {"n": 2}


@at(*EVERY)
async def test_resources_and_their_templates_are_listed_and_read(host: Host) -> None:
    spec = {
        "resources": [{"uri": "mem://a", "name": "a", "text": "alpha"}],
        "resourceTemplates": [{"uriTemplate": "mem://t/{x}", "name": "t"}],
    }
    async with host.serve(spec) as server:
        assert [one.uri for one in server.listing.resources] == ["mem://a"]
        assert [one.uri_template for one in server.listing.resource_templates] == ["mem://t/{x}"]
        assert (await server.read_resource("mem://a"))["contents"][0]["text"] == "alpha"
        with pytest.raises(RemoteError):
            await server.read_resource("gone://b")


@at(*EVERY)
async def test_prompts_are_listed_and_filled_in(host: Host) -> None:
    message = {"role": "user", "content": {"type": "text", "text": "Hello {who}"}}
    async with host.serve({"prompts": [{"name": "greet", "messages": [message]}]}) as server:
        assert [prompt.name for prompt in server.listing.prompts] == ["greet"]
        prompt = await server.get_prompt("greet", {"who": "Ann"})
        assert prompt["messages"][0]["content"]["text"] == "Hello Ann"


@at(*EVERY)
async def test_values_for_an_argument_are_suggested(host: Host) -> None:
    spec = {"prompts": [{"name": "greet"}], "completes": {"who": ["Ann", "Anton", "Bea"]}}
    begun = {
        "ref": {"type": "ref/prompt", "name": "greet"},
        "argument": {"name": "who", "value": "An"},
    }
    async with host.serve(spec) as server:
        assert await server.complete(begun) == ["Ann", "Anton"]


@at(*EVERY)
async def test_a_changed_list_is_read_again(host: Host, revision: str) -> None:
    new = [{"name": "new", "inputSchema": OBJECT}]
    async with host.serve({"tools": [{"name": "change", "does": {"changeTools": new}}]}) as server:
        if REVISIONS[revision].listen:
            await until(lambda: host.has_asked_for("subscriptions/listen"))
        await server.call_tool("change", {})
        await until(lambda: [tool.name for tool in server.listing.tools] == ["new"])


@at(*EVERY)
async def test_an_updated_resource_is_told_to_whoever_subscribed(host: Host) -> None:
    resource = {"uri": "mem://a", "name": "a", "text": "new"}
    spec = {
        "tools": [{"name": "update", "does": {"updateResource": resource}}],
        "resources": [{**resource, "text": "old"}],
    }
    async with host.serve(spec) as server:
        heard = list[str]()
        server.on_resource_updated = heard.append
        await server.subscribe(["mem://a"])
        await until(lambda: host.has_asked_for('["mem://a"]') or host.has_asked_for("/subscribe"))
        await server.call_tool("update", {})
        await until(lambda: "mem://a" in heard)


@at(*WITH_QUESTIONS)
async def test_the_user_answers_a_servers_question(host: Host) -> None:
    async def user(server: str, params: Any) -> dict[str, Any]:
        assert (server, params["message"]) == ("fake", "Your name?")
        return {"action": "accept", "content": {"name": "Ann"}}

    async with host.serve(asks("elicit"), on_elicitation=user) as server:
        answer = json.loads(text(await server.call_tool("ask", {})))
    assert answer == {"action": "accept", "content": {"name": "Ann"}}


@at(*EVERY)
async def test_a_server_may_ask_the_model_where_that_is_allowed(host: Host) -> None:
    async def model(server: str, params: Any) -> dict[str, Any]:
        assert params["maxTokens"] == 50
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "hello"}}

    async with host.serve(asks("sampling"), on_sampling=model) as server:
        answer = json.loads(text(await server.call_tool("ask", {})))
    assert answer["content"]["text"] == "hello"


@at(*EVERY)
async def test_a_server_learns_the_roots(host: Host, tmp_path: Path) -> None:
    async with host.serve(asks("roots"), roots=[tmp_path]) as server:
        answer = json.loads(text(await server.call_tool("ask", {})))
    assert answer["roots"] == [{"uri": tmp_path.as_uri(), "name": tmp_path.name}]


@at(*EVERY)
async def test_half_a_surrogate_pair_costs_a_character_and_not_the_result(host: Host) -> None:
    tools = [{"name": "say", "does": {"text": "a\ud83db"}}]
    async with host.serve({"tools": tools}) as server:
        assert text(await server.call_tool("say", {})) == "a\N{REPLACEMENT CHARACTER}b"
