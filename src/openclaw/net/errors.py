"""What can go wrong when the guarded client fetches. The model reads it and tries something else.

ToolFailure
└── FetchError
    ├── FetchRefused     the address may not be reached
    ├── FetchTooLarge    the answer is larger than was asked for
    ├── FetchTimedOut    the whole took too long
    └── FetchFailed      the network or the other side failed
"""

from openclaw.core.errors import ToolFailure


class FetchError(ToolFailure):
    """Raised when a URL could not be fetched."""


class FetchRefused(FetchError):
    """Raised when a URL, or where it leads, is not to be reached."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"refused to fetch {what}: {reason}")
        self.reason = reason


class FetchTooLarge(FetchError):
    """Raised when an answer has more bytes than the limit, packed or unpacked."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is larger than {limit} bytes")
        self.limit = limit


class FetchTimedOut(FetchError):
    """Raised when connecting, redirects and reading together took too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no complete answer within {seconds:g} s")
        self.seconds = seconds


class FetchFailed(FetchError):
    """Raised when the network or the other side failed."""
