"""Remote servers, over streamable HTTP or the older SSE transport."""

import logging
import math
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import httpx2
from anyio.abc import ObjectSendStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.dispatcher import CallOptions
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

from openclaw.core.errors import OperatorFacing
from openclaw.mcp_client import errors
from openclaw.mcp_client.session import http_client
from openclaw.mcp_client.session.connect import ConnectParams, handshake
from openclaw.mcp_client.session.dispatcher import MAX_EXTENSION
from openclaw.mcp_client.session.jsonrpc import OnProgress, RawResult
from openclaw.mcp_client.session.server_session import ServerSession
from openclaw.secrets.refs import has_reference

if TYPE_CHECKING:
    from mcp.shared.dispatcher import DispatchContext, OnRequest
    from mcp.shared.transport_context import TransportContext


# The SDK has an SSE client too, but it cuts events at one mebibyte, which is less than an image.

logger = logging.getLogger(__name__)

Inbound = MemoryObjectReceiveStream[SessionMessage | Exception]


class PostStream(ObjectSendStream[SessionMessage]):
    """Sends to the server: one POST for each message, in the sender's task.

    A refused request fails alone; other refused messages are dropped.
    """

    def __init__(self, client: httpx2.AsyncClient, endpoint: str) -> None:
        self._client, self._endpoint = client, endpoint

    async def send(self, item: SessionMessage) -> None:
        """Post one message; raises `ConnectionFailed` for a request that was not accepted."""
        body = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        response = await self._client.post(self._endpoint, json=body)
        if response.is_error:
            refusal = f"the server answered {response.status_code} to a message"
            if isinstance(item.message, JSONRPCRequest):
                raise errors.ConnectionFailed(refusal)
            logger.debug("%s", refusal)

    async def aclose(self) -> None:
        """Nothing is held open between two messages."""


@asynccontextmanager
async def sse_streams(
    client: httpx2.AsyncClient, url: str, limit: int, timeout: float
) -> AsyncGenerator[tuple[Inbound, PostStream]]:
    """The two directions of a session, open once the server has said where to post."""
    inbound_end, inbound = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    async with inbound_end, inbound, AsyncExitStack() as stack:
        with _endpoint_within(timeout):
            request = client.build_request("GET", url, headers=headers)
            response = await client.send(request, stream=True)
        stack.push_async_callback(response.aclose)
        if not response.is_success:
            raise errors.ConnectionFailed(f"the server answered {response.status_code}")
        group = await stack.enter_async_context(anyio.create_task_group())
        events = httpx2.EventSource(response, max_event_size=limit)
        with _endpoint_within(timeout):
            endpoint = await group.start(_receive, events, url, inbound_end)
        yield inbound, PostStream(client, endpoint)
        group.cancel_scope.cancel()


@contextmanager
def _endpoint_within(seconds: float) -> Generator[None]:
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise errors.ConnectionFailed(
            f"the server named no endpoint within {seconds:g} s"
        ) from None


async def _receive(
    events: httpx2.EventSource,
    url: str,
    inbound: MemoryObjectSendStream[SessionMessage | Exception],
    *,
    task_status: anyio.abc.TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
) -> None:
    known = False
    async with inbound:
        async for event in events:
            if event.event == "endpoint" and not known:
                known = True
                task_status.started(_endpoint(url, event.data))
            elif event.event == "message" and event.data:
                await inbound.send(_parsed(event.data))
    if not known:
        raise errors.ConnectionFailed("the stream ended before the server said where to post")


def _parsed(data: str) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
    except ValueError as error:
        logger.debug("an event was not a message: %s", error)
        return error


def _endpoint(url: str, path: str) -> str:
    """Where to post; a server may not send us, and our headers, to another origin."""
    base = httpx2.URL(url)
    endpoint = base.join(path)
    # Compared as parsed: the case of a host and the number of a default port do not matter.
    if any(getattr(endpoint, part) != getattr(base, part) for part in ("scheme", "host", "port")):
        raise errors.ConnectionFailed("the server's endpoint is on another origin")
    return str(endpoint)


END_SESSION_WITHIN = 2.0  # seconds for telling a server that its session is over

_FALL_BACK = (400, 404, 405)
"""Answers to a POST from a server that has only the older transport, as the spec lists them."""

_CLOSED, _METHOD_NOT_FOUND = -32000, -32601
_CLOSED_BY_SDK = ("Connection closed", "SSE stream ")  # a server may send the same code
_BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND = 400, 401, 403, 404
_TOO_MANY, _SERVER_ERROR = 429, 500


class StreamDispatcher:
    """The SDK's dispatcher, with our own `call` and all notifications passed to one function.

    `lost` is set when the connection turns out to be gone.
    """

    def __init__(
        self,
        dispatcher: "JSONRPCDispatcher[TransportContext]",
        client: http_client.RemoteClient,
    ) -> None:
        self._dispatcher, self._client = dispatcher, client
        self.send_raw_request, self.notify = dispatcher.send_raw_request, dispatcher.notify
        self.lost = anyio.Event()
        self._reason = "the connection was lost"
        self._needs_login: str | None = None
        self._calls: set[_Call] = set()
        self._served = 0

    @property
    def is_gone(self) -> bool:
        return self.lost.is_set()

    def why_lost(self) -> str:
        if self._needs_login is not None:
            raise errors.NeedsLogin(self._needs_login)
        return self._reason

    def turned_away(self) -> bool:
        """Whether the last answer says nothing about the server, only that it was not reached."""
        status = self._client.status
        refused = status in (_UNAUTHORIZED, _FORBIDDEN, _TOO_MANY) or (status or 0) >= _SERVER_ERROR
        return refused or self._client.problem is not None

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        headers: dict[str, str] | None = None,
        cancellable: bool = True,
    ) -> RawResult:
        """Send one request and wait for its result; progress extends the time it has.

        Only the handshake can't be cancelled; its errors say nothing about a session yet.
        """
        if self.lost.is_set():
            raise errors.Unavailable(self._reason)
        options: CallOptions = {"cancel_on_abandon": cancellable}
        if headers is not None:
            options["headers"] = headers
        seconds = math.inf if timeout is None else timeout
        with http_client.record_exchange() as exchange, anyio.CancelScope() as scope:
            call = _Call(scope, seconds, anyio.current_time() + seconds * MAX_EXTENSION)

            async def progressed(progress: float, total: float | None, message: str | None) -> None:
                self._extend(call)
                if on_progress is not None:
                    on_progress(progress, total, message)

            if on_progress is not None:
                options["on_progress"] = progressed
            self._calls.add(call)
            self._extend(call)
            try:
                return await self._dispatcher.send_raw_request(method, params, options)
            except (MCPError, errors.ConnectionFailed) as error:
                if cancellable:
                    raise self._failure(error, exchange) from None
                if isinstance(error, MCPError):
                    raise errors.RemoteError(error.code, error.message, error.data) from None
                raise
            finally:
                self._calls.remove(call)
        raise errors.TimedOut(seconds)

    async def run(
        self,
        on_request: "OnRequest",
        on_notification: Callable[[str, Mapping[str, Any] | None], None],
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        async def request(
            context: "DispatchContext[TransportContext]",
            method: str,
            params: Mapping[str, Any] | None,
        ) -> dict[str, Any]:
            # The server waits for our answer, perhaps a person's: that is not its delay.
            self._served += 1
            self._extend(*self._calls)
            try:
                return await on_request(context, method, params)
            finally:
                self._served -= 1
                self._extend(*self._calls)

        def intercept(method: str, params: Mapping[str, Any] | None) -> bool:
            on_notification(method, params)
            return True

        await self._dispatcher.run(request, _ignore, intercept, task_status=task_status)

    def _extend(self, *calls: "_Call") -> None:
        """Restart the calls' timeouts; they do not run while the server waits for us."""
        for call in calls:
            patience = math.inf if self._served else anyio.current_time() + call.timeout
            call.scope.deadline = min(patience, call.give_up_at)

    def _failure(
        self, error: MCPError | errors.ConnectionFailed, exchange: http_client.Exchange
    ) -> errors.CallFailed:
        if exchange.problem is not None:
            if isinstance(exchange.problem, errors.Unavailable) and len(self._calls) == 1:
                self._lose(exchange.problem.reason)  # nothing is in flight that might still arrive
            return exchange.problem
        code = error.code if isinstance(error, MCPError) else None
        message = error.message if isinstance(error, MCPError) else str(error)
        if exchange.status == _UNAUTHORIZED:
            self._needs_login = self._client.refused(_UNAUTHORIZED)
            self._lose(self._needs_login)
            return errors.RemoteError(code or _CLOSED, self._needs_login)
        if self._forgot_session(exchange, code, message):
            # A server that does not know the session has done nothing for it.
            self._lose("the server ended the session")
            return errors.Unavailable(self._reason)
        if code is None or message == _NO_MESSAGE:
            allows = ": it does not allow this call" if exchange.status == _FORBIDDEN else ""
            if allows and self._client.remedy:  # the login may need more scopes
                allows += f"; {self._client.remedy}"
            words = f"the server answered {exchange.status}{allows}"
            return errors.RemoteError(code or _CLOSED, words)
        if code == _CLOSED and message.startswith(_CLOSED_BY_SDK):
            return (
                errors.Interrupted(message) if exchange.sent else errors.Unavailable(self._reason)
            )
        if code == http_client.PARSE_ERROR:
            return errors.InvalidResult(f"the server's answer cannot be read: {message[:200]}")
        return errors.RemoteError(
            code, message, error.data if isinstance(error, MCPError) else None
        )

    def _forgot_session(
        self, exchange: http_client.Exchange, code: int | None, message: str
    ) -> bool:
        if exchange.status == _BAD_REQUEST:  # servers copied from a common example answer this
            return code == _CLOSED and "session" in message.lower()
        has_session = code is None or self._client.session is not None  # SSE always has one
        return exchange.status == _NOT_FOUND and has_session and code != _METHOD_NOT_FOUND

    def _lose(self, reason: str) -> None:
        self._reason = reason
        self.lost.set()


async def _ignore(
    context: "DispatchContext[TransportContext]", method: str, params: Mapping[str, Any] | None
) -> None:
    """Every notification is intercepted."""


_NO_MESSAGE = "Server returned an error response"  # what the SDK says for a status without a body


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    scope: anyio.CancelScope
    timeout: float
    give_up_at: float  # however much progress is reported


@asynccontextmanager
async def open_http(params: ConnectParams) -> AsyncGenerator[ServerSession]:
    url = params.config.url
    if url is None:
        raise OperatorFacing("a remote server needs a `url`")
    config, deps = params.config, params.deps
    headers = await deps.reveal({name: str(value) for name, value in config.headers.items()})
    if has_reference(url):
        url = (await deps.reveal({"url": url}))["url"]
    auth = None if config.auth is None or deps.auth is None else await deps.auth(config)
    # Every call has its own deadline, and a stream of events may be silent as long as it likes.
    timeout = httpx2.Timeout(config.timeout / 1000, read=None)
    client = http_client.RemoteClient(
        config.max_message_bytes, headers=headers, auth=auth, timeout=timeout
    )
    client.remedy = None if auth is None else f"run: openclaw mcp login {params.name}"
    params.on_asked()
    try:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(client)
            stack.push_async_callback(_end_session, client, url)
            yield await _enter_first(stack, params, client, url)
    except Exception as error:
        raise _explained(error, client) from error


async def _enter_first(
    stack: AsyncExitStack, params: ConnectParams, client: http_client.RemoteClient, url: str
) -> ServerSession:
    first = "sse" if params.config.kind == "sse" else "http"
    try:
        return await stack.enter_async_context(_open(params, client, url, first))
    except Exception:
        if not params.config.may_fall_back_to_sse or client.status not in _FALL_BACK:
            raise
    client.status = None
    return await stack.enter_async_context(_open(params, client, url, "sse"))


@asynccontextmanager
async def _open(
    params: ConnectParams, client: http_client.RemoteClient, url: str, transport: str
) -> AsyncGenerator[ServerSession]:
    limit = params.config.max_message_bytes
    streams = (
        sse_streams(client, url, limit, params.config.timeout / 1000)
        if transport == "sse"
        else streamable_http_client(
            url,
            http_client=client,
            terminate_on_close=False,  # this would be cancelled first: see `_end_session`
            max_sse_event_size=limit,
        )
    )
    async with streams as ends:
        dispatcher: JSONRPCDispatcher[TransportContext] = JSONRPCDispatcher(*ends)
        caller = StreamDispatcher(dispatcher, client)
        session = ServerSession(caller, params.notifications, params.request_handlers, transport)
        async with session.running():
            await handshake(params, session, caller.turned_away)
            yield session


async def _end_session(client: http_client.RemoteClient, url: str) -> None:
    """Tell the server that its session is over, even if we are being cancelled."""
    session = client.session
    if session is None:
        return
    with anyio.move_on_after(END_SESSION_WITHIN, shield=True):
        try:
            await client.delete(url, headers={http_client.SESSION_HEADER: session})
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            logger.debug("the session could not be ended: %s", errors.error_text(error))


def _explained(error: Exception, client: http_client.RemoteClient) -> Exception:
    cause = errors.first_cause(error)
    if isinstance(client.problem, errors.Unavailable) and client.status == _UNAUTHORIZED:
        return errors.ConnectionFailed(client.problem.reason)  # its login server has trouble
    if client.status in (_UNAUTHORIZED, _FORBIDDEN):
        return errors.NeedsLogin(client.refused(client.status))
    if isinstance(cause, httpx2.HTTPError):
        return errors.ConnectionFailed(f"cannot be reached ({errors.error_text(cause)})")
    if isinstance(cause, errors.RemoteError) and client.problem is not None:
        return errors.ConnectionFailed(getattr(client.problem, "reason", client.problem.message))
    if isinstance(cause, errors.RemoteError) and client.status is not None:
        return errors.ConnectionFailed(f"the server answered {client.status}")
    return cause if isinstance(cause, Exception) else error
