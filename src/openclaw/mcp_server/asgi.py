"""Serves MCP over Streamable HTTP as an ASGI application.

At 2026-07-28 every POST stands alone. Before, there are sessions, each with a connection, streams that
can be resumed, and a stream of its own for what belongs to no request.
"""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.abc import TaskGroup

from openclaw.core.clock import random_id
from openclaw.mcp import http, http_server, json_text, jsonrpc, names
from openclaw.mcp.http import EVENT_STREAM, JSON, SESSION_HEADER
from openclaw.mcp.http_server import (
    Form,
    Headers,
    Refusal,
    StreamLog,
    refuse,
    requests_in,
)
from openclaw.mcp.jsonrpc import ErrorResponse, Id, Incoming, JsonObject, Request
from openclaw.mcp.server import Command, Outgoing, Phase, ServerConnection, outgoing_in
from openclaw.mcp.sse import COMMENT, encode_event
from openclaw.mcp_server.conversation import Conversation, Service

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_MOST_SESSIONS = 1000
_REPLAYED_BYTES = 4 << 20  # per session
_QUEUED = 64  # pieces from which a call waits for its client to read
_STREAM_AFTER = 1.0  # seconds after which an answer is begun as a stream, so that it can be resumed
_KEEP_ALIVE = 15.0
_RETRY_MS = 1000
_STREAM_HEADERS = [
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class HttpService(Service, Protocol):
    def input_schema(self, tool: str) -> JsonObject | None:
        """The input schema of a tool, whose headers are compared with its arguments."""
        ...


class Who(Protocol):
    """Who sends a request; a session belongs to whoever opened it."""

    @property
    def owner(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Piece:
    """Something for a client to read, as JSON and as an event. The answer is the last."""

    json: bytes
    event: bytes
    is_answer: bool
    status: int = 200


class Pipe:
    """What is written to one HTTP response; the client may be gone."""

    def __init__(self) -> None:
        self._put, self._take = anyio.create_memory_object_stream[Piece](_QUEUED)

    async def put(self, piece: Piece) -> None:
        """Waits if the client is far behind."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._put.send(piece)

    def put_nowait(self, piece: Piece) -> bool:
        try:
            self._put.send_nowait(piece)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True

    async def take(self) -> Piece | None:
        """The next piece; None at the end."""
        try:
            return await self._take.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return None

    def take_nowait(self) -> Piece | None:
        try:
            return self._take.receive_nowait()
        except (anyio.WouldBlock, anyio.EndOfStream, anyio.ClosedResourceError):
            return None

    def end(self) -> None:
        """Nothing follows what is in it."""
        self._put.close()

    def break_off(self) -> None:
        """Nobody reads any more."""
        self._take.close()
        self._put.close()


class Stream:
    """One of a session's streams. It outlives the connections through which it is read."""

    def __init__(self, name: str, calls: set[Id]) -> None:
        self.name = name
        self.calls = calls  # those that are not answered yet
        self.pipe: Pipe | None = None
        self.last_sent = 0

    def attach(self, pipe: Pipe) -> None:
        if self.pipe is not None:
            self.pipe.end()
        self.pipe = pipe

    def detach(self, pipe: Pipe) -> None:
        pipe.break_off()
        if self.pipe is pipe:
            self.pipe = None

    def let_go(self) -> None:
        """End the connection, for the client to come back."""
        if self.pipe is not None:
            self.pipe.end()
            self.pipe = None


@dataclass(eq=False)
class Session:
    """A client of a revision before 2026-07-28. Its calls go on when its connections break."""

    service: HttpService
    tasks: TaskGroup
    owner: str
    id: str = field(default_factory=random_id)
    _by_call: dict[Id, Stream] = field(default_factory=dict[Id, Stream])

    def __post_init__(self) -> None:
        self.log = StreamLog(random_id(), _REPLAYED_BYTES)
        self.own = Stream("own", set())  # for what belongs to no request
        self.connection = ServerConnection(self.service.offer)
        self.conversation = Conversation(
            self.connection, self.service, self.tasks, self._write, self.pause
        )

    @property
    def is_idle(self) -> bool:
        return not self._by_call and self.own.pipe is None

    def has_open(self, id: Id) -> bool:
        return id in self._by_call

    def open_stream(self, requests: Sequence[Request]) -> Stream:
        stream = Stream(random_id(), {request.id for request in requests})
        self._by_call.update(dict.fromkeys(stream.calls, stream))
        return stream

    def close_stream(self, stream: Stream) -> None:
        for id in stream.calls:
            self._by_call.pop(id, None)
        stream.calls = set()
        stream.let_go()

    def forget_call(self, id: Id) -> None:
        """A call that its client cancelled gets no answer."""
        stream = self._by_call.pop(id, None)
        if stream is not None:
            stream.calls.discard(id)
            if not stream.calls:
                stream.let_go()

    def pause(self, call: Id) -> None:
        """Have the client come back for the rest (2025-11-25, "the server MAY close the connection")."""
        stream = self._by_call.get(call)
        if stream is not None:
            stream.let_go()

    def open_stream_named(self, name: str) -> Stream | None:
        streams = [self.own, *self._by_call.values()]
        return next((stream for stream in streams if stream.name == name), None)

    async def _write(self, outgoing: Outgoing) -> None:
        stream = self.own if outgoing.call is None else self._by_call.get(outgoing.call, self.own)
        data = outgoing.encode()
        event = self.log.add(stream.name, data)
        piece = Piece(data, event.encode(), outgoing.is_final)
        if stream.pipe is None:
            pass  # it waits in the log for the client to come back
        elif stream is not self.own:
            await stream.pipe.put(piece)
        elif stream.pipe.put_nowait(piece):
            stream.last_sent = event.number
        else:
            stream.let_go()  # nobody waits for a client that does not read this one
        if outgoing.is_final and stream is not self.own:
            self.close_stream(stream)

    async def close(self) -> None:
        await self.conversation.handle(self.connection.close())
        for stream in [self.own, *self._by_call.values()]:
            stream.let_go()


@dataclass(frozen=True, slots=True)
class Exchange:
    """One HTTP request and its response."""

    scope: Scope
    receive: Receive
    send: Send

    @property
    def headers(self) -> Headers:
        return [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in self.scope["headers"]
        ]

    async def body(self, most: int) -> bytes | Refusal:
        pieces, size, more = list[bytes](), 0, True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                return refuse(400, "the request was cut off")
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            more = message.get("more_body", False)
            if size > most:
                return refuse(413, f"a request of over {most} bytes is not accepted")
        return b"".join(pieces)

    async def refuse(self, refusal: Refusal) -> None:
        more = [] if refusal.allow is None else [(b"allow", refusal.allow.encode())]
        await self.answer(refusal.status, refusal.body, *more)

    async def answer(self, status: int, body: bytes = b"", *more: tuple[bytes, bytes]) -> None:
        headers = [(b"content-length", b"%d" % len(body)), *more]
        if body:
            headers.append((b"content-type", JSON.encode()))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def respond(self, pipe: Pipe, form: Form, primer: bytes = b"") -> None:
        """Answer with JSON if the answer comes soon and alone, otherwise with a stream.

        If the client goes away, nobody reads the pipe any more.
        """
        await anyio.lowlevel.checkpoint()  # a call that need not wait is answered by now
        first = pipe.take_nowait()
        if first is not None and first.is_answer and form is not Form.STREAM:
            await self.answer(first.status, first.json)
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, pipe, name="disconnect")
            if form is Form.JSON:
                await self._respond_with_json(pipe, first)
            else:
                await self._respond_with_either(pipe, first, form, primer)
            tasks.cancel_scope.cancel()

    async def _respond_with_json(self, pipe: Pipe, piece: Piece | None) -> None:
        while piece is None or not piece.is_answer:  # the client takes nothing else
            piece = await pipe.take()
            if piece is None:
                await self.answer(202)
                return
        await self.answer(piece.status, piece.json)

    async def _respond_with_either(
        self, pipe: Pipe, first: Piece | None, form: Form, primer: bytes
    ) -> None:
        if first is None and form is Form.EITHER:
            with anyio.move_on_after(_STREAM_AFTER) as soon:
                first = await pipe.take()
            if first is not None and first.is_answer:
                await self.answer(first.status, first.json)
                return
            if first is None and not soon.cancelled_caught and not primer:
                await self.answer(202)  # the client cancelled the call
                return
        await self.begin_stream(primer + (first.event if first is not None else b""))
        await self.stream(pipe)

    async def begin_stream(self, data: bytes = b"") -> None:
        start = {"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS}
        await self.send(start)
        await self._write(data)  # an empty piece sends the headers

    async def stream(self, pipe: Pipe) -> None:
        """Write what comes, and signs of life, until the end."""
        while True:
            data = COMMENT
            with anyio.move_on_after(_KEEP_ALIVE):
                piece = await pipe.take()
                if piece is None:
                    break
                data = piece.event
            await self._write(data)
        await self.send({"type": "http.response.body", "body": b""})

    async def stream_watched(self, pipe: Pipe) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, pipe, name="disconnect")
            await self.stream(pipe)
            tasks.cancel_scope.cancel()

    async def _write(self, data: bytes) -> None:
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def _watch(self, pipe: Pipe) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        pipe.break_off()


class HttpApp:
    """The application, behind whatever has checked Host, Origin and token.

    `source_of` says who sends a request; what it returns goes to the service with each call.
    """

    def __init__(
        self,
        service: HttpService,
        tasks: TaskGroup,
        source_of: Callable[[Scope], Who],
        *,
        most_bytes: int,
        on_end: Callable[[Conversation], None] = lambda conversation: None,
    ) -> None:
        self._on_end = on_end  # called once a client, or a request without a session, has gone
        self._service, self._tasks, self._source_of = service, tasks, source_of
        self._most_bytes = most_bytes
        self._sessions: OrderedDict[str, Session] = OrderedDict()  # the last used is the last
        self._stateless: set[Conversation] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        match scope["method"]:
            case "POST":
                refusal = await self._post(exchange)
            case "GET":
                refusal = await self._get(exchange)
            case "DELETE":
                refusal = await self._delete(exchange)
            case method:
                refusal = refuse(405, f"MCP has no {method}", allow=http_server.METHODS)
        if refusal is not None:
            await exchange.refuse(refusal)

    async def tell_all(self, command: Command) -> None:
        """Have every client know of a change, if it wants to know of it."""
        sessions = [session.conversation for session in self._sessions.values()]
        for conversation in [*sessions, *self._stateless]:
            await conversation.send(command)

    async def _post(self, exchange: Exchange) -> Refusal | None:
        headers = exchange.headers
        form = http_server.accepted_form(headers)
        if isinstance(form, Refusal):
            return form
        problem = http_server.problem_with_content(headers)
        if problem is not None:
            return problem
        body = await exchange.body(self._most_bytes)
        if isinstance(body, Refusal):
            return body
        incoming = await _decoded(body)
        problem = http_server.problem_with_body(incoming)
        if problem is not None:
            return problem
        if http_server.is_stateless(headers, incoming):
            return await self._post_stateless(exchange, headers, incoming, form)
        if isinstance(incoming, Request) and incoming.method == names.INITIALIZE:
            return await self._initialize(exchange, incoming)
        return await self._post_to_session(exchange, headers, incoming, form)

    # ---- 2026-07-28

    async def _post_stateless(
        self, exchange: Exchange, headers: Headers, incoming: Incoming, form: Form
    ) -> Refusal | None:
        if isinstance(incoming, jsonrpc.Notification):
            await exchange.answer(202)  # cancelling is closing the stream: there is no other
            return None
        if not isinstance(incoming, Request):
            return refuse(400, "the body must be a single request or notification")
        problem = http_server.problem_with_stateless(headers, incoming)
        if problem is None and incoming.method == names.TOOLS_CALL:
            tool = (incoming.params or {}).get("name")
            schema = self._service.input_schema(tool) if isinstance(tool, str) else None
            problem = http_server.problem_with_params(headers, incoming, schema)
        if problem is not None:
            return problem
        if incoming.method == names.LISTEN and form is Form.JSON:
            return refuse(406, f"the client must accept {EVENT_STREAM}")
        pipe = Pipe()

        async def write(outgoing: Outgoing) -> None:
            data, answer = outgoing.encode(), outgoing.messages[0]
            is_error = isinstance(answer, ErrorResponse)
            status = http.status_of(answer.error) if is_error else 200
            await pipe.put(Piece(data, encode_event(data), outgoing.is_final, status))
            if outgoing.is_final:
                pipe.end()

        connection = ServerConnection(self._service.offer)
        conversation = Conversation(connection, self._service, self._tasks, write)
        self._stateless.add(conversation)
        try:
            await conversation.take(incoming, self._source_of(exchange.scope))
            await exchange.respond(pipe, form)
        finally:
            self._stateless.discard(conversation)
            with anyio.CancelScope(shield=True):
                pipe.break_off()
                await conversation.handle(connection.close())
            self._on_end(conversation)
        return None

    # ---- sessions

    async def _initialize(self, exchange: Exchange, request: Request) -> Refusal | None:
        owner = self._source_of(exchange.scope).owner
        session = Session(self._service, self._tasks, owner)
        (answer,) = outgoing_in(session.connection.receive(request))
        if session.connection.phase is Phase.NEW:
            await exchange.answer(400, answer.encode())
            return None
        if not self._has_room():
            return refuse(503, "too many sessions are open")
        self._sessions[session.id] = session
        await exchange.answer(200, answer.encode(), (SESSION_HEADER.encode(), session.id.encode()))
        return None

    def _has_room(self) -> bool:
        if len(self._sessions) < _MOST_SESSIONS:
            return True
        idle = next((id for id, session in self._sessions.items() if session.is_idle), None)
        if idle is not None:
            self._on_end(self._sessions.pop(idle).conversation)
        return idle is not None

    def _session(self, exchange: Exchange, headers: Headers) -> Session | Refusal:
        problem = http_server.problem_with_version(headers)
        if problem is not None:
            return problem
        id = http_server.session_of(headers)
        if id is None:
            return refuse(400, f"the {SESSION_HEADER} header is missing")
        session = self._sessions.get(id)
        if session is None or session.owner != self._source_of(exchange.scope).owner:
            return refuse(404, "there is no such session")
        self._sessions.move_to_end(id)
        return session

    async def _post_to_session(
        self, exchange: Exchange, headers: Headers, incoming: Incoming, form: Form
    ) -> Refusal | None:
        session = self._session(exchange, headers)
        if isinstance(session, Refusal):
            return session
        source, requests = self._source_of(exchange.scope), requests_in(incoming)
        if not requests:
            await session.conversation.take(incoming, source)
            for id in http_server.cancelled_by(incoming):
                session.forget_call(id)
            await exchange.answer(202)
            return None
        if any(session.has_open(request.id) for request in requests):
            return refuse(400, "a request that is still open has this id")
        stream, pipe = session.open_stream(requests), Pipe()
        stream.attach(pipe)
        primes = session.connection.revision and session.connection.revision.priming_events
        primer = session.log.add(stream.name, b"").encode(_RETRY_MS) if primes else b""
        await session.conversation.take(incoming, source)
        try:
            await exchange.respond(pipe, form, primer)
        finally:
            stream.detach(pipe)
        return None

    async def _get(self, exchange: Exchange) -> Refusal | None:
        headers = exchange.headers
        problem = http_server.problem_with_get(headers)
        if problem is not None:
            return problem
        session = self._session(exchange, headers)
        if isinstance(session, Refusal):
            return session
        last = http_server.last_event_of(headers)
        if last is None:
            stream = session.own
            missed = session.log.unsent(stream.name, stream.last_sent)
        else:
            event = session.log.find(last)
            if event is None:
                return refuse(400, "this event is not known any more")
            stream = session.open_stream_named(event.stream)
            missed = session.log.unsent(event.stream, event.number)
        pipe = Pipe()
        if stream is None:
            pipe.end()
        else:
            stream.attach(pipe)
            stream.last_sent = missed[-1].number if missed else stream.last_sent
        try:
            await exchange.begin_stream(b"".join(event.encode() for event in missed))
            await exchange.stream_watched(pipe)
        finally:
            if stream is not None:
                stream.detach(pipe)
        return None

    async def _delete(self, exchange: Exchange) -> Refusal | None:
        session = self._session(exchange, exchange.headers)
        if isinstance(session, Refusal):
            return session
        del self._sessions[session.id]
        await session.close()
        self._on_end(session.conversation)
        await exchange.answer(204)
        return None


async def _decoded(body: bytes) -> Incoming:
    if len(body) < json_text.LARGE:
        return jsonrpc.decode(body)
    return await anyio.to_thread.run_sync(jsonrpc.decode, body)
