"""Undoes the encodings in which a text may hide another.

What frames untrusted text and what keeps secrets back both read its layers: without percent signs,
entities and escapes, one after another. Secrets are also looked for in what its words say in base64
and as hexadecimal digits.
"""

import binascii
import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import accumulate

# Nothing nested deeper than this is decoded: no reader does that either.
_MOST_LAYERS = 6
_LONGEST_CACHED, _MOST_CACHED = 32, 8192


class Memo(dict[str, str]):
    """Caches what pieces of text become; only short ones, because long ones rarely recur."""

    def __init__(self, become: Callable[[str], str]) -> None:
        super().__init__()
        self._become = become

    def __missing__(self, piece: str) -> str:
        became = self._become(piece)
        if len(piece) <= _LONGEST_CACHED and len(self) < _MOST_CACHED:
            self[piece] = became
        return became


class Layer:
    """A text that was made from another, and how its positions map back."""

    def __init__(
        self,
        text: str,
        source: "Layer | None" = None,
        changed: re.Pattern[str] | None = None,
        plain: Callable[[str], str] = str,
    ) -> None:
        self.text = text
        self._source = source
        # What was changed in the source (all of it is one group), and into what.
        self._changed = changed
        self._plain = plain

    def span_in_source(self, start: int, end: int) -> tuple[int, int]:
        """Where the characters from `start` to `end` came from in the undecoded text."""
        if self._source is None:
            return start, end
        first = self._origin(start, at_end=False)
        last = self._origin(end - 1, at_end=True)
        return self._source.span_in_source(first, last)

    def _origin(self, position: int, *, at_end: bool) -> int:
        starts, origins = self._offsets
        piece = bisect_right(starts, position) - 1
        if piece % 2:  # an encoded piece is one whole
            return origins[piece + 1] if at_end else origins[piece]
        return origins[piece] + position - starts[piece] + at_end

    @cached_property
    def _offsets(self) -> tuple[list[int], list[int]]:
        """Where each piece begins, here and in the source; rarely needed."""
        pieces = self._changed.split(self._source.text) if self._changed and self._source else []
        there = list(accumulate(map(len, pieces), initial=0))
        pieces[1::2] = map(self._plain, pieces[1::2])
        here = list(accumulate(map(len, pieces), initial=0))
        return here, there


_HEX = "[0-9A-Fa-f]"
_PERCENT = rf"(?:25)*{_HEX}{{2}}(?:%(?:25)*{_HEX}{{2}})*+"
_ENTITY = (
    rf"(?:amp;)*+(?:\#(?:0*[0-9]{{1,7}}|[xX]0*{_HEX}{{1,6}});?|[A-Za-z][A-Za-z0-9]{{1,31}};"
    "|lt|gt|LT|GT|amp|nbsp|shy|quot)"
)
# A character beyond the basic plane. Each time that a text is quoted doubles its backslashes.
_PAIR = rf"[dD][89abAB]{_HEX}{{2}}\\{{1,16}}u[dD][c-fC-F]{_HEX}{{2}}"
_ESCAPE = rf"\\{{0,15}}(?:u(?:{_PAIR}|{_HEX}{{4}}|\{{0*{_HEX}{{1,6}}\}})|x{_HEX}{{2}}|U{_HEX}{{8}})"
# It begins with a set of characters, which the regex engine finds quickly.
_ENCODED = re.compile(rf"([%&\\](?:(?<=%){_PERCENT}|(?<=&){_ENTITY}|(?<=\\){_ESCAPE}))")
# A single kind begins with one character, which it finds faster still.
_ENCODED_BY = {"%": f"(%{_PERCENT})", "&": f"(&{_ENTITY})", "\\": rf"(\\{_ESCAPE})"}
_ENCODED_ALONE = {sign: re.compile(pattern) for sign, pattern in _ENCODED_BY.items()}
_MAY_BE_PERCENT, _MAY_BE_ENTITY = re.compile("%[0-9A-Fa-f]"), re.compile("&[#A-Za-z]")
# None of these is inside of an encoding, but for the `%` and the backslashes that are left out here.
_BREAK = re.compile(r"[^%#;{}\\A-Za-z0-9]")
# The pieces of a longer text would fill the caches.
_CHUNK = 1 << 16


def may_be_encoded(text: str) -> bool:
    return any(_encodings(text))


def _encodings(text: str) -> Iterator[str]:
    # Looking for a string is many times faster than for a pattern.
    if "&" in text and _MAY_BE_ENTITY.search(text):
        yield "&"
    if "%" in text and _MAY_BE_PERCENT.search(text):
        yield "%"
    if "\\" in text and ("\\u" in text or "\\x" in text or "\\U" in text):
        yield "\\"


def decoded(layer: Layer) -> Iterator[Layer]:
    """The text with one layer of encodings undone after the other."""
    for _ in range(_MOST_LAYERS):
        if not may_be_encoded(layer.text):
            return
        inner = "".join(map(_decode, _chunks(layer.text)))
        if inner == layer.text:
            return
        layer = Layer(inner, layer, _ENCODED, _PLAIN.__getitem__)
        yield layer


def _chunks(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        following = _BREAK.search(text, start + _CHUNK)
        end = following.start() if following else len(text)
        yield text[start:end]
        start = end


def _decode(text: str) -> str:
    signs = list(_encodings(text))
    if not signs:
        return text
    pieces = (_ENCODED_ALONE[signs[0]] if len(signs) == 1 else _ENCODED).split(text)
    pieces[1::2] = map(_PLAIN.__getitem__, pieces[1::2])
    return "".join(pieces)


def _decode_piece(encoded: str) -> str:
    if encoded[0] == "%":
        once = _PERCENT_OF_PERCENT.sub("%", encoded) if "%25" in encoded else encoded
        return bytes.fromhex(once.replace("%", "")).decode(errors="replace")
    if encoded[0] == "&":
        entity = "&" + _LEADING_ZEROS.sub("", encoded[1:].replace("amp;", ""))
        return html.unescape(entity if entity != "&" else "&amp;")
    escape = encoded.lstrip("\\")
    if "\\" in escape:
        units = bytes.fromhex(escape.replace("\\", "").replace("u", ""))
        return units.decode("utf-16-be")
    code = int(escape[1:].strip("{}"), 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else escape


_LEADING_ZEROS = re.compile(rf"(?<=\#)0+(?=[0-9])|(?<=\#[xX])0+(?={_HEX})")
_PERCENT_OF_PERCENT = re.compile(rf"%(?:25)+(?={_HEX}{{2}})")
_PLAIN = Memo(_decode_piece)


_SHORTEST_WORD = 16
_WORD = re.compile(rf"[A-Za-z0-9+/_-]{{{_SHORTEST_WORD},}}+")
_NOT_IN_WORDS = bytes(32 if not _WORD.match(chr(c) * _SHORTEST_WORD) else c for c in range(256))
_DIGITS = re.compile(rf"{_HEX}{{{_SHORTEST_WORD},}}+")
_STANDARD = str.maketrans("-_", "+/")


def long_words(text: str) -> Iterator[re.Match[str]]:
    """The words in it that may be base64 or hexadecimal digits."""
    kept = text.encode("ascii", "replace").translate(_NOT_IN_WORDS)  # faster than the pattern
    if max(map(len, kept.split()), default=0) >= _SHORTEST_WORD:
        yield from _WORD.finditer(text)


def readings(word: str) -> Iterator[str]:
    """What a word may say in base64 or as hexadecimal digits, wherever in it these begin."""
    plain = word.translate(_STANDARD)
    for start in range(4):
        rest = plain[start:]
        rest = rest[: len(rest) - (len(rest) % 4 == 1)]
        yield binascii.a2b_base64(rest + "=" * (-len(rest) % 4)).decode(errors="replace")
    for digits in _DIGITS.findall(word):
        for start in range(2):
            pairs = digits[start : len(digits) - (len(digits) - start) % 2]
            yield bytes.fromhex(pairs).decode(errors="replace")
