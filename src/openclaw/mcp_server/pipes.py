"""The client's pipes as the SDK's stream pair, on the event loop itself.

The SDK's own stdio runs each direction through a thread, which costs two and a half times the CPU.
Lines are assembled in linear time, and reading pauses while the server is behind.
"""

import asyncio
import contextlib
import json
import logging
import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import chain
from types import TracebackType
from typing import Any, Self, cast

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from pydantic_core import to_json

from openclaw.core.ids import random_id
from openclaw.mcp_server.line_parsing import (
    LONGEST_LINE,
    PARSE_IN_THREAD,
    Assembler,
    Judged,
    TooLong,
    judge,
    judge_too_long,
)

traffic_logger = logging.getLogger("openclaw.mcp_server.pipes")

_MEDIA_KEYS = ("data", "blob")
_LONGEST_TEXT = 2_000
_LONGEST_LINE = 20_000


def log_received(item: SessionMessage) -> None:
    """Log a message of the client's."""
    if traffic_logger.isEnabledFor(logging.DEBUG):
        traffic_logger.debug("received %s", _shown(item))


def log_sent(item: SessionMessage) -> None:
    """Log a message to the client."""
    if traffic_logger.isEnabledFor(logging.DEBUG):
        traffic_logger.debug("sent %s", _shown(item))


def _shown(item: SessionMessage) -> str:
    body = item.message.model_dump(by_alias=True, exclude_unset=True)
    return json.dumps(abridge(body), ensure_ascii=False)[:_LONGEST_LINE]


def abridge(value: Any, key: str = "") -> Any:
    """The value with media as sizes and long texts cut."""
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value)
        return {name: abridge(inner, name) for name, inner in inside.items()}
    if isinstance(value, list):
        return [abridge(inner) for inner in cast("list[Any]", value)]
    if isinstance(value, str):
        if key in _MEDIA_KEYS and len(value) > 64:
            return f"<{len(value) * 3 // 4} bytes as base64>"
        if len(value) > _LONGEST_TEXT:
            return f"{value[:_LONGEST_TEXT]}… <{len(value)} characters>"
    return value


logger = logging.getLogger(__name__)

_WITH_BATCHES = "2025-03-26"
"""The one revision in which several messages may come as one line."""

Answer = types.JSONRPCResponse | types.JSONRPCError


class _Batch:
    """The answers to a batch, until the last one is there."""

    def __init__(self, faults: list[types.JSONRPCError]) -> None:
        self.waiting: list[types.RequestId] = []
        self.answers: list[SessionMessage] = [SessionMessage(fault) for fault in faults]


class Conversation:
    """The state of one connection that its reader and its writer share.

    `tell` is set by the writer: it puts messages onto the wire as one line, without waiting.
    """

    def __init__(self, keep_back: Callable[[SessionMessage], bool]) -> None:
        self._keep_back = keep_back
        self._revision = ""
        self._batches: list[_Batch] = []
        self.tell: Callable[[list[SessionMessage], bool], None] = _nobody

    @property
    def takes_batches(self) -> bool:
        """Whether the revision that was agreed on has them."""
        return self._revision == _WITH_BATCHES

    def noticed(self, item: SessionMessage) -> None:
        """A message goes to the SDK."""
        message = item.message
        if isinstance(message, types.JSONRPCRequest) and message.method == "initialize":
            asked = (message.params or {}).get("protocolVersion")
            known = asked in HANDSHAKE_PROTOCOL_VERSIONS
            self._revision = str(asked) if known else LATEST_HANDSHAKE_VERSION

    def taken(self, judged: Judged) -> list[SessionMessage]:
        """A line's messages for the SDK; its faults are told."""
        for fault in judged.faults:
            logger.debug("refused: %s", fault.error.message)
        if judged.batch:
            return self._take_batch(judged)
        if judged.faults:
            self.tell([SessionMessage(fault) for fault in judged.faults], False)
        return [SessionMessage(message) for message in judged.messages]

    def keep_back(self, item: SessionMessage) -> bool:
        """Whether this does not go onto the wire, or not yet."""
        if self._keep_back(item):
            return True
        message = item.message
        if not self._batches or not isinstance(message, Answer):
            return False
        batch = next((one for one in self._batches if message.id in one.waiting), None)
        if batch is None:
            return False
        batch.answers.append(item)
        self._settle(batch, message.id)
        return True

    def _take_batch(self, judged: Judged) -> list[SessionMessage]:
        batch = _Batch(judged.faults)
        items: list[SessionMessage] = []
        for message in judged.messages:
            metadata = None
            if isinstance(message, types.JSONRPCRequest):
                batch.waiting.append(message.id)
                unanswered = partial(self._unanswered, batch, message.id)
                metadata = ServerMessageMetadata(on_request_unanswered=unanswered)
            items.append(SessionMessage(message, metadata))
        self._batches.append(batch)
        self._settle(batch, None)
        return items

    async def _unanswered(self, batch: _Batch, request_id: types.RequestId) -> None:
        """The client cancelled this one: its batch does not wait for it."""
        self._settle(batch, request_id)

    def _settle(self, batch: _Batch, request_id: types.RequestId | None) -> None:
        if request_id in batch.waiting:
            batch.waiting.remove(request_id)
        if not batch.waiting and batch in self._batches:
            self._batches.remove(batch)
            if batch.answers:
                self.tell(batch.answers, True)


def _nobody(messages: list[SessionMessage], batch: bool) -> None:
    """Nobody listens before there is a writer."""


_CHUNK = 1 << 18
_QUEUED_LINES = 64  # reading pauses above this many unread messages
_QUEUED_BYTES = 1 << 20  # writing waits above this many unsent bytes
_SET_APART = 1 << 16  # base64 of this length goes onto the wire without being copied into the line
_MARK = f"\x00{random_id()}"  # no string of a message can be this
_PLACE = to_json(_MARK)[1:-1]
_F_SETPIPE_SZ, _PIPE_BYTES = 1031, 1 << 20
_DRAIN_SECONDS = 0.5  # what a client that stopped reading is given at the end

Queued = bytes | SessionMessage


class PipeReader:
    """The SDK's read stream over a file descriptor."""

    def __init__(
        self,
        fd: int,
        conversation: Conversation,
        *,
        queued: list[Queued],
        rest: list[bytes],
        at_end: bool,
        limit: int = LONGEST_LINE,
    ) -> None:
        self._fd = fd
        self._conversation = conversation
        self._limit = limit
        self._queue: deque[Queued | TooLong] = deque(queued)
        self._ready: deque[SessionMessage] = deque()
        self._lines = Assembler(rest, limit)
        self._at_end = at_end
        self._closed = False
        self._reading = False
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._watched = _pollable(fd)
        _enlarge(fd)

    async def receive(self) -> SessionMessage:
        """The next message; EndOfStream when the client is gone. What is none is answered here."""
        while not self._ready:
            item = await self._next()
            if isinstance(item, SessionMessage):
                self._ready.append(item)
            else:
                self._ready.extend(self._conversation.taken(await self._judged(item)))
        message = self._ready.popleft()
        self._conversation.noticed(message)
        log_received(message)
        return message

    async def _next(self) -> Queued | TooLong:
        while not self._queue:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._at_end:
                raise anyio.EndOfStream
            await self._wait()
        item = self._queue.popleft()
        if len(self._queue) < _QUEUED_LINES // 2:
            self._resume()
        return item

    async def _judged(self, line: bytes | TooLong) -> Judged:
        if isinstance(line, TooLong):
            return judge_too_long(line, self._limit)
        batches = self._conversation.takes_batches
        if len(line) < PARSE_IN_THREAD:
            return judge(line, batches=batches)
        return await anyio.to_thread.run_sync(partial(judge, line, batches=batches))

    async def _wait(self) -> None:
        if not self._watched:
            self._take(await anyio.to_thread.run_sync(os.read, self._fd, _CHUNK))
            return
        self._resume()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _resume(self) -> None:
        if self._watched and not (self._reading or self._at_end or self._closed):
            self._reading = True
            self._watch()

    def _pause(self) -> None:
        if self._reading:
            self._reading = False
            self._unwatch()

    def _watch(self) -> None:
        self._loop.add_reader(self._fd, self._readable)

    def _unwatch(self) -> None:
        self._loop.remove_reader(self._fd)

    def _readable(self) -> None:
        try:
            chunk = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self._arrived(chunk)

    def _arrived(self, chunk: bytes) -> None:
        self._take(chunk)
        if self._at_end or len(self._queue) >= _QUEUED_LINES:
            self._pause()

    def _take(self, chunk: bytes) -> None:
        if chunk:
            lines = self._lines.feed(chunk)
        else:
            self._at_end = True
            lines = self._lines.finish()
        self._queue.extend(lines)
        if lines or self._at_end:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def aclose(self) -> None:
        """Stop reading."""
        self._closed = True
        self._pause()
        self._wake()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


class PipeWriter:
    """The SDK's write stream over a file descriptor, and what else the client is told."""

    def __init__(self, fd: int, conversation: Conversation) -> None:
        self._fd = fd
        self._conversation = conversation
        conversation.tell = self.tell
        self._unsent: deque[memoryview | str] = deque()  # words become bytes when their turn comes
        self._size = 0
        self._closed = False
        self._emptying = False
        self._broken = False
        self._drained: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._open()

    def _open(self) -> None:
        # O_NONBLOCK belongs to the open file, which stderr may share: its prints would then fail.
        fd = self._fd
        if sys.platform != "win32" and _pollable(fd) and not os.path.sameopenfile(fd, 2):
            os.set_blocking(fd, False)

    async def send(self, item: SessionMessage) -> None:
        """Write a message; waits only while the client lags far behind."""
        if self._closed:
            raise anyio.ClosedResourceError
        if self._broken:
            raise anyio.BrokenResourceError
        log_sent(item)
        if not self._conversation.keep_back(item):
            for piece in encode(item):
                self._write(piece)
        while self._size > _QUEUED_BYTES and not self._broken:
            await self._wait_until_drained()

    def tell(self, items: list[SessionMessage], batch: bool) -> None:
        """Write what nobody waits to have written. A client that lags too far is told no faults."""
        faults = not batch
        if self._closed or self._broken or (faults and self._size > _QUEUED_BYTES):
            return
        for item in items:
            log_sent(item)
        for piece in encode_batch(items) if batch else chain.from_iterable(map(encode, items)):
            self._write(piece)

    def _write(self, piece: bytes | str) -> None:
        if not self._unsent:
            view = memoryview(as_bytes(piece))
            view = view[self._write_some(view) :]
            if not view or self._broken:
                return
            self._loop.add_writer(self._fd, self._flush)
            self._unsent.append(view)
            self._size += len(view)
        else:
            self._unsent.append(memoryview(piece) if isinstance(piece, bytes) else piece)
            self._size += len(piece)

    def _write_some(self, view: memoryview) -> int:
        try:
            return os.write(self._fd, view)
        except BlockingIOError:
            return 0
        except OSError:
            self._broken = True
            return 0

    def _flush(self) -> None:
        while self._unsent and not self._broken:
            head = self._unsent[0]
            view = memoryview(as_bytes(head)) if isinstance(head, str) else head
            written = self._write_some(view)
            self._size -= written
            if written < len(view):
                self._unsent[0] = view[written:]
                break
            self._unsent.popleft()
        if self._broken or not self._unsent:
            self._loop.remove_writer(self._fd)
        if self._broken:
            self._unsent.clear()
            self._size = 0
        self._tell_drained()

    def _tell_drained(self) -> None:
        enough = 0 if self._emptying else _QUEUED_BYTES // 2
        if self._drained is not None and self._size <= enough:
            self._drained.set_result(None)
            self._drained = None

    async def _wait_until_drained(self) -> None:
        if self._drained is None:
            self._drained = self._loop.create_future()
        await asyncio.shield(self._drained)

    async def aclose(self) -> None:
        """Send what is unsent, within a bound, and stop."""
        if self._closed:
            return
        self._closed = True
        self._emptying = True
        with anyio.move_on_after(_DRAIN_SECONDS, shield=True):
            while self._size and not self._broken:
                await self._wait_until_drained()
        self._stop()

    def _stop(self) -> None:
        if self._unsent:
            self._loop.remove_writer(self._fd)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


def encode(item: SessionMessage) -> list[bytes | str]:
    """A message as the pieces of a line. What is large is not copied: it is one of the pieces."""
    large: list[str] = []
    message = item.message
    if isinstance(message, types.JSONRPCResponse):
        message = message.model_copy(update={"result": _set_apart(message.result, large)})
    line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    pieces: list[bytes | str] = []
    for words in large:
        before, line = line.split(_PLACE, 1)
        pieces += [before, words]
    return [*pieces, line + b"\n"]


def encode_batch(items: list[SessionMessage]) -> list[bytes | str]:
    """Several messages as the pieces of one line."""
    pieces: list[bytes | str] = [b"["]
    for item in items:
        *large, last = encode(item)
        pieces += [*large, as_bytes(last)[:-1], b","]
    return [*pieces[:-1], b"]\n"]


def _set_apart(value: Any, large: list[str]) -> Any:
    """The value with a mark in the place of each long base64."""
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value)
        return {
            key: _mark(inner, large) if key in ("data", "blob") else _set_apart(inner, large)
            for key, inner in inside.items()
        }
    if isinstance(value, list):
        return [_set_apart(inner, large) for inner in cast("list[Any]", value)]
    return value


def _mark(value: Any, large: list[str]) -> Any:
    plain = isinstance(value, str) and len(value) >= _SET_APART and _needs_no_escape(value)
    if not plain:
        return value
    large.append(value)
    return _MARK


def _needs_no_escape(text: str) -> bool:
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def as_bytes(piece: bytes | str) -> bytes:
    """A piece as it goes onto the wire."""
    return piece if isinstance(piece, bytes) else piece.encode("ascii")


def _enlarge(fd: int) -> None:
    """Ask for a pipe that takes more at once, where the system lets us."""
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_BYTES)


def _pollable(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)
