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
from collections.abc import Iterator, Sequence
from functools import cache, cached_property, lru_cache
from itertools import accumulate
from urllib.parse import unquote_to_bytes

from openclaw.content.confusables import LOOKALIKES

HIDDEN = "\x00"
"""What `shape` puts where a reader sees nothing."""

FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800"
"""Characters that Unicode counts as letters or symbols, but that nobody can see."""

# Private-use stand-ins, because `shape` may not change the length.
LIGATURES = {"st": "\ue001", "fi": "\ue002", "fl": "\ue003", "ff": "\ue004"}

# Nested deeper than this, nothing is decoded: no reader goes on that long either.
_MOST_LAYERS = 6


def code_points(target: str) -> Iterator[int]:
    """Every non-ASCII code point that folds to `target`."""
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
    """The table, with the rest decided on demand."""

    def __missing__(self, code: int) -> int | str:
        seen = self[code] = HIDDEN if is_hidden(chr(code)) else code
        return seen


_HIDDEN = re.compile(
    "[\u00ad\u0300-\u036f\u0483-\u0489\u061c\u180b-\u180f\u1ab0-\u1aff\u1dc0-\u1dff\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\ufeff\ufff0-\ufffb"
    f"\U0001d173-\U0001d17a\U000e0000-\U000e0fff{FILLERS}]"
)


_UNSEEN = re.compile(
    r"((?:\x1b\[[0-9;:?]*+[A-Za-z]|[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]|" + _HIDDEN.pattern + ")++)"
)

# One set, which is looked for many times as quickly.
_MAY_BE_UNSEEN = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f" + _HIDDEN.pattern[1:])


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
    "[\U00010280-\U0001057f\U00010a00-\U00011fff\U00016e00-\U00016fff\U0001ccd0-\U0001d7ff"
    "\U0001df00-\U0001efff\U0001f100-\U0001f1ff\U0001fbf0-\U0001fbf9]+"
)


def flatten_astral(text: str) -> str:
    """`text` with the lookalikes beyond the basic plane folded; of the same length."""
    return _ASTRAL.sub(lambda match: shape(match[0]), text)


class Layer:
    """A text that was decoded from another, and how to get back there."""

    def __init__(
        self,
        text: str,
        source: "Layer | None" = None,
        pieces: Sequence[str] = (),
        plain: Sequence[str] = (),
    ) -> None:
        self.text = text
        self._source = source
        # Of the source: literal, encoded, literal, and so on; and what became of each.
        self._pieces = pieces
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
        """Where each piece begins here, and where in the source."""
        here = accumulate(map(len, self._plain), initial=0)
        there = accumulate(map(len, self._pieces), initial=0)
        return list(here), list(there)


# It begins with a set of characters, for which the regex engine looks quickly.
_ENCODED = re.compile(
    r"([%&\\](?:"
    r"(?<=%)(?:25)*+[0-9A-Fa-f]{2}(?:%(?:25)*+[0-9A-Fa-f]{2})*+"
    r"|(?<=&)(?:amp;)*+(?:\#(?:[0-9]{1,7}|[xX][0-9A-Fa-f]{1,6});?|[A-Za-z][A-Za-z0-9]{1,31};"
    r"|lt|gt|LT|GT|amp|nbsp|shy|quot)"
    r"|(?<=\\)(?:u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]{1,6}\}|x[0-9A-Fa-f]{2}|U[0-9A-Fa-f]{8})))"
)
_MAY_BE_PERCENT, _MAY_BE_ENTITY = re.compile("%[0-9A-Fa-f]"), re.compile("&[#A-Za-z]")


def may_be_encoded(text: str) -> bool:
    """Whether there is anything in `text` that may be an entity, a percent sign's or an escape."""
    # Looking for a string is many times as quick as a pattern.
    return (
        ("&" in text and _MAY_BE_ENTITY.search(text) is not None)
        or ("%" in text and _MAY_BE_PERCENT.search(text) is not None)
        or ("\\" in text and ("\\u" in text or "\\x" in text or "\\U" in text))
    )


def layers(text: str) -> Iterator[Layer]:
    """What a reader may see under `text`: each encoding undone, and what is unseen left out."""
    outer = Layer(text)
    if not text.isascii() and ("<" in text or "[" in text):
        yield from _without_unseen(outer)
    for layer in _decoded(outer):
        yield layer
        yield from _without_unseen(layer)


def _without_unseen(layer: Layer) -> Iterator[Layer]:
    if _MAY_BE_UNSEEN.search(layer.text) and _UNSEEN.search(layer.text):
        pieces = _UNSEEN.split(layer.text)
        plain = list(pieces)
        plain[1::2] = [""] * (len(pieces) // 2)
        yield Layer("".join(plain), layer, pieces, plain)


def _decoded(layer: Layer) -> Iterator[Layer]:
    for _ in range(_MOST_LAYERS):
        if not may_be_encoded(layer.text):
            return
        pieces = _ENCODED.split(layer.text)
        plain = list(pieces)
        plain[1::2] = map(_decode_match, plain[1::2])
        inner = "".join(plain)
        if inner == layer.text:
            return
        layer = Layer(inner, layer, pieces, plain)
        yield layer


@lru_cache(maxsize=4096)
def _decode_match(encoded: str) -> str:
    if encoded[0] == "%":
        return _percent(encoded)
    if encoded[0] == "&":
        return _entity("&" + encoded[1:].replace("amp;", "") if "amp;" in encoded else encoded)
    return _escape(encoded.lstrip("\\"))


def _percent(run: str) -> str:
    while "%25" in run:
        run = run.replace("%25", "%")
        if not _ENCODED.fullmatch(run):
            return run
    return unquote_to_bytes(run).decode(errors="replace")


def _entity(entity: str) -> str:
    return html.unescape(entity if entity != "&" else "&amp;")


def _escape(escape: str) -> str:
    code = int(escape[1:].strip("{}"), 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else escape
