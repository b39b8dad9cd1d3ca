"""The HTTP client for remote servers: failed requests affect no others, and bodies are bounded.

The MCP SDK ends the whole connection when one request raises, and parses whatever it is sent. Here a
POST that fails becomes a response that the SDK passes to the call it belongs to, and the values in
an answer are counted before anything parses it.
"""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
import httpx2

from openclaw.mcp_client.errors import CallFailed, Interrupted, TooLarge, Unavailable, error_text
from openclaw.mcp_client.session import jsonrpc

PARSE_ERROR = -32700
SESSION_HEADER = "mcp-session-id"

_FAILED = 503
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class Exchange:
    """The outcome of one call's POST. `problem` is why there was no answer, as our own error."""

    sent: bool = False
    status: int | None = None
    problem: CallFailed | None = None


_exchange: ContextVar[Exchange | None] = ContextVar("openclaw_exchange", default=None)


@contextmanager
def record_exchange() -> Generator[Exchange]:
    """Record the POST made in this context, which the SDK copies to its own tasks."""
    token = _exchange.set(exchange := Exchange())
    try:
        yield exchange
    finally:
        _exchange.reset(token)


class RemoteClient(httpx2.AsyncClient):
    """Never raises for a POST that could not be made or read: see `Exchange.problem`.

    It remembers the last refusal (`status`), the session that the server opened, and the last
    request that got no answer (`problem`). `remedy` says what a person can do if the server wants a
    login.
    """

    def __init__(self, limit: int, **options: Any) -> None:
        super().__init__(event_hooks={"response": [self._on_response]}, **options)
        self.limit = limit
        self.status: int | None = None
        self.session: str | None = None
        self.remedy: str | None = None
        self.problem: CallFailed | None = None

    def refused(self, status: int | None) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"the server answered {status}: it needs a login or other credentials{remedy}"

    async def _on_response(self, response: httpx2.Response) -> None:
        if response.request.method != "DELETE":
            self.status = response.status_code if response.is_error else None
        self.session = response.headers.get(SESSION_HEADER, self.session)
        if not _is_events(response):
            packed = httpx2.Response(200, headers=response.headers, stream=response.stream)
            response.stream = _Bounded(packed, self.limit)
            response.headers.pop("content-encoding", None)

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method != "POST":
            response = await super().send(request, **options)
            return self._as_events(response) if _is_events(response) else response
        exchange = _exchange.get() or Exchange()
        exchange.sent = True
        try:
            options["stream"] = True
            response = await super().send(request, **options)
            exchange.status = response.status_code
            if _is_events(response):
                return self._as_events(response, exchange)
            if response.next_request is not None:
                return response
            return await _whole(response)
        except _NEVER_SENT as error:
            exchange.sent = False
            problem = Unavailable(f"cannot be reached ({error_text(error)})")
        except Unavailable as error:  # the login needs time
            exchange.sent = False
            problem = error
        except _TooLong:
            problem = TooLarge(self.limit)
        except jsonrpc.Undecodable as error:
            problem = jsonrpc.unreadable(error)
        except httpx2.RequestError as error:
            problem = Interrupted(error_text(error))
        exchange.problem = self.problem = problem
        return httpx2.Response(_FAILED, request=request)

    def _as_events(
        self, response: httpx2.Response, exchange: Exchange | None = None
    ) -> httpx2.Response:
        coded = ("content-encoding", "content-length", "transfer-encoding")
        return httpx2.Response(
            response.status_code,
            headers=[pair for pair in response.headers.multi_items() if pair[0] not in coded],
            request=response.request,
            stream=_Events(response, self.limit, exchange),
        )


def _is_events(response: httpx2.Response) -> bool:
    kind = response.headers.get("content-type", "").lower()
    return response.is_success and kind.startswith("text/event-stream")


async def _whole(response: httpx2.Response) -> httpx2.Response:
    async with aclosing(response):
        await _check(await response.aread())
    return response


async def _check(body: bytes) -> None:
    """Raise `Undecodable` if this must not be parsed; text that isn't JSON passes."""
    if len(body) >= jsonrpc.LARGE:
        await anyio.to_thread.run_sync(jsonrpc.check_bounds, body)
    else:
        jsonrpc.check_bounds(body)


class _TooLong(httpx2.StreamError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"it is over the limit of {limit} bytes")


class _Bounded(httpx2.AsyncByteStream):
    """A decompressed body; the limit applies to its decompressed size."""

    def __init__(self, inner: httpx2.Response, limit: int) -> None:
        self._inner, self._limit = inner, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for chunk in self._inner.aiter_bytes():
            total += len(chunk)
            if total > self._limit:
                raise _TooLong(self._limit)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Events(httpx2.AsyncByteStream):
    """A stream's events, each passed on whole once its values are counted.

    An event that must not be parsed becomes an error answer to its request.
    """

    def __init__(self, inner: httpx2.Response, limit: int, exchange: Exchange | None) -> None:
        self._inner, self._limit, self._exchange = inner, limit, exchange

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        held, searched = bytearray(), 0
        async for chunk in self._inner.aiter_bytes():
            held += chunk
            while end := _BLANK_LINE.search(held, searched):
                event = bytes(held[: end.end()])
                del held[: end.end()]
                searched = 0
                yield await self._checked(event)
            searched = max(0, len(held) - 3)
            if len(held) > self._limit:
                if self._exchange is not None:
                    self._exchange.problem = TooLarge(self._limit)
                raise httpx2.SSEError(f"an event is over the limit of {self._limit} bytes")
        yield bytes(held)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _checked(self, event: bytes) -> bytes:
        lines = event.removeprefix(_BOM).splitlines()
        data = b"\n".join(line[5:] for line in lines if line.startswith(b"data:"))
        try:
            await _check(data)
        except jsonrpc.Undecodable as problem:
            if self._exchange is not None:
                self._exchange.problem = jsonrpc.unreadable(problem)
            error = {"code": PARSE_ERROR, "message": problem.reason}
            answer = {"jsonrpc": "2.0", "id": problem.id or 0, "error": error}
            return b"data: " + json.dumps(answer).encode() + b"\n\n"
        return event
