"""A child's pipes by threads, for systems whose event loop cannot watch them (Windows)."""

import contextlib
import queue
import threading
from collections.abc import Callable
from subprocess import Popen
from typing import IO

from openclaw.mcp_client.line_pipe import LinePipe
from openclaw.mcp_client.pipes import READ_BYTES, OnEnd, OnLines, StderrSink, nobody


class ThreadedPipe(LinePipe):
    """Three threads that do nothing but move bytes; all else happens on the event loop."""

    def __init__(
        self,
        process: "Popen[bytes]",
        *,
        limit: int,
        on_lines: OnLines,
        on_end: OnEnd,
        stderr: StderrSink,
    ) -> None:
        super().__init__(limit=limit, on_lines=on_lines, on_end=on_end, stderr=stderr)
        self._process = process
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._may_read = threading.Event()

    def open(self) -> None:
        """Start to read."""
        self._may_read.set()
        stdout, stderr = self._process.stdout, self._process.stderr
        assert stdout is not None
        assert stderr is not None
        self._thread("stdout", lambda: self._read(stdout, self._take, self._may_read))
        always = threading.Event()
        always.set()
        self._thread("stderr", lambda: self._read(stderr, self._stderr.feed, always))
        self._thread("stdin", self._send_all)

    def pause(self) -> None:
        """Read no more until `resume`; the server waits once its pipe is full."""
        self._may_read.clear()

    def resume(self) -> None:
        """Read again."""
        self._may_read.set()

    def write(self, line: bytes) -> bool:
        """Send a line as soon as the server takes it; False where it cannot be sent."""
        if self._ended or self._closed:
            return False
        self._unsent_bytes += len(line)
        self._outgoing.put(line)
        return True

    def discard(self) -> None:
        """Send no more and let go what still comes."""
        self._ended = True
        self._on_lines = nobody
        self._outgoing.put(None)
        self.resume()
        self._wake()

    def close(self) -> None:
        """Stop; the threads leave when the process's pipes close."""
        self._closed = True
        self._outgoing.put(None)
        self.resume()

    def _let_go(self) -> None:
        self._wake()

    def _thread(self, name: str, target: Callable[[], None]) -> None:
        title = f"{name} of {self._process.pid}"
        threading.Thread(target=target, name=title, daemon=True).start()

    def _read(
        self, pipe: "IO[bytes]", take: Callable[[bytes], None], may_read: threading.Event
    ) -> None:
        taken = threading.Semaphore(1)

        def deliver(chunk: bytes) -> None:
            try:
                if not self._closed:
                    take(chunk)
            finally:
                taken.release()

        # Read by the file, not by its number, which is another's once the file is closed.
        with contextlib.suppress(OSError, ValueError, RuntimeError):  # closed pipes, a closed loop
            while not self._closed:
                taken.acquire()  # one piece on its way at a time
                may_read.wait()
                chunk = pipe.read(READ_BYTES)
                if not chunk:
                    return
                self._loop.call_soon_threadsafe(deliver, chunk)

    def _send_all(self) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            while (line := self._outgoing.get()) is not None:
                stdin.write(line)
                stdin.flush()
                self._loop.call_soon_threadsafe(self._sent, len(line))

    def _sent(self, size: int) -> None:
        self._unsent_bytes -= size
        if not self.congested:
            self._wake()
