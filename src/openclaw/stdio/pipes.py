"""Reading and writing pipes on the event loop, or in threads if the loop can't watch them.

There is no task or queue between a pipe and its user: most of a call's time would go there.
"""

import contextlib
import os
import queue
import stat
import sys
import threading
from abc import ABC, abstractmethod
from asyncio import FIRST_COMPLETED, Future, get_running_loop, wait
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from openclaw.stdio.descriptors import READ_BYTES, ThreadedReader, write_all
from openclaw.stdio.lines import LineSplitter, TooLong

HIGH_WATER = 1 << 20  # unsent bytes from which a caller waits before it adds more
_QUEUED_LINES = 64  # waiting lines from which reading pauses
_F_SETPIPE_SZ, _PIPE_BYTES = 1031, 1 << 20

# ASCII text is encoded only when it is written, so that it isn't in memory twice
Piece = bytes | str


class WatchedReader:
    """Gives chunks to a function as they come; the last is empty."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = get_running_loop()
        self._on_chunk: Callable[[bytes], None]
        self._watching = self._ended = False

    def start(self, on_chunk: Callable[[bytes], None]) -> None:
        self._on_chunk = on_chunk
        self.resume()

    def pause(self) -> None:
        if self._watching:
            self._watching = False
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        if not (self._watching or self._ended):
            self._watching = True
            self._loop.add_reader(self._fd, self._readable)

    def drain(self, most: int) -> None:
        """Take what is already there, up to so many bytes, even while paused."""
        while not self._ended and most > 0:
            try:
                chunk = os.read(self._fd, READ_BYTES)
            except OSError:
                return
            if not chunk:
                return
            most -= len(chunk)
            self._on_chunk(chunk)

    def close(self) -> None:
        self.pause()
        self._ended = True

    def _readable(self) -> None:
        try:
            chunk = os.read(self._fd, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
        self._on_chunk(chunk)


Reader = WatchedReader | ThreadedReader


class Writer(ABC):
    """Takes data at once and writes it as fast as the other side reads."""

    def __init__(self) -> None:
        self._loop = get_running_loop()
        self._progress: Future[None] | None = None
        self.unsent: int = 0
        self.failure: Exception | None = None
        self.on_broken: Callable[[], None] | None = None

    @property
    def broken(self) -> bool:
        return self.failure is not None

    @abstractmethod
    def write(self, piece: Piece) -> bool:
        """Write this, now or later; False if that is impossible."""

    @abstractmethod
    def close(self) -> None:
        """Write nothing more, not even what is unsent. The descriptor stays open."""

    async def drained(
        self, most: int = HIGH_WATER // 2, unless: "Future[Any] | None" = None
    ) -> None:
        """Wait until at most `most` bytes are unsent, none can be sent, or `unless` is done."""
        while self.unsent > most and not (unless is not None and unless.done()):
            if self._progress is None:
                self._progress = self._loop.create_future()
            await wait({self._progress, unless or self._progress}, return_when=FIRST_COMPLETED)

    def _sent(self, size: int) -> None:
        self.unsent -= size
        if self._progress is not None:
            self._progress.set_result(None)
            self._progress = None

    def _break(self, error: Exception) -> None:
        self.failure = error
        self.close()
        if self.on_broken is not None:
            self.on_broken()


class WatchedWriter(Writer):
    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self._pieces: deque[memoryview | str] = deque()
        self._closed = self._watching = False

    def write(self, piece: Piece) -> bool:
        if self._closed:
            return False
        if self._pieces:
            self._pieces.append(memoryview(piece) if isinstance(piece, bytes) else piece)
            self.unsent += len(piece)
            return True
        data = as_bytes(piece)
        written = self._write_some(data)
        if self.broken:
            return False
        if written < len(data):
            self._pieces.append(memoryview(data)[written:])
            self.unsent += len(data) - written
            self._watching = True
            self._loop.add_writer(self._fd, self._writable)
        return True

    def close(self) -> None:
        # The descriptor may be closed by now and its number reused, so it is only unwatched.
        self._closed = True
        self._unwatch()
        self._pieces.clear()
        self._sent(self.unsent)

    def _unwatch(self) -> None:
        if self._watching:
            self._watching = False
            self._loop.remove_writer(self._fd)

    def _write_some(self, data: bytes | memoryview) -> int:
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            self._break(error)
            return 0

    def _writable(self) -> None:
        while self._pieces:
            head = self._pieces[0]
            view = memoryview(as_bytes(head)) if isinstance(head, str) else head
            written = self._write_some(view)
            if self.broken:
                return
            self._sent(written)
            if written < len(view):
                self._pieces[0] = view[written:]
                return
            self._pieces.popleft()
        self._unwatch()


class ThreadedWriter(Writer):
    """For descriptors that the event loop can't watch."""

    def __init__(self, write: Callable[[memoryview], int | None], name: str = "write") -> None:
        super().__init__()
        self._write = write
        self._closed = False
        self._pieces: queue.SimpleQueue[Piece | None] = queue.SimpleQueue()
        threading.Thread(target=self._write_all, daemon=True, name=name).start()

    def write(self, piece: Piece) -> bool:
        if self._closed:
            return False
        self.unsent += len(piece)
        self._pieces.put(piece)
        return True

    def close(self) -> None:
        """A thread that is still writing is left behind; it ends when the pipe does."""
        self._closed = True
        self._pieces.put(None)
        self._sent(self.unsent)

    def _write_all(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            while (piece := self._pieces.get()) is not None:
                try:
                    write_all(self._write, as_bytes(piece))
                except (OSError, ValueError) as error:
                    self._loop.call_soon_threadsafe(self._break, error)
                    return
                self._loop.call_soon_threadsafe(self._written, len(piece))

    def _written(self, size: int) -> None:
        if not self._closed:
            self._sent(size)


class LineReader:
    """Lines to be taken one at a time; reading pauses while many wait."""

    def __init__(self, reader: Reader, splitter: LineSplitter, *, at_end: bool = False) -> None:
        self._reader = reader
        self._splitter = splitter
        self._lines: deque[bytes | TooLong] = deque()
        self._at_end = at_end
        self._closed = False
        self._waiter: Future[None] | None = None
        if not at_end:
            reader.start(self._arrived)

    async def next(self) -> bytes | TooLong | None:
        """The next line, or None at the end. Raises ClosedResourceError after `close`."""
        while not self._lines:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._at_end:
                return None
            self._waiter = get_running_loop().create_future()
            await self._waiter
        line = self._lines.popleft()
        if len(self._lines) < _QUEUED_LINES // 2 and not self._closed:
            self._reader.resume()
        return line

    def close(self) -> None:
        self._closed = True
        self._reader.close()
        self._wake()

    def _arrived(self, chunk: bytes) -> None:
        self._at_end = not chunk
        self._lines.extend(self._splitter.feed(chunk) if chunk else self._splitter.finish())
        if len(self._lines) >= _QUEUED_LINES:
            self._reader.pause()
        if self._lines or self._at_end:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


def open_reader(fd: int) -> Reader:
    if not _watchable(fd):
        return ThreadedReader(partial(os.read, fd))
    enlarge(fd)
    return WatchedReader(fd)


def open_writer(fd: int) -> Writer:
    if not _watchable(fd) or sys.platform == "win32":
        return ThreadedWriter(partial(os.write, fd))
    # O_NONBLOCK belongs to the open file, which stderr may share: its prints would then fail.
    if not os.path.sameopenfile(fd, 2):
        os.set_blocking(fd, False)
    return WatchedWriter(fd)


def as_bytes(piece: Piece) -> bytes:
    return piece if isinstance(piece, bytes) else piece.encode("ascii")


def enlarge(fd: int) -> None:
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(fd, _F_SETPIPE_SZ, _PIPE_BYTES)


def _watchable(fd: int) -> bool:
    """Whether the event loop can watch it; it can't watch files, or devices such as /dev/null."""
    mode = os.fstat(fd).st_mode
    return sys.platform != "win32" and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd))
