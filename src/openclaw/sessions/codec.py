"""An entry's JSON, as bytes and back, and entries made ready for a database."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from openclaw.core.errors import InvalidRequest
from openclaw.core.tools import JsonObject
from openclaw.sessions.model import (
    CALLER_KINDS,
    MAX_ENTRY_BYTES,
    EntryKind,
    NewEntry,
    searchable,
)


@dataclass(frozen=True, slots=True)
class Encoded:
    """An entry made ready outside the transaction, so that the lock is held for no longer."""

    kind: EntryKind
    text: str
    data: bytes
    call_id: str | None
    details: bytes | None


def encoded(entries: Sequence[NewEntry]) -> list[Encoded]:
    """Entries as a database takes them."""
    return [
        Encoded(
            entry.kind,
            searchable(entry.text),
            encode(entry.data),
            entry.call_id,
            None if entry.details is None else encode(entry.details),
        )
        for entry in entries
    ]


def encoded_from_caller(entries: Sequence[NewEntry]) -> list[Encoded]:
    """The same, where each is of a kind that a caller may append; else `InvalidRequest`."""
    for entry in entries:
        if entry.kind not in CALLER_KINDS:
            raise InvalidRequest(f"an entry of the kind {entry.kind} is written by the store")
    return encoded(entries)


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
