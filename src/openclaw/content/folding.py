"""How an inattentive reader sees text: lookalikes folded, encodings undone, with the way back.

Two kinds of folding, both linear:

- `shape(text)` has the same length as `text`: each lookalike becomes the ASCII character that it
  stands for, each invisible or combining character becomes `HIDDEN`.
- `layers(text)` undoes HTML entities, percent-encoding and backslash escapes, one after another;
  each `Layer` knows where in the original text a span of it came from.
"""

import html
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from itertools import accumulate

from openclaw.content.characters import CharSet, has_beyond, members
from openclaw.core.data_file import read_data

HIDDEN = "\x00"  # what `shape` puts where a reader sees nothing

FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800"
"""Characters that Unicode counts as letters or symbols, but that nobody can see."""

# Private-use stand-ins, because `shape` may not change the length.
LIGATURES = {"st": "\ue001", "fi": "\ue002", "fl": "\ue003", "ff": "\ue004"}

# Nested deeper than this, nothing is decoded: no reader goes on that long either.
_MOST_LAYERS = 6


def _lookalikes() -> dict[str, str]:
    lines = read_data("openclaw.content", "confusables.txt").decode().splitlines()
    return dict(line.split(" ", 1) for line in lines if not line.startswith("#"))


LOOKALIKES = _lookalikes()
"""For each ASCII character (or ligature) the code points that fold to it, as hex ranges."""


def code_points(target: str) -> Iterator[int]:
    for word in LOOKALIKES.get(target, "").split():
        first, _, last = word.partition("-")
        yield from range(int(first, 16), int(last or first, 16) + 1)


def character_class(targets: str) -> str:
    """The inside of a regex set: these ASCII characters, both cases, and what looks like them.

    Only the basic plane: `flatten_astral` brings the rest down first, since the regex engine
    tests characters beyond it one by one.
    """
    lookalikes = sorted(c for t in targets for c in code_points(t) if c < 0x10000)
    plain = {case for t in targets for case in (t, t.upper())}
    return "".join(re.escape(c) for c in sorted(plain)) + "".join(f"\\u{c:04x}" for c in lookalikes)


@cache
def _shape_table() -> dict[int, int | str]:
    table: dict[int, int | str] = {c: ord(chr(c).lower()) for c in range(128)}
    for target in LOOKALIKES:
        stand_in = LIGATURES.get(target, target)
        table.update(dict.fromkeys(code_points(target), stand_in))
    return table


class _Shape(dict[int, int | str]):
    def __missing__(self, code: int) -> int | str:
        seen = self[code] = HIDDEN if is_hidden(chr(code)) else code
        return seen


_HIDDEN_RANGES = (
    "\u00ad\u0300-\u036f\u0483-\u0489\u061c\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\ufff0-\ufffb"
    f"\U0001d173-\U0001d17a\U000e0000-\U000e0fff{FILLERS}"
)
_HIDDEN = re.compile(f"[{_HIDDEN_RANGES}]")

# But for NUL.
_CONTROLS = "\x01-\x08\x0b\x0e-\x1f\x7f-\x9f"
# It begins with a set of characters, for which the regex engine looks quickly.
_ONE_UNSEEN = rf"[\0{_CONTROLS}{_HIDDEN_RANGES}](?:(?<=\x1b)\[[0-9;:?]*+[A-Za-z])?+"
_UNSEEN = re.compile(f"({_ONE_UNSEEN}(?:{_ONE_UNSEEN})*+)")


@cache
def _unseen_set() -> CharSet:
    return CharSet(c for c in members(_CONTROLS + _HIDDEN_RANGES) if c < "\U00010000")


def is_hidden(char: str) -> bool:
    """Whether a reader sees nothing of this character, or only a mark on the one before it."""
    return _HIDDEN.match(char) is not None or unicodedata.category(char) in {"Mn", "Me", "Cf"}


def shape(text: str) -> str:
    """`text` as it looks, in lower-case ASCII where it can; of the same length."""
    if text.isascii():
        return text.lower()
    return text.translate(_shape())


@cache
def _shape() -> _Shape:
    return _Shape(_shape_table())


# The blocks beyond the basic plane that have letters and digits; emoji have none.
_ASTRAL = re.compile(
    "([\U00010280-\U0001057f\U00010a00-\U00011fff\U00016e00-\U00016fff\U0001ccd0-\U0001d7ff"
    "\U0001df00-\U0001efff\U0001f100-\U0001f1ff\U0001fbf0-\U0001fbf9]+)"
)
# Of UTF-8, where looking for one character is quickest: how these blocks begin, and some others.
_ASTRAL_BYTES = re.compile(b"\xf0(?:[\x90-\x9e]|\x9f[\x84-\x87\xaf])")


def flatten_astral(text: str) -> str:
    """`text` with the lookalikes beyond the basic plane folded; of the same length."""
    if not _ASTRAL_BYTES.search(text.encode("utf-8", "surrogatepass")):
        return text
    pieces = _ASTRAL.split(text)
    pieces[1::2] = map(_SHAPES.__getitem__, pieces[1::2])
    return "".join(pieces)


class _Kept(dict[str, str]):
    """What pieces of text become. Only short ones are kept: a long one is not met twice."""

    def __init__(self, become: Callable[[str], str]) -> None:
        super().__init__()
        self._become = become

    def __missing__(self, piece: str) -> str:
        became = self._become(piece)
        if len(piece) <= _LONGEST_KEPT and len(self) < _MOST_KEPT:
            self[piece] = became
        return became


_LONGEST_KEPT, _MOST_KEPT = 32, 8192
_SHAPES = _Kept(shape)


class Layer:
    """A text that was made from another, and how to get back there."""

    def __init__(
        self,
        text: str,
        source: "Layer | None" = None,
        changed: re.Pattern[str] | None = None,
        plain: Callable[[str], str] = str,
    ) -> None:
        self.text = text
        self._source = source
        # What of the source was changed (all of it is one group), and into what.
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
        """Where each piece begins here, and where in the source: literal, changed, and so on.

        Most layers hold nothing of interest, so that nobody asks.
        """
        pieces = self._changed.split(self._source.text) if self._changed and self._source else []
        there = list(accumulate(map(len, pieces), initial=0))
        pieces[1::2] = map(self._plain, pieces[1::2])
        here = list(accumulate(map(len, pieces), initial=0))
        return here, there


_HEX = "[0-9A-Fa-f]"
_PERCENT = rf"(?:25)*+{_HEX}{{2}}(?:%(?:25)*+{_HEX}{{2}})*+"
_ENTITY = (
    rf"(?:amp;)*+(?:\#(?:[0-9]{{1,7}}|[xX]{_HEX}{{1,6}});?|[A-Za-z][A-Za-z0-9]{{1,31}};"
    "|lt|gt|LT|GT|amp|nbsp|shy|quot)"
)
_ESCAPE = rf"(?:u(?:{_HEX}{{4}}|\{{{_HEX}{{1,6}}\}})|x{_HEX}{{2}}|U{_HEX}{{8}})"
# It begins with a set of characters, for which the regex engine looks quickly.
_ENCODED = re.compile(rf"([%&\\](?:(?<=%){_PERCENT}|(?<=&){_ENTITY}|(?<=\\){_ESCAPE}))")
# One kind alone begins with one character, for which it looks more quickly still.
_ENCODED_BY = {"%": f"(%{_PERCENT})", "&": f"(&{_ENTITY})", "\\": rf"(\\{_ESCAPE})"}
_ENCODED_ALONE = {sign: re.compile(pattern) for sign, pattern in _ENCODED_BY.items()}
_MAY_BE_PERCENT, _MAY_BE_ENTITY = re.compile("%[0-9A-Fa-f]"), re.compile("&[#A-Za-z]")
# None of these is inside of an encoding, but for the `%` that stand in a row.
_BREAK = re.compile(r"[^%#;{}A-Za-z0-9]")
# Of a longer text the pieces would fill the caches.
_CHUNK = 1 << 16


def may_be_encoded(text: str) -> bool:
    """Whether there is anything in `text` that may be an entity, a percent sign's or an escape."""
    return any(_encodings(text))


def _encodings(text: str) -> Iterator[str]:
    # Looking for a string is many times as quick as a pattern.
    if "&" in text and _MAY_BE_ENTITY.search(text):
        yield "&"
    if "%" in text and _MAY_BE_PERCENT.search(text):
        yield "%"
    if "\\" in text and ("\\u" in text or "\\x" in text or "\\U" in text):
        yield "\\"


def layers(text: str) -> Iterator[Layer]:
    """What a reader may see under `text`: each encoding undone, and what is unseen left out."""
    outer = Layer(text)
    if not text.isascii() and ("<" in text or "[" in text):
        yield from _without_unseen(outer)
    for layer in _decoded(outer):
        yield layer
        yield from _without_unseen(layer)


def _without_unseen(layer: Layer) -> Iterator[Layer]:
    text = layer.text
    if (
        "\0" in text
        or _unseen_set().may_be_in(text)
        or (not text.isascii() and has_beyond(text.encode("utf-8", "surrogatepass")))
    ):
        seen = _UNSEEN.sub("", text)
        if len(seen) != len(text):
            yield Layer(seen, layer, _UNSEEN, _nothing)


def _nothing(_unseen: str) -> str:
    return ""


def _decoded(layer: Layer) -> Iterator[Layer]:
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
        return _percent(encoded)
    if encoded[0] == "&":
        return _entity("&" + encoded[1:].replace("amp;", "") if "amp;" in encoded else encoded)
    return _escape(encoded.lstrip("\\"))


_PLAIN = _Kept(_decode_piece)


_PERCENT_OF_PERCENT = re.compile("%(?:25)++")


def _percent(run: str) -> str:
    once = _PERCENT_OF_PERCENT.sub("%", run) if "%25" in run else run
    return bytes.fromhex(once.replace("%", "")).decode(errors="replace")


def _entity(entity: str) -> str:
    return html.unescape(entity if entity != "&" else "&amp;")


def _escape(escape: str) -> str:
    code = int(escape[1:].strip("{}"), 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else escape
