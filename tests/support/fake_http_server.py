"""A fake MCP server on loopback: streamable HTTP at `/mcp`, the older SSE at `/sse`.

Described like `fake_server`. It checks headers, counts what it was asked, and drops connections on
demand. It runs inside the test's own event loop.
"""

import json
import secrets
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
import anyio.from_thread
import anyio.to_thread
from anyio.streams.buffered import BufferedByteReceiveStream

from tests.support.fake_server import FakeProtocol
from tests.support.fake_tools import Json

_HEAD_LIMIT = 64 * 1024
_REASONS = {
    200: "OK",
    202: "Accepted",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    503: "Unavailable",
}


@dataclass
class Request:
    """One HTTP request; header names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass(eq=False)
class _Connection:
    """One TCP connection and what is written to it."""

    stream: anyio.abc.SocketStream
    lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def send(self, data: bytes) -> None:
        async with self.lock:
            await self.stream.send(data)

    async def respond(
        self, status: int, body: bytes = b"", kind: str = "application/json", **headers: str
    ) -> None:
        lines = [f"HTTP/1.1 {status} {_REASONS[status]}", f"Content-Length: {len(body)}"]
        lines += [f"Content-Type: {kind}"] if body else []
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode() + body)

    async def open_events(self, **headers: str) -> None:
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Transfer-Encoding: chunked"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode())

    async def event(self, data: str, name: str = "message") -> None:
        words = f"event: {name}\ndata: {data}\n\n".encode()
        await self.send(f"{len(words):x}\r\n".encode() + words + b"\r\n")

    async def close_events(self) -> None:
        await self.send(b"0\r\n\r\n")


class _Peer:
    """The client behind one request, reached from the thread that answers it."""

    def __init__(self, server: "FakeHttpServer", events: _Connection) -> None:
        self._server = server
        self._events = events

    def send(self, message: Json) -> None:
        self.send_raw(json.dumps(message).encode())

    def send_raw(self, line: bytes) -> None:
        for one in line.splitlines():
            anyio.from_thread.run(self._events.event, one.decode())

    def request(self, method: str, params: Json) -> Json:
        return anyio.from_thread.run(self._server.ask, self._events, method, params)

    def crash(self, code: int) -> None:
        anyio.from_thread.run_sync(self._server.drop_connections)


class FakeHttpServer:
    """What the test sees. `headers` must be in every request, else the answer is 401.

    `documents` are JSON that anyone may get, by path.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        only_sse: bool = False,
    ) -> None:
        self.protocol = FakeProtocol(spec)
        self.required = {name.lower(): value for name, value in (headers or {}).items()}
        self.only_sse = only_sse
        self.documents: dict[str, Json] = {}
        self.requests: list[Request] = []
        self.available = True
        self.refusal_body = b""
        self.port = 0
        self._session = secrets.token_hex(8)
        self._connections: set[_Connection] = set()
        self._listening: dict[str, _Connection] = {}
        self._asked: dict[str, tuple[anyio.Event, Json]] = {}

    @property
    def url(self) -> str:
        """Where streamable HTTP is."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def sse_url(self) -> str:
        """Where the older SSE is."""
        return f"http://127.0.0.1:{self.port}/sse"

    def refusal(self, request: Request) -> tuple[int, dict[str, str]] | None:
        """The status and headers with which this request is turned away, if it is."""
        missing = any(request.headers.get(name) != value for name, value in self.required.items())
        return (401, {}) if missing else None

    def drop_connections(self) -> None:
        """Cut every connection, and forget the session, as a server that restarts does."""
        self._session = secrets.token_hex(8)
        self._listening.clear()
        for connection in list(self._connections):
            raw: Any = connection.stream.extra(anyio.abc.SocketAttribute.raw_socket)
            raw.shutdown(2)

    async def ask(self, events: _Connection, method: str, params: Json) -> Json:
        """Ask the client something and wait for its whole answer."""
        key = f"server-{secrets.token_hex(4)}"
        answered, box = anyio.Event(), Json()
        self._asked[key] = answered, box
        question = {"jsonrpc": "2.0", "id": key, "method": method, "params": params}
        await events.event(json.dumps(question))
        await answered.wait()
        return box

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["FakeHttpServer"]:
        """Listen until the block ends."""
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.port = listener.extra(anyio.abc.SocketAttribute.local_port)
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, self._serve, name="fake HTTP server")
            try:
                yield self
            finally:
                self.protocol.cancel_all()
                group.cancel_scope.cancel()

    async def _serve(self, stream: anyio.abc.SocketStream) -> None:
        connection = _Connection(stream)
        self._connections.add(connection)
        reader = BufferedByteReceiveStream(stream)
        try:
            async with stream:
                while True:
                    await self._handle(await _read(reader), connection)
        except (
            anyio.EndOfStream,
            anyio.IncompleteRead,
            anyio.BrokenResourceError,
            anyio.ClosedResourceError,
        ):
            pass
        finally:
            self._connections.discard(connection)

    async def _handle(self, request: Request, connection: _Connection) -> None:
        self.requests.append(request)
        path = request.path.partition("?")[0]
        if not self.available:
            await connection.respond(503)
        elif path in self.documents:
            await connection.respond(200, json.dumps(self.documents[path]).encode())
        elif (refusal := self.refusal(request)) is not None:
            status, headers = refusal
            await connection.respond(status, self.refusal_body, **headers)
        elif path == "/sse" and request.method == "GET":
            await self._listen(connection, endpoint=True)
        elif path == "/messages":
            await self._old_post(request, connection)
        elif path == "/mcp" and not self.only_sse:
            await self._streamable(request, connection)
        else:
            await connection.respond(404)

    async def _streamable(self, request: Request, connection: _Connection) -> None:
        if request.method == "DELETE":
            await connection.respond(200)
        elif request.method == "GET":
            await self._listen(connection, endpoint=False)
        elif self._forgotten(request):
            await connection.respond(404)
        else:
            await self._post(json.loads(request.body), connection)

    def _forgotten(self, request: Request) -> bool:
        given = request.headers.get("mcp-session-id")
        return given is not None and given != self._session

    async def _post(self, message: Json, connection: _Connection) -> None:
        if self._answers(message) or "id" not in message:
            await anyio.to_thread.run_sync(self.protocol.handle, message, _Peer(self, connection))
            await connection.respond(202)
            return
        headers = {"Mcp_Session_Id": self._session} if message["method"] == "initialize" else {}
        await connection.open_events(**headers)
        await self._answer(message, connection)
        await connection.close_events()

    async def _answer(self, message: Json, events: _Connection) -> None:
        await anyio.to_thread.run_sync(
            self.protocol.handle, message, _Peer(self, events), abandon_on_cancel=True
        )

    async def _listen(self, connection: _Connection, *, endpoint: bool) -> None:
        await connection.open_events()
        key = secrets.token_hex(8)
        self._listening[key] = connection
        if endpoint:
            await connection.event(f"/messages?session={key}", "endpoint")
        await anyio.sleep_forever()

    async def _old_post(self, request: Request, connection: _Connection) -> None:
        events = self._listening.get(request.path.partition("session=")[2])
        if events is None:
            await connection.respond(404)
            return
        # The answer goes elsewhere and may take long: what is posted next must not wait for it.
        await connection.respond(202, Connection="close")
        message: Json = json.loads(request.body)
        if not self._answers(message):
            await self._answer(message, events)

    def _answers(self, message: Json) -> bool:
        waiting = self._asked.pop(str(message.get("id")), None) if "method" not in message else None
        if waiting is not None:
            waiting[1].update(message)
            waiting[0].set()
        return waiting is not None


async def _read(reader: BufferedByteReceiveStream) -> Request:
    head = (await reader.receive_until(b"\r\n\r\n", _HEAD_LIMIT)).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    length = int(headers.get("content-length", "0"))
    body = await reader.receive_exactly(length) if length else b""
    return Request(method, path, headers, body)
