"""The older remote transport (2024-11-05): one stream of events to us, one POST for each message.

The SDK has it too, but cuts events at one mebibyte, which is less than an image.
"""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urljoin, urlsplit

import anyio
import anyio.abc
import httpx2
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from openclaw.mcp_client.trouble import ConnectionFailed

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
