"""JSON-RPC details: lines, progress, and converting errors between ours and the SDK's."""

import json
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import orjson

from openclaw.core.tools import json_parts
from openclaw.mcp_client import errors

logger = logging.getLogger(__name__)

OnProgress = Callable[[float, float | None, str | None], None]

INTERNAL, CLOSED, TIMEOUT, BUSY = -32603, -32000, -32001, -32000


def report_progress(on_progress: OnProgress, params: Mapping[str, Any], server: str) -> None:
    """Pass on well-formed progress; an error in the callback can't hurt the connection."""
    progress, total, message = (params.get(key) for key in ("progress", "total", "message"))
    if not isinstance(progress, int | float):
        return
    try:
        on_progress(
            float(progress),
            float(total) if isinstance(total, int | float) else None,
            message if isinstance(message, str) else None,
        )
    except Exception:
        logger.exception("MCP server '%s': progress could not be handed on", server)


def with_progress_token(params: Mapping[str, Any] | None, key: int | str) -> dict[str, Any]:
    out = dict(params or {})
    out["_meta"] = {**(out.get("_meta") or {}), "progressToken": key}
    return out


def encode(message: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # integers past 64 bits, lone surrogates
        return json.dumps(message).encode() + b"\n"


def failure(error: Any) -> errors.CallFailed:
    if type(error) is not dict:
        return errors.InvalidResult("the server's answer has neither a result nor an error")
    fields = cast("dict[str, Any]", error)
    code, message = fields.get("code"), fields.get("message")
    return errors.RemoteError(
        code if type(code) is int else INTERNAL,
        message if type(message) is str else "the server gave no reason",
        fields.get("data"),
    )


def as_mcp_error(problem: errors.CallFailed) -> Exception:
    from mcp.shared.exceptions import MCPError

    match problem:
        case errors.RemoteError():
            return MCPError(code=problem.code, message=problem.message, data=problem.data)
        case errors.TimedOut():
            return MCPError(code=TIMEOUT, message=problem.message)
        case _:
            return MCPError(code=CLOSED, message=problem.message)


# The parser holds the GIL while it works, so a thread alone does not keep the event loop free:
# messages with more than `MAX_VALUES` values are not parsed at all.

MAX_VALUES = 1_000_000  # more take over a hundred megabytes and a tenth of a second to build
MAX_DEPTH = 128  # deeper than any honest message, and safe for recursive code that reads it later
LARGE = 1 << 20  # from this many bytes, values are counted before parsing, in a thread

_WINDOW = 1 << 20
_ESCAPES_BEFORE_REGEX = 32
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_RESPONSE_ID = re.compile(rb'"id"\s*:\s*(?:(\d{1,18})|"([^"\\]{1,64})")')
_HEAD, _TAIL = 512, 256
_CONTAINERS = (dict, list)
_TOO_DEEP = "it is nested too deeply"

Message = dict[str, Any]
RawResult = dict[str, Any]
Batch = list[Any]


class Undecodable(ValueError):
    """Raised when bytes are not a message; `id` is the request they seem to answer, if any."""

    def __init__(self, reason: str, line: bytes) -> None:
        super().__init__(reason)
        self.reason = reason
        self.id = answered_id(line)


class TooManyValues(Undecodable):
    """Raised when a message holds more than `MAX_VALUES` values."""


def decode(line: bytes) -> Message | Batch:
    """The message or batch in this line; checks its depth and number of values."""
    _check_count(line)
    message = _parsed(line)
    if type(message) not in _CONTAINERS:
        raise Undecodable("not a JSON object", line)
    return cast("Message | Batch", message)


def check_bounds(text: bytes) -> None:
    """Raise `Undecodable` for JSON that holds too many values or is nested too deeply."""
    _check_count(text)
    if _may_be_deep(text):
        try:
            _parsed(text)
        except Undecodable as problem:
            if problem.reason == _TOO_DEEP:
                raise


def _check_count(text: bytes) -> None:
    if len(text) >= LARGE and count_values(text, MAX_VALUES) > MAX_VALUES:
        raise TooManyValues(f"it holds over {MAX_VALUES} values", text)


def _parsed(text: bytes) -> Any:
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if "depth" in error.msg or "recursion" in error.msg.lower():
            raise Undecodable(_TOO_DEEP, text) from None
        raise Undecodable("not JSON", text) from None
    if _may_be_deep(text) and type(value) in _CONTAINERS and deeper_than(value, MAX_DEPTH):
        raise Undecodable(_TOO_DEEP, text)
    return value


def unreadable(problem: Undecodable) -> errors.CallFailed:
    if isinstance(problem, TooManyValues):
        return errors.TooLarge(MAX_VALUES, "values")
    return errors.InvalidResult(f"the server's answer cannot be read: {problem.reason}")


def _may_be_deep(line: bytes) -> bool:
    """Whether there are enough brackets, in strings or not, for the depth to matter."""
    return line.count(b"{") + line.count(b"[") > MAX_DEPTH


def deeper_than(value: Any, limit: int) -> bool:
    """Whether containers are nested more than `limit` deep; level by level, without recursion."""
    level: list[Any] = [value]
    for _ in range(limit + 1):
        parts = (part for item in level for part in json_parts(item))
        level = [part for part in parts if type(part) in _CONTAINERS]
        if not level:
            return False
    return True


def count_values(line: bytes, limit: int) -> int:
    """About how many values this JSON text holds; the count stops once it is past `limit`.

    It counts commas and opening brackets outside strings, in windows short enough that a thread
    which runs this does not hold the GIL for long.
    """
    total, position, size = 0, 0, len(line)
    while position < size and total <= limit:
        end = min(position + _WINDOW, size)
        quote = line.find(b'"', position, end)
        gap_end = end if quote < 0 else quote
        total += sum(line.count(mark, position, gap_end) for mark in (b",", b"[", b"{"))
        position = end if quote < 0 else _after_string(line, quote + 1)
    return total


def _after_string(line: bytes, start: int) -> int:
    """The position after the string whose text begins at `start`."""
    position = start
    for _ in range(_ESCAPES_BEFORE_REGEX):
        quote = line.find(b'"', position)
        if quote < 0:
            return len(line)
        if not _escaped(line, quote, start):
            return quote + 1
        position = quote + 1
    return _after_dense_string(line, position)


def _after_dense_string(line: bytes, position: int) -> int:
    """The same for a string that is full of escaped quotes, a window at a time."""
    size = len(line)
    while position < size:
        window = _REST_OF_STRING.match(line, position, min(position + _WINDOW, size))
        end = position if window is None else window.end()
        if end < size and line[end] == 0x22:
            return end + 1
        # A backslash at the very end of a window is looked at again with what follows it.
        position = end if end > position else end + 2
    return size


def _escaped(line: bytes, quote: int, start: int) -> bool:
    backslashes = 0
    while quote - backslashes > start and line[quote - backslashes - 1] == 0x5C:
        backslashes += 1
    return backslashes % 2 == 1


def answered_id(line: bytes) -> int | str | None:
    """The id of the response that this text seems to be, without parsing it."""
    if not line.startswith(b"{"):
        return None
    found = _RESPONSE_ID.search(line[:_HEAD]) or _RESPONSE_ID.search(line[-_TAIL:])
    if found is None:
        return None
    number, text = found.groups()
    return int(number) if number is not None else text.decode("utf-8", "replace")
