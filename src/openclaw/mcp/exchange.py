"""What an HTTP answer means for the request that it answers (Streamable HTTP, and HTTP+SSE).

status         content type        meaning
-------------  ------------------  -----------------------------------------------
202, 204       -                   accepted; for a request, no answer
2xx            text/event-stream   messages, the answer among them
2xx            anything else       the answer, as JSON
401            -                   a login is needed
403            -                   this login may not do this
404            -                   in a session: the session is over. Otherwise refused
400            -                   refused; servers copied from a common example mean
                                   that the session is over
429, 5xx       -                   refused for now; perhaps says when to try again
other          -                   refused
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from openclaw.mcp import http, jsonrpc
from openclaw.mcp.jsonrpc import (
    CONNECTION_CLOSED,
    METHOD_NOT_FOUND,
    Batch,
    ErrorData,
    ErrorResponse,
    Id,
    Incoming,
    Malformed,
    Message,
)

FALL_BACK = (400, 404, 405)
"""Answers to a POST from a server that has only the older transport (section "Backwards
Compatibility")."""

MAX_RESUMPTIONS = 5  # in a row in which no event came
FIRST_PAUSE, LAST_PAUSE = 1.0, 30.0
SHORTEST_PAUSE = 0.1  # also if the server wants none


class Body(Enum):
    NOTHING = auto()
    JSON = auto()
    EVENTS = auto()
    FAILURE = auto()


class Meaning(Enum):
    NEEDS_LOGIN = auto()
    SESSION_OVER = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Failure:
    """`has_message` says that the server gave a JSON-RPC error, which `error` is."""

    status: int
    meaning: Meaning
    error: ErrorData
    has_message: bool = False


def body_of(status: int, headers: Mapping[str, str]) -> Body:
    if not 200 <= status < 300:
        return Body.FAILURE
    if status in (202, 204):
        return Body.NOTHING
    is_events = http.media_type(headers.get("content-type")) == http.EVENT_STREAM
    return Body.EVENTS if is_events else Body.JSON


def failure_of(
    status: int, headers: Mapping[str, str], body: bytes, *, in_session: bool
) -> Failure:
    error = _error_in(body)
    meaning = _meaning(status, error, in_session=in_session)
    if error is not None:
        return Failure(status, meaning, error, has_message=True)
    words = f"the server answered {status}"
    if status == 403:
        words += ": it does not allow this call"
    after = headers.get("retry-after", "")
    if after.isdecimal() and len(after) < 9 and (status == 429 or status >= 500):
        words += f"; try again in {int(after)} s"
    return Failure(status, meaning, ErrorData(CONNECTION_CLOSED, words))


def _meaning(status: int, error: ErrorData | None, *, in_session: bool) -> Meaning:
    code = None if error is None else error.code
    if status == 401:
        return Meaning.NEEDS_LOGIN
    if status == 404 and in_session and code != METHOD_NOT_FOUND:
        return Meaning.SESSION_OVER
    if status == 400 and error is not None and code == CONNECTION_CLOSED:
        return Meaning.SESSION_OVER if "session" in error.message.lower() else Meaning.REFUSED
    return Meaning.REFUSED


def _error_in(body: bytes) -> ErrorData | None:
    incoming = jsonrpc.decode(body) if body.lstrip()[:1] == b"{" else None
    return incoming.error if isinstance(incoming, ErrorResponse) else None


def as_answer(incoming: Incoming, id: Id, *, whole: bool) -> Incoming:
    """What came as the answer to the request with this id: what has no id is about it as well.

    `whole` says that there was nothing else; in a stream, what is no message is only noise.
    """
    if isinstance(incoming, Batch):
        return Batch(tuple(_as_answer(item, id, whole=whole) for item in incoming.items))
    return _as_answer(incoming, id, whole=whole)


def _as_answer(item: Message | Malformed, id: Id, *, whole: bool) -> Message | Malformed:
    if isinstance(item, ErrorResponse) and item.id is None:
        return item._replace(id=id)
    if isinstance(item, Malformed) and item.id is None and (whole or item.is_response):
        return item._replace(id=id, is_response=True)
    return item


class Resumption:
    """When to ask for the rest of a stream that broke off (section "Resumability")."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.retry_ms: int | None = None
        self._failures = 0

    def received(self, last_id: str | None, retry_ms: int | None) -> None:
        """Something came."""
        self.last_id = last_id or self.last_id
        self.retry_ms = self.retry_ms if retry_ms is None else retry_ms
        self._failures = 0

    def pause(self) -> float | None:
        """The seconds to wait; None if it can't be resumed, or was often enough."""
        if self.last_id is None or self._failures >= MAX_RESUMPTIONS:
            return None
        return self.next_pause()

    def next_pause(self) -> float:
        """The seconds to wait before the stream is opened again from wherever it is."""
        wanted = FIRST_PAUSE
        if self.retry_ms is not None:
            wanted = max(self.retry_ms / 1000, SHORTEST_PAUSE)
        pause = min(wanted * 2**self._failures, max(LAST_PAUSE, wanted))
        self._failures += 1
        return min(pause, 10 * LAST_PAUSE)

    def headers(self) -> dict[str, str]:
        return {} if self.last_id is None else {http.LAST_EVENT_HEADER: self.last_id}
