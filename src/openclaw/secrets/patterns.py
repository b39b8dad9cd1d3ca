"""Everything to look for, compiled for one pass."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from itertools import accumulate
from typing import Final

from ahocorasick_rs import AhoCorasick, BytesAhoCorasick, MatchKind

from openclaw.core.encodings import Layer, decoded, long_words, readings
from openclaw.secrets.refs import REDACTED
from openclaw.secrets.shapes import anchors

# What may come between the pieces of a secret without changing what a reader sees: whitespace,
# control and invisible characters, colours; and backslashes, which every layer of JSON or repr
# adds, with the letters that then represent whitespace.
NOISE: Final = re.compile(
    r"(?:[\s\x00-\x1a\x1c-\x1f\x7f-\xa0\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    r"\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0]++"
    r"|\\++[nrt]?+"
    r"|\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\))?)+"
)

# Characters scanned without a break; other threads have to wait meanwhile.
PIECE: Final = 128 * 1024

# Noise ends before such a character or with it, unless a backslash or an escape comes before.
_SOLID: Final = re.compile(r"(?<!\\)[^\W_]")
_LONGEST_ESCAPE: Final = 300


_BACKSLASHES: Final = re.compile(r"\\++[nrt]?+")
_ASCII_NOISE: Final = bytes(code for code in range(128) if NOISE.fullmatch(chr(code)))


def joined(text: str) -> str:
    """The text without noise; in ASCII without colours, that takes a tenth of the regex's time."""
    if "\x1b" in text or not text.isascii():
        return NOISE.sub("", text)
    if "\\" in text:
        text = _BACKSLASHES.sub("", text)
    return text.encode().translate(None, _ASCII_NOISE).decode()


class DenoisedText:
    """A text without noise, and where each of its characters was; built piece by piece."""

    def __init__(self, text: str) -> None:
        self._pieces = [(start, text[start:end]) for start, end in _cuts(text)]
        plain = [joined(piece) for _, piece in self._pieces]
        self._starts = list(accumulate(map(len, plain), initial=0))
        self._removed: dict[int, tuple[list[int], list[int]]] = {}
        self.text = "".join(plain)

    def span(self, start: int, end: int) -> tuple[int, int]:
        return self._place(start), self._place(end - 1) + 1

    def _place(self, position: int) -> int:
        index = bisect_right(self._starts, position) - 1
        start, piece = self._pieces[index]
        if index not in self._removed:
            self._removed[index] = _removed(piece)
        places, totals = self._removed[index]
        position -= self._starts[index]
        before = bisect_right(places, position) - 1
        return start + position + (totals[before] if before >= 0 else 0)


def _removed(piece: str) -> tuple[list[int], list[int]]:
    """Where in the joined piece something was removed, and how much up to there."""
    places: list[int] = []
    totals: list[int] = []
    removed = 0
    for match in NOISE.finditer(piece):
        places.append(match.start() - removed)
        removed += match.end() - match.start()
        totals.append(removed)
    return places, totals


def _cuts(text: str) -> Iterator[tuple[int, int]]:
    """Pieces of about `PIECE` characters that don't begin or end inside noise."""
    start = 0
    while len(text) - start > PIECE:
        end = _solid_place(text, start + PIECE)
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)


def _solid_place(text: str, start: int) -> int:
    """The first place from `start` on that is certainly outside noise; else the end."""
    while (solid := _SOLID.search(text, start)) is not None:
        end = solid.end()
        escape = text.rfind("\x1b", max(0, end - _LONGEST_ESCAPE), end)
        if escape < 0:
            return end
        start = max(end, escape + _LONGEST_ESCAPE)
    return len(text)


Span = tuple[int, int]
Hit = tuple[int, int, int]  # which, from where, to where

PREFIX_LENGTH: Final = 4
_HALF: Final = re.compile(r"[\ud800-\udfff]")
_STAND_IN: Final = "\ufffd"  # as long as what it replaces, so that offsets stay the same
_WINDOW: Final = 1024 * 1024  # bytes searched at once
_MIN_JOINED: Final = 8
_MOST_READINGS: Final = 3  # base64 in base64 in base64
_MOST_CLEAN: Final = 1024
_LONGEST_KEYED: Final = 256  # characters of a key and its value
_KEYS: Final = r"(?:pass|pwd|secret|token|key|cred|auth|pin|code)[\w-]{0,24}"


def _automaton(forms: Iterable[str]) -> AhoCorasick:
    return AhoCorasick([_HALF.sub(_STAND_IN, form) for form in forms])


def _found(automaton: AhoCorasick, text: str, longest: int) -> list[Hit]:
    """Every occurrence, searched piece by piece so that other threads can run."""
    if len(text) <= PIECE:
        return _found_at_once(automaton, text)
    return [
        (index, at + start, at + end)
        for at in range(0, len(text), PIECE)
        for index, start, end in _found_at_once(automaton, text[at : at + PIECE + longest - 1])
        if start < PIECE
    ]


def _found_at_once(automaton: AhoCorasick, text: str) -> list[Hit]:
    try:
        return automaton.find_matches_as_indexes(text, overlapping=True)
    except UnicodeEncodeError:  # lone surrogates, which exist only in Python
        return automaton.find_matches_as_indexes(_HALF.sub(_STAND_IN, text), overlapping=True)


class Patterns:
    """The forms of every registered value and the anchors of every shape, in one automaton."""

    def __init__(
        self,
        anywhere: Iterable[str] = (),
        standalone: Iterable[str] = (),
        keyed: Iterable[str] = (),
        in_bytes: Iterable[bytes] = (),
    ) -> None:
        self._in_bytes = sorted(in_bytes)
        self._anywhere = list(anywhere)
        self._certain = len(self._anywhere)
        alone = list(standalone)
        literals = list(anchors())
        self._shapes = [shape for _, shape in literals]
        self._first_anchor = self._certain + len(alone)
        sought = [*self._anywhere, *alone, *(anchor for anchor, _ in literals)]
        self._automaton = _automaton(sought)
        self._longest = max(map(len, sought))
        self._keyed = _keyed(keyed)
        self.clean: set[str] = set()  # short texts that need not be searched again

    def remember_clean(self, text: str) -> None:
        if len(self.clean) >= _MOST_CLEAN:
            self.clean.clear()
        self.clean.add(text)

    def spans(self, text: str, *, shapes: bool) -> list[Span]:
        """Spans to hide, in no particular order, possibly overlapping."""
        spans: list[Span] = []
        covered = 0
        for index, start, end in _found(self._automaton, text, self._longest):
            if index < self._certain:
                spans.append((start, end))
            elif index < self._first_anchor:
                if not _has_neighbours(text, start, end):
                    spans.append((start, end))
            elif shapes and start >= covered:
                span = self._shapes[index - self._first_anchor].span(text, start)
                if span is not None and span[0] < span[1]:
                    spans.append(span)
                    covered = span[1]
        if self._keyed is not None:
            spans.extend(_values_of_keys(self._keyed, text))
        return spans

    def every_span(self, text: str, *, shapes: bool) -> list[Span]:
        """Also spans of longer forms that something interrupts, and of what is encoded repeatedly."""
        spans = self._with_interrupted(text, shapes=shapes)
        if "%" in text or "&" in text or "\\" in text:
            for layer in decoded(Layer(text)):
                inner = self._with_interrupted(layer.text, shapes=shapes)
                spans += [layer.span_in_source(start, end) for start, end in inner]
        if self._joined_forms:
            spans += self._words_that_say_a_value(text, spans)
        return spans

    def _with_interrupted(self, text: str, *, shapes: bool) -> list[Span]:
        """Also spans of longer forms interrupted by line breaks, colours or invisible characters."""
        spans = self.spans(text, shapes=shapes)
        if self._joined_forms and ("\\" in text or not text.isprintable()):
            plain = DenoisedText(text)
            spans += [plain.span(start, end) for start, end in self.joined_spans(plain.text)]
        return spans

    def _words_that_say_a_value(self, text: str, found: list[Span]) -> list[Span]:
        """Of words in base64 or hexadecimal digits in which nothing was found, those that hide a value."""
        covered = merged(found)
        starts = [start for start, _ in covered]
        hidden: list[Span] = []
        for word in long_words(text):
            before = bisect_right(starts, word.end() - 1) - 1
            if before >= 0 and covered[before][1] > word.start():
                continue
            if any(self._says_a_value(one, _MOST_READINGS) for one in readings(word[0])):
                hidden.append(word.span())
        return hidden

    def _says_a_value(self, text: str, depth: int) -> bool:
        texts = [text, *(layer.text for layer in decoded(Layer(text)))]
        if any(self.joined_spans(joined(one)) for one in texts):
            return True
        return depth > 1 and any(
            self._says_a_value(one, depth - 1)
            for word in long_words(text)
            for one in readings(word[0])
        )

    def joined_spans(self, text: str) -> list[Span]:
        """Spans of longer forms in joined text, possibly overlapping."""
        return [hit[1:] for hit in _found(self._joined_automaton, text, self.longest_joined)]

    @cached_property
    def _joined_forms(self) -> list[str]:
        forms = {joined(form) for form in self._anywhere}
        return sorted(form for form in forms if len(form) >= _MIN_JOINED)

    @cached_property
    def _joined_automaton(self) -> AhoCorasick:
        return _automaton(self._joined_forms)

    @cached_property
    def _prefixes(self) -> AhoCorasick:
        return _automaton(sorted({form[:PREFIX_LENGTH] for form in self._joined_forms}))

    def starts(self, text: str) -> list[int]:
        """Where the first characters of a longer form occur in joined text."""
        if not self._joined_forms:
            return []
        return [hit[1] for hit in _found(self._prefixes, text, PREFIX_LENGTH)]

    def is_prefix(self, text: str) -> bool:
        """Whether a longer form begins with all of `text` and continues after it."""
        forms = self._joined_forms
        place = bisect_right(forms, text)
        return place < len(forms) and forms[place].startswith(text)

    def short_beginning(self, text: str) -> int:
        """How many of the last characters, fewer than `PREFIX_LENGTH`, a longer form begins with."""
        lengths = range(PREFIX_LENGTH - 1, 0, -1) if text else ()
        return next((length for length in lengths if self.is_prefix(text[-length:])), 0)

    @cached_property
    def longest_joined(self) -> int:
        return max(map(len, self._joined_forms), default=0)

    @cached_property
    def _byte_automaton(self) -> BytesAhoCorasick:
        # This kind skips many bytes at a time.
        return BytesAhoCorasick(self._in_bytes, matchkind=MatchKind.LeftmostFirst)

    def occur_in(self, data: bytes) -> bool:
        """Whether a value occurs in it; searched piece by piece until the first hit."""
        view, overlap = memoryview(data), max(map(len, self._in_bytes), default=0)
        return bool(self._in_bytes) and any(
            self._byte_automaton.find_matches_as_indexes(view[at : at + _WINDOW + overlap])
            for at in range(0, len(data), _WINDOW)
        )


def merged(spans: Iterable[Span], *, touching: bool = True) -> list[Span]:
    """Merges overlapping spans; adjacent ones too, unless noise may be between them."""
    result: list[Span] = []
    for start, end in sorted(spans):
        if result and start < result[-1][1] + touching:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def replace_spans(
    text: str, spans: Iterable[Span], mark: Callable[[int], str] = lambda length: REDACTED
) -> str:
    """The text with each span replaced by a mark, which may say how long it was."""
    pieces: list[str] = []
    position = 0
    for start, end in merged(spans):
        pieces += text[position:start], mark(end - start)
        position = end
    pieces.append(text[position:])
    return "".join(pieces)


def _has_neighbours(text: str, start: int, end: int) -> bool:
    return (start > 0 and text[start - 1].isalnum()) or (end < len(text) and text[end].isalnum())


def _values_of_keys(keyed: re.Pattern[str], text: str) -> Iterator[Span]:
    """Piece by piece, for the same reason as in `_found`."""
    for at in range(0, len(text), PIECE):
        for match in keyed.finditer(text, at, at + PIECE + _LONGEST_KEYED):
            if match.start() < at + PIECE:
                yield match.span(1)


def _keyed(values: Iterable[str]) -> re.Pattern[str] | None:
    alternatives = "|".join(sorted(map(re.escape, values), key=len, reverse=True))
    if not alternatives:
        return None
    return re.compile(
        rf"{_KEYS}(?:\\?[\"'])?\s{{0,4}}[:=]\s{{0,4}}(?:\\?[\"'])?({alternatives})(?![A-Za-z0-9])",
        re.IGNORECASE,
    )
