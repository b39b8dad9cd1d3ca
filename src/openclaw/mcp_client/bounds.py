"""How much of anything a server may send us, and how fast."""

MAX_PAGES = 100
MAX_TOOLS = 2000
MAX_RESOURCES = 5000
MAX_PROMPTS = 1000
MAX_ENTRY_BYTES = 256 * 1024
MAX_INSTRUCTIONS = 64 * 1024
NOTIFICATIONS_PER_SECOND, NOTIFICATION_BURST = 500.0, 2000.0
LOG_LINES_PER_SECOND, LOG_BURST = 20.0, 100.0
MAX_LOG_CHARS = 4096
MAX_SERVER_REQUESTS = 32


class RateLimit:
    """A token bucket."""

    __slots__ = ("_burst", "_last", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate, self._burst = rate, burst
        self._tokens, self._last = burst, 0.0

    def allows(self, now: float) -> bool:
        self._tokens = min(self._burst, self._tokens + (now - self._last) * self._rate)
        self._last = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


def printable(text: str, limit: int = MAX_LOG_CHARS) -> str:
    """One line of at most `limit` characters without control characters, for a log."""
    cut = text[:limit]
    clean = "".join(char if char.isprintable() else " " for char in cut).rstrip()
    return clean + "…" if len(text) > limit else clean
