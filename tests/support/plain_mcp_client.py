"""A client of any revision over stdio or HTTP, which checks nothing: what a server says is for the test.

It knows just enough of the protocol to be understood: the handshake, `_meta`, headers and streams.
"""

import json
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import httpx2
from anyio.abc import TaskGroup

from openclaw.mcp import http, names
from openclaw.mcp.revisions import Revision
from openclaw.mcp.sse import EventDecoder
from openclaw.mcp_server.conversation import Service
from openclaw.mcp_server.stdio import StdioServer, Tell
from openclaw.stdio.lines import LineSplitter
from openclaw.stdio.pipes import LineReader, open_reader, open_writer
from tests.support.conformance_server import SuiteService, suite_listening

Json = dict[str, Any]
ACCEPT = {"accept": http.ACCEPT_BOTH, "content-type": http.JSON}


class Refused(Exception):
    """Raised when the answer is an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(str(error))
        self.code: int = error["code"]
        self.error = error


class Transport(Protocol):
    async def post(self, message: Any, headers: dict[str, str]) -> None:
        """Send this; what comes back is given to the client's `arrived`."""
        ...


@dataclass(eq=False)
class PlainClient:
    """`answers` says what to reply to each method that the server asks with."""

    revision: Revision
    transport: Transport
    tasks: TaskGroup
    capabilities: Json = field(default_factory=dict[str, Any])
    answers: dict[str, Json] = field(default_factory=dict[str, Json])
    notifications: list[Json] = field(default_factory=list[Json])
    asked: list[Json] = field(default_factory=list[Json])
    sent: int = 0
    server: Json = field(default_factory=dict[str, Any])
    _waiting: dict[Any, Json] = field(default_factory=dict[Any, Json])
    _news: anyio.Event = field(default_factory=anyio.Event)

    async def begin(self) -> None:
        """The handshake, or asking what the server is."""
        if self.revision.stateless:
            self.server = await self.request(names.DISCOVER)
            return
        self.server = await self.request(
            names.INITIALIZE,
            protocolVersion=self.revision.name,
            capabilities=self.capabilities,
            clientInfo={"name": "plain", "version": "1"},
        )
        await self.notify(names.INITIALIZED)

    def message(self, method: str, params: Json, meta: Json | None = None) -> Json:
        """A request with a new id, as this revision has it."""
        self.sent += 1
        own: Json = dict(meta or {})
        if self.revision.stateless:
            own = {
                names.META_VERSION: self.revision.name,
                names.META_CAPABILITIES: self.capabilities,
                names.META_CLIENT: {"name": "plain", "version": "1"},
                **own,
            }
        params = {**params, "_meta": own} if own else params
        return {"jsonrpc": "2.0", "id": f"plain-{self.sent}", "method": method, "params": params}

    async def request(self, method: str, /, meta: Json | None = None, **params: Any) -> Json:
        """The result; raises `Refused`."""
        message = self.message(method, params, meta)
        self.start(message)
        return await self.result_of(message["id"])

    def start(self, message: Json) -> None:
        headers: dict[str, str] = {}
        if self.revision.routing_headers:
            headers = http.routing_headers(message["method"], message["params"])
        self.tasks.start_soon(self.transport.post, message, headers)

    async def result_of(self, id: Any) -> Json:
        answer = await self.answer_to(id)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    async def answer_to(self, id: Any) -> Json:
        await self.until(lambda: id in self._waiting)
        return self._waiting.pop(id)

    async def send(self, message: Any) -> None:
        await self.transport.post(message, {})

    def has_answer_to(self, id: Any) -> bool:
        return id in self._waiting

    async def notify(self, method: str, **params: Any) -> None:
        message: Json = {"jsonrpc": "2.0", "method": method, "params": params}
        await self.send(message)

    async def call(self, tool: str, /, meta: Json | None = None, **arguments: Any) -> Json:
        """A tool's result; what it asks for in results is answered."""
        params: Json = {"name": tool, "arguments": arguments}
        while True:
            result = await self.request(names.TOOLS_CALL, meta, **params)
            if result.get("resultType") != "input_required":
                return result
            requests: Json = result["inputRequests"]
            self.asked += requests.values()
            params["inputResponses"] = {
                key: self.answers[asked["method"]] for key, asked in requests.items()
            }
            if "requestState" in result:
                params["requestState"] = result["requestState"]

    async def arrived(self, message: Any) -> None:
        for one in message if isinstance(message, list) else [message]:  # pyright: ignore[reportUnknownVariableType]
            await self._take(one)  # pyright: ignore[reportUnknownArgumentType]
        self._news.set()
        self._news = anyio.Event()

    async def _take(self, message: Json) -> None:
        if "method" not in message:
            self._waiting[message["id"]] = message
        elif "id" in message:
            self.asked.append(message)
            if message["method"] in self.answers:
                result = self.answers[message["method"]]
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                self.tasks.start_soon(self.send, answer)
        else:
            self.notifications.append(message)

    def notified(self, method: str) -> list[Json]:
        return [one.get("params", {}) for one in self.notifications if one["method"] == method]

    async def until(self, holds: Callable[[], bool]) -> None:
        with anyio.fail_after(60):
            while not holds():
                await self._news.wait()


# ---- stdio: pipes in this process


@dataclass(eq=False)
class PipeTransport:
    lines: LineReader
    wire_out: int
    arrived: Callable[[Any], Any] | None = None
    writing: anyio.Lock = field(default_factory=anyio.Lock)

    async def post(self, message: Any, headers: dict[str, str]) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        async with self.writing:  # in the order in which they are sent
            await anyio.to_thread.run_sync(os.write, self.wire_out, data + b"\n")

    async def close(self) -> None:
        async with self.writing:
            os.close(self.wire_out)

    async def read(self) -> None:
        while (line := await self.lines.next()) is not None:
            assert isinstance(line, bytes)
            assert self.arrived is not None
            await self.arrived(json.loads(line))


async def _forever(tell: Tell) -> None:
    await anyio.sleep_forever()


@asynccontextmanager
async def over_stdio(revision: Revision, **options: Any) -> AsyncGenerator[PlainClient]:
    """A client of the conformance suite's server."""
    async with anyio.create_task_group() as tasks:
        service = SuiteService(tasks)

        async def prepare(tell: Tell) -> None:
            service.tell_all = tell
            await anyio.sleep_forever()

        async with stdio_client_of(service, revision, prepare, **options) as client:
            yield client
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def stdio_client_of(
    service: Service,
    revision: Revision,
    prepare: Callable[[Tell], Awaitable[None]] = _forever,
    **options: Any,
) -> AsyncGenerator[PlainClient]:
    """A client of this service, over pipes."""
    server_in, client_out = os.pipe()
    client_in, server_out = os.pipe()
    async with anyio.create_task_group() as tasks:
        lines = LineReader(open_reader(server_in), LineSplitter())
        server = StdioServer(lines, open_writer(server_out), service, prepare)
        tasks.start_soon(server.run, name="server")
        answers = LineReader(open_reader(client_in), LineSplitter())
        transport = PipeTransport(answers, client_out)
        client = PlainClient(revision, transport, tasks, **options)
        transport.arrived = client.arrived
        tasks.start_soon(transport.read, name="client")
        await client.begin()
        yield client
        await transport.close()
        tasks.cancel_scope.cancel()
        lines.close()  # the loop may not watch a number that is used again
        transport.lines.close()
    for end in (server_in, client_in, server_out):
        os.close(end)


# ---- HTTP


@dataclass(eq=False)
class HttpTransport:
    url: str
    http: httpx2.AsyncClient
    revision: Revision
    session: str | None = None
    arrived: Callable[[Any], Any] | None = None
    streams: dict[Any, anyio.CancelScope] = field(
        default_factory=dict[Any, anyio.CancelScope]
    )  # by the id of their request

    def headers(self, more: dict[str, str]) -> dict[str, str]:
        headers = dict(ACCEPT)
        if self.session is not None:
            headers[http.SESSION_HEADER] = self.session
        if self.revision.version_header and (self.session or self.revision.stateless):
            headers[http.VERSION_HEADER] = self.revision.name
        return headers | more

    async def post(self, message: Any, headers: dict[str, str]) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        id = message.get("id") if isinstance(message, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        with anyio.CancelScope() as self.streams[id]:
            async with self.http.stream(
                "POST", self.url, content=data, headers=self.headers(headers)
            ) as answer:
                self.session = answer.headers.get(http.SESSION_HEADER, self.session)
                await self._read(answer)

    async def read(self) -> None:
        """The session's own stream."""
        headers = self.headers({"accept": http.EVENT_STREAM})
        async with self.http.stream("GET", self.url, headers=headers) as answer:
            await self._read(answer)

    async def _read(self, answer: httpx2.Response) -> None:
        assert self.arrived is not None
        if http.media_type(answer.headers.get("content-type")) != http.EVENT_STREAM:
            body = await answer.aread()
            if body:
                await self.arrived(json.loads(body))
            return
        decoder = EventDecoder()
        async for chunk in answer.aiter_bytes():
            for event in decoder.feed(chunk):
                if event.data:
                    await self.arrived(json.loads(event.data))


@asynccontextmanager
async def over_http(revision: Revision, **options: Any) -> AsyncGenerator[PlainClient]:
    """The same over HTTP."""
    async with suite_listening() as url, http_client_of(url, revision, **options) as client:
        yield client


@asynccontextmanager
async def http_client_of(
    url: str, revision: Revision, headers: Mapping[str, str] | None = None, **options: Any
) -> AsyncGenerator[PlainClient]:
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=60, headers=headers) as http_client,
        anyio.create_task_group() as tasks,
    ):
        transport = HttpTransport(url, http_client, revision)
        client = PlainClient(revision, transport, tasks, **options)
        transport.arrived = client.arrived
        await client.begin()
        if not revision.stateless:
            tasks.start_soon(transport.read, name="the session's own stream")
        yield client
        tasks.cancel_scope.cancel()


TRANSPORTS = {"stdio": over_stdio, "http": over_http}
