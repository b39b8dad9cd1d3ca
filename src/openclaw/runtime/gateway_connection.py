"""Requests to a running gateway over HTTP, and its event streams."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import orjson

from openclaw.agent.event_codec import error_from
from openclaw.config.paths import StatePaths
from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError, OperatorFacing
from openclaw.gateway.lock import GatewayInfo, request_headers, running_gateway
from openclaw.mcp.sse import EventDecoder
from openclaw.net.http_request import open_client

Json = dict[str, Any]
Read = Callable[[AsyncIterator[bytes]], AsyncIterator[tuple[str, Any]]]

_SILENCE_SECONDS = 60.0  # the gateway says something every 15 s, even while nothing happens
_PING_SECONDS = 2.0  # a gateway that doesn't answer within this is stopped or overloaded
_ANSWERED_LATELY_SECONDS = 5.0  # needs no ping
_FROZEN_SECONDS = 10.0  # before it is tried again


class GatewayGone(OperatorFacing):
    """Raised when the gateway cannot be reached. `sent` says whether it may have begun the work."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class AnswerCutOff(Exception):
    """Raised when the gateway's answer ended too soon."""


class GatewayFrozen(GatewayGone):
    """Raised when the gateway's process exists but doesn't answer. Nothing was sent."""

    def __init__(self, pid: int) -> None:
        super().__init__(f"the gateway (pid {pid}) does not respond", sent=False)
        self.hint = (
            f"if it was suspended, continue it (kill -CONT {pid}); or end it (kill -9 {pid})"
        )


class GatewayConnection:
    """Requests to a running gateway. One that doesn't answer a ping is not asked for a while."""

    def __init__(self, url: str, root: Path) -> None:
        self._url = url
        self.root = root
        self._answered_at = self._frozen_at = float("-inf")

    async def request(self, method: str, path: str, body: Json | None = None) -> Json:
        """Send a request that is answered with JSON; raises the gateway's error."""
        async with self._send(method, path, b"" if body is None else _dumped(body)) as response:
            return checked(response.status_code, await response.aread())

    async def ping(self) -> None:
        """Raises `GatewayFrozen`, or `GatewayGone` if nothing listens there."""
        info = running_gateway(StatePaths(self.root).gateway_lock)
        pid = info.pid if info is not None else 0
        if anyio.current_time() - self._frozen_at < _FROZEN_SECONDS:
            raise GatewayFrozen(pid)
        try:
            with anyio.fail_after(_PING_SECONDS):
                async with open_client(self._url, {}, silence=_PING_SECONDS) as client:
                    await client.get(f"{self._url}/health")
        except (TimeoutError, httpx2.TimeoutException) as error:
            self._frozen_at = anyio.current_time()
            raise GatewayFrozen(pid) from error
        except httpx2.HTTPError as error:
            raise gone(error, sent=False) from error
        self._answered_at = anyio.current_time()

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        body: Json,
        headers: Mapping[str, str] | None = None,
        read: "Read | None" = None,
    ) -> AsyncGenerator[AsyncIterator[tuple[str, Any]]]:
        async with self._send("POST", path, _dumped(body), headers) as response:
            if response.status_code != 200 and read is None:
                checked(response.status_code, await response.aread())
            yield (read or _events)(response.aiter_bytes())

    @asynccontextmanager
    async def _send(
        self, method: str, path: str, content: bytes, more: Mapping[str, str] | None = None
    ) -> AsyncGenerator[httpx2.Response]:
        headers = request_headers(self.root, self._url)
        if headers is None:
            raise GatewayGone("the gateway went away", sent=False)
        if anyio.current_time() - self._answered_at > _ANSWERED_LATELY_SECONDS:
            await self.ping()
        try:
            async with (
                open_client(self._url, {}, silence=_SILENCE_SECONDS) as client,
                client.stream(
                    method,
                    f"{self._url}{path}",
                    headers={**headers, **(more or {})},
                    content=content,
                ) as response,
            ):
                self._answered_at = anyio.current_time()
                yield response
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise gone(error, sent=False) from error
        except (httpx2.HTTPError, AnswerCutOff) as error:
            raise gone(error, sent=method != "GET") from error


def require_gateway(paths: StatePaths) -> GatewayInfo:
    info = running_gateway(paths.gateway_lock)
    if info is None:
        raise NotFound("no gateway is running", hint="start one with: openclaw gateway start")
    return info


def frozen_gateway(info: GatewayInfo, paths: StatePaths) -> GatewayFrozen | None:
    """Why the gateway counts as frozen; None if it answers, is starting, or has just ended."""
    try:
        if info.url:
            anyio.run(GatewayConnection(info.url, paths.root).ping)
    except GatewayFrozen as error:
        return error
    except GatewayGone:
        pass
    return None


def ask_gateway(paths: StatePaths, method: str, path: str, body: Json | None = None) -> Json:
    """Send one request to the running gateway; raises `NotFound` if there is none."""
    client = GatewayConnection(require_gateway(paths).url, paths.root)
    return anyio.run(client.request, method, path, body or {})


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, Any]]:
    decoder = EventDecoder()
    async for chunk in chunks:
        for event in decoder.feed(chunk):
            if event.data:
                yield event.event, orjson.loads(event.data)


def _dumped(body: Json) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError as error:  # a terminal sent bytes that are not text
        raise InvalidRequest(f"this cannot be sent to the gateway: {error}") from error


def checked(status: int, content: bytes) -> Json:
    try:
        body: Any = orjson.loads(content)
    except ValueError:
        body = {}
    if status < 400:
        return body
    error: Any = body.get("error") if isinstance(body, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - any JSON
    if isinstance(error, dict):
        raise error_from(error)  # pyright: ignore[reportUnknownArgumentType] - any JSON
    raise OpenClawError(f"the gateway answered with HTTP status {status}")


def gone(error: Exception, *, sent: bool) -> GatewayGone:
    if sent:
        return GatewayGone(
            f"the gateway went away ({error}); the order may or may not have been carried out",
            sent=True,
        )
    return GatewayGone(f"the gateway cannot be reached: {error}", sent=False)
