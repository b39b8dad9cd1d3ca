"""From whatever was raised while a connection was open to the one thing that went wrong."""

from typing import cast


class ConnectionFailed(Exception):
    """Raised when a connection could not be made or was lost; trying again may help."""


class NeedsLogin(Exception):
    """Raised when the server wants credentials that we do not have."""


def first_cause(error: BaseException) -> BaseException:
    """The most telling single error inside nested groups: one of ours, where there is one."""
    leaves = list(_leaves(error))
    telling = [leaf for leaf in leaves if isinstance(leaf, ConnectionFailed | NeedsLogin)]
    return (telling or leaves)[0]


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    parts = cast("BaseExceptionGroup[BaseException]", error).exceptions
    return [leaf for part in parts for leaf in _leaves(part)]


def worded(error: BaseException) -> str:
    """What a person is told of it."""
    text = str(error).strip()
    if isinstance(error, TimeoutError):
        return text or "no answer in time"
    if isinstance(error, ConnectionFailed | NeedsLogin | OSError):
        return text or type(error).__name__
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
