"""Serves MCP over Streamable HTTP as an ASGI application.

At 2026-07-28 every POST stands alone. Before, there are sessions, each with a connection, streams that
can be resumed, and a stream of its own for what belongs to no request.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from openclaw.mcp import http, http_server, json_text, jsonrpc, names
from openclaw.mcp.http import EVENT_STREAM, SESSION_HEADER
from openclaw.mcp.http_server import Form, Headers, Refusal, refuse, requests_in
from openclaw.mcp.jsonrpc import ErrorResponse, Incoming, JsonObject, Request
from openclaw.mcp.server import Command, Outgoing, Phase, ServerConnection, outgoing_in
from openclaw.mcp.sse import encode_event
from openclaw.mcp_server.conversation import Conversation, Service
from openclaw.mcp_server.http_response import Exchange, Piece, Pipe, Receive, Scope, Send
from openclaw.mcp_server.http_sessions import Session

_MOST_SESSIONS = 1000
_RETRY_MS = 1000


class HttpService(Service, Protocol):
    def input_schema(self, tool: str) -> JsonObject | None:
        """The input schema of a tool, whose headers are compared with its arguments."""
        ...


class Who(Protocol):
    """Who sends a request; a session belongs to whoever opened it."""

    @property
    def owner(self) -> str: ...


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
