"""What is the same for a child's pipes whether the event loop watches them or threads do."""

from abc import ABC, abstractmethod
from asyncio import Future, get_running_loop
from typing import Any

from openclaw.mcp_client.lines import LineSplitter, Oversize
from openclaw.mcp_client.pipes import (
    HARD_LIMIT,
    HIGH_WATER,
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
