"""Random ids that don't collide."""

import secrets

from openclaw.core.clock import Clock

_RANDOM_BYTES = 8


def random_id() -> str:
    """64 random bits as 16 hexadecimal characters."""
    return secrets.token_bytes(_RANDOM_BYTES).hex()


def order_session_key(clock: Clock) -> str:
    """The key of an order that named no session: unique, so that it shares nothing with another."""
    return f"mcp-{clock.now_ms()}-{random_id()}"
