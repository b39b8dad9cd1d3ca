"""Remote servers that answer badly, by a bare HTTP server that says what it is told."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.support.connection_bench import Bench, until

from openclaw.mcp_client.errors import InvalidResult, RemoteError
from openclaw.mcp_client.lifecycle.state import ServerState

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
                except (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError):
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
            with pytest.raises(InvalidResult, match="over the limit of 100000 bytes"):
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
            assert server.snapshot.last_error == "the server answered 500 to a message"


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
