"""Server-sent events that end with their client."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import orjson
from starlette.types import Message, Receive, Scope, Send

logger = logging.getLogger(__name__)

QUIET_SECONDS = 15.0
"""After so much silence a comment is sent, so that proxies keep the connection open."""

_MOST_WAITING = 64 * 1024 * 1024  # bytes that may wait for a client that reads too slowly
_PING = b": \n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

Put = Callable[[bytes], None]
Work = Callable[[Put], Awaitable[None]]


def frame(data: Any, event: str | None = None) -> bytes:
    """One event; `data` is JSON, or text that is sent as it is."""
    body = data.encode() if isinstance(data, str) else orjson.dumps(data, default=str)
    name = f"event: {event}\n".encode() if event else b""
    return b"%sdata: %s\n\n" % (name, body)


class SlowClient(Exception):
    """Raised when a client does not take what it asked for."""


class EventStream:
    """A response that `work` writes. When the client goes away, `work` is cancelled."""

    def __init__(self, work: Work, *, headers: dict[str, str] | None = None) -> None:
        self._work = work
        self._headers = [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
        self._waiting: list[bytes] = []
        self._size = 0
        self._news = anyio.Event()
        self._done = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await send(
            {"type": "http.response.start", "status": 200, "headers": _HEADERS + self._headers}
        )
        async with anyio.create_task_group() as group:
            group.start_soon(_until_gone, receive, group.cancel_scope, name="client watch")
            group.start_soon(self._produce, name="event stream")
            await self._deliver(send)
            group.cancel_scope.cancel()

    async def _produce(self) -> None:
        try:
            await self._work(self._put)
        finally:
            self._done = True
            self._news.set()

    def _put(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)
        self._news.set()

    async def _deliver(self, send: Send) -> None:
        while True:
            with anyio.move_on_after(QUIET_SECONDS):
                await self._news.wait()
            self._news = anyio.Event()
            if self._size > _MOST_WAITING:
                logger.warning("a stream was ended: its client reads too slowly")
                return
            data = b"".join(self._waiting)
            self._waiting, self._size = [], 0
            last = self._done
            if data or not last:
                await send(_body(data or _PING, more=True))
            if last and not self._waiting:
                await send(_body(b"", more=False))
                return


def _body(data: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    """Cancel when the client closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


class WatchedAnswer:
    """A response that takes a while to make: the client going away stops the making."""

    def __init__(
        self, make: Callable[[], Awaitable[Any]], on_error: Callable[[Exception], Any]
    ) -> None:
        self._make = make
        self._on_error = on_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        answer: Any = None
        async with anyio.create_task_group() as group:
            group.start_soon(_until_gone, receive, group.cancel_scope, name="client watch")
            try:
                answer = await self._make()
            except Exception as error:  # noqa: BLE001 - every failure is an answer
                answer = self._on_error(error)
            group.cancel_scope.cancel()
        if answer is not None:
            await answer(scope, receive, send)
