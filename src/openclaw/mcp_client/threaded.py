"""A child's pipes by threads, for systems whose event loop cannot watch them (Windows)."""

import contextlib
import os
import queue
import threading
from asyncio import Future, get_running_loop
from collections.abc import Callable
from subprocess import Popen
from typing import Any

from openclaw.mcp_client.lines import LineSplitter, Oversize
from openclaw.mcp_client.pipes import (
    HARD_LIMIT,
    HIGH_WATER,
    READ_BYTES,
    OnEnd,
    OnLines,
    StderrSink,
    either,
    nobody,
)


class ThreadedPipe:
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
        self._process = process
        self._loop = get_running_loop()
        self._splitter = LineSplitter(limit)
        self._on_lines, self._on_end, self._stderr = on_lines, on_end, stderr
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._unsent_bytes = 0
        self._drained: Future[None] | None = None
        self._may_read = threading.Event()
        self._ended = self._closed = False

    def open(self) -> None:
        """Start to read."""
        self._may_read.set()
        stdout, stderr = self._process.stdout, self._process.stderr
        assert stdout is not None
        assert stderr is not None
        self._thread("stdout", lambda: self._read(stdout.fileno(), self._take, self._may_read))
        always = threading.Event()
        always.set()
        self._thread("stderr", lambda: self._read(stderr.fileno(), self._stderr.feed, always))
        self._thread("stdin", self._send_all)

    def pause(self) -> None:
        """Read no more until `resume`; the server waits once its pipe is full."""
        self._may_read.clear()

    def resume(self) -> None:
        """Read again."""
        self._may_read.set()

    @property
    def congested(self) -> bool:
        """Whether so much is unsent that a caller should wait."""
        return self._unsent_bytes > HIGH_WATER

    async def drained(self, unless: "Future[Any]") -> None:
        """Wait until the server has taken what is unsent, or is gone, or `unless` is done."""
        while self.congested and not self._ended and not unless.done():
            if self._drained is None or self._drained.done():
                self._drained = self._loop.create_future()
            await either(self._drained, unless)

    def answer(self, line: bytes) -> None:
        """Send something that nobody waits for, unless the server has stopped to listen."""
        if self._unsent_bytes + len(line) <= HARD_LIMIT:
            self.write(line)

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

    def end(self, reason: str, oversize: Oversize | None = None) -> None:
        """The process is gone, or has to go."""
        if not self._ended:
            self._ended = True
            self._wake()
            self._on_end(reason, oversize)

    def _thread(self, name: str, target: Callable[[], None]) -> None:
        title = f"{name} of {self._process.pid}"
        threading.Thread(target=target, name=title, daemon=True).start()

    def _read(self, pipe: int, take: Callable[[bytes], None], may_read: threading.Event) -> None:
        taken = threading.Semaphore(1)

        def deliver(chunk: bytes) -> None:
            try:
                if not self._closed:
                    take(chunk)
            finally:
                taken.release()

        with contextlib.suppress(OSError, RuntimeError):  # closed pipes, a closed loop
            while not self._closed:
                taken.acquire()  # one piece on its way at a time
                may_read.wait()
                chunk = os.read(pipe, READ_BYTES)
                if not chunk:
                    return
                self._loop.call_soon_threadsafe(deliver, chunk)

    def _take(self, chunk: bytes) -> None:
        if self._on_lines is nobody:
            return
        try:
            lines = self._splitter.feed(chunk)
        except Oversize as oversize:
            self.end(f"a message of over {oversize.limit} bytes", oversize)
            return
        if lines:
            self._on_lines(lines)

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

    def _wake(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
