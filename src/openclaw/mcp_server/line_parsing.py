"""What a line from the client is: a message for the SDK, or an error to send back. Pure.

The SDK silently drops what it doesn't recognise, and its sender would wait forever.
"""

import re
from dataclasses import dataclass
from typing import Any, cast

import mcp_types as types
from pydantic_core import from_json

from openclaw.mcp_server.handshake import can_be_written, loads
from openclaw.stdio.lines import TooLong

PARSE_IN_THREAD = 1 << 20  # a message of this size would hold up the loop while it is parsed

# Of a line that is too long, the members at its start that are plain numbers or strings, and an id
# at its end: at these places, it can only be the message's own.
_PLAIN = rb'(-?\d{1,18}|"[^"\\\x00-\x1f]{0,512}")'
_MEMBER = re.compile(rb'\s*[{,]\s*"(\w+)"\s*:\s*(?:%b\s*(?=[,}]))?' % _PLAIN)
_ID_AT_THE_END = re.compile(rb'"id"\s*:\s*%b\s*\}\s*\Z' % _PLAIN)

Id = int | str | None


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """A message, or an error to send back; neither if nobody waits for an answer."""

    message: types.JSONRPCMessage | None = None
    fault: types.JSONRPCError | None = None


def judge(line: bytes) -> ParsedLine:
    value: Any
    try:
        value = from_json(line)
    except ValueError:
        # A stray byte inside a string costs that character, not the message.
        line = line.decode("utf-8", "replace").encode()
        try:
            value = from_json(line)
        except ValueError:
            return _judge_unreadable(line)
    if type(value) is not dict:
        problem = "a message is a JSON object, and batches are not accepted"
        return _refused({}, None, types.INVALID_REQUEST, problem)
    return _judge_object(cast("dict[str, Any]", value))


def judge_too_long(line: TooLong) -> ParsedLine:
    """A line that was dropped; its request is refused, on either side."""
    seen: dict[str, Any] = {}
    at = 0
    while (found := _MEMBER.match(line.head, at)) is not None:
        seen[found[1].decode()] = _loaded(found[2] or b"null")
        at = found.end() if found[2] else len(line.head)
    request_id = _usable(seen.get("id"))
    if request_id is None and (found := _ID_AT_THE_END.search(line.tail)):
        request_id = _usable(_loaded(found[1]))
    problem = f"a message of over {line.limit} bytes is not accepted"
    return _refused(seen, request_id, types.INVALID_REQUEST, problem)


def _judge_unreadable(line: bytes) -> ParsedLine:
    value = _loaded(line)  # a more lenient parser may find an id to answer to
    if value is _UNREADABLE:
        problem = "this line is not JSON, or nested too deeply"
        return _refused({}, None, types.PARSE_ERROR, problem)
    given = cast("dict[str, Any]", value) if type(value) is dict else {}
    problem = "the message is nested too deeply, or has half a surrogate pair in it"
    return _refused(given, _usable(given.get("id")), types.INVALID_REQUEST, problem)


def _judge_object(given: dict[str, Any]) -> ParsedLine:
    request_id = _usable(given.get("id"))
    try:
        message = types.jsonrpc_message_adapter.validate_python(given, by_name=False)
    except (ValueError, RecursionError):
        message = None
    fault = None if _is_answer(given) else _fault(given, request_id)
    if fault is not None:
        return _refused(given, request_id, *fault)
    if message is not None:
        return ParsedLine(message)
    if "id" not in given:
        return ParsedLine()  # a notification is never answered
    if type(given.get("params", {})) is not dict:
        return _refused(given, request_id, types.INVALID_PARAMS, "params must be an object")
    return _refused(given, request_id, types.INVALID_REQUEST, "the message cannot be read as MCP")


def _refused(given: dict[str, Any], request_id: Id, code: int, problem: str) -> ParsedLine:
    """An error to send back; if the line is an answer, our own request fails with it."""
    error = types.ErrorData(code=code, message=problem)
    told = types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
    if not _is_answer(given):
        return ParsedLine(fault=told)
    return ParsedLine(told if request_id is not None else None)


_UNREADABLE: Any = object()


def _loaded(line: bytes) -> Any:
    try:
        return loads(line)
    except (ValueError, StopIteration, RecursionError):
        return _UNREADABLE


def _is_answer(given: dict[str, Any]) -> bool:
    return "method" not in given and ("result" in given or "error" in given)


def _fault(given: dict[str, Any], request_id: Id) -> tuple[int, str] | None:
    if given.get("jsonrpc") != "2.0":
        return types.INVALID_REQUEST, 'jsonrpc must be "2.0"'
    if type(given.get("method")) is not str:
        return types.INVALID_REQUEST, "method must be a string"
    if "id" in given and request_id is None:
        return types.INVALID_REQUEST, "id must be a string or an integer"
    return None


def _usable(request_id: Any) -> Id:
    return request_id if can_be_written(request_id) else None
