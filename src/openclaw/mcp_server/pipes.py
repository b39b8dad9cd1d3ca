"""The client's pipes as the SDK's stream pair, on the event loop itself.

The SDK's own stdio runs each direction through a thread, which costs two and a half times the CPU.
Lines are assembled in linear time, and reading pauses while the server is behind.
"""

import asyncio
import contextlib
import os
import stat
import sys
from collections import deque
from collections.abc import Callable
from io import BytesIO
from types import TracebackType
from typing import Any, Self, cast

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic_core import from_json, to_json

from openclaw.core.ids import random_id
from openclaw.mcp_server.traffic import log_received, log_sent

_CHUNK = 1 << 18
_QUEUED_LINES = 64  # reading pauses above this many unread messages
_QUEUED_BYTES = 1 << 20  # writing waits above this many unsent bytes
_PARSE_IN_THREAD = 1 << 20  # a message of this size would hold up the loop while it is parsed
_SET_APART = 1 << 16  # base64 of this length goes onto the wire without being copied into the line
_MARK = f"\x00{random_id()}"  # no string of a message can be this
_PLACE = to_json(_MARK)[1:-1]
_F_SETPIPE_SZ, _PIPE_BYTES = 1031, 1 << 20
_DRAIN_SECONDS = 0.5  # what a client that stopped reading is given at the end

Queued = bytes | SessionMessage


def parse(line: bytes) -> SessionMessage | Exception:
    """One line as a message, or the error that the SDK then answers."""
    try:
        return SessionMessage(_validated(line))
    except ValueError as error:
        try:  # a stray byte inside a string costs that character, not the message
            text = line.decode("utf-8", "replace")
            return SessionMessage(types.jsonrpc_message_adapter.validate_json(text, by_name=False))
        except ValueError:
            return error


def _validated(line: bytes) -> types.JSONRPCMessage:
    if len(line) < _PARSE_IN_THREAD:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    # In one step, each kind of message that is tried would have a copy of the strings.
    return types.jsonrpc_message_adapter.validate_python(from_json(line), by_name=False)


class PipeReader:
    """The SDK's read stream over a file descriptor."""

    def __init__(self, fd: int, queued: list[Queued], rest: list[bytes], *, at_end: bool) -> None:
        self._fd = fd
        self._queue: deque[Queued] = deque(queued)
        self._rest = BytesIO()  # it grows where it lies; pieces to be joined would lie there twice
        self._rest.writelines(rest)
        rest.clear()
        self._at_end = at_end
        self._closed = False
        self._reading = False
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._pollable = _pollable(fd)
        _enlarge(fd)

    async def receive(self) -> SessionMessage | Exception:
        """The next message; EndOfStream when the client is gone."""
        while not self._queue:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._at_end:
                raise anyio.EndOfStream
            await self._wait()
        item = self._queue.popleft()
        if len(self._queue) < _QUEUED_LINES // 2:
            self._resume()
        if isinstance(item, SessionMessage):
            message: SessionMessage | Exception = item
        elif len(item) >= _PARSE_IN_THREAD:
            message = await anyio.to_thread.run_sync(parse, item)
        else:
            message = parse(item)
        log_received(message)
        return message

    async def _wait(self) -> None:
        if not self._pollable:
            self._take(await anyio.to_thread.run_sync(os.read, self._fd, _CHUNK))
            return
        self._resume()
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _resume(self) -> None:
        if self._pollable and not (self._reading or self._at_end or self._closed):
            self._loop.add_reader(self._fd, self._readable)
            self._reading = True

    def _pause(self) -> None:
        if self._reading:
            self._loop.remove_reader(self._fd)
            self._reading = False

    def _readable(self) -> None:
        try:
            chunk = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self._take(chunk)
        if self._at_end or len(self._queue) >= _QUEUED_LINES:
            self._pause()

    def _take(self, chunk: bytes) -> None:
        if not chunk:
            self._at_end = True
        elif b"\n" not in chunk:
            self._rest.write(chunk)
            return
        else:
            head, *tail = chunk.split(b"\n")
            self._rest.write(head)
            first = self._rest.getvalue()
            self._rest = BytesIO()
            self._rest.write(tail.pop())
            self._queue.extend(line for line in (first, *tail) if line and not line.isspace())
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

    async def __anext__(self) -> SessionMessage | Exception:
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
    """The SDK's write stream over a file descriptor. `keep_back` may take a message off the wire."""

    def __init__(self, fd: int, keep_back: Callable[[SessionMessage], bool]) -> None:
        self._fd = fd
        self._keep_back = keep_back
        self._unsent: deque[memoryview | str] = deque()  # words become bytes when their turn comes
        self._size = 0
        self._closed = False
        self._emptying = False
        self._broken = False
        self._drained: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        # O_NONBLOCK belongs to the open file, which stderr may share: its prints would then fail.
        if sys.platform != "win32" and _pollable(fd) and not os.path.sameopenfile(fd, 2):
            os.set_blocking(fd, False)

    async def send(self, item: SessionMessage) -> None:
        """Write a message; waits only while the client lags far behind."""
        if self._closed:
            raise anyio.ClosedResourceError
        if self._broken:
            raise anyio.BrokenResourceError
        log_sent(item)
        if self._keep_back(item):
            return
        for piece in encode(item):
            self._write(piece)
        while self._size > _QUEUED_BYTES and not self._broken:
            await self._wait_until_drained()

    def _write(self, piece: bytes | str) -> None:
        if not self._unsent:
            view = memoryview(_as_bytes(piece))
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
            view = memoryview(_as_bytes(head)) if isinstance(head, str) else head
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
            while self._unsent and not self._broken:
                await self._wait_until_drained()
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


def _as_bytes(piece: bytes | str) -> bytes:
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
