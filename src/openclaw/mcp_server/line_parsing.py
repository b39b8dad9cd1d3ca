"""What a line of the client's is: messages for the SDK, and errors that the client is told. Pure.

The SDK lets go without a word what is no message of its own. Whoever sent it would wait forever.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import mcp_types as types
from pydantic_core import from_json

from openclaw.mcp_server.handshake import loads, scan
from openclaw.stdio.lines import TooLong

PARSE_IN_THREAD = 1 << 20  # a message of this size would hold up the loop while it is parsed

_ID_AT_THE_END = re.compile(rb'"id"\s*:\s*(-?\d{1,18}|"[^"\\\x00-\x1f]{0,512}")\s*\}\s*\Z')
"""Where it stands so, nothing else can be around it than the message itself."""

Id = int | str | None


@dataclass(slots=True)
class Judged:
    """A line's messages, and what the client is told of the rest. The answers to a batch are one line."""

    messages: list[types.JSONRPCMessage] = field(default_factory=list[types.JSONRPCMessage])
    faults: list[types.JSONRPCError] = field(default_factory=list[types.JSONRPCError])
    batch: bool = False

    def blame(self, code: int, message: str, request_id: Id = None) -> None:
        error = types.ErrorData(code=code, message=message)
        self.faults.append(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


def judge(line: bytes, *, batches: bool = False) -> Judged:
    """What one line is. Nothing is raised, whatever it is."""
    judged = Judged()
    try:
        message = _validated(line)
    except ValueError:
        _judge_text(judged, line, batches=batches)
        return judged
    if isinstance(message, types.JSONRPCNotification) and b'"id"' in line:
        _judge_text(judged, line, batches=batches)
    else:
        judged.messages.append(message)
    return judged


def judge_too_long(line: TooLong) -> Judged:
    """A line that was not kept: whoever waits for it is told so, on either side."""
    judged = Judged()
    seen = dict(_members(line.head))
    request_id = _usable(seen.get("id"))
    if request_id is None and (found := _ID_AT_THE_END.search(line.tail)):
        request_id = _usable(_loaded(found[1]))
    problem = f"a message of over {line.limit} bytes is not accepted"
    if _is_answer(seen):
        _fail_own_request(judged, request_id, problem)
    else:
        judged.blame(types.INVALID_REQUEST, problem, request_id)
    return judged


def _validated(line: bytes) -> types.JSONRPCMessage:
    if len(line) < PARSE_IN_THREAD:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    # In one step, each kind of message that is tried would have a copy of the strings.
    return types.jsonrpc_message_adapter.validate_python(from_json(line), by_name=False)


def _judge_text(judged: Judged, line: bytes, *, batches: bool) -> None:
    # A stray byte inside a string costs that character, not the message.
    text = line.decode("utf-8", "replace").encode()
    try:
        value = from_json(text)
    except ValueError:
        _judge_unreadable(judged, text)
        return
    if type(value) is not list:
        _judge_one(judged, value)
    elif batches and value:
        judged.batch = True
        for one in cast("list[Any]", value):
            _judge_one(judged, one)
    else:
        reason = "it is empty" if batches else "the protocol revision has none"
        judged.blame(types.INVALID_REQUEST, f"a batch is not accepted here: {reason}")


def _judge_unreadable(judged: Judged, text: bytes) -> None:
    """What is JSON all the same, by a parser that bears more, has an id that can be answered."""
    value = _loaded(text)
    if value is _UNREADABLE:
        judged.blame(types.PARSE_ERROR, "this line is not JSON, or nested too deeply")
        return
    given = cast("dict[str, Any]", value) if type(value) is dict else {}
    problem = "the message is nested too deeply, or has half a surrogate pair in it"
    if _is_answer(given):
        _fail_own_request(judged, _usable(given.get("id")), problem)
    else:
        judged.blame(types.INVALID_REQUEST, problem, _usable(given.get("id")))


_UNREADABLE: Any = object()


def _loaded(line: bytes) -> Any:
    try:
        return loads(line)
    except (ValueError, StopIteration, RecursionError):
        return _UNREADABLE


def _is_answer(given: dict[str, Any]) -> bool:
    return "method" not in given and ("result" in given or "error" in given)


def _judge_one(judged: Judged, value: Any) -> None:
    if type(value) is not dict:
        judged.blame(types.INVALID_REQUEST, "a message is a JSON object")
        return
    given = cast("dict[str, Any]", value)
    request_id = _usable(given.get("id"))
    if _is_answer(given):
        _judge_answer(judged, given, request_id)
    elif (fault := _fault(given, request_id, in_batch=judged.batch)) is not None:
        judged.blame(*fault, request_id)
    elif (message := _message(given)) is not None:
        judged.messages.append(message)
    elif "id" in given:
        judged.blame(*_unfit(given), request_id)


def _judge_answer(judged: Judged, given: dict[str, Any], request_id: Id) -> None:
    message = _message(given)
    if message is None:
        _fail_own_request(judged, request_id, "the client's answer is malformed")
    else:
        judged.messages.append(message)


def _fail_own_request(judged: Judged, request_id: Id, problem: str) -> None:
    """The request that this was to answer is one of ours, and somebody waits for it."""
    if request_id is not None:
        error = types.ErrorData(code=types.INVALID_REQUEST, message=problem)
        judged.messages.append(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))


def _fault(given: dict[str, Any], request_id: Id, *, in_batch: bool) -> tuple[int, str] | None:
    if given.get("jsonrpc") != "2.0":
        return types.INVALID_REQUEST, 'jsonrpc must be "2.0"'
    if type(given.get("method")) is not str:
        return types.INVALID_REQUEST, "method must be a string"
    if "id" in given and request_id is None:
        return types.INVALID_REQUEST, "id must be a string or an integer"
    if in_batch and given["method"] == "initialize":
        return types.INVALID_REQUEST, "initialize must not be part of a batch"
    return None


def _unfit(given: dict[str, Any]) -> tuple[int, str]:
    if type(given.get("params", {})) is not dict:
        return types.INVALID_PARAMS, "params must be an object"
    return types.INVALID_REQUEST, "the message cannot be read as MCP"


def _message(given: dict[str, Any]) -> types.JSONRPCMessage | None:
    try:
        return types.jsonrpc_message_adapter.validate_python(given, by_name=False)
    except (ValueError, RecursionError):
        return None


def _usable(request_id: Any) -> Id:
    """The id where an answer can carry it; half a surrogate pair cannot be written."""
    if type(request_id) is int:
        return request_id
    if type(request_id) is not str or any("\ud800" <= c <= "\udfff" for c in request_id):
        return None
    return request_id


def _members(head: bytes) -> Iterator[tuple[str, Any]]:
    """The members of an object of which only the beginning is there. The last may have no value."""
    text = head.decode("utf-8", "replace").lstrip()
    at = 1 if text.startswith("{") else len(text)
    try:
        while at < len(text):
            key, at = scan(text, _skip(text, at, ","))
            at = _skip(text, at, ":")
            try:
                value, at = scan(text, at)
            except (ValueError, StopIteration, RecursionError):
                value, at = None, len(text)
            # What ends where the text ends may have been cut there: a number shows nothing of it.
            yield str(key), value if at < len(text) else None
    except (ValueError, StopIteration, RecursionError):
        return


def _skip(text: str, at: int, mark: str) -> int:
    while at < len(text) and (text[at].isspace() or text[at] == mark):
        at += 1
    return at
