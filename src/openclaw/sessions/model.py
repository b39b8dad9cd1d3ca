"""Sessions, their transcripts and their turns, whatever keeps them.

A session belongs to an agent and has a key that its user chose. Its transcript only grows: every
entry has a number of its own in the session, counted from 1 without gaps. A turn is a run of
entries between a `turn_started` and the entry that says how it ended; a turn whose process died
ends in `turn_lost`, written by whoever took the session over.
"""

import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from operator import add
from typing import Any, NamedTuple

import orjson

from openclaw.core.errors import InvalidRequest
from openclaw.core.tools import JsonObject

MAX_KEY_CHARS = 512
MAX_TITLE_CHARS = 200

PROGRAM_KEYS = ("mcp-", "http-", "cron:")
"""How keys begin that no person chose: orders of MCP clients, API calls, scheduled jobs."""

GUEST_KEYS = "token-"
"""How keys begin of sessions of those who may give orders and not read: named tokens."""

SEARCHABLE_CHARS = 65_536
"""How much of an entry's text is found by a search; the entry's data is kept whole."""

MAX_ENTRY_BYTES = 64 * 1024 * 1024
"""An entry larger than this is refused: media belongs into files, not into a transcript."""


class EntryKind(StrEnum):
    TURN_STARTED = "turn_started"
    USER_MESSAGE = "user_message"
    ASSISTANT_MESSAGE = "assistant_message"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    COMPACTION = "compaction"
    NOTICE = "notice"
    TURN_FINISHED = "turn_finished"
    TURN_CANCELLED = "turn_cancelled"
    TURN_ERROR = "turn_error"
    TURN_LOST = "turn_lost"


MESSAGE_KINDS = frozenset({EntryKind.USER_MESSAGE, EntryKind.ASSISTANT_MESSAGE})
"""The kinds that count as messages of a session."""

CALLER_KINDS = MESSAGE_KINDS | {EntryKind.TOOL_CALL, EntryKind.TOOL_RESULT, EntryKind.NOTICE}
"""The kinds that a caller appends; the others are written by the store itself."""


class Outcome(StrEnum):
    OK = "ok"
    CANCELLED = "cancelled"
    ERROR = "error"


_ENDINGS = {
    Outcome.OK: EntryKind.TURN_FINISHED,
    Outcome.CANCELLED: EntryKind.TURN_CANCELLED,
    Outcome.ERROR: EntryKind.TURN_ERROR,
}


class TurnState(StrEnum):
    """Where a turn stands. A `lost` one died half-way: nobody knows how far its last call got."""

    RUNNING = "running"
    OK = "ok"
    CANCELLED = "cancelled"
    ERROR = "error"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class SessionRef:
    """A session that exists. `id` is the store's own name for it and is never reused."""

    id: str
    agent: str
    key: str


@dataclass(frozen=True, slots=True)
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    tool_calls: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(*map(add, astuple(self), astuple(other)))


class SessionInfo(NamedTuple):
    """A session and its totals. A named tuple, since a listing makes many of them at once."""

    id: str
    agent: str
    key: str
    title: str | None
    created_ms: int
    updated_ms: int
    messages: int
    entries: int
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    requests: int = 0
    tool_calls: int = 0

    @property
    def ref(self) -> SessionRef:
        return SessionRef(self.id, self.agent, self.key)


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to append.

    `data` is opaque JSON. `text` is what a search finds. `call_id` joins a tool call to its result.
    `details` never enter a prompt and are dropped once a compaction has passed the entry.
    """

    kind: EntryKind
    data: JsonObject = field(default_factory=dict[str, Any])
    text: str = ""
    call_id: str | None = None
    details: JsonObject | None = None


def turn_ending(outcome: Outcome, detail: str, usage: Usage | None) -> NewEntry:
    """The entry that says how a turn ended, and what it used."""
    data: dict[str, Any] = {"detail": detail} if detail else {}
    if usage is not None:
        data["usage"] = _usage_json(usage)
    return NewEntry(_ENDINGS[outcome], data)


@dataclass(frozen=True, slots=True)
class Entry:
    seq: int
    turn: str | None
    kind: EntryKind
    at_ms: int
    data: JsonObject
    text: str = ""
    call_id: str | None = None
    details: JsonObject | None = None

    def to_json(self) -> dict[str, Any]:
        line: dict[str, Any] = {
            "seq": self.seq,
            "kind": str(self.kind),
            "turn": self.turn,
            "at": self.at_ms,
            "text": self.text,
            "data": self.data,
        }
        if self.call_id is not None:
            line["callId"] = self.call_id
        if self.details is not None:
            line["details"] = self.details
        return line


@dataclass(frozen=True, slots=True)
class Turn:
    """Its entries begin at `first_seq`. A dossier leaves open which of its calls are."""

    id: str
    state: TurnState
    started_ms: int
    finished_ms: int | None
    first_seq: int
    open_calls: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class Dossier:
    """All that a store knows of a session besides its entries, of which it holds `stored`.

    The entry `summary_seq` stands for all up to `summarised`.
    """

    info: SessionInfo
    summary_seq: int
    summarised: int
    turns: tuple[Turn, ...]
    stored: int


@dataclass(frozen=True, slots=True)
class Document:
    """A small record besides the sessions; `rev` grows by one with each change."""

    id: str
    rev: int
    data: JsonObject


@dataclass(frozen=True, slots=True)
class Page:
    sessions: Sequence[SessionInfo]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Hit:
    session: SessionInfo
    seq: int
    kind: EntryKind
    at_ms: int
    snippet: str


def checked_key(value: str, what: str = "session key") -> str:
    """`value` itself, where it can be a key: any text of 1 to 512 characters.

    A key is data: it is compared exactly and names no file. Refused are NUL and lone surrogates,
    which not every database can hold.
    """
    if not value:
        raise InvalidRequest(f"the {what} is empty")
    if len(value) > MAX_KEY_CHARS:
        raise InvalidRequest(
            f"the {what} has {len(value)} characters; the limit is {MAX_KEY_CHARS}"
        )
    if "\0" in value:
        raise InvalidRequest(f"the {what} contains a NUL character")
    if any("\ud800" <= char <= "\udfff" for char in value):
        raise InvalidRequest(f"the {what} is not valid Unicode")
    return value


def checked_title(title: str | None) -> str | None:
    """A title on one line, cut to its limit; None and blank remove it."""
    line = " ".join(storable(title or "").split())
    return line[:MAX_TITLE_CHARS] or None


def storable(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def searchable(text: str) -> str:
    return storable(text[:SEARCHABLE_CHARS])


def header_json(info: SessionInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "agent": info.agent,
        "key": info.key,
        "title": info.title,
        "createdAt": info.created_ms,
        "updatedAt": info.updated_ms,
        "messages": info.messages,
        "entries": info.entries,
        "usage": _usage_json(info),
    }


def _usage_json(used: SessionInfo | Usage) -> dict[str, int]:
    return {
        "inputTokens": used.input_tokens,
        "outputTokens": used.output_tokens,
        "cacheReadTokens": used.cache_read_tokens,
        "cacheWriteTokens": used.cache_write_tokens,
        "requests": used.requests,
        "toolCalls": used.tool_calls,
    }


@dataclass(frozen=True, slots=True)
class Encoded:
    """An entry made ready outside the transaction, so that the lock is held for no longer."""

    kind: EntryKind
    text: str
    data: bytes
    call_id: str | None
    details: bytes | None


def encoded(entries: Sequence["NewEntry | Entry"]) -> list[Encoded]:
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
            f"an entry of {len(encoded)} bytes is too large for a transcript; the limit is "
            f"{MAX_ENTRY_BYTES}"
        )
    return encoded


def _encode_oddities(data: JsonObject) -> bytes:
    """Lone surrogates and integers beyond 64 bits, which models and tools do produce."""
    try:
        return json.dumps(data, ensure_ascii=True).encode("ascii")
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"an entry's data cannot be written as JSON: {error}") from error


def decode(encoded: bytes | None) -> dict[str, Any]:
    if not encoded:
        return {}
    try:
        return orjson.loads(encoded)
    except orjson.JSONDecodeError:  # the oddities again
        return json.loads(encoded)


def decode_optional(encoded: bytes | None) -> dict[str, Any] | None:
    return None if encoded is None else decode(encoded)
