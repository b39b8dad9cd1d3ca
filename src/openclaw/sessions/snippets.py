"""The part of a stored text that a search shows: the words around what was looked for."""

import re
import unicodedata
from dataclasses import dataclass

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
    """Some words, and whose they are where they were framed as somebody else's."""

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
    """The text without case and accents."""
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
    """Where the first of the words begins; any part of a text counts where no word begins so."""
    words = _WORD.findall(wanted)
    begun = (re.search(rf"\b{re.escape(word)}", text) for word in words)
    places = [match.start() for match in begun if match is not None]
    return min(places or [place for word in words if (place := text.find(word)) >= 0] or [0])
