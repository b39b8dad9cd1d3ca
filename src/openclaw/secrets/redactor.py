"""Keeping every known secret out of everything that leaves the process."""

import threading
from bisect import bisect_right

from openclaw.secrets.forms import forms_of
from openclaw.secrets.patterns import NOISE, Patterns, Span, merged
from openclaw.secrets.secret import REDACTED


class Redactor:
    """Knows every value that was ever resolved, and replaces each with `[REDACTED]`.

    It may be used from any thread. A value counts from the moment when `register` returns.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: set[str] = set()
        self._anywhere: set[str] = set()
        self._standalone: set[str] = set()
        self._keyed: set[str] = set()
        self._patterns: Patterns | None = None

    def register(self, value: str, *, label: str | None = None) -> None:
        """Keep this value, in all its forms, out of sight from now on."""
        with self._lock:
            if value in self._values:
                return
            forms = forms_of(value)
            self._values.add(value)
            self._anywhere |= forms.anywhere
            self._standalone |= forms.standalone
            self._keyed |= forms.keyed
            self._patterns = None

    def redact(self, text: str, *, shapes: bool = True) -> str:
        """The text with every registered value and, with `shapes`, every credential replaced."""
        patterns = self.patterns()
        spans = patterns.spans(text, shapes=shapes)
        if not text.isprintable():
            spans += _joined_spans(patterns, text)
        return replace_spans(text, spans) if spans else text

    def patterns(self) -> Patterns:
        """What to look for, compiled after the last registration."""
        patterns = self._patterns
        if patterns is not None:
            return patterns
        with self._lock:
            if self._patterns is None:
                self._patterns = Patterns(self._anywhere, self._standalone, self._keyed)
            return self._patterns


def replace_spans(text: str, spans: list[Span]) -> str:
    """The text with each span, and those that touch as one, replaced."""
    pieces: list[str] = []
    position = 0
    for start, end in merged(spans):
        pieces += text[position:start], REDACTED
        position = end
    pieces.append(text[position:])
    return "".join(pieces)


def _joined_spans(patterns: Patterns, text: str) -> list[Span]:
    """Secrets that line breaks, colours or invisible characters take apart."""
    noise = [match.span() for match in NOISE.finditer(text)]
    if not noise:
        return []
    found = patterns.joined_spans(NOISE.sub("", text))
    if not found:
        return []
    removed = 0
    places: list[int] = []  # where in the joined text something was taken out, and how much so far
    totals: list[int] = []
    for start, end in noise:
        places.append(start - removed)
        removed += end - start
        totals.append(removed)

    def original(position: int) -> int:
        index = bisect_right(places, position) - 1
        return position + (totals[index] if index >= 0 else 0)

    return [(original(start), original(end - 1) + 1) for start, end in found]
