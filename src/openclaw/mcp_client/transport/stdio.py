"""The three pipes of a child process, on the event loop's own readiness callbacks.

There is no task and no queue between the pipe and whoever takes the lines: that is where most of
a call's time would go.
"""

import contextlib
import os
from abc import ABC, abstractmethod
from asyncio import Future, TimerHandle, get_running_loop
from collections import deque
from typing import Any

from openclaw.mcp_client.transport.child_process import Child, describe_exit
from openclaw.stdio.lines import LineSplitter, Oversize
from openclaw.stdio.pipes import (
    EXIT_AFTER_EOF,
    HARD_LIMIT,
    HIGH_WATER,
    READ_BYTES,
    OnEnd,
    OnLines,
    StderrSink,
    either,
    nobody,
)


class LinePipe(ABC):
    """Lines in, lines out. `on_end` is called once, with the reason in words."""

    def __init__(self, *, limit: int, on_lines: OnLines, on_end: OnEnd, stderr: StderrSink) -> None:
        self._loop = get_running_loop()
        self._splitter = LineSplitter(limit)
        self._on_lines, self._on_end, self._stderr = on_lines, on_end, stderr
        self._unsent_bytes = 0
        self._drained: Future[None] | None = None
        self._ended = self._closed = False

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

    @abstractmethod
    def write(self, line: bytes) -> bool:
        """Send a line, now or as soon as the server takes it; False where it cannot be sent."""

    def end(self, reason: str, oversize: Oversize | None = None) -> None:
        """The process is gone, or has to go."""
        if self._ended:
            return
        self._ended = True
        self._let_go()
        self._on_end(reason, oversize)

    @abstractmethod
    def _let_go(self) -> None:
        """Stop to move bytes, and let nobody wait for it."""

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

    def _wake(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)


_DRAIN_BYTES = 2 << 20


class StdioPipe(LinePipe):
    """The pipes of a child that the event loop watches."""

    def __init__(
        self,
        child: Child,
        *,
        limit: int,
        on_lines: OnLines,
        on_end: OnEnd,
        stderr: StderrSink,
    ) -> None:
        super().__init__(limit=limit, on_lines=on_lines, on_end=on_end, stderr=stderr)
        self._child = child
        self._unsent: deque[memoryview] = deque()
        self._closing: TimerHandle | None = None
        self._reading = self._paused = self._eof = False
        self._writing = self._hearing = False

    def open(self) -> None:
        """Start to read."""
        self._reading = True
        self._loop.add_reader(self._child.stdout, self._readable)
        self._hearing = True
        self._loop.add_reader(self._child.stderr, self._stderr_readable)
        self._child.on_exit(self._exited)

    def pause(self) -> None:
        """Read no more until `resume`; the server waits once its pipe is full."""
        if self._reading and not self._paused:
            self._paused = True
            self._loop.remove_reader(self._child.stdout)

    def resume(self) -> None:
        """Read again."""
        if self._reading and self._paused:
            self._paused = False
            self._loop.add_reader(self._child.stdout, self._readable)

    def write(self, line: bytes) -> bool:
        """Send a line, now or as soon as the server takes it; False where it cannot be sent."""
        if self._ended or self._closed:
            return False
        if self._unsent:
            self._queue(memoryview(line))
            return True
        try:
            sent = os.write(self._child.stdin, line)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._input_gone()
            return False
        if sent < len(line):
            self._queue(memoryview(line)[sent:])
            self._writing = True
            self._loop.add_writer(self._child.stdin, self._writable)
        return True

    def discard(self) -> None:
        """Send no more and let go what still comes, so that a server which is leaving is not held up."""
        self._ended = True
        self._on_lines = nobody
        self._stop_writing()
        if not self._reading and not self._eof and not self._closed:
            self._reading = True
            self._paused = True
        self.resume()

    def close(self) -> None:
        """Stop to read and write; the descriptors stay the child's to close."""
        if self._closed:
            return
        self._closed = True
        self._stop_reading()
        self._stop_writing()
        self._stop_hearing()
        if self._closing is not None:
            self._closing.cancel()

    def _queue(self, piece: memoryview) -> None:
        self._unsent.append(piece)
        self._unsent_bytes += len(piece)

    def _writable(self) -> None:
        try:
            while self._unsent:
                piece = self._unsent[0]
                sent = os.write(self._child.stdin, piece)
                self._unsent_bytes -= sent
                if sent < len(piece):
                    self._unsent[0] = piece[sent:]
                    return
                self._unsent.popleft()
        except BlockingIOError:
            return
        except OSError:
            self._input_gone()
            return
        self._stop_writing()

    def _input_gone(self) -> None:
        """The server closed its input: it is leaving, or it must be made to."""
        self._stop_writing()
        self._end_soon("it closed its input")

    def _stop_writing(self) -> None:
        # The child's input may be closed by now, and its number another file's: that one is let be.
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._child.stdin)
        self._unsent.clear()
        self._unsent_bytes = 0
        self._wake()

    def _readable(self) -> None:
        try:
            chunk = os.read(self._child.stdout, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            self._take(chunk)
        else:
            self._eof = True
            self._stop_reading()
            self._end_soon("it closed its output")

    def _stderr_readable(self) -> None:
        try:
            chunk = os.read(self._child.stderr, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            self._stderr.feed(chunk)
        else:
            self._stop_hearing()

    def _exited(self) -> None:
        if self._closed:
            return
        self._drain()
        code = self._child.returncode
        self.end("it exited" if code is None else describe_exit(code))

    def _drain(self) -> None:
        """Take what the process wrote before it ended, and no more than that can be."""
        left = _DRAIN_BYTES
        while self._reading and left > 0:
            try:
                chunk = os.read(self._child.stdout, READ_BYTES)
            except OSError:
                break
            if not chunk:
                break
            left -= len(chunk)
            self._take(chunk)
        with contextlib.suppress(OSError):
            self._stderr.feed(os.read(self._child.stderr, READ_BYTES))
        self._stderr.flush()

    def _stop_hearing(self) -> None:
        if self._hearing:
            self._hearing = False
            self._loop.remove_reader(self._child.stderr)

    def _stop_reading(self) -> None:
        if self._reading:
            self._reading = False
            if not self._paused:
                self._loop.remove_reader(self._child.stdout)

    def _end_soon(self, reason: str) -> None:
        if self._closing is None and not self._ended:
            self._closing = self._loop.call_later(EXIT_AFTER_EOF, self.end, reason)

    def _let_go(self) -> None:
        self._stop_reading()
        self._stop_writing()
