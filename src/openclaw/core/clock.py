"""What differs in every run: the time, which is an argument, and random ids."""

import secrets
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from, so that a test can control it."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, by the wall clock."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back, for measuring durations."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


def timestamp(at_ms: int) -> str:
    """This time in ISO 8601, as protocols write it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def random_id() -> str:
    """64 random bits as 16 hexadecimal characters."""
    return secrets.token_bytes(8).hex()


def order_session_key(clock: Clock) -> str:
    """A unique session key for an order that named no session."""
    return f"mcp-{clock.now_ms()}-{random_id()}"
