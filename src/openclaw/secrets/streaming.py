"""Redacts text that arrives in pieces, such as a child process's stderr.

A child may split its secret over chunks, over lines, or character by character. So lines are also
read as continuous text, without line breaks, spaces and other noise, in several ways (see `_VIEWS`),
and a line is held back for as long as its end could be the beginning of a secret. Once the secret is
complete, every piece of it is replaced in the lines held back.

The caller calls `flush` after a pause in the input (`FLUSH_AFTER`) and at the end. That releases the
lines held back, with the beginnings of secrets in them replaced, except for up to three characters;
reading continues, so that a child that pauses between pieces gains no more than those three.
"""

import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from openclaw.secrets.patterns import (
    DenoisedText,
    Patterns,
    Span,
    joined,
    merged,
    replace_spans,
)
from openclaw.secrets.refs import REDACTED
from openclaw.secrets.shapes import PEM_BEGIN, PEM_END

if TYPE_CHECKING:
    from openclaw.secrets.redactor import Redactor

FLUSH_AFTER: Final = 0.2  # seconds of silence after which a caller should flush
MAX_LINE: Final = 8192
_MOST_HELD: Final = 1024
_LONGEST_KEY: Final = 400  # lines of the largest private key that we expect

_LOG_PREFIX: Final = re.compile(
    r"""(?x) (?: \s* (?:
        \[ [^\]]{0,64} \]                                             # [anything]
      | \d{4}-\d\d-\d\d [T_]? (?:[\d:.,]{0,20} (?:Z|[+-]\d\d:?\d\d)?)?   # 2026-11-15T20:41:27Z
      | \d{1,2}:\d\d:\d\d [.,\d]{0,10}                                # 20:41:27.123
      | (?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\b :?   # a level
      | \(? \d{1,6} (?: [.):] | \s)                                   # 1. 2) 3:
      | [\w./#-]{1,32} \s{0,2} (?: -> | => | [:=>|])                  # name: name=
      | [-*\u2022>|#+] \s                                             # a bullet
    ) ){0,8} \s*"""
)
_QUOTES: Final = "\"'`,;:()[]{}<>| \t"
_KEY_LINE: Final = re.compile(r"\s*+(?:[A-Za-z0-9+/=]{1,100}|[A-Za-z-]{1,30}: .*|)\s*+")


def _whole(text: str) -> Span:
    return 0, len(text)


def _message(text: str) -> Span:
    match = _LOG_PREFIX.match(text)
    start = match.end() if match else 0
    return _trimmed(text, start, len(text))


def _first_word(text: str) -> Span:
    words = text.split(None, 1)
    start = text.index(words[0]) if words else 0
    return _trimmed(text, start, start + len(words[0]) if words else 0)


def _last_word(text: str) -> Span:
    end = len(text.rstrip())
    start = end - len(text[:end].rsplit(None, 1)[-1]) if end else 0
    return _trimmed(text, start, end)


def _trimmed(text: str, start: int, end: int) -> Span:
    piece = text[start:end]
    left = len(piece) - len(piece.lstrip(_QUOTES))
    return start + left, start + max(left, len(piece.rstrip(_QUOTES)))


# The parts of a line that are read continuously across lines.
_VIEWS: Final[tuple[Callable[[str], Span], ...]] = (_whole, _message, _first_word, _last_word)


@dataclass(slots=True, eq=False)
class _Line:
    number: int
    text: str
    patterns: Patterns  # used when it was read
    spans: list[Span] = field(default_factory=list[Span])


@dataclass(slots=True)
class _Piece:
    line: _Line
    start: int
    source: str
    text: str
    places: DenoisedText | None = None

    def mark(self, start: int, end: int) -> None:
        if self.places is None:
            self.places = DenoisedText(self.source)
        first, last = self.places.span(start, end)
        self.line.spans.append((self.start + first, self.start + last))


class _View:
    """Reads lines as continuous text, and knows where a secret may have begun."""

    def __init__(self, extract: Callable[[str], Span]) -> None:
        self._extract = extract
        self._pieces: deque[_Piece] = deque()
        self._text = ""  # of all the pieces, joined
        # Where at least four characters of a secret have begun in it.
        self._begun: int | None = None

    @property
    def waits_from(self) -> int | None:
        """The number of the first line that may contain the beginning of a secret."""
        return self._pieces[0].line.number if self._pieces else None

    def add(self, line: _Line, patterns: Patterns) -> None:
        start, end = self._extract(line.text)
        source = line.text[start:end]
        text = joined(source)
        if not text:
            return
        # Anything that begins before this would have ended in an earlier line.
        seen = max(0, len(self._text) - patterns.longest_joined + 1)
        self._pieces.append(_Piece(line, start, source, text))
        self._text += text
        self._begun = None
        starts = patterns.starts(self._text[seen:])
        if starts:
            found = merged(patterns.joined_spans(self._text[seen:]), touching=False)
            self._mark((seen + first, seen + last) for first, last in found)
            self._begun = self._first_begun(patterns, [seen + place for place in starts])
        self._forget(patterns)

    def _first_begun(self, patterns: Patterns, starts: list[int]) -> int | None:
        # Anything as long as the longest form has either been found or isn't a secret.
        recent = bisect_right(starts, len(self._text) - patterns.longest_joined)
        return next((at for at in starts[recent:] if patterns.is_prefix(self._text[at:])), None)

    def mark_begun(self) -> None:
        """Replace the beginnings too: their lines are about to be released."""
        if self._begun is not None:
            self._mark([(self._begun, len(self._text))])

    def _forget(self, patterns: Patterns) -> None:
        """Drop the text before the first place where a secret may have begun."""
        first = len(self._text) - patterns.short_beginning(self._text)
        if self._begun is not None:
            first = min(first, self._begun)
        dropped = 0
        while self._pieces and dropped + len(self._pieces[0].text) <= first:
            dropped += len(self._pieces.popleft().text)
        self._text = self._text[dropped:]
        if self._begun is not None:
            self._begun -= dropped

    def _mark(self, spans: Iterable[Span]) -> None:
        ends = list(accumulate(len(piece.text) for piece in self._pieces))
        for start, end in spans:
            for place in range(bisect_right(ends, start), bisect_left(ends, end) + 1):
                piece = self._pieces[place]
                offset = ends[place] - len(piece.text)
                piece.mark(max(start - offset, 0), min(end, ends[place]) - offset)


class StreamRedactor:
    """Takes text in any pieces and gives redacted lines, without their line breaks.

    Its memory is bounded: a line is cut at `max_line` characters (but still read to its end), and at
    most about a thousand lines are held back. Empty lines are dropped.
    """

    def __init__(self, redactor: "Redactor", *, max_line: int = MAX_LINE) -> None:
        self._redactor = redactor
        self._max_line = max_line
        self._unfinished = ""
        self._held: deque[_Line] = deque()
        self._views = [_View(extract) for extract in _VIEWS]
        self._count = 0
        self._key_lines_left = 0

    @property
    def pending(self) -> bool:
        return bool(self._unfinished or self._held)

    def feed(self, text: str) -> list[str]:
        lines = (self._unfinished + text).splitlines(keepends=True)
        self._unfinished = ""
        if lines and lines[-1].splitlines()[0] == lines[-1]:  # it has no line break yet
            last = lines.pop()
            full = (len(last) - 1) // self._max_line * self._max_line
            lines.append(last[:full])
            self._unfinished = last[full:]
        return [one for line in lines for one in self._take(line)]

    def flush(self) -> list[str]:
        rest, self._unfinished = self._unfinished, ""
        released = self._take(rest) if rest else []
        for view in self._views:
            view.mark_begun()
        return released + self._release(len(self._held))

    def _take(self, text: str) -> list[str]:
        text, most = text.rstrip(), self._max_line
        lines = (text[start : start + most] for start in range(0, len(text), most))
        return [one for line in lines for one in self._take_line(line)]

    def _take_line(self, text: str) -> list[str]:
        patterns = self._redactor.patterns()
        self._count += 1
        line = _Line(self._count, text, patterns, patterns.every_span(text, shapes=True))
        if self._in_private_key(text):
            line.spans.append((0, len(text)))
        for view in self._views:
            view.add(line, patterns)
        self._held.append(line)
        waiting = [view.waits_from for view in self._views]
        first = min((number for number in waiting if number is not None), default=self._count + 1)
        if len(self._held) > _MOST_HELD:
            for view in self._views:
                view.mark_begun()
            first = self._count + 1
        certain = sum(1 for held in self._held if held.number < first)
        return self._release(certain)

    def _release(self, count: int) -> list[str]:
        lines = [self._held.popleft() for _ in range(count)]
        patterns = self._redactor.patterns()
        for line in lines:
            if line.patterns is not patterns:  # a secret became known while it was held back
                line.spans += patterns.every_span(line.text, shapes=True)
        return [replace_spans(line.text, line.spans) for line in lines]

    def _in_private_key(self, text: str) -> bool:
        """Whether this line belongs to a private key in PEM that began on an earlier line."""
        inside = self._key_lines_left > 0 and _KEY_LINE.fullmatch(text) is not None
        self._key_lines_left = self._key_lines_left - 1 if inside else 0
        begin = PEM_BEGIN.search(text)
        if begin is not None and PEM_END.search(text, begin.end()) is None:
            self._key_lines_left = _LONGEST_KEY
        return inside


# `StreamRedactor` reads log lines and may tidy them; an answer has to come out exactly as written and
# as soon as possible, in whatever pieces a model sends it. So only the end is held back: the last word
# with the space before it, and anything else that could be the beginning of a secret.

_CONTEXT: Final = 4096  # characters scanned again: a key's name may be well before its value
_LONGEST_WORD: Final = 4096
_LOOKED_AT: Final = 1024  # characters at the end in which a known value may have begun
_WORD: Final = "".join(map(chr, range(0x21, 0x7F)))  # scripts without spaces have no such words


class DeltaRedactor:
    """Takes an answer in any pieces; its output, joined, is the redacted answer."""

    def __init__(self, redactor: "Redactor") -> None:
        self._redactor = redactor
        self._context = ""  # the end of what was already returned, before redaction
        self._held = ""
        self._inside = False  # whether the last output ended inside a secret

    def feed(self, piece: str) -> str:
        self._held += piece
        patterns = self._redactor.patterns()
        spans = self._spans(patterns)
        return self._give(self._certain(patterns, spans), spans)

    def finish(self) -> str:
        """Return everything that is left, and start over."""
        given = self._give(len(self._held), self._spans(self._redactor.patterns()))
        self._context, self._inside = "", False
        return given

    def _spans(self, patterns: Patterns) -> list[Span]:
        """Spans to hide, as offsets into `_held`."""
        text = self._context + self._held
        found = patterns.every_span(text, shapes=True)
        offset = len(self._context)
        return [(start - offset, end - offset) for start, end in merged(found)]

    def _certain(self, patterns: Patterns, spans: list[Span]) -> int:
        """How much of the held text cannot be part of a secret that continues."""
        end = len(self._held.rstrip(_WORD).rstrip())
        if len(self._held) - end > _LONGEST_WORD:
            end = len(self._held) - _LOOKED_AT
        end = min(end, _beginning(self._held, patterns))
        for start, stop in reversed(spans):
            if stop >= end and start < end and len(self._held) - start <= _LONGEST_WORD:
                end = start  # it may continue
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
    """Where an unfinished known value may begin; the text's length if there is none."""
    start = max(0, len(text) - _LOOKED_AT)
    tail = text[start:]
    plain = joined(tail)
    begun = [place for place in patterns.starts(plain) if patterns.is_prefix(plain[place:])]
    short = patterns.short_beginning(plain)
    if short:
        begun.append(len(plain) - short)
    if not begun:
        return len(text)
    return start + DenoisedText(tail).span(min(begun), min(begun) + 1)[0]
