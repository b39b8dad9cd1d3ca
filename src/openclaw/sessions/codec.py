"""An entry's JSON, as bytes and back."""

import json
from typing import Any

import orjson

from openclaw.core.errors import InvalidRequest
from openclaw.core.tools import JsonObject
from openclaw.sessions.model import MAX_ENTRY_BYTES


def encode(data: JsonObject) -> bytes:
    """`data` as JSON; `InvalidRequest` where it cannot be, or where it is too large."""
    try:
        encoded = orjson.dumps(data)
    except TypeError:
        encoded = _encode_oddities(data)
    if len(encoded) > MAX_ENTRY_BYTES:
        raise InvalidRequest(
            f"an entry of {len(encoded)} bytes is too large for a transcript; "
            f"{MAX_ENTRY_BYTES} is the most"
        )
    return encoded


def _encode_oddities(data: JsonObject) -> bytes:
    """Lone surrogates and integers beyond 64 bits, which models and tools do produce."""
    try:
        return json.dumps(data, ensure_ascii=True).encode("ascii")
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"an entry's data cannot be written as JSON: {error}") from error


def decode(encoded: bytes | None) -> dict[str, Any]:
    """What `encode` was given."""
    if not encoded:
        return {}
    try:
        return orjson.loads(encoded)
    except orjson.JSONDecodeError:  # the oddities again
        return json.loads(encoded)


def decode_optional(encoded: bytes | None) -> dict[str, Any] | None:
    """The same, for what may be absent."""
    return None if encoded is None else decode(encoded)
