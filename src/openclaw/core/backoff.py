"""Backoff arithmetic."""

RESTART_DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0, 30.0)


def restart_delay(attempt: int) -> float:
    """Seconds to wait before restart number `attempt`, counted from 0."""
    return RESTART_DELAYS[min(attempt, len(RESTART_DELAYS) - 1)]


def jittered(delay: float, fraction: float, unit_random: float) -> float:
    """`delay` moved by at most `fraction` of itself; `unit_random` is in [0, 1)."""
    return delay * (1 + fraction * (2 * unit_random - 1))
