"""The three pipes of a server's process as one: lines in, lines out, and why it ended."""

import signal
from asyncio import Future, TimerHandle, get_running_loop
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from openclaw.stdio.descriptors import READ_BYTES
from openclaw.stdio.lines import LineSplitter, TooLong
from openclaw.stdio.pipes import HIGH_WATER, Reader, Writer

HARD_LIMIT = 8 << 20
"""Unsent bytes past which answers to the server are dropped: it asks and does not listen."""

EXIT_AFTER_EOF = 0.25
"""Seconds in which a process that closed its output is expected to exit and say why."""

_DRAIN_BYTES = 2 << 20  # what an ended process may have written that was not read yet

OnLines = Callable[[list[bytes]], None]
OnEnd = Callable[[str, TooLong | None], None]


class StderrSink(Protocol):
    def feed(self, chunk: bytes) -> None: ...

    def flush(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Ends:
    stdin: Writer
    stdout: Reader
    stderr: Reader


class ChildPipe:
    """Lines in, lines out. `on_end` is called once, with the reason in words."""

    def __init__(
        self,
        ends: Ends,
        exited: "Future[int]",
        *,
        limit: int,
        on_lines: OnLines,
        on_end: OnEnd,
        stderr: StderrSink,
    ) -> None:
        self._loop = get_running_loop()
        self._stdin, self._stdout, self._stderr = ends.stdin, ends.stdout, ends.stderr
        self._exit = exited
        self._splitter = LineSplitter(limit)
        self._on_lines, self._on_end, self._log = on_lines, on_end, stderr
        self._closing: TimerHandle | None = None
        self._ended = self._closed = False

    def open(self) -> None:
        self._stdin.on_broken = lambda: self._end_soon("it closed its input")
        self._stdout.start(self._take)
        self._stderr.start(self._hear)
        self._exit.add_done_callback(self._exited)

    def pause(self) -> None:
        """Read no more until `resume`; the server waits once its pipe is full."""
        self._stdout.pause()

    def resume(self) -> None:
        if not self._ended:
            self._stdout.resume()

    @property
    def congested(self) -> bool:
        """Whether so much is unsent that a caller should wait."""
        return self._stdin.unsent > HIGH_WATER

    async def drained(self, unless: "Future[Any]") -> None:
        """Wait until the server has taken what is unsent, or is gone, or `unless` is done."""
        await self._stdin.drained(unless=unless)

    def answer(self, line: bytes) -> None:
        """Send something that nobody waits for, unless the server has stopped listening."""
        if self._stdin.unsent + len(line) <= HARD_LIMIT:
            self.write(line)

    def write(self, line: bytes) -> bool:
        """Send a line, now or as soon as the server takes it; False if it cannot be sent."""
        return not self._ended and self._stdin.write(line)

    def end(self, reason: str, too_long: TooLong | None = None) -> None:
        if self._ended:
            return
        self._ended = True
        self._stdout.pause()
        self._stdin.close()
        self._on_end(reason, too_long)

    def discard(self) -> None:
        """Send no more and drop what still comes, so that a server which is leaving is not held up."""
        self._ended = True
        self._stdin.close()
        self._stdout.start(self._take)
        self._stdout.resume()

    def close(self) -> None:
        """Stop reading and writing; the descriptors stay the child's to close."""
        self._closed = True
        self._stdin.close()
        self._stdout.close()
        self._stderr.close()
        if self._closing is not None:
            self._closing.cancel()

    def _take(self, chunk: bytes) -> None:
        if self._ended:
            return
        if not chunk:
            self._end_soon("it closed its output")
            return
        lines = self._splitter.feed(chunk)
        too_long = self._splitter.too_long
        if too_long is not None:
            self.end(f"a message of over {too_long.limit} bytes", too_long)
        elif lines:
            self._on_lines(cast("list[bytes]", lines))

    def _hear(self, chunk: bytes) -> None:
        if chunk:
            self._log.feed(chunk)

    def _exited(self, exited: "Future[int]") -> None:
        if self._closed:
            return
        self._stdout.drain(_DRAIN_BYTES)
        self._stderr.drain(READ_BYTES)
        self._log.flush()
        self.end(describe_exit(exited.result()))

    def _end_soon(self, reason: str) -> None:
        if self._closing is None and not self._ended:
            self._closing = self._loop.call_later(EXIT_AFTER_EOF, self.end, reason)


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
