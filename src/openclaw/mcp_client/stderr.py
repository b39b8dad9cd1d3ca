"""What a server writes to its standard error: logged with restraint, the last of it kept."""

import logging
from collections import deque
from collections.abc import Callable

from openclaw.core.clock import Clock
from openclaw.mcp_client.bounds import LOG_BURST, LOG_LINES_PER_SECOND, RateLimit, printable

logger = logging.getLogger(__name__)

KEPT_LINES = 200
_MAX_LINE = 64 * 1024


class StderrTail:
    """The last lines of a server's standard error. Redaction happens before anything is cut."""

    def __init__(self, server: str, redact: Callable[[str], str], clock: Clock) -> None:
        self._server, self._redact, self._clock = server, redact, clock
        self._lines: deque[bytes] = deque(maxlen=KEPT_LINES)
        self._partial = b""
        self._limit = RateLimit(LOG_LINES_PER_SECOND, LOG_BURST)

    def feed(self, chunk: bytes) -> None:
        """Take some bytes; whole lines of them are logged and kept."""
        *lines, partial = (self._partial + chunk).split(b"\n")
        # The rest of a line that is longer than anybody reads is let go.
        self._partial = partial[:_MAX_LINE]
        self._lines.extend(line[:_MAX_LINE] for line in lines[-KEPT_LINES:])
        now = self._clock.monotonic()
        for index, line in enumerate(lines):
            if not self._limit.allows(now):
                self._limit.refused += len(lines) - index - 1
                break
            self._log(line[:_MAX_LINE])

    def tail(self) -> tuple[str, ...]:
        """The last lines, redacted."""
        partial = (self._partial,) if self._partial else ()
        return tuple(self._clean(line) for line in (*self._lines, *partial))[-KEPT_LINES:]

    def _log(self, line: bytes) -> None:
        text = self._clean(line)
        if not text:
            return
        skipped = self._limit.take_refused()
        if skipped:
            logger.warning("MCP server '%s' stderr: %d lines not shown", self._server, skipped)
        logger.warning("MCP server '%s' stderr: %s", self._server, text)

    def _clean(self, line: bytes) -> str:
        return printable(self._redact(line.decode("utf-8", "replace")))
