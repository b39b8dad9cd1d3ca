"""Remote servers over the older HTTP+SSE: one stream of events, and a second address to post to."""

from asyncio import Future

import anyio
import anyio.abc
import httpx2

from openclaw.mcp import exchange, http, jsonrpc
from openclaw.mcp.client import Call
from openclaw.mcp.exchange import Body, Resumption
from openclaw.mcp.jsonrpc import JsonObject, Message
from openclaw.mcp_client import errors
from openclaw.mcp_client.session.http import RemoteTransport, decode, lose_if_alone, refuse


class SseTransport(RemoteTransport):
    _endpoint = ""

    async def open(self, seconds: float) -> None:
        """Open the stream and wait for the endpoint; raises `ConnectionFailed`."""
        try:
            with anyio.fail_after(seconds):
                await self._group.start(self._receive, name="event stream")
        except TimeoutError:
            raise errors.ConnectionFailed(
                f"the server named no endpoint within {seconds:g} s"
            ) from None

    async def _receive(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        headers = {"Accept": http.EVENT_STREAM, "Cache-Control": "no-store"}
        reason = "the server closed the stream"
        try:
            async with self._client.stream("GET", self._client.url, headers) as response:
                if exchange.body_of(response.status_code, response.headers) is not Body.EVENTS:
                    raise refuse(self._caller, self._client, await self._client.failure(response))
                await self._take_events(response, task_status)
        except (errors.CallFailed, httpx2.RequestError, httpx2.StreamError) as problem:
            if not self._endpoint:
                raise
            reason = problem.message if isinstance(problem, errors.TooLarge) else str(problem)
        if not self._endpoint:
            raise errors.ConnectionFailed("the stream ended before the server said where to post")
        self._caller.end(reason or "the stream broke off")

    async def _take_events(
        self, response: httpx2.Response, task_status: anyio.abc.TaskStatus[None]
    ) -> None:
        async for event in self._client.events(response, Resumption()):
            if event.event == "endpoint" and not self._endpoint:
                named = event.data.decode("utf-8", "replace")
                self._endpoint = endpoint_of(self._client.url, named)
                task_status.started()
            elif event.event == "message":
                self._caller.receive(await decode(event.data))

    async def send(self, call: Call, answer: "Future[JsonObject]") -> None:
        try:
            await self._post(call.request)
        except errors.Unavailable as problem:
            lose_if_alone(self._caller, problem)
            raise

    async def _post(self, message: Message) -> None:
        headers, content = self._message_headers(), jsonrpc.encode(message)
        async with self._client.stream("POST", self._endpoint, headers, content) as response:
            if response.is_error:
                raise refuse(self._caller, self._client, await self._client.failure(response))


def endpoint_of(url: str, path: str) -> str:
    """Where to post; a server may not send us, and our headers, to another origin."""
    base = httpx2.URL(url)
    try:
        endpoint = base.join(path)
    except httpx2.InvalidURL:
        raise errors.ConnectionFailed("the server's endpoint is not an address") from None
    # Compared as parsed: the case of a host and the number of a default port do not matter.
    if any(getattr(endpoint, part) != getattr(base, part) for part in ("scheme", "host", "port")):
        raise errors.ConnectionFailed("the server's endpoint is on another origin")
    return str(endpoint)
