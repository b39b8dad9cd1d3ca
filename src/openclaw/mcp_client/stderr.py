"""What a server writes to its standard error: logged with restraint, the last of it kept."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from openclaw.core.clock import Clock
from openclaw.mcp_client.bounds import LOG_BURST, LOG_LINES_PER_SECOND, RateLimit, printable

logger = logging.getLogger(__name__)

KEPT_LINES = 200
_REMEMBERED_LINES = (
    2 * KEPT_LINES
)  # so that a secret that begins before the kept ones is still seen
_MAX_LINE = 64 * 1024
FLUSH_AFTER = 0.2
"""Seconds of silence after which lines that were held back are logged."""


class LineRedactor(Protocol):
    """Takes text in any pieces and gives redacted lines; holds back what may be part of a secret."""

    @property
    def pending(self) -> bool:
        """Whether anything is held back."""
        ...

    def feed(self, text: str) -> list[str]:
        """Take some text; give the lines that are certain by now."""
        ...

    def flush(self) -> list[str]:
        """Give everything that was held back."""
        ...


class EachLine:
    """A `LineRedactor` that looks at every line by itself."""

    pending = False

    def __init__(self, redact: Callable[[str], str]) -> None:
        self._redact = redact

    def feed(self, text: str) -> list[str]:
        """The lines of the text."""
        return [self._redact(line) for line in text.splitlines()]

    def flush(self) -> list[str]:
        """Nothing is ever held back."""
        return []


class StderrTail:
    """The last lines of a server's standard error.

    Redaction happens before anything is cut, and across lines: a server that prints a secret in
    pieces does not get it into the log.
    """

    def __init__(self, server: str, redactor: Callable[[], LineRedactor], clock: Clock) -> None:
        self._server, self._redactor, self._clock = server, redactor, clock
        self._live = redactor()
        self._lines: deque[bytes] = deque(maxlen=_REMEMBERED_LINES)
        self._partial = b""
        self._limit = RateLimit(LOG_LINES_PER_SECOND, LOG_BURST)
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, chunk: bytes) -> None:
        """Take some bytes; whole lines of them are logged and kept."""
        *lines, partial = (self._partial + chunk).split(b"\n")
        # The rest of a line that is longer than anybody reads is let go.
        self._partial = partial[:_MAX_LINE]
        self._lines.extend(line[:_MAX_LINE] for line in lines[-_REMEMBERED_LINES:])
        now = self._clock.monotonic()
        for index, line in enumerate(lines):
            if not self._limit.allows(now):
                self._limit.refused += len(lines) - index - 1
                break
            self._log(self._live.feed(_decoded(line)))
        self._flush_later()

    def flush(self) -> None:
        """Log what was held back: the server has ended, or says nothing for a while."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._log(self._live.flush())

    def tail(self) -> tuple[str, ...]:
        """The last lines, redacted."""
        redactor = self._redactor()
        partial = (self._partial,) if self._partial else ()
        shown: list[str] = []
        for line in (*self._lines, *partial):
            shown += redactor.feed(_decoded(line))
        shown += redactor.flush()
        return tuple(printable(line) for line in shown[-KEPT_LINES:])

    def _flush_later(self) -> None:
        if self._timer is not None or not self._live.pending:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # on a thread: the next line or the end of the server flushes
        self._timer = loop.call_later(FLUSH_AFTER, self.flush)

    def _log(self, lines: Iterable[str]) -> None:
        for line in lines:
            text = printable(line)
            if not text:
                continue
            skipped = self._limit.take_refused()
            if skipped:
                logger.warning("MCP server '%s' stderr: %d lines not shown", self._server, skipped)
            logger.warning("MCP server '%s' stderr: %s", self._server, text)


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace") + "\n"
