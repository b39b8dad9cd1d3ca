"""Keeping every known secret out of everything that leaves the process."""

import threading

from openclaw.secrets.forms import forms_of, in_bytes
from openclaw.secrets.patterns import BytePatterns, Patterns, replace_spans
from openclaw.secrets.stream import StreamRedactor

__all__ = ["Redactor", "StreamRedactor"]


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
        self._bytes: BytePatterns | None = None

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
            self._bytes = None

    def redact(self, text: str, *, shapes: bool = True) -> str:
        """The text with every registered value and, with `shapes`, every credential replaced."""
        patterns = self.patterns()
        spans = patterns.spans(text, shapes=shapes)
        if "\\" in text or not text.isprintable():
            spans += patterns.broken_spans(text)
        return replace_spans(text, spans) if spans else text

    def holds(self, data: bytes | str) -> bool:
        """Whether a registered value stands in there.

        In bytes, which are for what is no text, it is found as UTF-8 and UTF-16, but not where it is
        encoded or compressed.
        """
        if isinstance(data, str):
            return self.redact(data, shapes=False) != data
        return self._in_bytes().occur_in(data)

    def _in_bytes(self) -> BytePatterns:
        compiled = self._bytes
        if compiled is not None:
            return compiled
        with self._lock:
            if self._bytes is None:
                self._bytes = BytePatterns(
                    {form for value in self._values for form in in_bytes(value)}
                )
            return self._bytes

    def patterns(self) -> Patterns:
        """What to look for, compiled after the last registration."""
        patterns = self._patterns
        if patterns is not None:
            return patterns
        with self._lock:
            if self._patterns is None:
                self._patterns = Patterns(self._anywhere, self._standalone, self._keyed)
            return self._patterns
