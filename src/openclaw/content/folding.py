"""Folds text as an inattentive reader sees it: invisible characters, lookalikes, encodings.

Two kinds of folding, both linear:

- `shape(text)` has the same length as `text`: each lookalike becomes the ASCII character that it
  stands for, each invisible or combining character becomes `HIDDEN`.
- `layers(text)` undoes HTML entities, percent-encoding and backslash escapes, one after another;
  each `Layer` knows where in the original text a span of it came from.
"""

import codecs
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache

from openclaw.core.encodings import Layer, Memo, decoded
from openclaw.core.installed import read_data

# Finds characters in a text many times faster than a regex. The codec machinery has the fastest
# table of characters that Python offers: an encoding of at most 255 characters of the basic plane,
# with everything else ignored. Encoding a text takes about two nanoseconds a character, a regex
# ten, and `str.translate` forty.

# The first of the 256 places is for NUL, which every such encoding has to keep.
_MOST = 255


_PART = 1 << 16
_RANGE = re.compile("(.)-(.)|(.)", re.DOTALL)


def members(ranges: str) -> Iterator[str]:
    """The characters that the inside of a regex set stands for; nothing in it is escaped."""
    for first, last, single in _RANGE.findall(ranges):
        yield from (single,) if single else map(chr, range(ord(first), ord(last) + 1))


def parts(text: str) -> Iterable[str]:
    """`text` in parts that fit the caches: copying a long one as a whole takes twice the time."""
    if len(text) <= _PART:
        return (text,)
    return (text[at : at + _PART] for at in range(0, len(text), _PART))


class CharSet:
    """Some characters of the basic plane, none of them NUL."""

    def __init__(self, chars: Iterable[str]) -> None:
        distinct = sorted(set(chars) - {"\0"})
        chunks = [distinct[at : at + _MOST] for at in range(0, len(distinct), _MOST)]
        self._tables = [codecs.charmap_build("\0" + "".join(chunk)) for chunk in chunks]

    def may_be_in(self, text: str) -> bool:
        kept = (codecs.charmap_encode(text, "ignore", table)[0] for table in self._tables)
        return any(part.strip(b"\0") for part in kept)


class Projection:
    """Maps some characters to letters, and reduces a text to those letters."""

    def __init__(self, classes: Mapping[str, Iterable[str]]) -> None:
        letters = {char: letter for letter, chars in classes.items() for char in chars}
        if len(letters) > _MOST:
            raise ValueError("too many characters for one table")
        self._table = codecs.charmap_build("\0" + "".join(letters))
        self._letters = bytes([0, *map(ord, letters.values())]).ljust(256, b"\0")

    def of(self, text: str) -> bytes:
        kept, _ = codecs.charmap_encode(text, "ignore", self._table)
        return kept.translate(self._letters, b"\0")


# Joiners, marks and selectors that a script or an emoji needs stay where they are.

_ESCAPES = re.compile(
    # CSI, then OSC/DCS/SOS/PM/APC up to their terminator, then two-character escapes.
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]{0,4096}+(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*+[0-~]?"
)
_COLOURS = re.compile(r"\x1b\[[0-?]*+[ -/]*+[@-~]?")
_OVERSTRUCK = re.compile(r"[^\n\x08]\x08")
# The controls beyond ASCII, except tags, which some flags are made of.
_STRIPPED = "\x80-\x9f\u202d\u202e\u206a-\u206f\ufff9-\ufffb"
_CONTROL_RUN = re.compile(f"[{_STRIPPED}\U0001d173-\U0001d17a\U000e01f0-\U000e0fff]++")
CONTROL_BYTES = bytes(c for c in range(0x80) if c < 0x20 and c not in b"\t\n\x0c\r") + b"\x7f"
_SURROGATE_RUN = re.compile("[\ud800-\udfff]++")
_EMBEDDINGS = "\u202a-\u202c\u2066-\u2069"
_EMBEDDING_RUN = re.compile(f"[{_EMBEDDINGS}]++")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\U00010800-\U00010fff]")

# The three flags that are made with tags: England, Scotland, Wales.
_FLAGS = tuple(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(c)) for c in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)
_TAG_RUN = re.compile("(?:" + "|".join(_FLAGS) + ")|[\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]++")

_BASIC_SELECTORS = "\ufe00-\ufe0f"
_SELECTORS = _BASIC_SELECTORS + "\U000e0100-\U000e01ef"
_JOINERS = "\u034f\u180b-\u180f\u200b-\u200d\u2060-\u2064\ufeff"
_HIDDEN_RUN = re.compile(
    f"[\u00ad{_JOINERS}{_SELECTORS}](?:"
    # Three in a row carry no language.
    f"[\u00ad{_JOINERS}{_SELECTORS}]{{2,}}+"
    # A joiner between two ASCII characters joins nothing.
    f"|(?<=[!-~][{_JOINERS}])[{_JOINERS}]?(?=[!-~])"
    # A soft hyphen stands between letters.
    "|(?<=\u00ad)(?!\\w)|(?<=\\W\u00ad)"
    # A selector chooses a form of the character before it: two in a row choose nothing.
    f"|(?<=[{_SELECTORS}])[{_SELECTORS}])"
)

# How the controls beyond the basic plane, and the selectors there, begin in UTF-8. Looking for one
# byte is many times faster than looking for two.
_MUSIC_LEAD, _TAG_LEAD = b"\xf0\x9d\x85", b"\xf3"
# The others as sets, to skip texts that have none of them.
_CONTROL_SET = CharSet(members(_STRIPPED))
_ESCAPE_SET = CharSet("\x90\x98\x9b\x9d\x9e\x9f")
_EMBEDDING_SET = CharSet(members(_EMBEDDINGS))
_UNUSUAL_SET = CharSet(members(f"{_STRIPPED}{_EMBEDDINGS}\u00ad{_JOINERS}{_BASIC_SELECTORS}"))


_LONE_RETURN = re.compile(r"\r(?!\n)")  # on a screen, what follows overwrites the line


def strip_invisible(text: str) -> str:
    """`text` without what only a machine reads; ordinary text of any script is returned unchanged."""
    if "\r" in text:
        text = _LONE_RETURN.sub("", text)
    if text.isascii():
        return _strip_controls(text) if any(map(_has_controls, parts(text))) else text
    text, raw = _encoded(text)
    beyond = has_beyond(raw)
    unusual = beyond or _UNUSUAL_SET.may_be_in(text)
    if beyond or _has_controls(raw) or (unusual and _CONTROL_SET.may_be_in(text)):
        text = _strip_controls(text)
    if not unusual:
        return text
    if _EMBEDDING_SET.may_be_in(text) and not _RIGHT_TO_LEFT.search(text):
        text = _EMBEDDING_RUN.sub("", text)
    return _HIDDEN_RUN.sub("", text)


def has_beyond(raw: bytes) -> bool:
    """Whether UTF-8 may have controls or selectors beyond the basic plane."""
    return _TAG_LEAD in raw or (_MUSIC_LEAD[:1] in raw and _MUSIC_LEAD in raw)


def _has_controls(text: str | bytes) -> bool:
    raw = text if isinstance(text, bytes) else text.encode()
    return len(raw.translate(None, CONTROL_BYTES)) != len(raw)


def _encoded(text: str) -> tuple[str, bytes]:
    """`text` and its UTF-8; half a surrogate pair has no encoding, and is replaced."""
    try:
        return text, text.encode()
    except UnicodeEncodeError:
        text = _SURROGATE_RUN.sub(lambda run: "\ufffd" * len(run[0]), text)
        return text, text.encode()


def _strip_controls(text: str) -> str:
    if "\x1b[" in text:  # by far the commonest, and many times faster alone
        text = _COLOURS.sub("", text)
    if "\x1b" in text or _ESCAPE_SET.may_be_in(text):
        text = _ESCAPES.sub("", text)
    if "\x08" in text:
        text = _OVERSTRUCK.sub("", text)
    raw = text.encode()
    if _TAG_LEAD in raw:
        raw = _TAG_RUN.sub(lambda run: run[0] if run[0] in _FLAGS else "", text).encode()
    text = raw.translate(None, CONTROL_BYTES).decode()
    return text if text.isascii() else _CONTROL_RUN.sub("", text)


# Start, end and replacement. A mere tuple: there may be a hundred thousand of them, and the garbage
# collector skips it.
Edit = tuple[int, int, str]


def apply(text: str, edits: Iterable[Edit]) -> str:
    """`text` with the edits made; of two that overlap, the one that begins first covers both."""
    pieces: list[str] = []
    done = 0
    for start, end, replacement in sorted(edits):
        if start < done:
            done = max(done, end)
            continue
        pieces.append(text[done:start])
        pieces.append(replacement)
        done = end
    if not done:
        return text
    pieces.append(text[done:])
    return "".join(pieces)


class _Node(dict[str, "_Node"]):
    ends = False


def alternation(words: Iterable[str], spell: Callable[[str], str] = str) -> str:
    """A pattern for any of `words`, the longest that fits; `spell` gives the pattern of a letter."""
    root = _Node()
    for word in words:
        node = root
        for char in word:
            node = node.setdefault(char, _Node())
        node.ends = True
    return _write(root, spell)


def either_case(letters: Iterable[str]) -> str:
    return "".join(sorted({case for letter in letters for case in (letter, letter.upper())}))


def _write(node: _Node, spell: Callable[[str], str]) -> str:
    branches = [spell(char) + _write(child, spell) for char, child in sorted(node.items())]
    if not branches:
        return ""
    if node.ends:
        return f"(?:{'|'.join(branches)})?"
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


HIDDEN = "\x00"  # what `shape` puts where a reader sees nothing

# Characters that Unicode counts as letters or symbols, but that nobody can see.
FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800"

# Private-use stand-ins, because `shape` may not change the length.
LIGATURES = {"st": "\ue001", "fi": "\ue002", "fl": "\ue003", "ff": "\ue004"}

# For each ASCII character (or ligature) the code points that fold to it, as hex ranges.
LOOKALIKES = dict(
    line.split(" ", 1)
    for line in read_data("openclaw.content", "confusables.txt").decode().splitlines()
    if not line.startswith("#")
)


def code_points(target: str) -> Iterator[int]:
    for word in LOOKALIKES.get(target, "").split():
        first, _, last = word.partition("-")
        yield from range(int(first, 16), int(last or first, 16) + 1)


def character_class(targets: str) -> str:
    """The inside of a regex set: these ASCII characters, both cases, and their lookalikes.

    Only the basic plane, since the regex engine tests characters beyond it one by one.
    """
    lookalikes = sorted(c for t in targets for c in code_points(t) if c < 0x10000)
    plain = {case for t in targets for case in (t, t.upper())}
    return "".join(re.escape(c) for c in sorted(plain)) + "".join(f"\\u{c:04x}" for c in lookalikes)


@cache
def _shape_table() -> "_Shape":
    table = _Shape({c: ord(chr(c).lower()) for c in range(128)})
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

# Except NUL.
_CONTROLS = "\x01-\x08\x0b\x0e-\x1f\x7f-\x9f"
# It begins with a set of characters, which the regex engine finds quickly.
_SOME_UNSEEN = rf"[\0{_CONTROLS}{_HIDDEN_RANGES}]++(?:(?<=\x1b)\[[0-9;:?]*+[A-Za-z])?"
_UNSEEN = re.compile(f"((?:{_SOME_UNSEEN})+)")


@cache
def _unseen_set() -> CharSet:
    return CharSet(c for c in members(_CONTROLS + _HIDDEN_RANGES) if c < "\U00010000")


def is_hidden(char: str) -> bool:
    """Whether a reader sees nothing of this character, or only a mark on the one before it."""
    return _HIDDEN.match(char) is not None or unicodedata.category(char) in {"Mn", "Me", "Cf"}


def shape(text: str) -> str:
    """`text` as it looks, in lower-case ASCII if possible; the length does not change."""
    if text.isascii():
        return text.lower()
    return text.translate(_shape_table())


# The blocks beyond the basic plane that have letters and digits; emoji have none.
_ASTRAL = re.compile(
    "([\U00010280-\U0001057f\U00010a00-\U00011fff\U00016e00-\U00016fff\U0001ccd0-\U0001d7ff"
    "\U0001df00-\U0001efff\U0001f100-\U0001f1ff\U0001fbf0-\U0001fbf9]+)"
)
# How these blocks, and some others, begin in UTF-8, where looking for one character is fastest.
_ASTRAL_BYTES = re.compile(b"\xf0(?:[\x90-\x9e]|\x9f[\x84-\x87\xaf])")


def flatten_astral(text: str) -> str:
    if not _ASTRAL_BYTES.search(text.encode("utf-8", "surrogatepass")):
        return text
    pieces = _ASTRAL.split(text)
    pieces[1::2] = map(_SHAPES.__getitem__, pieces[1::2])
    return "".join(pieces)


_SHAPES = Memo(shape)


def layers(text: str) -> Iterator[Layer]:
    """What a reader may see under `text`: each encoding undone, and invisible characters left out."""
    outer = Layer(text)
    if not text.isascii() and ("<" in text or "[" in text):
        yield from _without_unseen(outer)
    for layer in decoded(outer):
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
            yield Layer(seen, layer, _UNSEEN, lambda _: "")
