"""Which state a server is in, and what is to be done next. Events in, state and commands out."""

from enum import StrEnum


class ServerState(StrEnum):
    """Where a server is in its life."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    READY = "ready"
    ERROR = "error"
    FAILED = "failed"
    NEEDS_LOGIN = "needs_login"
    DISABLED = "disabled"
    CLOSED = "closed"
