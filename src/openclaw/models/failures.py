"""What a provider's failure means for the request, and how long to wait before the next attempt."""

import json
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, cast

from pydantic_ai import exceptions as known

from openclaw.core.errors import OpenClawError
from openclaw.models.choose import Candidate

FIRST_DELAY = 0.5
LONGEST_DELAY = 20.0
LONGEST_RETRY_AFTER = 60.0  # a provider that asks for a longer wait is as good as down
_JITTER = 0.25
_TOO_LARGE = 413
_BUSY = (429, 502, 503, 504, 529)


Verdict = Literal["retry", "next", "overflow"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A provider's failure, judged. `reason` is for people and carries no key."""

    verdict: Verdict
    reason: str
    retry_after: float | None = None
    hint: str | None = None
    most_retries: int | None = None
    blames_request: bool = False  # the provider works, and may answer another request
    about_images: bool = False  # without its images, the request might be accepted
    about_thoughts: bool = False  # or without the model's earlier thoughts, signatures and ids
    about_tool: str | int | None = None  # or without this tool: its name, or its position
    worth_waiting: bool = False  # for minutes, if a turn would be lost otherwise

    def given_up(self) -> "Failure":
        if self.retry_after is None or self.retry_after <= LONGEST_RETRY_AFTER:
            return self
        return replace(self, reason=f"{self.reason}; it asks for a long wait")


def classify_error(error: Exception, asked: Candidate | None = None) -> Failure:
    """What `error`, raised by the model library or the transport, means for the request."""
    if isinstance(error, OpenClawError):  # the embedded model's own
        return setup_failure(error)
    if isinstance(error, known.ModelContextWindowExceededError) or _says_overflow(error):
        return Failure("overflow", "the conversation does not fit into the model's context")
    if isinstance(error, known.ModelRateLimitError):
        return _busy("its rate limit is reached", error.retry_after)
    if isinstance(error, known.ModelOverloadedError):
        return _busy("it is overloaded", error.retry_after)
    if isinstance(error, known.ModelUnavailableError):
        return _busy(f"it failed ({_status(error)})", error.retry_after)
    if isinstance(error, known.ModelServerError):
        return _server_failure(error)
    if isinstance(error, known.ModelRequestTimeout | known.ModelTimeoutError):
        # The request may have been carried out and billed, so it is not sent again and again.
        return Failure("retry", "it did not answer in time", most_retries=1)
    if isinstance(error, known.ModelConnectionError):
        hint = f"check that {asked.base_url} is right and can be reached" if asked else None
        return Failure("retry", f"the connection failed ({_cause(error)})", hint=hint)
    if _is_unreadable(error):
        return Failure("retry", f"its answer could not be read ({_cut(str(error))})")
    return _refused(error, asked)


def _busy(reason: str, retry_after: float | None) -> Failure:
    return Failure("retry", reason, retry_after, worth_waiting=True)


def _server_failure(error: known.ModelHTTPError | known.ModelServerError) -> Failure:
    waits = error.retry_after is not None or getattr(error, "status_code", None) in _BUSY
    return Failure("retry", f"it failed ({_status(error)})", error.retry_after, worth_waiting=waits)


def _is_unreadable(error: BaseException) -> bool:
    """Whether the answer was something else, such as a proxy's page in place of JSON."""
    if isinstance(error, known.UnexpectedModelBehavior | json.JSONDecodeError):
        return True
    # Google's SDK has an error for it, which cannot be imported without the SDK.
    causes = error, error.__cause__
    return any(type(cause).__name__ == "UnknownApiResponseError" for cause in causes)


def _refused(error: Exception, asked: Candidate | None) -> Failure:
    if isinstance(error, known.ModelAuthenticationError):
        hint = f"check {asked.key_setting}" if asked else None
        return Failure("next", f"it refused the key ({_status(error)})", hint=hint)
    if isinstance(error, known.ModelQuotaExceededError):
        return Failure("next", "the account's quota is used up", hint="top the account up, or wait")
    if isinstance(error, known.ModelNotFoundError):
        return Failure(
            "next",
            f"it does not know the model ({_status(error)})",
            hint="check the model's name and the provider's baseUrl",
        )
    if isinstance(error, known.ModelHTTPError):
        return _refused_request(error)
    reason = f"{type(error).__name__}: {_cut(str(error))}"
    return Failure("next", reason, blames_request=True)


def _refused_request(error: known.ModelHTTPError) -> Failure:
    status = error.status_code
    if status in (408, 409, 425, 429) or status >= 500:
        return _server_failure(error)
    reason = f"it refused the request ({_status(error)})"
    if status == _TOO_LARGE:
        return Failure("overflow", reason, blames_request=True, about_images=True)
    said = str(error.body)
    return Failure(
        "next",
        reason,
        blames_request=True,
        about_images="image" in said.casefold(),
        about_thoughts=_THOUGHTS.search(said) is not None,
        about_tool=_refused_tool(said),
    )


# Where a vendor says which tool it does not accept: OpenAI, Anthropic and the Responses API, Google.
_TOOL_NAME = re.compile(r"(?:schema for|Invalid) function '([\w.-]+)'")
_TOOL_POSITION = re.compile(
    r"\btools\.(\d+)\.|\btools\[(\d+)\](?!\.function_decl)|declarations\[(\d+)\]"
)
_THOUGHTS = re.compile(
    r"signature|`?(?:redacted_)?thinking`?.{0,20}block|thinking. is enabled|encrypted.content"
    r"|of type 'reasoning'|'reasoning' item|item with id|rs_[0-9a-z]|reasoning_content",
    re.IGNORECASE,
)


def _refused_tool(said: str) -> str | int | None:
    if named := _TOOL_NAME.search(said):
        return named[1]
    position = _TOOL_POSITION.search(said)
    return int(next(filter(None, position.groups()), "0")) if position else None


@cache
def _overflow() -> re.Pattern[str]:
    lines = Path(__file__).with_name("overflow.txt").read_text("utf-8").splitlines()
    return re.compile("|".join(one for one in lines if one and one[0] != "#"), re.IGNORECASE)


def _says_overflow(error: Exception) -> bool:
    body = getattr(error, "body", None)
    return body is not None and _overflow().search(str(body)) is not None


def _status(error: Exception) -> str:
    status = getattr(error, "status_code", None)
    said: object = getattr(error, "body", None)
    for key in ("error", "message"):
        if isinstance(said, dict):
            inner = cast("dict[str, object]", said)
            said = inner.get(key, inner)
    parts = [f"HTTP {status}" if status else "", _cut(said) if isinstance(said, str) else ""]
    return ": ".join(part for part in parts if part) or _cut(str(error))


def _cause(error: Exception) -> str:
    cause = error.__cause__
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    return _cut(str(cause or error)) or type(cause or error).__name__


def _cut(text: str, limit: int = 200) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def setup_failure(error: OpenClawError) -> Failure:
    return Failure("next", error.message, hint=error.hint)


def delay_before(
    attempt: int, failure: Failure, unit_random: float, *, most: float = LONGEST_RETRY_AFTER
) -> float | None:
    """Seconds before retry number `attempt`; None if the provider asks for too long a wait."""
    if failure.retry_after is not None:
        return failure.retry_after if failure.retry_after <= most else None
    plain = min(FIRST_DELAY * 2 ** min(attempt - 1, 16), LONGEST_DELAY)
    return plain * (1 + _JITTER * (2 * unit_random - 1))
