"""The part of a stored text that a search shows: the words around what was looked for."""

import re
import unicodedata

from openclaw.sessions.framed import unframed

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
