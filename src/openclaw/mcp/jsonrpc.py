"""JSON-RPC 2.0 as MCP uses it: what a message is, read from a value and written as one.

What isn't a message becomes `Malformed`, with the id that it seems to have, so that whoever waits for
an answer gets one.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from openclaw.mcp import json_text

Id = int | str
JsonObject = dict[str, Any]
NOTHING: Mapping[str, Any] = MappingProxyType({})

PARSE_ERROR, INVALID_REQUEST = -32700, -32600
METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR = -32601, -32602, -32603
# Below -32020, the codes of 2026-07-28; the others belong to earlier revisions.
RESOURCE_NOT_FOUND = -32002  # until 2025-11-25; later it is INVALID_PARAMS
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
URL_ELICITATION_REQUIRED = -32042
CONNECTION_CLOSED, REQUEST_TIMEOUT = -32000, -32001  # by common usage; not in the specification


class ErrorData(NamedTuple):
    code: int
    message: str
    data: Any = None


class RpcError(Exception):
    """Raised when a request is to be answered with an error, or was."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    @property
    def error(self) -> ErrorData:
        return ErrorData(self.code, self.message, self.data)


class Request(NamedTuple):
    id: Id
    method: str
    params: JsonObject | None = None


class Notification(NamedTuple):
    method: str
    params: JsonObject | None = None


class Response(NamedTuple):
    id: Id
    result: JsonObject


class ErrorResponse(NamedTuple):
    """`id` is None if the other side could not read the request's."""

    id: Id | None
    error: ErrorData


Message = Request | Notification | Response | ErrorResponse


class Malformed(NamedTuple):
    """Something that is not a message.

    If it is a response, the request of ours with this `id` gets no better answer. Otherwise `error`
    is owed to the sender, unless it is a notification, which nobody answers.
    """

    error: ErrorData
    id: Id | None = None
    is_response: bool = False
    is_notification: bool = False

    def answer(self) -> ErrorResponse | None:
        if self.is_response or self.is_notification:
            return None
        return ErrorResponse(self.id, self.error)


class Batch(NamedTuple):
    """Several messages in one, as 2025-03-26 has them."""

    items: tuple[Message | Malformed, ...]


Incoming = Message | Malformed | Batch


# ---- reading


def decode(text: bytes) -> Incoming:
    """The message, or the batch, in this text; never raises."""
    try:
        value = json_text.loads(text)
    except json_text.Unreadable as problem:
        return unreadable(text, text, problem.reason)
    return parse(value)


def parse(value: Any) -> Incoming:
    if type(value) is list:
        items = cast("list[Any]", value)
        if not items:  # JSON-RPC 2.0, section 6
            return Malformed(ErrorData(INVALID_REQUEST, "a batch must not be empty"))
        return Batch(tuple(map(parse_one, items)))
    return parse_one(value)


def parse_one(value: Any) -> Message | Malformed:
    if type(value) is not dict:
        return Malformed(ErrorData(INVALID_REQUEST, "a message is a JSON object"))
    fields = cast("JsonObject", value)
    request_id = usable_id(fields.get("id"))
    if is_response(fields):
        return _response(fields, request_id)
    method, params = fields.get("method"), fields.get("params")
    fault = _fault(fields, method, params, request_id)
    if fault is not None:
        nobody_waits = "id" not in fields and type(method) is str
        return Malformed(fault, request_id, is_notification=nobody_waits)
    if request_id is None:
        return Notification(cast("str", method), params)
    return Request(request_id, cast("str", method), params)


def _fault(fields: JsonObject, method: Any, params: Any, request_id: Id | None) -> ErrorData | None:
    if fields.get("jsonrpc") != "2.0":
        return ErrorData(INVALID_REQUEST, 'jsonrpc must be "2.0"')
    if type(method) is not str:
        return ErrorData(INVALID_REQUEST, "method must be a string")
    if "id" in fields and request_id is None:
        return ErrorData(INVALID_REQUEST, "id must be a string or an integer")
    if params is not None and type(params) is not dict:
        return ErrorData(INVALID_PARAMS, "params must be an object")
    return None


def _response(fields: JsonObject, request_id: Id | None) -> Message | Malformed:
    # Its version isn't checked: a server that leaves it out has answered all the same.
    error, result = fields.get("error"), fields.get("result")
    if error is not None:
        return ErrorResponse(request_id, error_data(error))
    if request_id is None or type(result) is not dict:
        problem = "the answer has neither a result nor an error"
        return Malformed(ErrorData(INVALID_REQUEST, problem), request_id, is_response=True)
    return Response(request_id, cast("JsonObject", result))


def error_data(value: Any) -> ErrorData:
    """An error as the other side gave it; what is wrong with it is replaced."""
    fields = cast("JsonObject", value) if type(value) is dict else {}
    code, message = fields.get("code"), fields.get("message")
    return ErrorData(
        code if type(code) is int else INTERNAL_ERROR,
        message if type(message) is str else "no reason was given",
        fields.get("data"),
    )


def is_response(fields: Mapping[str, Any]) -> bool:
    return "method" not in fields and ("result" in fields or "error" in fields)


def usable_id(value: Any) -> Id | None:
    return value if type(value) in (int, str) else None


# In text that cannot be parsed, the members at its start that are plain numbers or strings, and an id
# at its end: in these positions, it can only be the message's own.
_PLAIN = rb'(-?\d{1,18}|"[^"\\\x00-\x1f]{0,512}")'
_MEMBER = re.compile(rb'\s*[{,]\s*"(\w+)"\s*:\s*(?:%b\s*(?=[,}]))?' % _PLAIN)
_ID_AT_THE_END = re.compile(rb'"id"\s*:\s*%b\s*\}\s*\Z' % _PLAIN)
_END = 4096  # bytes at either end that are looked at


def unreadable(head: bytes, tail: bytes, problem: str, code: int = PARSE_ERROR) -> Malformed:
    """What to make of text that cannot be read, by its two ends."""
    seen, request_id = _glimpse(head[:_END], tail[-_END:])
    if not is_response(seen):
        looks_like_request = type(seen.get("method")) is str and request_id is not None
        error = ErrorData(INVALID_REQUEST if looks_like_request else code, problem)
        return Malformed(error, request_id if looks_like_request else None)
    return Malformed(ErrorData(code, problem), request_id, is_response=True)


def _glimpse(head: bytes, tail: bytes) -> tuple[JsonObject, Id | None]:
    """The members that the two ends of a message show, and its id."""
    seen: JsonObject = {}
    position = 0
    while (member := _MEMBER.match(head, position)) is not None:
        seen[member[1].decode()] = _plain_value(member[2])
        position = member.end() if member[2] else len(head)
    request_id = usable_id(seen.get("id"))
    if request_id is None and (last := _ID_AT_THE_END.search(tail)):
        request_id = usable_id(_plain_value(last[1]))
    return seen, request_id


def _plain_value(text: bytes | None) -> Any:
    try:
        return json_text.loads(text or b"null")
    except json_text.Unreadable:
        return None


# ---- writing


def to_json(message: Message) -> JsonObject:
    match message:
        case Request():
            fields: JsonObject = {"jsonrpc": "2.0", "id": message.id, "method": message.method}
        case Notification():
            fields = {"jsonrpc": "2.0", "method": message.method}
        case Response():
            return {"jsonrpc": "2.0", "id": message.id, "result": message.result}
        case ErrorResponse():
            return {"jsonrpc": "2.0", "id": message.id, "error": error_to_json(message.error)}
    if message.params is not None:
        fields["params"] = message.params
    return fields


def error_to_json(error: ErrorData) -> JsonObject:
    fields: JsonObject = {"code": error.code, "message": error.message}
    return fields if error.data is None else {**fields, "data": error.data}


def encode(message: Message) -> bytes:
    return json_text.dumps(to_json(message))


def encode_batch(messages: list[Message]) -> bytes:
    return json_text.dumps([to_json(message) for message in messages])
