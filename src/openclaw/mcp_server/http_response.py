"""One HTTP request and its response: JSON if the answer is there soon, otherwise a stream."""

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel

from openclaw.mcp.http import EVENT_STREAM, JSON
from openclaw.mcp.http_server import Form, Headers, Refusal, refuse
from openclaw.mcp.sse import COMMENT

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_QUEUED = 64  # pieces from which a call waits for its client to read
_STREAM_AFTER = 1.0  # seconds after which an answer is begun as a stream, so that it can be resumed
_KEEP_ALIVE = 15.0
_STREAM_HEADERS = [
    (b"content-type", EVENT_STREAM.encode()),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True)
class Piece:
    """Something for a client to read, as JSON and as an event. The answer is the last."""

    json: bytes
    event: bytes
    is_answer: bool
    status: int = 200


class Pipe:
    """What is written to one HTTP response; the client may be gone."""

    def __init__(self) -> None:
        self._put, self._take = anyio.create_memory_object_stream[Piece](_QUEUED)

    async def put(self, piece: Piece) -> None:
        """Waits if the client is far behind, and only then: an answer that is ready is there at once."""
        if not self.put_nowait(piece):
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await self._put.send(piece)

    def put_nowait(self, piece: Piece) -> bool:
        try:
            self._put.send_nowait(piece)
        except (anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return False
        return True

    async def take(self) -> Piece | None:
        """The next piece; None at the end."""
        try:
            return await self._take.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError):
            return None

    def take_nowait(self) -> Piece | None:
        try:
            return self._take.receive_nowait()
        except (anyio.WouldBlock, anyio.EndOfStream, anyio.ClosedResourceError):
            return None

    def end(self) -> None:
        """Nothing follows what is in it."""
        self._put.close()

    def break_off(self) -> None:
        """Nobody reads any more."""
        self._take.close()
        self._put.close()


@dataclass(frozen=True, slots=True)
class Exchange:
    """One HTTP request and its response."""

    scope: Scope
    receive: Receive
    send: Send

    @property
    def headers(self) -> Headers:
        return [
            (name.decode("latin-1"), value.decode("latin-1"))
            for name, value in self.scope["headers"]
        ]

    async def body(self, most: int) -> bytes | Refusal:
        pieces, size, more = list[bytes](), 0, True
        while more:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                return refuse(400, "the request was cut off")
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            more = message.get("more_body", False)
            if size > most:
                return refuse(413, f"a request of over {most} bytes is not accepted")
        return b"".join(pieces)

    async def refuse(self, refusal: Refusal) -> None:
        more = [] if refusal.allow is None else [(b"allow", refusal.allow.encode())]
        await self.answer(refusal.status, refusal.body, *more)

    async def answer(self, status: int, body: bytes = b"", *more: tuple[bytes, bytes]) -> None:
        headers = [(b"content-length", b"%d" % len(body)), *more]
        if body:
            headers.append((b"content-type", JSON.encode()))
        await self.send({"type": "http.response.start", "status": status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body})

    async def respond(self, pipe: Pipe, form: Form, primer: bytes = b"") -> None:
        """Answer with JSON if the answer comes soon and alone, otherwise with a stream.

        If the client goes away, nobody reads the pipe any more.
        """
        await anyio.lowlevel.checkpoint()  # a call that need not wait is answered by now
        first = pipe.take_nowait()
        if first is not None and first.is_answer and form is not Form.STREAM:
            await self.answer(first.status, first.json)
            return
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, pipe, name="disconnect")
            if form is Form.JSON:
                await self._respond_with_json(pipe, first)
            else:
                await self._respond_with_either(pipe, first, form, primer)
            tasks.cancel_scope.cancel()

    async def _respond_with_json(self, pipe: Pipe, piece: Piece | None) -> None:
        while piece is None or not piece.is_answer:  # the client takes nothing else
            piece = await pipe.take()
            if piece is None:
                await self.answer(202)
                return
        await self.answer(piece.status, piece.json)

    async def _respond_with_either(
        self, pipe: Pipe, first: Piece | None, form: Form, primer: bytes
    ) -> None:
        if first is None and form is Form.EITHER:
            with anyio.move_on_after(_STREAM_AFTER) as soon:
                first = await pipe.take()
            if first is not None and first.is_answer:
                await self.answer(first.status, first.json)
                return
            if first is None and not soon.cancelled_caught and not primer:
                await self.answer(202)  # the client cancelled the call
                return
        await self.begin_stream(primer + (first.event if first is not None else b""))
        await self.stream(pipe)

    async def begin_stream(self, data: bytes = b"") -> None:
        start = {"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS}
        await self.send(start)
        await self._write(data)  # an empty piece sends the headers

    async def stream(self, pipe: Pipe) -> None:
        """Write what comes, and signs of life, until the end."""
        while True:
            data = COMMENT
            with anyio.move_on_after(_KEEP_ALIVE):
                piece = await pipe.take()
                if piece is None:
                    break
                data = piece.event
            await self._write(data)
        await self.send({"type": "http.response.body", "body": b""})

    async def stream_watched(self, pipe: Pipe) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, pipe, name="disconnect")
            await self.stream(pipe)
            tasks.cancel_scope.cancel()

    async def _write(self, data: bytes) -> None:
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def _watch(self, pipe: Pipe) -> None:
        while (await self.receive())["type"] != "http.disconnect":
            pass
        pipe.break_off()
