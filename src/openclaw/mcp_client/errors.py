"""Why a request to an MCP server gave no result. Every `CallFailed` is a message for the model."""

from openclaw.core.errors import ToolFailure, leaves, without_error_number


class CallFailed(ToolFailure):
    """Raised when a request to an MCP server gave no result."""


class TimedOut(CallFailed):
    def __init__(self, seconds: float) -> None:
        super().__init__(f"no answer within {seconds:g} s; the call was cancelled")
        self.seconds = seconds


class Interrupted(CallFailed):
    """Raised when the server went away after the request was sent; it is never sent again."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the server went away before it answered ({reason}); "
            "the call may or may not have happened"
        )
        self.reason = reason


class Unavailable(CallFailed):
    """Raised when the request was never sent; `retry_in` is in seconds if known."""

    def __init__(self, reason: str, *, retry_in: float | None = None) -> None:
        when = "" if retry_in is None else f", restarting in {max(retry_in, 0):.0f} s"
        super().__init__(f"unavailable{when}: {reason}")
        self.reason = reason
        self.retry_in = retry_in


class RemoteError(CallFailed):
    """Raised when the server answered with an error, in the server's words."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


class TooLarge(CallFailed):
    def __init__(self, limit: int, unit: str = "bytes") -> None:
        super().__init__(f"the answer is over the limit of {limit} {unit}")
        self.limit = limit


class StillWorking(CallFailed):
    """Raised when a call continues as a task on the server and the caller does not want to wait."""

    def __init__(self) -> None:
        super().__init__("the server is still working on this call")


class InvalidResult(CallFailed):
    """Raised when an answer doesn't follow the protocol."""


class ConnectionFailed(Exception):
    """Raised when a connection could not be made or was lost; trying again may help."""


class NeedsLogin(Exception):
    """Raised when the server wants credentials that we do not have."""


def first_cause(error: BaseException) -> BaseException:
    """The most telling error inside nested groups: one of ours, if there is one."""
    causes = list(leaves(error))
    telling = [leaf for leaf in causes if isinstance(leaf, ConnectionFailed | NeedsLogin)]
    return (telling or causes)[0]


def error_text(error: BaseException) -> str:
    text = without_error_number(str(error).strip())
    if isinstance(error, TimeoutError):
        return text or "no answer in time"
    if isinstance(error, ConnectionFailed | NeedsLogin | CallFailed | OSError):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
