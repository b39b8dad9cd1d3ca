"""What both databases make of their rows: entries, pages of sessions, and what a search found."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.sessions.model import (
    Entry,
    EntryKind,
    Hit,
    Page,
    SessionInfo,
    SessionRef,
    decode,
    decode_optional,
)

INFO_COLUMNS = (
    "s.id, s.agent, s.key, s.title, s.created_ms, s.updated_ms, s.messages, s.seq, s.input_tokens,"
    " s.output_tokens, s.cache_read_tokens, s.cache_write_tokens, s.requests, s.tool_calls"
)
ENTRY_COLUMNS = "seq, turn, kind, at_ms, data, text, call_id, details"
_INFO_WIDTH = len(SessionInfo._fields)


def found_row(row: int | None, session: SessionRef) -> int:
    if row is None:
        raise NotFound(f"there is no session '{session.key}' of agent '{session.agent}'")
    return row


def info_from(row: Iterable[Any]) -> SessionInfo:
    return SessionInfo._make(tuple(row)[:_INFO_WIDTH])


def entries_from(rows: Iterable[Iterable[Any]]) -> list[Entry]:
    return [
        Entry(seq, turn, EntryKind(kind), at, decode(data), text, call, decode_optional(details))
        for seq, turn, kind, at, data, text, call, details in rows
    ]


def unanswered(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    answered = {entry.call_id for entry in entries if entry.kind is EntryKind.TOOL_RESULT}
    return tuple(
        entry
        for entry in entries
        if entry.kind is EntryKind.TOOL_CALL and entry.call_id not in answered
    )


def page_from(rows: Sequence[Iterable[Any]], limit: int | None) -> Page:
    """From at most `limit` rows and one more, which says that there is a next page."""
    more = limit is not None and len(rows) > limit
    kept = [tuple(row) for row in (rows[:limit] if more else rows)]
    sessions = [info_from(row) for row in kept]
    return Page(sessions, f"{sessions[-1].updated_ms}.{kept[-1][-1]}" if more and kept else None)


def parsed_cursor(cursor: str) -> tuple[int, int]:
    """When the last session of the page before was used, and its row."""
    try:
        updated, row = cursor.split(".")
        return int(updated), int(row)
    except ValueError:
        raise InvalidRequest("this cursor did not come from a listing", field="cursor") from None


def hit_from(row: Iterable[Any], wanted: str) -> Hit:
    """From `INFO_COLUMNS`, then number, kind, time and text of an entry."""
    values = tuple(row)
    seq, kind, at_ms, text = values[_INFO_WIDTH:]
    return Hit(info_from(values), seq, EntryKind(kind), at_ms, snippet(text, wanted))


def without_spaces(text: str) -> bool:
    """Whether words cannot be told apart: Thai to Khmer, kana, Han, and Korean, which inflects."""
    return any(
        "\u0e00" <= char <= "\u0eff" or "\u1780" <= char <= "\u17ff" or char >= "\u2e80"
        for char in text
    )


def containing(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


# As `content.frame` writes it; the body cannot contain a marker with the same id.
_FRAME = re.compile(
    r"(?:^This is [^\n]*\n)?"
    r'^<<<EXTERNAL_UNTRUSTED_CONTENT id="(?P<id>[A-Za-z0-9_-]+)">>>\n'
    r"Source: (?P<source>[^\n]*)\nFrom: (?P<sender>[^\n]*)\n---\n(?P<body>.*?)\n?"
    r'^<<<END_EXTERNAL_UNTRUSTED_CONTENT id="(?P=id)">>>',
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    sender: str = ""


def unframed(text: str) -> list[Piece]:
    """The words without the marks that are there for the model; `sender` says whose they were."""
    pieces: list[Piece] = []
    position = 0
    for match in _FRAME.finditer(text):
        pieces.append(Piece(text[position : match.start()].strip("\n")))
        source = "" if match["source"] == "MCP Server" else f"{match['source']} "
        sender = f"MCP server {match['sender']}" if not source else f"{source}{match['sender']}"
        pieces.append(Piece(match["body"], sender))
        position = match.end()
    pieces.append(Piece(text[position:].strip("\n") if pieces else text))
    return [piece for piece in pieces if piece.text or piece.sender]


_WORD = re.compile(r"\w+")
_BEFORE = 40
_CHARS = 160
_LONGEST_WORD = 20  # one that is longer is cut


def bare(text: str) -> str:
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in plain if not unicodedata.combining(char))


def snippet(text: str, wanted: str) -> str:
    """The part of `text` around the first of the words that were looked for, without any frame."""
    body = " ".join(" ".join(piece.text for piece in unframed(text)).split())
    at = min(_place(bare(body), bare(wanted)), len(body))
    start = max(0, at - _BEFORE)
    end = start + _CHARS
    if start and (blank := body.find(" ", start - 1, start + _LONGEST_WORD)) >= 0:
        start = blank + 1
    if end < len(body) and (blank := body.rfind(" ", end - _LONGEST_WORD, end + 1)) >= 0:
        end = blank
    return f"{'…' if start else ''}{body[start:end]}{'…' if end < len(body) else ''}"


def _place(text: str, wanted: str) -> int:
    words = _WORD.findall(wanted)
    begun = (re.search(rf"\b{re.escape(word)}", text) for word in words)
    places = [match.start() for match in begun if match is not None]
    return min(places or [place for word in words if (place := text.find(word)) >= 0] or [0])
