"""Remote servers over Streamable HTTP: each request is a POST, whose answer may be a stream."""

import logging
from abc import ABC, abstractmethod
from asyncio import Future
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio
import anyio.abc
import anyio.to_thread
import httpx2

from openclaw.core.errors import without_error_number
from openclaw.mcp import exchange, http, jsonrpc, names
from openclaw.mcp.client import Call, State
from openclaw.mcp.exchange import Body, Failure, Meaning, Resumption
from openclaw.mcp.json_text import LARGE
from openclaw.mcp.jsonrpc import CONNECTION_CLOSED, Incoming, JsonObject, Message, Request
from openclaw.mcp.sse import EventDecoder, ServerSentEvent, TooLarge
from openclaw.mcp_client import errors
from openclaw.mcp_client.session.caller import Caller

logger = logging.getLogger(__name__)

END_SESSION_WITHIN = 2.0  # seconds for telling a server that its session is over
DELIVER_WITHIN = 60.0  # seconds for a message that nobody waits for
MAX_UNDELIVERED = 256  # such messages at the same time; a server may ask faster than it reads
_MAX_REDIRECTS = 5
_MAX_ERROR = 64 * 1024  # bytes of a refusal that are read
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class HttpRefused(errors.RemoteError):
    """Raised when the answer was an error status. Its `error` may be the server's own."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(failure.error.code, message, failure.error.data)
        self.failure = failure
        self.status = failure.status


class HttpClient:
    """Requests to one server, and what its answers say about all of them.

    `remedy` says what a user can do if the server wants a login.
    """

    def __init__(
        self, client: httpx2.AsyncClient, url: str, limit: int, remedy: str | None
    ) -> None:
        self.url, self.limit, self.remedy = url, limit, remedy
        self._client = client
        self.session: str | None = None
        self.was_turned_away = False
        """The last answer says nothing about the server, only that it was not reached."""

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None = None,
    ) -> AsyncGenerator[httpx2.Response]:
        """The answer, after redirects within the server's origin; raises `CallFailed`."""
        try:
            response = await self._send(method, url, headers, content)
        except _NEVER_SENT as error:
            self.was_turned_away = True
            why = without_error_number(str(error)) or type(error).__name__
            raise errors.Unavailable(f"cannot be reached ({why})") from None
        except (errors.Unavailable, errors.NeedsLogin):
            self.was_turned_away = True
            raise
        except httpx2.RequestError as error:
            self.was_turned_away = True
            raise errors.Interrupted(errors.error_text(error)) from None
        try:
            status = response.status_code
            self.was_turned_away = status in (401, 403, 429) or status >= 500
            yield response
        except (httpx2.RequestError, httpx2.StreamError) as error:
            raise errors.Interrupted(errors.error_text(error)) from None
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes | None
    ) -> httpx2.Response:
        own = {} if self.session is None else {http.SESSION_HEADER: self.session}
        # A server's ids of sessions and events may have any characters: they go back as UTF-8.
        encoded = {name.encode(): value.encode() for name, value in {**headers, **own}.items()}
        request = self._client.build_request(method, url, headers=encoded, content=content)
        for _ in range(_MAX_REDIRECTS):
            response = await self._client.send(request, stream=True, follow_redirects=False)
            following = response.next_request
            if following is None or not _may_follow(request, following):
                return response
            await response.aclose()
            request = following
        raise errors.RemoteError(CONNECTION_CLOSED, "the server redirects without end")

    async def failure(self, response: httpx2.Response) -> Failure:
        body = b""
        with suppress(errors.TooLarge, httpx2.HTTPError, httpx2.StreamError):
            body = await self.read(response, _MAX_ERROR)  # else the status says enough
        in_session = self.session is not None
        return exchange.failure_of(
            response.status_code, response.headers, body, in_session=in_session
        )

    async def read(self, response: httpx2.Response, limit: int | None = None) -> bytes:
        """The unpacked body; raises `TooLarge`."""
        most = self.limit if limit is None else limit
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > most:
                raise errors.TooLarge(most)
        return bytes(body)

    async def events(
        self, response: httpx2.Response, resumption: Resumption
    ) -> AsyncIterator[ServerSentEvent]:
        """The events that have data; raises `TooLarge`."""
        decoder = EventDecoder(self.limit)
        async for chunk in response.aiter_bytes():
            try:
                events = decoder.feed(chunk)
            except TooLarge as problem:
                raise errors.TooLarge(problem.limit) from None
            if events:
                resumption.received(decoder.last_id, decoder.retry_ms)
            for event in events:
                if event.data:
                    yield event

    def refused(self, status: int) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"the server answered {status}: it needs a login or other credentials{remedy}"

    def describe(self, failure: Failure) -> str:
        if failure.meaning is Meaning.NEEDS_LOGIN:
            return self.refused(failure.status)
        if failure.status == 403 and self.remedy and not failure.has_message:
            return f"{failure.error.message}; {self.remedy}"  # the login may need more scopes
        return failure.error.message


def _may_follow(request: httpx2.Request, following: httpx2.Request) -> bool:
    """Headers and bodies are only for the origin that was configured, and for the same method."""
    before, after = request.url, following.url
    same = (before.scheme, before.host, before.port) == (after.scheme, after.host, after.port)
    return same and request.method == following.method


async def decode(text: bytes) -> Incoming:
    if len(text) >= LARGE:
        return await anyio.to_thread.run_sync(jsonrpc.decode, text)
    return jsonrpc.decode(text)


def refuse(caller: Caller, client: HttpClient, failure: Failure) -> errors.CallFailed:
    """The error for a request that was answered with an error status."""
    message = client.describe(failure)
    is_open = caller.connection.state is State.READY
    match failure.meaning:
        case Meaning.NEEDS_LOGIN if is_open:
            caller.needs_login = True
            caller.end(message)
        case Meaning.SESSION_OVER if is_open:
            # A server that does not know the session has done nothing for it.
            caller.end("the server ended the session")
            return errors.Unavailable("the server ended the session")
        case _:
            pass
    return HttpRefused(failure, message)


def lose_if_alone(caller: Caller, problem: errors.Unavailable) -> None:
    """Connect anew, unless something is in flight that might still arrive."""
    if len(caller.connection.open_calls) == 1:
        caller.end(problem.reason)


class RemoteTransport(ABC):
    """What both transports of remote servers have in common: messages that nobody waits for."""

    def __init__(self, client: HttpClient, caller: Caller, group: anyio.abc.TaskGroup) -> None:
        self._client, self._caller, self._group = client, caller, group
        self._undelivered = 0
        caller.transport = self

    @abstractmethod
    async def send(self, call: Call, answer: "Future[JsonObject]") -> None: ...

    @abstractmethod
    async def _post(self, message: Message) -> None:
        """Raises `CallFailed` or `NeedsLogin` if it was not accepted."""

    def post(self, message: Message) -> None:
        if self._undelivered < MAX_UNDELIVERED:
            self._undelivered += 1
            self._group.start_soon(self._deliver_counted, message, name="message")

    async def _deliver_counted(self, message: Message) -> None:
        try:
            await self.deliver(message)
        finally:
            self._undelivered -= 1

    async def deliver(self, message: Message) -> None:
        """Send one message; a failure affects nothing else."""
        with anyio.move_on_after(DELIVER_WITHIN):
            try:
                await self._post(message)
            except (errors.CallFailed, errors.NeedsLogin) as problem:
                logger.debug("a message was not delivered: %s", problem)

    def _message_headers(self) -> dict[str, str]:
        own = self._caller.connection.session_headers()
        return {"Accept": http.ACCEPT_BOTH, "Content-Type": http.JSON, **own}


class HttpTransport(RemoteTransport):
    async def send(self, call: Call, answer: "Future[JsonObject]") -> None:
        connection = self._caller.connection
        headers = {"Accept": http.ACCEPT_BOTH, **connection.headers(call.request)}
        with anyio.CancelScope() as scope:

            def stop(_: object) -> None:
                scope.cancel()  # nobody waits for it any more

            answer.add_done_callback(stop)
            try:
                await self._exchange(call.request, headers, answer)
            except errors.Unavailable as problem:
                lose_if_alone(self._caller, problem)
                raise
            except errors.NeedsLogin as problem:
                if connection.state is not State.READY:
                    raise
                self._caller.needs_login = True
                self._caller.end(self._client.refused(401))
                raise errors.RemoteError(-32000, f"it needs a login: {problem}") from None
            finally:
                answer.remove_done_callback(stop)

    async def _exchange(
        self, request: Request, headers: Mapping[str, str], answer: "Future[JsonObject]"
    ) -> None:
        content = jsonrpc.encode(request)
        url, client = self._client.url, self._client
        post = {**headers, "Content-Type": http.JSON}
        resumption = Resumption()
        async with client.stream("POST", url, post, content) as response:
            if request.method == names.INITIALIZE:
                client.session = response.headers.get(http.SESSION_HEADER)
            match exchange.body_of(response.status_code, response.headers):
                case Body.FAILURE:
                    raise refuse(self._caller, client, await client.failure(response))
                case Body.JSON:
                    await self._take(request, await client.read(response), whole=True)
                    if not answer.done():
                        raise errors.InvalidResult("the server answered another request")
                    return
                case Body.EVENTS:
                    await self._take_events(request, response, resumption, answer)
                case Body.NOTHING:
                    raise errors.InvalidResult("the server accepted the request without an answer")
        while not answer.done():
            await self._resume(request, resumption, answer)

    async def _take_events(
        self,
        request: Request,
        response: httpx2.Response,
        resumption: Resumption,
        answer: "Future[JsonObject]",
    ) -> None:
        try:
            async for event in self._client.events(response, resumption):
                await self._take(request, event.data, whole=False)
                if answer.done():
                    return
        except (httpx2.RequestError, httpx2.StreamError) as error:
            if resumption.last_id is None:
                raise errors.Interrupted(errors.error_text(error)) from None
            logger.debug("a stream broke off: %s", error)

    async def _resume(
        self, request: Request, resumption: Resumption, answer: "Future[JsonObject]"
    ) -> None:
        """Ask for the rest of the stream, which repeats nothing."""
        pause = resumption.pause()
        if pause is None:
            raise errors.Interrupted("the stream ended before the answer came")
        await anyio.sleep(pause)
        status = 500
        try:
            async with self._get(resumption) as response:
                if exchange.body_of(response.status_code, response.headers) is Body.EVENTS:
                    await self._take_events(request, response, resumption, answer)
                else:
                    status = response.status_code
        except (errors.Unavailable, errors.Interrupted) as problem:
            logger.debug("a stream cannot be resumed yet: %s", problem)
        if status < 500:
            reason = f"the stream broke off, and cannot be resumed ({status})"
            raise errors.Interrupted(reason)

    def _get(self, resumption: Resumption) -> AbstractAsyncContextManager[httpx2.Response]:
        connection = self._caller.connection
        headers = {"Accept": http.EVENT_STREAM, **connection.session_headers()}
        return self._client.stream("GET", self._client.url, {**headers, **resumption.headers()})

    async def _take(self, request: Request, text: bytes, *, whole: bool) -> None:
        incoming = exchange.as_answer(await decode(text), request.id, whole=whole)
        self._caller.receive(incoming)

    # ---- what nobody waits for

    async def _post(self, message: Message) -> None:
        headers, content = self._message_headers(), jsonrpc.encode(message)
        async with self._client.stream("POST", self._client.url, headers, content) as response:
            if response.is_error:
                logger.debug("the server answered %s to a message", response.status_code)

    async def listen(self) -> None:
        """Hold open the stream of what the server sends by itself, if it has one."""
        resumption = Resumption()
        while True:
            try:
                async with self._get(resumption) as response:
                    if exchange.body_of(response.status_code, response.headers) is not Body.EVENTS:
                        if response.status_code == 404 and resumption.retry_ms is not None:
                            self._caller.end("the server ended the session")
                        if response.status_code < 500:
                            return  # it has no such stream: 405
                    else:
                        async for event in self._client.events(response, resumption):
                            self._caller.receive(await decode(event.data))
            except (errors.CallFailed, httpx2.RequestError, httpx2.StreamError) as problem:
                logger.debug("the server's own stream broke off: %s", problem)
            except errors.NeedsLogin:
                return  # the next call finds out as well
            await anyio.sleep(resumption.next_pause())

    async def end_session(self) -> None:
        """Tell the server that its session is over, even if we are being cancelled."""
        if self._client.session is None:
            return
        with anyio.move_on_after(END_SESSION_WITHIN, shield=True):
            try:
                headers = self._caller.connection.session_headers()
                async with self._client.stream("DELETE", self._client.url, headers):
                    pass
            except (errors.CallFailed, errors.NeedsLogin) as error:
                logger.debug("the session could not be ended: %s", error)
