"""The client's end of a connection, over any transport.

    state        request()            receive()                             close()
    -----------  -------------------  ------------------------------------  ---------
    HANDSHAKE    as it is             everything; requests are answered     CLOSED
    READY        with what the        everything                            CLOSED
                 revision adds
    CLOSED       raises Closed        nothing                               CLOSED

`begin` leads from HANDSHAKE to READY, once a `Negotiation` has found out what the server speaks.

A call of ours ends with exactly one event: `Answered`, `Refused`, `Garbled` or `TimedOut`; or it is
in what `close` returns. Times are seconds of any clock that only goes forward.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count
from math import inf
from typing import Any, TypeGuard

from openclaw.core.rate_limit import RateLimit
from openclaw.mcp import http, jsonrpc, names
from openclaw.mcp.jsonrpc import (
    Batch,
    ErrorData,
    ErrorResponse,
    Id,
    Incoming,
    JsonObject,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
)
from openclaw.mcp.negotiation import Handshake, own_meta
from openclaw.mcp.revisions import Revision

MAX_EXTENSION = 60.0  # how many timeouts a call may last, however much progress is reported
PROGRESS_EVERY = 0.05  # seconds between two reports of one call's progress
MAX_SERVER_REQUESTS = 32  # of a server's requests that are answered at the same time
NOTIFICATIONS_PER_SECOND, NOTIFICATION_BURST = 500.0, 2000.0
BUSY = -32000

_MAX_DIGITS = 18


class State(Enum):
    HANDSHAKE = auto()
    READY = auto()
    CLOSED = auto()


class Closed(Exception):
    """Raised when a request is made after the connection was closed."""


@dataclass(slots=True, eq=False)
class Call:
    """A request that waits for its answer. `context` is whatever its maker wants to find again."""

    request: Request
    timeout: float = inf
    due: float = inf
    give_up_at: float = inf
    reported_at: float = -inf
    context: Any = None

    @property
    def id(self) -> Id:
        return self.request.id

    @property
    def method(self) -> str:
        return self.request.method


@dataclass(frozen=True, slots=True)
class Answered:
    call: Call
    result: JsonObject


@dataclass(frozen=True, slots=True)
class Refused:
    call: Call
    error: ErrorData


@dataclass(frozen=True, slots=True)
class Garbled:
    """The answer to this call is not valid; `too_many_values` if it was too much to read."""

    call: Call
    reason: str


@dataclass(frozen=True, slots=True)
class TimedOut:
    call: Call


@dataclass(frozen=True, slots=True)
class Progressed:
    call: Call
    progress: float
    total: float | None
    message: str | None


@dataclass(frozen=True, slots=True)
class Notified:
    method: str
    params: JsonObject | None


@dataclass(frozen=True, slots=True)
class Asked:
    """The server wants something of us: answer with `ClientConnection.answer`."""

    request: Request


@dataclass(frozen=True, slots=True)
class AskCancelled:
    id: Id


@dataclass(frozen=True, slots=True)
class Send:
    """A message that is owed to the server."""

    message: Message


@dataclass(frozen=True, slots=True)
class Flooded:
    """Notifications came too fast; this one is dropped."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Something that is no message, and for nobody."""


Event = (
    Answered
    | Refused
    | Garbled
    | TimedOut
    | Progressed
    | Notified
    | Asked
    | AskCancelled
    | Send
    | Flooded
    | Noise
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What we tell servers. `over_http` says that a request is cancelled by closing its stream."""

    client_info: Mapping[str, Any]
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    log_level: str | None = None
    over_http: bool = False


class ClientConnection:
    def __init__(self, settings: ClientSettings) -> None:
        self.state = State.HANDSHAKE
        self.settings = settings
        self.handshake: Handshake | None = None
        self._calls: dict[Id, Call] = {}
        self._serving: set[Id] = set()
        self._ids = count(1)
        self._notifications = RateLimit(NOTIFICATIONS_PER_SECOND, NOTIFICATION_BURST)
        self._meta: JsonObject = {}
        self._schemas: dict[str, Any] = {}

    @property
    def revision(self) -> Revision | None:
        return None if self.handshake is None else self.handshake.revision

    def begin(self, handshake: Handshake) -> None:
        self.state, self.handshake = State.READY, handshake
        if handshake.revision.stateless:
            settings = self.settings
            self._meta = own_meta(settings.client_info, settings.capabilities)
            if settings.log_level is not None:
                self._meta[names.META_LOG_LEVEL] = settings.log_level

    # ---- sending

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        now: float,
        timeout: float | None = None,
        *,
        reports_progress: bool = False,
        context: Any = None,
    ) -> Call:
        """The call that events will name; its `request` has to be sent."""
        if self.state is State.CLOSED:
            raise Closed
        seconds = inf if timeout is None else timeout
        id = next(self._ids)
        meta = {**self._meta, "progressToken": id} if reports_progress else self._meta
        fields = dict(params) if params else {}
        if meta:
            fields["_meta"] = {**(fields.get("_meta") or {}), **meta}
        call = self._calls[id] = Call(
            Request(id, method, fields or None),
            timeout=seconds,
            due=now + seconds,
            give_up_at=now + seconds * MAX_EXTENSION,
            context=context,
        )
        return call

    def cancel(self, call: Call, reason: str) -> Notification | None:
        """Wait for this call no longer; returns what tells the server, if anything does.

        Section "Cancellation": the handshake is not cancelled. Over HTTP at 2026-07-28, closing the
        stream is what cancels.
        """
        if self._calls.pop(call.id, None) is None or self.state is not State.READY:
            return None
        revision = self.revision
        if self.settings.over_http and revision is not None and revision.stateless:
            return None
        return Notification(names.CANCELLED, {"requestId": call.id, "reason": reason})

    def forget(self, call: Call) -> None:
        """Wait for this call no longer; the server has not got it, or cannot answer it."""
        self._calls.pop(call.id, None)

    def answer(self, id: Id, result: JsonObject | ErrorData, now: float) -> Message | None:
        """The answer to the server's request; None if it no longer waits for one."""
        if id not in self._serving:
            return None
        self._serving.discard(id)
        for call in self._calls.values():  # until now, the server may have waited for this answer
            call.due = min(now + call.timeout, call.give_up_at)
        if isinstance(result, ErrorData):
            return ErrorResponse(id, result)
        return Response(id, result)

    def learn_tools(self, schemas: Mapping[str, Any]) -> None:
        """What the tools take: some parameters are repeated in headers."""
        self._schemas = dict(schemas)

    def headers(self, request: Request) -> dict[str, str]:
        """The headers of this request over HTTP; during the handshake, those of its own method."""
        revision = self.revision
        if revision is None:
            if request.method != names.DISCOVER:
                return {}
            meta = (request.params or {}).get("_meta", {})
            version = str(meta.get(names.META_VERSION))
            return {http.VERSION_HEADER: version, http.METHOD_HEADER: request.method}
        headers = self.session_headers()
        if revision.routing_headers:
            params = request.params
            name = (params or {}).get("name")
            schema = self._schemas.get(name) if isinstance(name, str) else None
            headers |= http.routing_headers(request.method, params, schema)
        return headers

    def session_headers(self) -> dict[str, str]:
        """The headers of everything after the handshake."""
        revision = self.revision
        return {} if revision is None else {http.VERSION_HEADER: revision.name}

    # ---- receiving

    def receive(self, incoming: Incoming, now: float) -> list[Event]:
        if self.state is State.CLOSED:
            return []
        if isinstance(incoming, Batch):
            # Section "Batching" of 2025-03-26; from other revisions as well, since it does no harm.
            return [event for item in incoming.items for event in self._receive_one(item, now)]
        return self._receive_one(incoming, now)

    def _receive_one(self, message: Message | Malformed, now: float) -> list[Event]:
        match message:
            case Response():
                call = self._take(message.id)
                return [] if call is None else [Answered(call, message.result)]
            case Notification():
                return self._notified(message, now)
            case Request():
                return [self._asked(message)]
            case ErrorResponse():
                call = self._take(message.id)  # without an id, it says nothing to anybody
                return [] if call is None else [Refused(call, message.error)]
            case Malformed():
                return self._malformed(message)

    def _take(self, id: Id | None) -> Call | None:
        call = self.find(id)
        return None if call is None else self._calls.pop(call.id)

    def find(self, id: object) -> Call | None:
        """The call with this id; a server may return a number as text."""
        if type(id) is int:
            return self._calls.get(id)
        if type(id) is not str:
            return None
        number = int(id) if id.isdecimal() and len(id) <= _MAX_DIGITS else id
        return self._calls.get(id) or self._calls.get(number)

    def _malformed(self, message: Malformed) -> list[Event]:
        if message.is_response:
            call = self._take(message.id)
            return [Noise()] if call is None else [Garbled(call, message.error.message)]
        answer = message.answer()
        # What has no id is hardly a request; something that prints to its output is not answered.
        if answer is None or answer.id is None:
            return [Noise()]
        return [Noise(), Send(answer)]

    def _asked(self, request: Request) -> Event:
        if request.method == names.PING:
            return Send(Response(request.id, {}))
        if len(self._serving) >= MAX_SERVER_REQUESTS:
            return Send(ErrorResponse(request.id, ErrorData(BUSY, "too many requests at once")))
        if request.id in self._serving:
            error = ErrorData(jsonrpc.INVALID_REQUEST, "this id is in use")
            return Send(ErrorResponse(request.id, error))
        self._serving.add(request.id)
        return Asked(request)

    def _notified(self, notification: Notification, now: float) -> list[Event]:
        params = notification.params or {}
        if notification.method == names.PROGRESS:
            call = self.find(params.get("progressToken"))
            if call is not None:
                return self._progressed(call, params, now)
        if not self._notifications.allows(now):
            return [Flooded()]
        if notification.method == names.CANCELLED:
            return self._cancelled(params.get("requestId"))
        return [Notified(notification.method, notification.params)]

    def _cancelled(self, value: object) -> list[Event]:
        id = jsonrpc.usable_id(value)
        if id in self._serving:
            self._serving.discard(id)
            return [AskCancelled(id)]
        call = self.find(id)
        if call is None or call.method != names.LISTEN:
            return []
        # Section "Subscriptions" of 2026-07-28: that is how a server ends one over stdio.
        del self._calls[call.id]
        return [Refused(call, ErrorData(jsonrpc.CONNECTION_CLOSED, "the server ended it"))]

    def _progressed(self, call: Call, params: JsonObject, now: float) -> list[Event]:
        if now < call.give_up_at:
            call.due = min(now + call.timeout, call.give_up_at)
        progress, total, message = (params.get(key) for key in ("progress", "total", "message"))
        if now - call.reported_at < PROGRESS_EVERY or not _is_number(progress):
            return []
        call.reported_at = now
        return [
            Progressed(
                call,
                float(progress),
                float(total) if _is_number(total) else None,
                message if isinstance(message, str) else None,
            )
        ]

    # ---- time

    def next_deadline(self) -> float:
        return min((call.due for call in self._calls.values()), default=inf)

    def expire(self, now: float) -> list[Event]:
        """The calls whose time is up by now."""
        late = [call for call in self._calls.values() if call.due <= now]
        return [event for call in late for event in self._expire(call, now)]

    def _expire(self, call: Call, now: float) -> Iterator[Event]:
        if self._serving and now < call.give_up_at:
            # The server waits for our answer, perhaps a user's: that is not its delay.
            call.due = now + call.timeout
            return
        notification = self.cancel(call, "no answer in time")
        yield TimedOut(call)
        if notification is not None:
            yield Send(notification)

    @property
    def open_calls(self) -> list[Call]:
        return list(self._calls.values())

    def close(self) -> list[Call]:
        """The calls that will get no answer."""
        self.state = State.CLOSED
        calls, self._calls = self.open_calls, {}
        self._serving.clear()
        return calls


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
