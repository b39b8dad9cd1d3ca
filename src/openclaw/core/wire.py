"""One mapping from an error to what each wire says of it."""

from openclaw.core.errors import (
    Busy,
    Cancelled,
    InvalidConfig,
    InvalidRequest,
    NotFound,
    OpenClawError,
    OperatorFacing,
    UserFacing,
)

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2

JSONRPC_INVALID_PARAMS = -32602
JSONRPC_INTERNAL = -32603

_HTTP_STATUS: tuple[tuple[type[OpenClawError], int], ...] = (
    (InvalidRequest, 400),
    (NotFound, 404),
    (Busy, 429),
    (Cancelled, 499),
    (UserFacing, 400),
    (OperatorFacing, 503),
)


def exit_code(error: BaseException) -> int:
    """The process exit code that stands for this error."""
    return EXIT_USAGE if isinstance(error, InvalidConfig | InvalidRequest) else EXIT_FAILED


def http_status(error: BaseException) -> int:
    """The HTTP status that stands for this error; anything we did not foresee is 500."""
    return next((status for kind, status in _HTTP_STATUS if isinstance(error, kind)), 500)


def jsonrpc_code(error: BaseException) -> int:
    """The JSON-RPC error code that stands for this error."""
    return JSONRPC_INVALID_PARAMS if isinstance(error, UserFacing) else JSONRPC_INTERNAL


def describe(error: BaseException) -> str:
    """What a person is told: the message and the hint of our errors, never a traceback."""
    if isinstance(error, InvalidConfig):
        return "\n".join([error.message + ":", *(f"  {problem}" for problem in error.problems)])
    if isinstance(error, OpenClawError):
        return f"{error.message} ({error.hint})" if error.hint else error.message
    return f"unexpected {type(error).__name__}: {error}"
