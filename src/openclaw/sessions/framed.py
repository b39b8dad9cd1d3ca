"""Stored words as a person reads them: without the frames that are there for the model."""

import re
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
