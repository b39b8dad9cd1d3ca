"""The older remote transport (2024-11-05): one stream of events to us, one POST for each message.

The SDK has it too, but cuts events at one mebibyte, which is less than an image.
"""

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urljoin, urlsplit

import anyio
import anyio.abc
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from openclaw.mcp_client.errors import ConnectionFailed

logger = logging.getLogger(__name__)

Inbound = MemoryObjectReceiveStream[SessionMessage | Exception]
Outbound = MemoryObjectSendStream[SessionMessage]


@asynccontextmanager
async def sse_streams(
    client: httpx2.AsyncClient, url: str, limit: int
) -> AsyncGenerator[tuple[Inbound, Outbound]]:
    """The two streams of a session, open once the server has said where to post."""
    inbound_end, inbound = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outbound, outbound_end = anyio.create_memory_object_stream[SessionMessage](0)
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    async with (
        client.stream("GET", url, headers=headers) as response,
        inbound_end,
        inbound,
        outbound,
        outbound_end,
        anyio.create_task_group() as group,
    ):
        if not response.is_success:
            raise ConnectionFailed(f"the server answered {response.status_code}")
        events = httpx2.EventSource(response, max_event_size=limit)
        endpoint = await group.start(_receive, events, url, inbound_end)
        group.start_soon(_post, client, endpoint, outbound_end, name="SSE posts")
        yield inbound, outbound
        group.cancel_scope.cancel()


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
        raise ConnectionFailed("the stream ended before the server said where to post")


def _parsed(data: str) -> SessionMessage | Exception:
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(data, by_name=False))
    except ValueError as error:
        logger.debug("an event was no message: %s", error)
        return error


def _endpoint(url: str, path: str) -> str:
    """Where to post; a server may not send us, and our headers, to another origin."""
    endpoint = urljoin(url, path)
    if urlsplit(endpoint)[:2] != urlsplit(url)[:2]:
        raise ConnectionFailed("the server's endpoint is on another origin")
    return endpoint


async def _post(
    client: httpx2.AsyncClient, endpoint: str, outbound: MemoryObjectReceiveStream[SessionMessage]
) -> None:
    async with outbound:
        async for item in outbound:
            body = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
            response = await client.post(endpoint, json=body)
            if response.is_error:
                raise ConnectionFailed(f"the server answered {response.status_code} to a message")


_UNAUTHORIZED, _FORBIDDEN = 401, 403


class TooLong(httpx2.StreamError):
    """Raised when a body is over the limit; the SDK answers the request it belongs to with it."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it is over the limit of {limit} bytes")


class Watch:
    """Sees every response: remembers the last refusal, and bounds bodies that are not streams.

    `remedy` says what a person can do where the server wants a login.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.status: int | None = None
        self.remedy: str | None = None

    @property
    def wants_login(self) -> bool:
        """Whether the last answer was that we may not."""
        return self.status in (_UNAUTHORIZED, _FORBIDDEN)

    async def saw(self, response: httpx2.Response) -> None:
        """Take a response whose body was not read yet."""
        if response.request.method != "DELETE":
            self.status = response.status_code if response.is_error else None
        kind = response.headers.get("content-type", "")
        if not kind.startswith("text/event-stream") and isinstance(
            response.stream, httpx2.AsyncByteStream
        ):
            response.stream = _Bounded(response.stream, self._limit)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, limit: int) -> None:
        self._inner, self._limit = inner, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for chunk in self._inner:
            total += len(chunk)
            if total > self._limit:
                raise TooLong(self._limit)
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()
