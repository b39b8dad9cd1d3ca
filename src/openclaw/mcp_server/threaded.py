"""The client's pipes by threads, for systems whose event loop cannot watch them (Windows)."""

import contextlib
import os
import queue
import threading
from typing import Any

from openclaw.mcp_server.chunk_reader import Pieces
from openclaw.mcp_server.pipes import Conversation, PipeReader, PipeWriter, as_bytes


class ThreadedReader(PipeReader):
    """The SDK's read stream over what a thread reads."""

    def __init__(self, fd: int, conversation: Conversation, pieces: Pieces, **rest: Any) -> None:
        super().__init__(fd, conversation, **rest)
        self._pieces = pieces
        self._may_read = threading.Event()
        self._watched = True
        threading.Thread(target=self._pump, daemon=True, name="take-client").start()

    def _watch(self) -> None:
        self._may_read.set()

    def _unwatch(self) -> None:
        self._may_read.clear()

    def _pump(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            while not (self._at_end or self._closed):
                self._may_read.wait()
                piece = self._pieces.get()
                if piece is not None:
                    self._loop.call_soon_threadsafe(self._arrived, piece)
                if piece == b"":
                    return


class ThreadedWriter(PipeWriter):
    """The SDK's write stream, whose bytes a thread writes."""

    def _open(self) -> None:
        self._outgoing: queue.SimpleQueue[bytes | str] = queue.SimpleQueue()
        threading.Thread(target=self._send_all, daemon=True, name="write-client").start()

    def _write(self, piece: bytes | str) -> None:
        self._size += len(piece)
        self._outgoing.put(piece)

    def _stop(self) -> None:
        """A thread that still writes is left behind: it ends with the process."""

    def _send_all(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            broken = False
            while not broken:
                piece = self._outgoing.get()
                broken = not _written(self._fd, as_bytes(piece))
                self._loop.call_soon_threadsafe(self._sent, len(piece), broken)

    def _sent(self, size: int, broken: bool) -> None:
        self._broken = self._broken or broken
        self._size = 0 if self._broken else self._size - size
        self._tell_drained()


def _written(fd: int, data: bytes) -> bool:
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        return False
    return True
