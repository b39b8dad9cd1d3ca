"""The time, as an argument."""

import time
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from, so that a test can hold it."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as the wall clock says."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow, for measuring."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970, as the wall clock says."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds that only grow, for measuring."""
        return time.monotonic()
