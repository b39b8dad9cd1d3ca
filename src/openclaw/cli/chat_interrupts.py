"""Ctrl-C in a conversation: the first stops the answer or drops the line, a second soon after leaves."""

from collections.abc import Callable

from openclaw.core.clock import Clock

MOMENT = 2.0
"""Seconds in which a second press belongs to the first."""

HINT = "(Ctrl-C again leaves, and so does Ctrl-D)"


class Interrupts:
    """Counts the presses. `leave` ends the program at once, for whoever does not want to wait."""

    def __init__(self, clock: Clock, leave: Callable[[], None]) -> None:
        self._clock = clock
        self._last: float | None = None
        self.leave = leave

    @property
    def lately(self) -> bool:
        """Whether it was pressed within the last moment."""
        return self._last is not None and self._clock.monotonic() - self._last <= MOMENT

    def again(self) -> bool:
        """Count a press; whether it is the second within a moment."""
        second = self.lately
        self._last = self._clock.monotonic()
        return second

    def forget(self) -> None:
        """Something else was done meanwhile: the next press is a first one."""
        self._last = None
