"""What a provider's failure means: try again, try another, make room, or give up."""

from dataclasses import dataclass
from enum import Enum

from openclaw.core.backoff import jittered

FIRST_DELAY = 0.5
LONGEST_DELAY = 20.0
LONGEST_RETRY_AFTER = 60.0
"""A provider that asks for a longer wait than this is as good as down for one turn."""

_JITTER = 0.25


class Verdict(Enum):
    """What is to be done about a failure."""

    RETRY = "retry"
    NEXT = "next"
    OVERFLOW = "overflow"


@dataclass(frozen=True, slots=True)
class Failure:
    """A provider's failure, judged. `reason` is for people and carries no key."""

    verdict: Verdict
    reason: str
    retry_after: float | None = None
    hint: str | None = None


class ContextOverflow(Exception):
    """Raised when a request does not fit into the model's context."""


def judge(error: Exception, address: str | None = None) -> Failure:
    """What `error`, raised by the model library or the transport, means for the request."""
    from pydantic_ai import exceptions as known

    if isinstance(error, known.ModelContextWindowExceededError):
        return Failure(Verdict.OVERFLOW, "the conversation does not fit into the model's context")
    if isinstance(error, known.ModelRateLimitError):
        return Failure(Verdict.RETRY, "its rate limit is reached", error.retry_after)
    if isinstance(error, known.ModelOverloadedError):
        return Failure(Verdict.RETRY, "it is overloaded", error.retry_after)
    if isinstance(error, known.ModelUnavailableError | known.ModelServerError):
        return Failure(Verdict.RETRY, f"it failed ({_status(error)})", error.retry_after)
    if isinstance(error, known.ModelRequestTimeout | known.ModelTimeoutError):
        return Failure(Verdict.RETRY, "it did not answer in time")
    if isinstance(error, known.ModelConnectionError):
        hint = f"check that {address} is right and can be reached" if address else None
        return Failure(Verdict.RETRY, f"the connection failed ({_cause(error)})", hint=hint)
    if isinstance(error, known.UnexpectedModelBehavior):
        return Failure(Verdict.RETRY, f"its answer could not be read ({_short(error)})")
    return _refused(error)


def _refused(error: Exception) -> Failure:
    from pydantic_ai import exceptions as known

    if isinstance(error, known.ModelAuthenticationError):
        return Failure(
            Verdict.NEXT, f"it refused the key ({_status(error)})", hint="check the provider's key"
        )
    if isinstance(error, known.ModelQuotaExceededError):
        return Failure(
            Verdict.NEXT, "the account's quota is used up", hint="top the account up, or wait"
        )
    if isinstance(error, known.ModelNotFoundError):
        return Failure(
            Verdict.NEXT,
            f"it does not know the model ({_status(error)})",
            hint="check the model's name and the provider's baseUrl",
        )
    if isinstance(error, known.ModelHTTPError):
        if _says_overflow(str(error.body)):
            return Failure(Verdict.OVERFLOW, "the conversation does not fit into its context")
        if error.status_code in (408, 409, 425, 429) or error.status_code >= 500:
            return Failure(Verdict.RETRY, f"it failed ({_status(error)})", error.retry_after)
        return Failure(Verdict.NEXT, f"it refused the request ({_status(error)})")
    return Failure(Verdict.NEXT, f"{type(error).__name__}: {_short(error)}")


_OVERFLOW_WORDS = (
    "context length",
    "context window",
    "context size",
    "too many tokens",
    "prompt is too long",
    "maximum number of tokens",
    "exceeds the available context",
)


def _says_overflow(body: str) -> bool:
    """Whether a refusal is about length, in the words of servers that have no code for it."""
    folded = body.casefold()
    return any(words in folded for words in _OVERFLOW_WORDS)


def _status(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    message = _provider_message(getattr(error, "body", None))
    parts = [f"HTTP {status}" if status else "", message]
    return ": ".join(part for part in parts if part) or _short(error)


def _provider_message(body: object) -> str:
    """The provider's own words, where its error has the usual shape."""
    found: object = body
    for key in ("error", "message"):
        if isinstance(found, dict):
            found = found.get(key, found)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return _cut(found) if isinstance(found, str) else ""


def _cause(error: Exception) -> str:
    cause = error.__cause__
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    return _cut(str(cause or error)) or type(cause or error).__name__


def _short(error: Exception) -> str:
    return _cut(str(error))


def _cut(text: str, limit: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def delay_before(attempt: int, failure: Failure, unit_random: float) -> float | None:
    """Seconds to wait before attempt number `attempt` (the first retry is 1).

    None where the provider asks for a longer wait than one turn can bear.
    """
    if failure.retry_after is not None:
        return failure.retry_after if failure.retry_after <= LONGEST_RETRY_AFTER else None
    plain = min(FIRST_DELAY * 2 ** (attempt - 1), LONGEST_DELAY)
    return jittered(plain, _JITTER, unit_random)
