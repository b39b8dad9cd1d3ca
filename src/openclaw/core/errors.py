"""Errors, named for who acts on them.

OpenClawError
├── ModelFacing        the model reads it and tries something else
│   └── ToolFailure
├── UserFacing         the person who gave the order changes it
│   ├── InvalidRequest
│   ├── NotFound
│   ├── Busy
│   └── Cancelled
├── OperatorFacing     whoever runs the program fixes the setup
│   ├── InvalidConfig
│   ├── SecretUnavailable
│   ├── ServerUnavailable
│   ├── ModelUnavailable
│   └── MissingExtra
└── DeveloperFacing    an internal bug
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from openclaw.core.installed import install_command


class OpenClawError(Exception):
    """The root of every error that this program raises on purpose."""

    hint: str | None = None

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if hint is not None:
            self.hint = hint


class ModelFacing(OpenClawError):
    """Raised when the model should read what went wrong and continue."""


class ToolFailure(ModelFacing):
    """Raised when a tool could not do what it was asked."""


class UserFacing(OpenClawError):
    """Raised when the person who gave the order has to change it."""


class InvalidRequest(UserFacing):
    """Raised when an order is malformed; `field` is the path of what is wrong."""

    def __init__(self, message: str, *, field: str | None = None, hint: str | None = None) -> None:
        super().__init__(message if field is None else f"{field}: {message}", hint=hint)
        self.field = field


class NotFound(UserFacing):
    """Raised when what was named does not exist."""


class Busy(UserFacing):
    """Raised when the work cannot be taken now; `retry_after` is in seconds."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Cancelled(UserFacing):
    """Raised when the person stopped the work."""


class OperatorFacing(OpenClawError):
    """Raised when whoever runs the program has to fix its setup."""


@dataclass(frozen=True, slots=True)
class Problem:
    path: str
    message: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        where = f" (line {self.line}, column {self.column})" if self.line is not None else ""
        return f"{self.path or '(file)'}: {self.message}{where}"


class InvalidConfig(OperatorFacing):
    """Raised when a configuration is refused; it carries every problem at once."""

    def __init__(self, problems: Sequence[Problem], *, source: str | None = None) -> None:
        count = len(problems)
        where = f" in {source}" if source else ""
        super().__init__(f"{count} problem{'s' if count != 1 else ''}{where}")
        self.problems = tuple(problems)
        self.source = source


class SecretUnavailable(OperatorFacing):
    """Raised when a reference cannot be resolved; it names the reference, never a value."""

    def __init__(self, reference: str, reason: str, *, hint: str | None = None) -> None:
        super().__init__(f"{reference}: {reason}", hint=hint)
        self.reference = reference
        self.reason = reason


class ServerUnavailable(OperatorFacing):
    """Raised when an MCP server cannot be used now; `retry_in` is in seconds, if known."""

    def __init__(self, server: str, reason: str, *, retry_in: float | None = None) -> None:
        super().__init__(f"MCP server '{server}' is unavailable: {reason}")
        self.server = server
        self.reason = reason
        self.retry_in = retry_in


class ModelUnavailable(OperatorFacing):
    """Raised when no configured model answers."""


class MissingExtra(OperatorFacing):
    """Raised when an optional part is not installed; it names the extra that provides it."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            f"{what} needs an optional part that is not installed",
            hint=f"install it with: {install_command(extra)}",
        )
        self.extra = extra


class DeveloperFacing(OpenClawError):
    """Raised when an invariant of ours does not hold."""


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in a group, at any depth; any other error is its own only leaf."""
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from leaves(inner)
    else:
        yield error


def cause_of(error: BaseException) -> BaseException:
    """The error that a group stands for, or the group if it has several and one is unexpected."""
    found = list(leaves(error))
    stops = [leaf for leaf in found if isinstance(leaf, KeyboardInterrupt | SystemExit)]
    if stops:
        return stops[0]
    foreseen = all(isinstance(leaf, OpenClawError) for leaf in found)
    return found[0] if foreseen or len(found) == 1 else error


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
    return EXIT_USAGE if isinstance(error, InvalidConfig | InvalidRequest) else EXIT_FAILED


def http_status(error: BaseException) -> int:
    """The HTTP status for this error; anything we did not foresee is 500."""
    return next((status for kind, status in _HTTP_STATUS if isinstance(error, kind)), 500)


def jsonrpc_code(error: BaseException) -> int:
    return JSONRPC_INVALID_PARAMS if isinstance(error, UserFacing) else JSONRPC_INTERNAL


def sentence(text: str) -> str:
    """The text with a capital, unless it begins with a command or the name of a field."""
    word = text.partition(" ")[0].rstrip(",;")
    plain = word in _BEFORE_A_COMMAND or (word.isalpha() and word not in _COMMANDS)
    return text[:1].upper() + text[1:] if plain else text


_BEFORE_A_COMMAND = ("try:", "see:", "run:", "use:", "available:")
_COMMANDS = ("openclaw", "clawdbot", "chmod", "pip", "uv", "codex")


_ERROR_NUMBER = re.compile(r"\[(?:Errno|WinError) -?\d+\] ?")


def without_error_number(text: str) -> str:
    """The system's sentence, without `[Errno -2]` before it."""
    return _ERROR_NUMBER.sub("", text)


def describe(error: BaseException) -> str:
    """The error for a person: the message and the hint of our errors, never a traceback."""
    if isinstance(error, InvalidConfig):
        return "\n".join([error.message + ":", *(f"  {problem}" for problem in error.problems)])
    if isinstance(error, OpenClawError):
        return f"{error.message} ({error.hint})" if error.hint else error.message
    return f"unexpected {type(error).__name__}: {without_error_number(str(error))}"
