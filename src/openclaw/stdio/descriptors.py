"""File descriptor helpers that need no event loop. Import-light."""

import errno
import os
import queue
import signal
import sys
import threading
from asyncio import get_running_loop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

READ_BYTES = 256 * 1024  # a flood of small messages of this size takes a few milliseconds


def claim_stdio() -> "tuple[int, int]":
    """Keep stdin and stdout to ourselves, whatever a library reads or prints."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(null, 1)
    os.close(null)
    sys.stdout = sys.stderr
    return wire_in, wire_out


def run_and_leave(serve: "Callable[[], int | None]") -> "NoReturn":
    """Serve a client until it goes away, then exit with the returned code."""
    code = 0
    try:
        code = serve() or 0
    except BrokenPipeError:
        code = 0
    except KeyboardInterrupt:
        code = 130
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        sys.stderr.write(f"Cannot write the answers: {error.strerror}\n")
        code = 1
    sys.stderr.flush()
    # Once the client is gone, waiting threads and half-imported modules don't matter.
    os._exit(code)


def write_all(write: "Callable[[memoryview], int | None]", data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[write(view) or 0 :]


def on_termination(cancel: "Callable[[], Any]") -> None:
    if sys.platform == "win32":  # its event loop has no signal handlers; a client closes its end
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        get_running_loop().add_signal_handler(number, cancel)


class ThreadedReader:
    """Reads a descriptor on a thread, for one that the event loop can't watch.

    A thread that waits for a pipe can't be cancelled, so there is one for the life of the pipe:
    it reads for a caller that blocks in `get`, then, after `start`, for an event loop. The last
    chunk is empty. Only one chunk is in transit at a time.
    """

    def __init__(self, read: "Callable[[int], bytes]", name: str = "read") -> None:
        self._read = read
        self._chunks: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._hand_over: Callable[[bytes], Any] = self._chunks.put
        self._handing_over = threading.Lock()
        self._room = threading.Semaphore(1)
        self._may_read = threading.Event()
        self._may_read.set()
        self._closed = False
        threading.Thread(target=self._read_all, daemon=True, name=name).start()

    def get(self) -> bytes | None:
        """The next chunk, or None after `wake`; waits for either."""
        chunk = self._chunks.get()
        if chunk is not None:
            self._room.release()
        return chunk

    def wake(self) -> None:
        self._chunks.put(None)

    def start(self, on_chunk: "Callable[[bytes], None]") -> None:
        loop = get_running_loop()

        def arrived(chunk: bytes) -> None:
            try:
                if not self._closed:
                    on_chunk(chunk)
            finally:
                self._room.release()

        def hand_over(chunk: bytes) -> None:
            loop.call_soon_threadsafe(arrived, chunk)

        with self._handing_over:
            while not self._chunks.empty():
                chunk = self._chunks.get()
                if chunk is not None:
                    hand_over(chunk)
            self._hand_over = hand_over

    def pause(self) -> None:
        """Read nothing more until `resume`, except a chunk in transit."""
        self._may_read.clear()

    def resume(self) -> None:
        self._may_read.set()

    def drain(self, most: int) -> None:
        """Does nothing: here nothing can be read without waiting."""

    def close(self) -> None:
        """Deliver nothing more; the thread ends after its next read."""
        self._closed = True
        self._may_read.set()

    def _read_all(self) -> None:
        chunk = b"x"
        while chunk:
            self._room.acquire()
            self._may_read.wait()
            if self._closed:
                return
            try:
                chunk = self._read(READ_BYTES)
            except (OSError, ValueError):  # the other end, or our own, was closed
                chunk = b""
            with self._handing_over:
                try:
                    self._hand_over(chunk)
                except RuntimeError:  # the loop is closed
                    return
