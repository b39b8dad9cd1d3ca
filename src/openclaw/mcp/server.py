"""The server's side of a connection, over any transport, at every revision.

A connection begins without a revision. `initialize` gives it one for good; a request of 2026-07-28
brings its own, needs no handshake, and is served in every phase.

    comes in                   NEW             INITIALIZING     READY      CLOSED
    initialize                 → INITIALIZING  refused          refused    ignored
    notifications/initialized  ignored         → READY          ignored    ignored
    ping                       answered        answered         answered   ignored
    request with a revision    served          served           served     ignored
    any other request          refused         served           served     ignored
    our own: close()           → CLOSED        → CLOSED         → CLOSED   CLOSED

A request that is served is an event (`Call`) and owed one `Answer` or `Refuse`, unless the client
cancels it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, cast

from openclaw.mcp import jsonrpc, names, params
from openclaw.mcp.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    REQUEST_TIMEOUT,
    UNSUPPORTED_VERSION,
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
from openclaw.mcp.revisions import LATEST_WITH_HANDSHAKE, Revision, TaskSupport
from openclaw.mcp.server_events import (
    Acknowledge,
    Answer,
    Answered,
    Ask,
    Call,
    Cancelled,
    Client,
    Command,
    Event,
    ListChanged,
    Log,
    Notified,
    Notify,
    Offer,
    Outgoing,
    Ready,
    Refuse,
    Report,
    ResourceUpdated,
    TaskChanged,
    Withdraw,
)
from openclaw.mcp.tasks import EXTENSION_TASKS, declares_extension, task_form


class Phase(StrEnum):
    NEW = "new"
    INITIALIZING = "initializing"
    READY = "ready"
    CLOSED = "closed"


_CLOSE = "close()"
TRANSITIONS = {
    (Phase.NEW, names.INITIALIZE): Phase.INITIALIZING,
    (Phase.INITIALIZING, names.INITIALIZED): Phase.READY,
    **{(phase, _CLOSE): Phase.CLOSED for phase in Phase},
}


class LocalProtocolError(Exception):
    """Raised when we are about to do what the protocol, or this client, does not allow."""


# ---- methods


def _always(revision: Revision) -> bool:
    return True


def _without_listen(revision: Revision) -> bool:
    return not revision.listen


def _with_set_level(revision: Revision) -> bool:
    return not revision.log_level_per_request


class _Method(NamedTuple):
    """The capability that offers a method, a part of it that must be declared too, and where it is."""

    capability: str
    part: str | None = None
    is_in: Callable[[Revision], bool] = _always


class _Change(NamedTuple):
    notification: str
    filter: str
    """What a client of `subscriptions/listen` asks for it by."""


_LISTS = {
    names.TOOLS_LIST, names.PROMPTS_LIST, names.RESOURCES_LIST, names.TEMPLATES_LIST,
}  # fmt: skip
_OF_SKILLS = {names.SKILLS_LIST, names.SKILLS_GET, names.DIRECTORY_READ}  # SEP-2640
_CACHEABLE = {*_LISTS, *_OF_SKILLS, names.RESOURCES_READ, names.DISCOVER}
_METHODS = {
    names.TOOLS_LIST: _Method("tools"),
    names.TOOLS_CALL: _Method("tools"),
    names.PROMPTS_LIST: _Method("prompts"),
    names.PROMPTS_GET: _Method("prompts"),
    names.RESOURCES_LIST: _Method("resources"),
    names.RESOURCES_READ: _Method("resources"),
    names.TEMPLATES_LIST: _Method("resources"),
    names.SUBSCRIBE: _Method("resources", "subscribe", is_in=_without_listen),
    names.UNSUBSCRIBE: _Method("resources", "subscribe", is_in=_without_listen),
    names.COMPLETE: _Method("completions"),
    names.SET_LEVEL: _Method("logging", is_in=_with_set_level),
}
_CHANGES = {
    "tools": _Change(names.TOOLS_CHANGED, "toolsListChanged"),
    "prompts": _Change(names.PROMPTS_CHANGED, "promptsListChanged"),
    "resources": _Change(names.RESOURCES_CHANGED, "resourcesListChanged"),
}
_ASKS_FOR = {names.SAMPLING: "sampling", names.ELICIT: "elicitation", names.ROOTS: "roots"}


def missing_capability(
    revision: Revision, client: Client, method: str, asked: JsonObject | None
) -> JsonObject | None:
    """The capability without which this client cannot be asked this, as it would declare it."""
    capability = _ASKS_FOR.get(method)
    if capability is None:
        return None
    if not client.can(capability):
        return {capability: {}}
    inside = asked or {}
    if method == names.ELICIT and revision.url_elicitation:
        mode, declared = inside.get("mode", "form"), client.capabilities[capability]
        # "elicitation": {} means forms (2025-11-25, section "Capabilities" of elicitation).
        if mode not in declared and not (mode == "form" and "url" not in declared):
            return {capability: {mode: {}}}
    wants_tools = inside.get("tools") is not None or inside.get("toolChoice") is not None
    if method == names.SAMPLING and wants_tools and not client.can("sampling", "tools"):
        return {capability: {"tools": {}}}
    return None


@dataclass(slots=True)
class _Batch:
    waiting: set[Id]
    first: Id | None
    answers: list[Message]


@dataclass(slots=True)
class _Open:
    """A call that has not been answered."""

    call: Call
    batch: _Batch | None
    progress: float | None = None


class ServerConnection:
    """The state of one connection, or of one request if the transport has no connections."""

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.phase = Phase.NEW
        self.revision: Revision | None = None
        self.client = Client()
        self._open: dict[Id, _Open] = {}
        self._asked: dict[Id, float | None] = {}
        self._requests = 0
        self._log_level: str | None = None
        self._resources: set[str] = set()
        self._subscriptions: dict[Id, JsonObject] = {}

    # ---- what the client sends

    def receive(self, incoming: Incoming) -> list[Event]:
        if self.phase is Phase.CLOSED:
            return []
        match incoming:
            case Batch():
                return self._receive_batch(incoming)
            case Request():
                return self._receive_request(incoming, None)
            case Notification():
                return self._receive_notification(incoming)
            case Malformed():
                return self._receive_malformed(incoming)
            case Response(id, result):
                return self._answered(id, result=result)
            case ErrorResponse(id, error):
                return [] if id is None else self._answered(id, error=error)

    def close(self) -> list[Event]:
        """The client has gone: every call is cancelled, and every request of ours failed."""
        self.phase = TRANSITIONS[self.phase, _CLOSE]
        events: list[Event] = [Cancelled(id) for id in self._open]
        gone = ErrorData(jsonrpc.CONNECTION_CLOSED, "the client has gone")
        events += [Answered(id, error=gone) for id in self._asked]
        self._open.clear()
        self._asked.clear()
        return events

    # ---- deadlines

    def next_deadline(self) -> float | None:
        """When `time_passed` has to be called, if nothing happens before."""
        return min(
            (deadline for deadline in self._asked.values() if deadline is not None), default=None
        )

    def time_passed(self, now: float) -> list[Event]:
        late = [
            id for id, deadline in self._asked.items() if deadline is not None and deadline <= now
        ]
        events: list[Event] = []
        for id in late:
            events += self.send(Withdraw(id, "no answer came in time"))
            events.append(Answered(id, error=ErrorData(REQUEST_TIMEOUT, "no answer came in time")))
        return events

    # ---- requests

    def _receive_batch(self, batch: Batch) -> list[Event]:
        if self.revision is None or not self.revision.batches:
            problem = "batches are not accepted at this revision"
            return [Outgoing((ErrorResponse(None, ErrorData(INVALID_REQUEST, problem)),))]
        requests = [item for item in batch.items if isinstance(item, Request)]
        first = requests[0].id if requests else None
        collected = _Batch({request.id for request in requests}, first, [])
        events: list[Event] = []
        for item in batch.items:
            if isinstance(item, Request):
                events += self._receive_request(item, collected)
            elif isinstance(item, Malformed) and (answer := item.answer()) is not None:
                collected.answers.append(answer)
            else:
                events += self.receive(item)
        if not requests and collected.answers:
            events += self._batch_answer(collected)
        return events

    def _receive_request(self, request: Request, batch: _Batch | None) -> list[Event]:
        if request.id in self._open:
            error = ErrorData(INVALID_REQUEST, "another request that is still open has this id")
            return self._answer_now(ErrorResponse(request.id, error), batch)
        fields = request.params or {}
        meta = fields.get("_meta")
        if isinstance(meta, dict) and names.META_VERSION in meta:
            return self._receive_stateless(request, fields, cast("JsonObject", meta), batch)
        if request.method == names.INITIALIZE:
            return self._initialize(request, fields, batch)
        if request.method == names.PING:
            return self._answer_now(Response(request.id, {}), batch)
        if self.revision is None:
            problem = params.problem_with_envelope(fields)
            words = f"{problem}, or `initialize` must come first"
            return self._refuse_now(request.id, INVALID_PARAMS, words, batch=batch)
        return self._serve(request, fields, self.revision, self.client, batch)

    def _receive_stateless(
        self, request: Request, fields: JsonObject, meta: JsonObject, batch: _Batch | None
    ) -> list[Event]:
        problem = params.problem_with_envelope(fields)
        if problem is not None:
            return self._refuse_now(request.id, INVALID_PARAMS, problem, batch=batch)
        offered = {
            candidate.name: candidate for candidate in self.offer.revisions if candidate.stateless
        }
        revision = offered.get(meta[names.META_VERSION])
        if revision is None:
            data = {"supported": list(offered), "requested": meta[names.META_VERSION]}
            words = "Unsupported protocol version"
            return self._refuse_now(request.id, UNSUPPORTED_VERSION, words, data, batch=batch)
        client = Client(meta.get(names.META_CLIENT) or {}, meta[names.META_CAPABILITIES])
        if request.method == names.DISCOVER:
            result: JsonObject = {
                "supportedVersions": list(offered),
                "capabilities": self.offer.at(revision),
            }
            if self.offer.instructions is not None:
                result["instructions"] = self.offer.instructions
            shaped = self._shaped(result, request.method, revision)
            return self._answer_now(Response(request.id, shaped), batch)
        return self._serve(request, fields, revision, client, batch)

    def _initialize(
        self, request: Request, fields: JsonObject, batch: _Batch | None
    ) -> list[Event]:
        following = TRANSITIONS.get((self.phase, names.INITIALIZE))
        if following is None or batch is not None:
            words = "the connection is initialized already"
            return self._refuse_now(request.id, INVALID_REQUEST, words, batch=batch)
        problem = params.problem_with(request.method, fields, LATEST_WITH_HANDSHAKE)
        if problem is not None:
            return self._refuse_now(request.id, INVALID_PARAMS, problem)
        offered = {
            candidate.name: candidate
            for candidate in self.offer.revisions
            if not candidate.stateless
        }
        if not offered:
            data = {
                "supported": [candidate.name for candidate in self.offer.revisions],
                "requested": fields["protocolVersion"],
            }
            words = "Unsupported protocol version"
            return self._refuse_now(request.id, UNSUPPORTED_VERSION, words, data)
        # 2025-11-25, "Version Negotiation": the client's if we have it, otherwise our latest.
        revision = offered.get(fields["protocolVersion"]) or list(offered.values())[-1]
        self.phase, self.revision = following, revision
        self.client = Client(fields["clientInfo"], fields["capabilities"])
        result: JsonObject = {
            "protocolVersion": revision.name,
            "capabilities": self.offer.at(revision),
            "serverInfo": self.offer.server_info,
        }
        if self.offer.instructions is not None:
            result["instructions"] = self.offer.instructions
        return self._answer_now(Response(request.id, result), None)

    def _serve(
        self,
        request: Request,
        fields: JsonObject,
        revision: Revision,
        client: Client,
        batch: _Batch | None,
    ) -> list[Event]:
        error = self._fault(request.method, fields, revision, client)
        if error is not None:
            return self._answer_now(ErrorResponse(request.id, error), batch)
        call = Call(request.id, request.method, fields, revision, client)
        match request.method:
            case names.SET_LEVEL:
                self._log_level = fields["level"]
                return self._answer_now(Response(request.id, {}), batch)
            case names.SUBSCRIBE:
                self._resources.add(fields["uri"])
            case names.UNSUBSCRIBE:
                self._resources.discard(fields["uri"])
            case _:
                pass
        self._open[request.id] = _Open(call, batch)
        return [call]

    def _fault(
        self, method: str, fields: JsonObject, revision: Revision, client: Client
    ) -> ErrorData | None:
        if not self._has(method, revision):
            return ErrorData(METHOD_NOT_FOUND, "Method not found", method)
        problem = params.problem_with(method, fields, revision)
        if problem is not None:
            return ErrorData(INVALID_PARAMS, problem)
        of_extension = method in EXTENSION_TASKS.methods or (
            method == names.LISTEN and bool(fields["notifications"].get("taskIds"))
        )
        extension = revision.tasks is TaskSupport.EXTENSION and of_extension
        if extension and not declares_extension(client.capabilities):
            required: JsonObject = {"extensions": {names.TASKS_EXTENSION: {}}}
            return missing_capability_error(required)
        return None

    def _has(self, method: str, revision: Revision) -> bool:
        if method in _METHODS:
            known = _METHODS[method]
            path = filter(None, (known.capability, known.part))
            return known.is_in(revision) and self.offer.has(*path)
        if method == names.LISTEN:
            return revision.listen
        form = task_form(revision)
        if form is not None and method in form.methods:
            offered = self.offer.at(revision)
            return "tasks" in offered or declares_extension(offered)
        return method in self.offer.methods

    # ---- notifications and answers

    def _receive_notification(self, notification: Notification) -> list[Event]:
        fields = notification.params or {}
        match notification.method:
            case names.INITIALIZED:
                following = TRANSITIONS.get((self.phase, names.INITIALIZED))
                if following is None:
                    return []
                self.phase = following
                return [Ready()]
            case names.CANCELLED:
                id = jsonrpc.usable_id(fields.get("requestId"))
                return [] if id is None else self._cancel(id)
            case method:
                return [Notified(method, fields)]

    def _cancel(self, id: Id) -> list[Event]:
        self._subscriptions.pop(id, None)
        opened = self._open.pop(id, None)
        if opened is None:
            return []
        events: list[Event] = [Cancelled(id)]
        if opened.batch is not None:
            events += self._batch_answer(opened.batch, id)
        return events

    def _receive_malformed(self, malformed: Malformed) -> list[Event]:
        if malformed.is_response:
            return (
                [] if malformed.id is None else self._answered(malformed.id, error=malformed.error)
            )
        answer = malformed.answer()
        return [] if answer is None else [Outgoing((answer,), malformed.id, is_final=True)]

    def _answered(
        self, id: Id, *, result: JsonObject | None = None, error: ErrorData | None = None
    ) -> list[Event]:
        if id not in self._asked:
            return []  # withdrawn, late, or not ours
        del self._asked[id]
        return [Answered(id, result, error)]

    # ---- what we send

    def send(self, command: Command) -> list[Outgoing]:
        """What to write for this; nothing if the client does not want it any more."""
        match command:
            case Answer():
                return self._answer(command)
            case Refuse(id, error):
                return self._finish(id, ErrorResponse(id, error))
            case Report():
                return self._report(command)
            case Log():
                return self._log(command)
            case Ask():
                return self._ask(command)
            case Withdraw(id, reason):
                return self._withdraw(id, reason)
            case Acknowledge(id, granted):
                return self._acknowledge(id, granted)
            case ListChanged() | ResourceUpdated() | TaskChanged():
                return self._tell_subscribers(command)
            case Notify(method, fields, call):
                return [Outgoing((Notification(method, fields),), call)]

    def _answer(self, command: Answer) -> list[Outgoing]:
        opened = self._open.get(command.id)
        if opened is None:
            return []
        call = opened.call
        asks = command.result.get("resultType") == "input_required"  # a task's questions wait in it
        wanted: JsonObject = (command.result.get("inputRequests") or {}) if asks else {}
        for request in wanted.values():
            missing = missing_capability(
                call.revision, call.client, request["method"], request.get("params")
            )
            if missing is not None:
                return self.send(Refuse(command.id, missing_capability_error(missing)))
        result = command.result
        if call.method == names.LISTEN:
            result = {**result, "_meta": {names.META_SUBSCRIPTION: call.id}}
        shaped = self._shaped(result, call.method, call.revision)
        return self._finish(command.id, Response(command.id, shaped))

    def _shaped(self, result: JsonObject, method: str, revision: Revision) -> JsonObject:
        """The result as this revision has it."""
        if not revision.result_types:
            unknown = ("resultType", "ttlMs", "cacheScope")
            return {key: value for key, value in result.items() if key not in unknown}
        hints = {"ttlMs": 0, "cacheScope": "private"} if method in _CACHEABLE else {}
        own: JsonObject = result.get("_meta") or {}
        meta = {names.META_SERVER: self.offer.server_info, **own}
        if result.get("resultType", "complete") != "complete":
            hints = {}
        return {"resultType": "complete", **hints, **result, "_meta": meta}

    def _finish(self, id: Id, answer: Message) -> list[Outgoing]:
        opened = self._open.pop(id, None)
        self._subscriptions.pop(id, None)
        if opened is None:
            return []
        return self._answer_now_as_outgoing(answer, id, opened.batch)

    def _refuse_now(
        self, id: Id, code: int, words: str, data: Any = None, *, batch: _Batch | None = None
    ) -> list[Event]:
        return self._answer_now(ErrorResponse(id, ErrorData(code, words, data)), batch)

    def _answer_now(self, answer: Response | ErrorResponse, batch: _Batch | None) -> list[Event]:
        return [*self._answer_now_as_outgoing(answer, answer.id, batch)]

    def _answer_now_as_outgoing(
        self, answer: Message, id: Id | None, batch: _Batch | None
    ) -> list[Outgoing]:
        if batch is None:
            return [Outgoing((answer,), id, is_final=True)]
        batch.answers.append(answer)
        return self._batch_answer(batch, id)

    def _batch_answer(self, batch: _Batch, id: Id | None = None) -> list[Outgoing]:
        """The answers of a batch once there are all of them (JSON-RPC 2.0, section 6)."""
        if id is not None:
            batch.waiting.discard(id)
        if batch.waiting or not batch.answers:
            return []
        return [Outgoing(tuple(batch.answers), batch.first, is_final=True, is_batch=True)]

    def _report(self, report: Report) -> list[Outgoing]:
        opened = self._open.get(report.id)
        if opened is None or opened.call.progress_token is None:
            return []
        if opened.progress is not None and report.progress <= opened.progress:
            return []  # "The progress value MUST increase"
        opened.progress = report.progress
        fields: JsonObject = {
            "progressToken": opened.call.progress_token,
            "progress": report.progress,
        }
        if report.total is not None:
            fields["total"] = report.total
        if report.message is not None and opened.call.revision.progress_messages:
            fields["message"] = report.message
        return [Outgoing((Notification(names.PROGRESS, fields),), report.id)]

    def _log(self, log: Log) -> list[Outgoing]:
        opened = None if log.call is None else self._open.get(log.call)
        if opened is not None and opened.call.revision.log_level_per_request:
            wanted = opened.call.meta.get(names.META_LOG_LEVEL)
            if wanted is None:  # the client asked for no logs (2026-07-28, "Log Levels")
                return []
        elif self.revision is None or "logging" not in self.offer.capabilities:
            return []
        else:
            wanted = self._log_level or names.LOG_LEVELS[0]
        if names.LOG_LEVELS.index(log.level) < names.LOG_LEVELS.index(wanted):
            return []
        fields: JsonObject = {"level": log.level, "data": log.data}
        if log.logger is not None:
            fields["logger"] = log.logger
        return [Outgoing((Notification(names.LOG, fields),), log.call)]

    def _ask(self, ask: Ask) -> list[Outgoing]:
        if self.revision is None or not self.revision.server_requests:
            raise LocalProtocolError("this client can only be asked in a result")
        if ask.method == names.ELICIT and not self.revision.form_elicitation:
            raise LocalProtocolError("this client's revision has no elicitation")
        if missing_capability(self.revision, self.client, ask.method, ask.params) is not None:
            raise LocalProtocolError(f"this client does not take {ask.method}")
        self._requests += 1
        self._asked[self._requests] = ask.deadline
        return [Outgoing((Request(self._requests, ask.method, ask.params),), ask.call)]

    def _withdraw(self, id: Id, reason: str) -> list[Outgoing]:
        if id not in self._asked:
            return []
        del self._asked[id]
        fields: JsonObject = {"requestId": id}
        if reason:
            fields["reason"] = reason
        return [Outgoing((Notification(names.CANCELLED, fields),))]

    # ---- subscriptions

    def _acknowledge(self, id: Id, granted: JsonObject) -> list[Outgoing]:
        if id not in self._open:
            return []
        self._subscriptions[id] = granted
        return [self._to_subscriber(id, names.ACKNOWLEDGED, {"notifications": granted})]

    def _to_subscriber(self, id: Id, method: str, fields: JsonObject) -> Outgoing:
        fields = {**fields, "_meta": {names.META_SUBSCRIPTION: id}}
        return Outgoing((Notification(method, fields),), id)

    def _tell_subscribers(
        self, change: ListChanged | ResourceUpdated | TaskChanged
    ) -> list[Outgoing]:
        match change:
            case ListChanged(kind):
                method, fields = _CHANGES[kind].notification, dict[str, Any]()
                key = _CHANGES[kind].filter
                wanted = [id for id, filters in self._subscriptions.items() if filters.get(key)]
                unasked = self.offer.has(kind, "listChanged")
            case ResourceUpdated(uri):
                method, fields = names.RESOURCE_UPDATED, {"uri": uri}
                wanted = self._subscribers("resourceSubscriptions", uri)
                unasked = uri in self._resources
            case TaskChanged(task):
                method, fields = names.TASK_CHANGED, EXTENSION_TASKS.view(task)
                wanted = self._subscribers("taskIds", task.id)
                unasked = False
        outgoing = [self._to_subscriber(id, method, fields) for id in wanted]
        if unasked and self.revision is not None and self.phase is Phase.READY:
            outgoing.append(Outgoing((Notification(method, fields or None),)))
        return outgoing

    def _subscribers(self, key: str, value: str) -> list[Id]:
        return [
            id for id, filters in self._subscriptions.items() if value in (filters.get(key) or ())
        ]


def missing_capability_error(required: JsonObject) -> ErrorData:
    words = "Missing required client capability"
    return ErrorData(MISSING_CAPABILITY, words, {"requiredCapabilities": required})


def outgoing_in(events: Iterable[Event]) -> list[Outgoing]:
    return [event for event in events if isinstance(event, Outgoing)]
