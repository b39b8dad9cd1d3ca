"""Strict base64, decoded piece by piece so that a large attachment is never in memory twice."""

from collections.abc import Iterator

import pybase64

from openclaw.core.errors import InvalidRequest
from openclaw.media.kinds import in_mb

_PIECE = 4 << 20  # characters; a multiple of four, so that pieces decode by themselves
_WHITESPACE = str.maketrans("", "", " \t\r\n\f\v")


def decoded_size(data: str) -> int:
    """How many bytes this decodes to at the most; whitespace inside makes it less."""
    return len(data) * 3 // 4


def decode(data: str, *, field: str, limit: int) -> Iterator[bytes]:
    """The bytes, a piece at a time. InvalidRequest names the field and what is wrong."""
    if data.startswith("data:"):
        raise InvalidRequest(
            "is a data: URL; give only the base64 that follows its comma", field=field
        )
    total = 0
    for piece in _pieces(data, field):
        total += len(piece)
        if total > limit:
            size = in_mb(max(total, decoded_size(data)))
            raise InvalidRequest(f"is {size}; at most {in_mb(limit)} are taken", field=field)
        yield piece
    if total == 0:
        raise InvalidRequest("is empty", field=field)


def _pieces(data: str, field: str) -> Iterator[bytes]:
    carry = ""
    for start in range(0, len(data), _PIECE):
        text = data[start : start + _PIECE]
        try:
            # Most data has no whitespace; where it has, the first try fails and costs one piece.
            yield _decode_piece(carry + text, last=start + _PIECE >= len(data))
            carry = ""
            continue
        except ValueError:
            text = carry + text.translate(_WHITESPACE)
        last = start + _PIECE >= len(data)
        whole = len(text) if last else len(text) // 4 * 4
        carry = text[whole:]
        try:
            yield _decode_piece(text[:whole], last=last)
        except ValueError as error:
            raise InvalidRequest(f"is not valid base64 ({error})", field=field) from None


def _decode_piece(text: str, *, last: bool) -> bytes:
    if len(text) % 4:
        raise ValueError("its length is not a multiple of four; is the padding missing?")
    if not last and text.endswith("="):
        raise ValueError("padding before the end")
    try:
        return pybase64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError(_what_is_wrong(text)) from None


def _what_is_wrong(text: str) -> str:
    if "-" in text or "_" in text:
        return "it uses the URL-safe alphabet; use the standard one"
    return "it has characters that base64 does not have, or misplaced padding"
