"""JSON text from somebody else, read within bounds; and JSON written so that everybody can read it.

The parser holds the GIL while it works, so a thread alone does not keep an event loop free: text
with more than `MAX_VALUES` values is not parsed at all.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

import orjson

MAX_VALUES = 1_000_000  # more take over a hundred megabytes and a tenth of a second to build
MAX_DEPTH = 128  # deeper than any honest message, and safe for recursive code that reads it later
LARGE = 1 << 20  # from this many bytes, values are counted before parsing: do it in a thread

_BOM = b"\xef\xbb\xbf"
_WINDOW = 1 << 20
_ESCAPES_BEFORE_REGEX = 32
_REST_OF_STRING = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
_CONTAINERS = (dict, list)
_TOO_DEEP = "it is nested too deeply"


class Unreadable(ValueError):
    """Raised when text is not JSON, or is more than we are willing to read."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TooManyValues(Unreadable):
    """Raised when the text holds more than `MAX_VALUES` values."""

    def __init__(self) -> None:
        super().__init__(f"it holds over {MAX_VALUES} values")


def loads(text: bytes) -> Any:
    """The value of this text; raises `Unreadable`.

    A byte order mark is skipped. Bytes that are not UTF-8, and halves of surrogate pairs (JavaScript
    cuts emoji like that), become U+FFFD: they cost a character rather than the message.
    """
    _check_count(text)
    if text.startswith(_BOM):
        text = text[len(_BOM) :]
    try:
        value: Any = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if "depth" in error.msg or "recursion" in error.msg.lower():
            raise Unreadable(_TOO_DEEP) from None
        value = _lenient(text)
    if _may_be_deep(text) and is_deeper_than(value, MAX_DEPTH):
        raise Unreadable(_TOO_DEEP)
    return value


def dumps(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # an integer of more than 64 bits, or half a surrogate pair
        return json.dumps(value, separators=(",", ":")).encode()


def _lenient(text: bytes) -> Any:
    try:
        value = json.loads(text.decode("utf-8", "replace"), parse_constant=_refuse_constant)
        return _without_lone_surrogates(value)
    except RecursionError:
        raise Unreadable(_TOO_DEEP) from None
    except ValueError:
        raise Unreadable("it is not JSON") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _without_lone_surrogates(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False)
    if text.isascii():
        return value
    repaired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value if repaired == text else json.loads(repaired)


def _check_count(text: bytes) -> None:
    if len(text) >= LARGE and count_values(text, MAX_VALUES) > MAX_VALUES:
        raise TooManyValues


def _may_be_deep(text: bytes) -> bool:
    """Whether there are enough brackets, in strings or not, for the depth to matter."""
    return text.count(b"{") + text.count(b"[") > MAX_DEPTH


def is_deeper_than(value: Any, limit: int) -> bool:
    """Whether containers are nested more than `limit` deep; level by level, without recursion."""
    level: list[Any] = [value] if type(value) in _CONTAINERS else []
    for _ in range(limit):
        level = list(_containers_in(level))
        if not level:
            return False
    return True


def _containers_in(level: Iterable[Any]) -> Iterator[Any]:
    for item in level:
        parts = cast("dict[str, Any]", item).values() if type(item) is dict else item
        yield from (part for part in parts if type(part) in _CONTAINERS)


def count_values(text: bytes, limit: int) -> int:
    """About how many values this JSON text holds; the count stops once it is past `limit`.

    It counts commas and opening brackets outside strings, in windows short enough that a thread
    which runs this does not hold the GIL for long.
    """
    total, position, size = 0, 0, len(text)
    while position < size and total <= limit:
        end = min(position + _WINDOW, size)
        quote = text.find(b'"', position, end)
        gap_end = end if quote < 0 else quote
        total += sum(text.count(mark, position, gap_end) for mark in (b",", b"[", b"{"))
        position = end if quote < 0 else _after_string(text, quote + 1)
    return total


def _after_string(text: bytes, start: int) -> int:
    """The position after the string whose text begins at `start`."""
    position = start
    for _ in range(_ESCAPES_BEFORE_REGEX):
        quote = text.find(b'"', position)
        if quote < 0:
            return len(text)
        if not _is_escaped(text, quote, start):
            return quote + 1
        position = quote + 1
    return _after_dense_string(text, position)


def _after_dense_string(text: bytes, position: int) -> int:
    """The same for a string that is full of escaped quotes, a window at a time."""
    size = len(text)
    while position < size:
        window = _REST_OF_STRING.match(text, position, min(position + _WINDOW, size))
        end = position if window is None else window.end()
        if end < size and text[end] == 0x22:
            return end + 1
        # A backslash at the very end of a window is looked at again with what follows it.
        position = end if end > position else end + 2
    return size


def _is_escaped(text: bytes, quote: int, start: int) -> bool:
    backslashes = 0
    while quote - backslashes > start and text[quote - backslashes - 1] == 0x5C:
        backslashes += 1
    return backslashes % 2 == 1
