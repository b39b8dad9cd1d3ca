"""Text without anything that may stand between the pieces of a secret."""

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from functools import cached_property
from typing import Final

# What may stand between the pieces of a secret without changing what a reader sees: whitespace,
# control and invisible characters, colours; and backslashes, of which every further layer of JSON
# or repr adds some, with the letters that stand for whitespace then.
NOISE: Final = re.compile(
    r"(?:[\s\x00-\x1a\x1c-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    r"\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0]++"
    r"|\\++[nrt]?+"
    r"|\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\))?+)++"
)

PIECE: Final = 128 * 1024
"""Characters that are looked at without a break. Nobody else in the process gets a turn meanwhile."""

# Noise ends before such a character or with it, unless a backslash or an escape comes before.
_SOLID: Final = re.compile(r"(?<!\\)[^\W_]")
_LONGEST_ESCAPE: Final = 300


def joined(text: str) -> str:
    """The text without anything that may stand between the pieces of a secret."""
    return NOISE.sub("", text)


class Positions:
    """Where the characters of joined text stand in the text that it was made from."""

    def __init__(self, text: str) -> None:
        self._places: list[int] = []  # where in the joined text something was taken out
        self._totals: list[int] = []  # and how much by then
        removed = 0
        for match in NOISE.finditer(text):
            self._places.append(match.start() - removed)
            removed += match.end() - match.start()
            self._totals.append(removed)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original from the first to the last of these characters."""
        return self._original(start), self._original(end - 1) + 1

    def _original(self, position: int) -> int:
        index = bisect_right(self._places, position) - 1
        return position + (self._totals[index] if index >= 0 else 0)


class _Piece:
    """A piece of a text, and how much of it is left without noise."""

    def __init__(self, at: int, text: str, length: int) -> None:
        self._at, self._text = at, text
        self.length = length

    @cached_property
    def _positions(self) -> Positions:
        return Positions(self._text)

    def place(self, position: int) -> int:
        """Where in the whole text this character of the joined piece stands."""
        return self._at + self._positions.span(position, position + 1)[0]


class JoinedPart:
    """A stretch of joined text; what ends within its first `seen` characters was there before."""

    def __init__(self, text: str, seen: int, pieces: "tuple[_Piece, ...]") -> None:
        self.text, self.seen = text, seen
        self._pieces = pieces
        self._before = sum(piece.length for piece in pieces) - len(text)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where in the original text this stands."""
        return self._place(start), self._place(end - 1) + 1

    def _place(self, position: int) -> int:
        position += self._before
        for piece in self._pieces:
            if position < piece.length:
                return piece.place(position)
            position -= piece.length
        raise IndexError(position)


class Joined:
    """A text without noise, in parts that overlap by `overlap` characters.

    It takes time in proportion to the text, and other threads get their turn after each part.
    """

    def __init__(self, text: str, *, overlap: int) -> None:
        self._text, self._overlap = text, overlap

    def __iter__(self) -> Iterator[JoinedPart]:
        pieces: deque[_Piece] = deque()
        tail = ""
        for start, end in _cuts(self._text):
            piece = self._text[start:end]
            text = joined(piece)
            if not text:
                continue
            pieces.append(_Piece(start, piece, len(text)))
            whole = tail + text
            yield JoinedPart(whole, len(tail), tuple(pieces))
            tail = whole[max(0, len(whole) - self._overlap) :]
            left = sum(one.length for one in pieces)
            while left - pieces[0].length >= len(tail) and len(pieces) > 1:
                left -= pieces.popleft().length


def _cuts(text: str) -> Iterator[tuple[int, int]]:
    """Pieces of about `PIECE` characters, none of which begins or ends inside of noise."""
    start = 0
    while len(text) - start > PIECE:
        end = _solid_place(text, start + PIECE)
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)


def _solid_place(text: str, start: int) -> int:
    """The first place from `start` on that is certain to be outside of noise; else the end."""
    while (solid := _SOLID.search(text, start)) is not None:
        end = solid.end()
        escape = text.rfind("\x1b", max(0, end - _LONGEST_ESCAPE), end)
        if escape < 0:
            return end
        start = max(end, escape + _LONGEST_ESCAPE)
    return len(text)
