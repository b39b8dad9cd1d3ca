"""Reads the client's pipe on a thread, for systems that cannot wait for it and anything else at once.

A thread that waits for a pipe cannot be called off, so there is one for the life of the connection:
first the handshake takes what it reads, then the SDK's side. Imports are few, as in `front`.
"""

import os
import queue
import threading

_CHUNK = 1 << 18
_AHEAD = 8  # pieces that may lie unread; then the client has to wait


class Pieces:
    """The pieces in the order in which they came; the last one is empty. None is a wake-up call."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pieces: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(_AHEAD)

    def start(self) -> None:
        """Start to read."""
        threading.Thread(target=self._read, daemon=True, name="read-client").start()

    def get(self) -> bytes | None:
        """The next piece, or None after `wake`; waits for either."""
        piece = self._pieces.get()
        if piece is not None:
            self._room.release()
        return piece

    def wake(self) -> None:
        """Let whoever waits for a piece have None."""
        self._pieces.put(None)

    def _read(self) -> None:
        chunk = b"x"
        while chunk:
            self._room.acquire()
            try:
                chunk = os.read(self._fd, _CHUNK)
            except OSError:
                chunk = b""
            self._pieces.put(chunk)
