"""Sessions, their transcripts and their turns.

A session belongs to an agent and has a key that its user chose. Its transcript only grows; its
entries are numbered from 1 without gaps. A turn starts with a `turn_started` and ends with the entry
that says how it ended, which is `turn_lost` (written by the next process) if its own process died.
"""

import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import orjson

from openclaw.core.errors import InvalidRequest, OperatorFacing, UserFacing
from openclaw.core.events import Usage
from openclaw.core.outcome import Outcome
from openclaw.core.tools import JsonObject

MAX_KEY_CHARS = 512
MAX_TITLE_CHARS = 200

PROGRAM_KEYS = ("mcp-", "http-", "cron:")  # MCP clients' orders, API calls, scheduled jobs
_TOKEN_KEY = re.compile(r"token-([^:/]+):")  # sessions of tokens that may give orders but not read
_DIRECTORY_CHARS = 10
SEARCHABLE_CHARS = 65_536  # of an entry's text; its data is stored in full
MAX_ENTRY_BYTES = 64 * 1024 * 1024  # media belongs in files, not in a transcript


def directory_prefix(kind: str, directory: Path) -> str:
    """How the keys of conversations in this directory begin. `kind` says who began them."""
    digest = hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()
    return f"{kind}-{digest[:_DIRECTORY_CHARS]}-"


def token_prefix(name: str) -> str:
    """How the keys of a token's own sessions begin."""
    return f"token-{quote(name, safe='')}:"


def session_owner(key: str) -> str:
    """The name of the token that owns the session with this key; "" for the user's own."""
    prefix = _TOKEN_KEY.match(key)
    return unquote(prefix[1]) if prefix is not None else ""


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
# The store itself writes the other kinds.
CALLER_KINDS = MESSAGE_KINDS | {EntryKind.TOOL_CALL, EntryKind.TOOL_RESULT, EntryKind.NOTICE}


_ENDINGS = {
    Outcome.OK: EntryKind.TURN_FINISHED,
    Outcome.CANCELLED: EntryKind.TURN_CANCELLED,
    Outcome.ERROR: EntryKind.TURN_ERROR,
}


class TurnState(StrEnum):
    RUNNING = "running"
    OK = "ok"
    CANCELLED = "cancelled"
    ERROR = "error"
    LOST = "lost"  # its process died: nobody knows how far its last call got


@dataclass(frozen=True, slots=True)
class SessionRef:
    """A session that exists. `id` is never reused."""

    id: str
    agent: str
    key: str


class SessionInfo(NamedTuple):
    """A session and its totals; a named tuple, because a listing makes many of them."""

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
    """An entry to append. `text` is what a search finds; `call_id` joins a call to its result.

    `details` never enter a prompt, and a compaction drops them.
    """

    kind: EntryKind
    data: JsonObject = field(default_factory=dict[str, Any])
    text: str = ""
    call_id: str | None = None
    details: JsonObject | None = None


def turn_ending(outcome: Outcome, detail: str, usage: Usage | None) -> NewEntry:
    data: dict[str, Any] = {"detail": detail} if detail else {}
    if usage is not None:
        data["usage"] = dict(zip(_USAGE, usage.counted, strict=True))
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
    """A turn, whose entries begin at `first_seq`. `SessionDetails` leave `open_calls` empty."""

    id: str
    state: TurnState
    started_ms: int
    finished_ms: int | None
    first_seq: int
    open_calls: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class SessionDetails:
    """Everything about a session except its entries.

    The entry `summary_seq` replaces all entries up to `summarised`.
    """

    info: SessionInfo
    summary_seq: int
    summarised: int
    turns: tuple[Turn, ...]


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
    """`value`, if it can be a key: 1 to 512 characters, without characters that a database can't store."""
    if not value:
        raise InvalidRequest(f"the {what} is empty")
    if len(value) > MAX_KEY_CHARS:
        raise InvalidRequest(
            f"the {what} has {len(value)} characters; the limit is {MAX_KEY_CHARS}"
        )
    if storable(value) != value:
        raise InvalidRequest(f"the {what} has a character that cannot be stored")
    return value


def checked_title(title: str | None) -> str | None:
    line = " ".join(storable(title or "").split())
    return line[:MAX_TITLE_CHARS] or None


def storable(text: str) -> str:
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


# The JSON names of the fields of `SessionInfo` and `Usage`, in order.
_HEADER = ("id", "agent", "key", "title", "createdAt", "updatedAt", "messages", "entries")
_TOKENS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
_USAGE = (*_TOKENS, "requests", "toolCalls")


def header_json(info: SessionInfo) -> dict[str, Any]:
    used = dict(zip(_USAGE, info[len(_HEADER) :], strict=True))
    return {**dict(zip(_HEADER, info, strict=False)), "usage": used}


@dataclass(frozen=True, slots=True)
class Encoded:
    """An entry prepared outside the transaction, to keep the lock short."""

    kind: EntryKind
    text: str
    data: bytes
    call_id: str | None
    details: bytes | None


def encoded(entries: Sequence["NewEntry | Entry"]) -> list[Encoded]:
    return [
        Encoded(
            entry.kind,
            storable(entry.text[:SEARCHABLE_CHARS]),
            encode(entry.data),
            None if entry.call_id is None else storable(entry.call_id),
            None if entry.details is None else encode(entry.details),
        )
        for entry in entries
    ]


def encoded_from_caller(entries: Sequence[NewEntry]) -> list[Encoded]:
    for entry in entries:
        if entry.kind not in CALLER_KINDS:
            raise InvalidRequest(f"an entry of the kind {entry.kind} is written by the store")
    return encoded(entries)


def encode(data: JsonObject) -> bytes:
    """`data` as JSON; `InvalidRequest` if that's impossible or too large."""
    try:
        encoded = orjson.dumps(data)
    except TypeError:  # lone surrogates and integers beyond 64 bits, which models do produce
        try:
            encoded = json.dumps(data).encode("ascii")
        except (TypeError, ValueError) as error:
            message = f"an entry's data cannot be written as JSON: {error}"
            raise InvalidRequest(message) from error
    if len(encoded) > MAX_ENTRY_BYTES:
        raise InvalidRequest(
            f"an entry of {len(encoded)} bytes is too large for a transcript; the limit is "
            f"{MAX_ENTRY_BYTES}"
        )
    return encoded


def decode(encoded: bytes | None) -> dict[str, Any]:
    if not encoded:
        return {}
    try:
        return orjson.loads(encoded)
    except orjson.JSONDecodeError:  # `encode` fell back to json
        return json.loads(encoded)


class LaneLost(UserFacing):
    """Raised when another process took the session over, so that nothing more may be written."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"this turn no longer holds its session: {reason}",
            hint="what was committed before is kept; send the message again",
        )


class CopyConflict(UserFacing):
    """Raised when the target has another session of this name, or has continued this one."""


class StoreError(OperatorFacing):
    """Raised when the session store does not work; says how to fix it."""


class StoreMissing(StoreError):
    """Raised when the store to read does not exist."""
