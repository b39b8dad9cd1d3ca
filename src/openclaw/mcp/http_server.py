"""The server's rules of Streamable HTTP: which requests are taken, and what a stream can replay."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from openclaw.mcp import http, jsonrpc, names, params
from openclaw.mcp.http import EVENT_STREAM, JSON, LAST_EVENT_HEADER, SESSION_HEADER, VERSION_HEADER
from openclaw.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    Batch,
    ErrorData,
    ErrorResponse,
    Id,
    Incoming,
    Malformed,
    Notification,
    Request,
)
from openclaw.mcp.revisions import HANDSHAKE_REVISIONS
from openclaw.mcp.sse import encode_event

METHODS = "GET, POST, DELETE"
_EVENT_OVERHEAD = 200

Headers = Sequence[tuple[str, str]]  # with lower-case names, as they came


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer without a call: a status and, as JSON, an error."""

    status: int
    error: ErrorData
    id: Id | None = None
    allow: str | None = None

    @property
    def body(self) -> bytes:
        return jsonrpc.encode(ErrorResponse(self.id, self.error))


def refuse(status: int, problem: str, *, allow: str | None = None) -> Refusal:
    return Refusal(status, ErrorData(INVALID_REQUEST, problem), allow=allow)


def header(headers: Headers, name: str) -> str | None:
    return next((value for key, value in headers if key == name), None)


class Form(StrEnum):
    """How the answer to a POST may look, by its Accept header."""

    EITHER = "either"
    JSON = "json"
    STREAM = "stream"


def accepted_form(headers: Headers) -> Form | Refusal:
    """2025-11-25, "Sending Messages to the Server": clients accept both; one is enough for us."""
    accepts = http.accepts(header(headers, "accept"))
    if accepts.json and accepts.event_stream:
        return Form.EITHER
    if accepts.json or accepts.event_stream:
        return Form.JSON if accepts.json else Form.STREAM
    return refuse(406, f"the client must accept {JSON} and {EVENT_STREAM}")


def problem_with_content(headers: Headers) -> Refusal | None:
    if http.media_type(header(headers, "content-type")) != JSON:
        return refuse(415, f"the content type must be {JSON}")
    return None


def problem_with_get(headers: Headers) -> Refusal | None:
    version = header(headers, VERSION_HEADER)
    if version is not None and version not in HANDSHAKE_REVISIONS:
        # 2026-07-28: there are no sessions, and so no streams by GET.
        return refuse(405, "this revision has no streams of their own", allow="POST")
    if not http.accepts(header(headers, "accept")).event_stream:
        return refuse(406, f"the client must accept {EVENT_STREAM}")
    return None


def is_stateless(headers: Headers, incoming: Incoming) -> bool:
    """Whether a POST belongs to no session: it says so in its headers or in its body."""
    version = header(headers, VERSION_HEADER)
    if version is not None and version not in HANDSHAKE_REVISIONS:
        return True
    meta: Any = (incoming.params or {}).get("_meta") if isinstance(incoming, Request) else None
    return isinstance(meta, dict) and names.META_VERSION in meta


def problem_with_stateless(headers: Headers, request: Request) -> Refusal | None:
    """What is wrong with a request of 2026-07-28 before it is looked at."""
    problem = params.problem_with_envelope(request.params)
    if problem is not None:
        return Refusal(400, ErrorData(INVALID_PARAMS, problem), request.id)
    mismatch = http.header_mismatch(headers, request.method, request.params)
    return None if mismatch is None else Refusal(400, mismatch, request.id)


def problem_with_params(headers: Headers, request: Request, schema: Any) -> Refusal | None:
    """Whether the Mcp-Param-* headers of a tool call differ from its arguments."""
    arguments = (request.params or {}).get("arguments")
    mismatch = http.param_mismatch(headers, schema, arguments)
    return None if mismatch is None else Refusal(400, mismatch, request.id)


def problem_with_version(headers: Headers) -> Refusal | None:
    """2025-06-18, "Protocol Version Header": an unsupported one is a bad request."""
    version = header(headers, VERSION_HEADER)
    if version is None or version in HANDSHAKE_REVISIONS:
        return None
    return refuse(400, f"the protocol version {version[:64]!r} is not supported")


def problem_with_body(incoming: Incoming) -> Refusal | None:
    if isinstance(incoming, Malformed):
        return Refusal(400, incoming.error, None if incoming.is_response else incoming.id)
    return None


def requests_in(incoming: Incoming) -> list[Request]:
    items = incoming.items if isinstance(incoming, Batch) else (incoming,)
    return [item for item in items if isinstance(item, Request)]


def cancelled_by(incoming: Incoming) -> list[Id]:
    """The calls that a POST without requests cancels."""
    items = incoming.items if isinstance(incoming, Batch) else (incoming,)
    notes = [item for item in items if isinstance(item, Notification)]
    ids = [(note.params or {}).get("requestId") for note in notes if note.method == names.CANCELLED]
    return [id for id in map(jsonrpc.usable_id, ids) if id is not None]


def session_of(headers: Headers) -> str | None:
    return header(headers, SESSION_HEADER)


def last_event_of(headers: Headers) -> str | None:
    return header(headers, LAST_EVENT_HEADER)


# ---- what a session's streams can replay


@dataclass(frozen=True, slots=True)
class StreamEvent:
    stream: str
    number: int
    data: bytes
    id: str

    @property
    def size(self) -> int:
        """About what it takes in memory, also without any data."""
        return len(self.data) + _EVENT_OVERHEAD

    def encode(self, retry_ms: int | None = None) -> bytes:
        return encode_event(self.data, id=self.id, retry_ms=retry_ms)


class StreamLog:
    """A session's last events, for clients whose connection broke; the oldest are dropped first.

    Event ids begin with `prefix`, so that those of another session or process are not taken for ours.
    """

    def __init__(self, prefix: str, most_bytes: int) -> None:
        self._prefix, self._most = prefix, most_bytes
        self._events: deque[StreamEvent] = deque()
        self._bytes = self._last = 0

    def add(self, stream: str, data: bytes) -> StreamEvent:
        self._last += 1
        event = StreamEvent(stream, self._last, data, f"{self._prefix}-{self._last}")
        self._events.append(event)
        self._bytes += event.size
        while self._bytes > self._most and len(self._events) > 1:
            self._bytes -= self._events.popleft().size
        return event

    def find(self, event_id: str) -> StreamEvent | None:
        """None if the event is not known, or not any more."""
        return next((event for event in self._events if event.id == event_id), None)

    def unsent(self, stream: str, after: int) -> list[StreamEvent]:
        """What this stream had after the event with this number."""
        return [event for event in self._events if event.stream == stream and event.number > after]
