"""Redacting an answer while it is being written.

`StreamRedactor` reads lines of a log and may tidy them; an answer has to come out exactly as it was
written, as soon as possible, whatever the pieces are in which a model gives it. So only the end is
held back: the last word with the space before it, and whatever else could be the beginning of a secret.
"""

from typing import TYPE_CHECKING, Final

from openclaw.secrets.noise import Positions, joined
from openclaw.secrets.patterns import Patterns, Span, merged
from openclaw.secrets.secret import REDACTED

if TYPE_CHECKING:
    from openclaw.secrets.redactor import Redactor

_CONTEXT: Final = 4096
"""Characters before that are looked at again: a key's name may stand well before its value."""

_LONGEST_WORD: Final = 4096
_LOOKED_AT: Final = 1024  # characters at the end in which a known value may have begun
_WORD: Final = "".join(map(chr, range(0x21, 0x7F)))
"""What words are made of. Scripts without spaces have none, and wait for none to end."""


class DeltaRedactor:
    """Takes an answer in any pieces; what it gives, put together, is the answer redacted."""

    def __init__(self, redactor: "Redactor") -> None:
        self._redactor = redactor
        self._context = ""  # the end of what was given already, as it was before
        self._held = ""
        self._inside = False  # whether what was given last ended inside of a secret

    def feed(self, piece: str) -> str:
        """Take a piece; give what is certain by now."""
        self._held += piece
        patterns = self._redactor.patterns()
        spans = self._spans(patterns)
        return self._give(self._certain(patterns, spans), spans)

    def finish(self) -> str:
        """Give everything that is left, and begin afresh."""
        given = self._give(len(self._held), self._spans(self._redactor.patterns()))
        self._context, self._inside = "", False
        return given

    def _spans(self, patterns: Patterns) -> list[Span]:
        """Where something stands that must not be seen, counted from the beginning of `_held`."""
        text = self._context + self._held
        found = patterns.spans(text, shapes=True)
        if "\\" in text or not text.isprintable():
            found += patterns.broken_spans(text)
        offset = len(self._context)
        return [(start - offset, end - offset) for start, end in merged(found)]

    def _certain(self, patterns: Patterns, spans: list[Span]) -> int:
        """How much of what is held cannot be part of anything that comes."""
        end = len(self._held.rstrip(_WORD).rstrip())
        if len(self._held) - end > _LONGEST_WORD:
            end = len(self._held) - _LOOKED_AT
        end = min(end, _beginning(self._held, patterns))
        for start, stop in reversed(spans):
            if stop >= end and start < end and len(self._held) - start <= _LONGEST_WORD:
                end = start  # it may go on
        return max(end, 0)

    def _give(self, end: int, spans: list[Span]) -> str:
        pieces: list[str] = []
        position = 0
        for start, stop in spans:
            if stop <= 0 or start >= end:
                continue
            pieces.append(self._held[position : max(start, 0)])
            if start >= 0 or not self._inside:
                pieces.append(REDACTED)
            position = min(stop, end)
        pieces.append(self._held[position:end])
        if end:
            self._inside = any(start < end <= stop for start, stop in spans)
            self._context = (self._context + self._held[:end])[-_CONTEXT:]
            self._held = self._held[end:]
        return "".join(pieces)


def _beginning(text: str, patterns: Patterns) -> int:
    """Where a known value may have begun that the text does not finish; its length where none has."""
    start = max(0, len(text) - _LOOKED_AT)
    tail = text[start:]
    plain = joined(tail)
    begun = [place for place in patterns.starts(plain) if patterns.is_prefix(plain[place:])]
    short = patterns.short_beginning(plain)
    if short:
        begun.append(len(plain) - short)
    if not begun:
        return len(text)
    return start + Positions(tail).span(min(begun), min(begun) + 1)[0]
