"""Remote servers that answer badly, by a bare HTTP server that says what it is told."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.support.connection_bench import Bench, LoopWatch, until
from tests.support.fake_http_server import FakeHttpServer
from tests.support.loop_time import pass_time, pass_time_after

from openclaw.mcp_client.errors import Interrupted, InvalidResult, RemoteError, TooLarge
from openclaw.mcp_client.lifecycle.server_state import ServerState
from openclaw.mcp_client.session.http import MAX_UNDELIVERED
from openclaw.mcp_client.session.http_sse import endpoint_of

Handler = Callable[[str, dict[str, Any], anyio.abc.SocketStream], Awaitable[None]]
GREETING: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bare", "version": "1"},
}


async def respond(
    stream: anyio.abc.SocketStream, status: int, body: bytes = b"", kind: str = "application/json"
) -> None:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    await stream.send(head.encode() + body)


async def answer(stream: anyio.abc.SocketStream, message: dict[str, Any], result: Any) -> None:
    body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    await respond(stream, 200, json.dumps(body).encode())


async def greet(stream: anyio.abc.SocketStream, message: dict[str, Any]) -> bool:
    """Answer all that comes before a call; whether there was something to answer."""
    match message.get("method"):
        case "initialize":
            await answer(stream, message, GREETING)
        case "tools/list":
            await answer(stream, message, {"tools": []})
        case "server/discover":
            await respond(stream, 404)
        case "notifications/initialized":
            await respond(stream, 202)
        case _:
            return False
    return True


@asynccontextmanager
async def serving(handler: Handler) -> AsyncGenerator[str]:
    async def connection(stream: anyio.abc.SocketStream) -> None:
        reader = BufferedByteReceiveStream(stream)
        async with stream:
            while True:
                try:
                    head = (await reader.receive_until(b"\r\n\r\n", 65536)).decode().lower()
                    length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
                    body = await reader.receive_exactly(length) if length else b"{}"
                    await handler(head.split(" ")[0].upper(), json.loads(body), stream)
                except (
                    anyio.EndOfStream,
                    anyio.IncompleteRead,
                    anyio.BrokenResourceError,
                    anyio.ClosedResourceError,
                ):
                    return

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, connection)
        yield f"http://127.0.0.1:{port}/"
        group.cancel_scope.cancel()


async def test_a_body_over_the_limit_is_that_calls_error(bench: Bench):
    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if not await greet(stream, message):
            await answer(stream, message, {"content": [], "x": "y" * 300_000})

    async with serving(handle) as url:
        entry = {"url": url, "transport": "http", "maxMessageBytes": 100_000}
        async with bench.run(bench.to(entry)) as server:
            with pytest.raises(TooLarge, match="over the limit of 100000 bytes"):
                await server.call_tool("big", {})
            assert server.snapshot.state is ServerState.READY


async def test_an_error_status_is_that_calls_error(bench: Bench):
    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if not await greet(stream, message):
            await respond(stream, 500)

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        with pytest.raises(RemoteError):
            await server.call_tool("x", {})
        assert server.snapshot.state is ServerState.READY


@pytest.mark.parametrize(
    ("events", "words"),
    [
        (b"event: endpoint\ndata: http://evil.example/post\n\n", "on another origin"),
        (b"event: endpoint\ndata: http://[::1\n\n", "is not an address"),
        (b": nothing\n\n", "before the server said where to post"),
    ],
)
async def test_an_sse_server_that_sends_us_elsewhere_is_refused(
    bench: Bench, events: bytes, words: str
):
    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        await respond(stream, 200, events, "text/event-stream")

    async with serving(handle) as url:
        entry = {"url": url, "transport": "sse", "maxRestarts": 0}
        async with bench.run(bench.to(entry), ready=False) as server:
            await until(lambda: server.snapshot.state is ServerState.FAILED)
            assert words in (server.snapshot.last_error or "")


async def test_an_sse_server_that_refuses_a_message_is_lost(bench: Bench):
    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if method == "POST":
            await respond(stream, 500)
            return
        head = "HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\n\r\n"
        events = "event: endpoint\ndata: /post\n\nevent: message\ndata: {oops\n\n"
        await stream.send((head + events).encode())
        await anyio.sleep_forever()

    async with serving(handle) as url:
        entry = {"url": url, "transport": "sse", "maxRestarts": 0}
        async with bench.run(bench.to(entry), ready=False) as server:
            await until(lambda: server.snapshot.state is ServerState.FAILED)
            assert server.snapshot.last_error == "the server answered 500"


@pytest.mark.parametrize("status", [401, 403])
async def test_both_refusals_ask_for_a_login(bench: Bench, status: int):
    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        await respond(stream, status)

    async with serving(handle) as url, bench.run(bench.to({"url": url}), ready=False) as server:
        await until(lambda: server.snapshot.state is ServerState.NEEDS_LOGIN)


async def test_a_remote_server_without_an_address_cannot_work(bench: Bench):
    async with bench.run(bench.to({"transport": "http"}), ready=False) as server:
        await until(lambda: server.snapshot.state is ServerState.FAILED)
        assert server.snapshot.last_error == "a remote server needs a `url`"


def events(stream: anyio.abc.SocketStream, data: bytes) -> Awaitable[None]:
    return respond(stream, 200, b"data: " + data + b"\n\n", "text/event-stream")


@pytest.mark.parametrize("kind", ["json", "events"])
async def test_a_flood_of_values_costs_that_call_and_no_time(bench: Bench, kind: str):
    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if not await greet(stream, message):
            head = json.dumps({"jsonrpc": "2.0", "id": message["id"]})[:-1]
            flood = f'{head}, "result": {{"content": [{"[]," * 3_000_000}[]]}}}}'.encode()
            await (respond(stream, 200, flood) if kind == "json" else events(stream, flood))

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        async with LoopWatch().watching() as watch:
            with pytest.raises(TooLarge, match="values"):
                await server.call_tool("flood", {})
        assert watch.longest < 1.5
        assert server.snapshot.state is ServerState.READY


async def test_a_call_over_http_may_take_as_long_as_is_configured(bench: Bench):
    """Well over five minutes, which is where HTTP clients like to give up."""
    asked, release = anyio.Event(), anyio.Event()

    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if not await greet(stream, message):
            asked.set()
            await release.wait()
            await answer(stream, message, {"content": [{"type": "text", "text": "at last"}]})

    async def pass_minutes() -> None:
        await asked.wait()
        pass_time(800)
        await anyio.wait_all_tasks_blocked()
        release.set()

    async with serving(handle) as url, anyio.create_task_group() as group:
        config = bench.to({"url": url, "transport": "http", "toolTimeout": 900_000})
        async with bench.run(config) as server:
            group.start_soon(pass_minutes)
            result = await server.call_tool("slow", {})
            assert result["content"][0]["text"] == "at last"


async def test_a_flood_of_events_holds_nobody_up(bench: Bench):
    """20,000 notifications come before the answer, in the same stream."""
    note = json.dumps(
        {
            "jsonrpc": "2.0",
            "method": "notifications/message",
            "params": {"level": "info", "data": 1},
        }
    )

    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if not await greet(stream, message):
            result = {"content": [{"type": "text", "text": "here"}]}
            last = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
            flood = f"event: message\ndata: {note}\n\n" * 20_000
            body = f"{flood}event: message\ndata: {last}\n\n".encode()
            await respond(stream, 200, body, "text/event-stream")

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        async with LoopWatch().watching() as watch:
            result = await server.call_tool("flood", {})
        assert result["content"][0]["text"] == "here"
        assert watch.longest < 1.5
        assert server.snapshot.state is ServerState.READY


def message_bytes(id: Any, text: str = "here") -> bytes:
    result = {"content": [{"type": "text", "text": text}]}
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()


@pytest.mark.parametrize("kind", ["json", "events"])
async def test_an_answer_to_another_request_is_not_taken_for_ours(bench: Bench, kind: str):
    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if not await greet(stream, message):
            body = message_bytes(message["id"] + 1000, "somebody else's")
            await (respond(stream, 200, body) if kind == "json" else events(stream, body))

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        with anyio.fail_after(60), pytest.raises((InvalidResult, Interrupted)):
            await server.call_tool("x", {})
        assert server.snapshot.state is ServerState.READY


@pytest.mark.parametrize("body", [b"<html>", b'{"jsonrpc": "2.0", "result": [1]}', b"\xff{", b""])
async def test_a_malformed_answer_is_said_plainly_and_prints_nothing(
    bench: Bench, body: bytes, caplog: pytest.LogCaptureFixture
):
    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if not await greet(stream, message):
            await respond(stream, 200, body)

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        with pytest.raises(InvalidResult, match="the server's answer cannot be read") as caught:
            await server.call_tool("x", {})
        assert "validation" not in str(caught.value)
    assert not any(record.exc_info for record in caplog.records)


async def test_half_a_character_and_a_byte_order_mark_cost_nothing_else(bench: Bench):
    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if not await greet(stream, message):
            body = message_bytes(message["id"], "CUT").replace(b"CUT", rb"\ud83d")
            await respond(stream, 200, b"\xef\xbb\xbf" + body)

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        result = await server.call_tool("x", {})
        assert result["content"][0]["text"] == "\ufffd"


async def test_a_stream_that_breaks_off_is_resumed_where_it_was_and_the_call_is_sent_once(
    bench: Bench,
):
    calls: list[dict[str, Any]] = []
    resumed: list[str] = []

    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if method == "GET":
            resumed.append("asked")
            await events(stream, message_bytes(calls[0]["id"]))
        elif message.get("method") == "tools/call":
            calls.append(message)
            await respond(stream, 200, b"id: e1\nretry: 10\ndata:\n\n", "text/event-stream")
        else:
            await greet(stream, message)

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        result = await server.call_tool("x", {})
        assert result["content"][0]["text"] == "here"
    assert (len(calls), len(resumed)) == (1, 1)


async def test_a_stream_is_asked_for_again_if_the_connection_breaks_off_meanwhile(bench: Bench):
    calls: list[dict[str, Any]] = []
    resumed: list[str] = []

    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if method == "GET" and not calls:
            await respond(stream, 405)
        elif method == "GET":
            resumed.append("asked")
            if len(resumed) == 1:
                await stream.aclose()
            else:
                await events(stream, message_bytes(calls[0]["id"]))
        elif message.get("method") == "tools/call":
            calls.append(message)
            await respond(stream, 200, b"id: e1\nretry: 10\ndata:\n\n", "text/event-stream")
        else:
            await greet(stream, message)

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        result = await server.call_tool("x", {})
        assert result["content"][0]["text"] == "here"
    assert (len(calls), len(resumed)) == (1, 2)


async def test_ids_of_events_and_sessions_may_have_any_characters(bench: Bench):
    calls: list[dict[str, Any]] = []

    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if method == "GET" and not calls:
            await respond(stream, 405)
        elif method == "GET":
            await events(stream, message_bytes(calls[0]["id"]))
        elif message.get("method") == "tools/call":
            calls.append(message)
            body = "id: \u00e9v\u00e9nement \U0001f980\nretry: 10\ndata:\n\n".encode()
            await respond(stream, 200, body, "text/event-stream")
        elif message.get("method") == "initialize":
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": GREETING}).encode()
            head = f"Content-Length: {len(body)}\r\nMcp-Session-Id: s\u00e9ance\r\n\r\n"
            await stream.send(f"HTTP/1.1 200 X\r\n{head}".encode() + body)
        else:
            await greet(stream, message)

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        result = await server.call_tool("x", {})
        assert result["content"][0]["text"] == "here"


async def test_a_server_that_asks_faster_than_it_reads_gets_a_bounded_number_of_answers(
    bench: Bench,
):
    """10,000 pings before the answer; the server takes our answers only after its own."""
    pongs: list[Any] = []
    release = anyio.Event()
    ping = b'event: message\ndata: {"jsonrpc":"2.0","id":%d,"method":"ping"}\n\n'
    flood = b"".join(ping % id for id in range(10_000))

    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if "result" in message:
            pongs.append(message["id"])
            await release.wait()
            await respond(stream, 202)
        elif not await greet(stream, message):
            last = b"event: message\ndata: " + message_bytes(message["id"]) + b"\n\n"
            body = last if release.is_set() else flood + last
            await respond(stream, 200, body, "text/event-stream")

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        await server.call_tool("flood", {})
        release.set()
        await server.call_tool("after all that waits", {})
        assert server.snapshot.state is ServerState.READY
    assert 0 < len(pongs) <= MAX_UNDELIVERED


async def test_a_busy_server_says_when_to_try_again(bench: Bench):
    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if not await greet(stream, message):
            head = "HTTP/1.1 429 X\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
            await stream.send(head.encode())

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        with pytest.raises(RemoteError, match="429; try again in 7 s"):
            await server.call_tool("x", {})


async def test_a_dropped_request_fails_alone_and_the_next_is_sent(bench: Bench):
    """Two calls are in flight when the connection of one is cut."""
    asked, release = anyio.Event(), anyio.Event()

    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if await greet(stream, message):
            return
        match message["params"]["name"]:
            case "slow":
                asked.set()
                await release.wait()
                await answer(stream, message, {"content": []})
            case "drop":
                await stream.aclose()
            case _:
                await answer(stream, message, {"content": []})

    finished: list[str] = []
    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):

        async def slow() -> None:
            await server.call_tool("slow", {})
            finished.append("slow")

        async with anyio.create_task_group() as group:
            group.start_soon(slow)
            await asked.wait()
            with pytest.raises(Interrupted):
                await server.call_tool("drop", {})
            await server.call_tool("next", {})
            release.set()
        assert finished == ["slow"]
        assert server.snapshot.restarts == 0


async def test_a_forbidden_call_leaves_the_server_as_it_was(bench: Bench):
    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if await greet(stream, message):
            return
        if message["params"]["name"] == "admin":
            await respond(stream, 403)
        else:
            await answer(stream, message, {"content": []})

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        with pytest.raises(RemoteError, match="403"):
            await server.call_tool("admin", {})
        await server.call_tool("other", {})
        assert server.snapshot.state is ServerState.READY


async def test_a_servers_own_error_of_that_code_is_not_a_lost_server(bench: Bench):
    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if not await greet(stream, message):
            error = {"code": -32000, "message": "no such city"}
            body = {"jsonrpc": "2.0", "id": message["id"], "error": error}
            await respond(stream, 200, json.dumps(body).encode())

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})) as server,
    ):
        with pytest.raises(RemoteError, match="no such city"):
            await server.call_tool("weather", {})


async def test_an_sse_server_that_names_no_endpoint_is_given_up_in_time(bench: Bench):
    answered = anyio.Event()

    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        await stream.send(b"HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\n\r\n")
        answered.set()
        await anyio.sleep_forever()

    async with serving(handle) as url:
        entry = {"url": url, "transport": "sse", "maxRestarts": 0, "timeout": 600_000}
        async with bench.run(bench.to(entry), ready=False) as server:
            await pass_time_after(answered.is_set, 600)
            await until(lambda: server.snapshot.state is ServerState.FAILED)
            assert server.snapshot.last_error == "the server named no endpoint within 600 s"


async def test_a_server_that_was_away_once_is_asked_for_its_revision_again(bench: Bench):
    discovered: list[str] = []

    async def handle(method: str, message: dict[str, Any], stream: anyio.abc.SocketStream) -> None:
        if message.get("method") == "server/discover":
            discovered.append("asked")
        if len(discovered) == 1:
            await respond(stream, 503)
        else:
            await greet(stream, message)

    async with (
        serving(handle) as url,
        bench.run(bench.to({"url": url, "transport": "http"})),
    ):
        assert discovered == ["asked", "asked"]


async def test_the_session_is_ended_when_the_server_is_stopped(bench: Bench):
    fake = FakeHttpServer({"tools": []})
    async with fake.running():
        async with bench.run(bench.to({"url": fake.url, "transport": "http"})):
            pass
        assert [r.headers["mcp-session-id"] for r in fake.requests if r.method == "DELETE"]


@pytest.mark.parametrize(
    ("url", "endpoint", "whole"),
    [
        ("https://Example.COM/sse", "https://example.com:443/post", "https://example.com/post"),
        ("http://example.com:80/sse", "/post?s=1", "http://example.com/post?s=1"),
    ],
)
def test_the_case_of_a_host_and_a_default_port_do_not_make_another_origin(
    url: str, endpoint: str, whole: str
):
    assert endpoint_of(url, endpoint) == whole
