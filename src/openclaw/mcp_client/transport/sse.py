"""The older remote transport (2024-11-05): one stream of events to us, one POST for each message.

The SDK has it too, but cuts events at one mebibyte, which is less than an image.
"""

import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from types import TracebackType
from typing import Self

import anyio
import anyio.abc
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

from openclaw.mcp_client.errors import ConnectionFailed

logger = logging.getLogger(__name__)

Inbound = MemoryObjectReceiveStream[SessionMessage | Exception]


class Posts:
    """The way to the server: one POST for each message, in the task of whoever sends it.

    A request that is refused fails alone; what is no request is dropped then.
    """

    def __init__(self, client: httpx2.AsyncClient, endpoint: str) -> None:
        self._client, self._endpoint = client, endpoint

    async def send(self, item: SessionMessage, /) -> None:
        """Post one message; raises `ConnectionFailed` for a request that was not taken."""
        body = item.message.model_dump(by_alias=True, mode="json", exclude_unset=True)
        response = await self._client.post(self._endpoint, json=body)
        if response.is_error:
            refusal = f"the server answered {response.status_code} to a message"
            if isinstance(item.message, JSONRPCRequest):
                raise ConnectionFailed(refusal)
            logger.debug("%s", refusal)

    async def aclose(self) -> None:
        """Nothing is held open between two messages."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        return


@asynccontextmanager
async def sse_streams(
    client: httpx2.AsyncClient, url: str, limit: int, timeout: float
) -> AsyncGenerator[tuple[Inbound, Posts]]:
    """The two directions of a session, open once the server has said where to post."""
    inbound_end, inbound = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    async with inbound_end, inbound, AsyncExitStack() as stack:
        with _said_within(timeout):
            request = client.build_request("GET", url, headers=headers)
            response = await client.send(request, stream=True)
        stack.push_async_callback(response.aclose)
        if not response.is_success:
            raise ConnectionFailed(f"the server answered {response.status_code}")
        group = await stack.enter_async_context(anyio.create_task_group())
        events = httpx2.EventSource(response, max_event_size=limit)
        with _said_within(timeout):
            endpoint = await group.start(_receive, events, url, inbound_end)
        yield inbound, Posts(client, endpoint)
        group.cancel_scope.cancel()


@contextmanager
def _said_within(seconds: float) -> Generator[None]:
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError:
        raise ConnectionFailed(f"the server named no endpoint within {seconds:g} s") from None


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
    base = httpx2.URL(url)
    endpoint = base.join(path)
    # Compared as parsed: the case of a host and the number of a default port do not matter.
    if any(getattr(endpoint, part) != getattr(base, part) for part in ("scheme", "host", "port")):
        raise ConnectionFailed("the server's endpoint is on another origin")
    return str(endpoint)
