"""Finding what looks like one of our own markers, however it is written."""

import re
from collections.abc import Iterator
from functools import cache

from openclaw.content.charsets import Projection, parts
from openclaw.content.confusables import LOOKALIKES
from openclaw.content.edits import Edit
from openclaw.content.fold import (
    FILLERS,
    LIGATURES,
    character_class,
    code_points,
    flatten_astral,
)

NAME = "externaluntrustedcontent"
_TAIL = NAME[1:]
REPLACEMENT = "[[MARKER_SANITIZED]]"

# What is written for a letter besides the letter and its Unicode lookalikes.
_LEET = {"e": "3", "t": "7", "a": "4", "l": "1i", "s": "5", "o": "0", "u": "v"}
_PIPES = "|" + "".join(chr(c) for c in code_points("|"))
# Symbols that stand for letters, such as circled ones: they do not separate letters.
_SYMBOL_LETTERS = "".join(
    chr(code)
    for target in LOOKALIKES
    if target.isalnum()
    for code in code_points(target)
    if code < 0x10000 and not chr(code).isalnum()
)
_BETWEEN = rf"(?:[^\w{_SYMBOL_LETTERS}]|[_{FILLERS}])*+"
_ASCII_BETWEEN = r"[\W_]*+"


def _pattern(letters: dict[str, str], between: str, flags: re.RegexFlag) -> re.Pattern[str]:
    """The name from its `x` on, with anything but letters between its letters, in linear time.

    It begins with its rarest letter, so that ordinary text is passed over quickly.

    What separates never matches what is a letter, so nothing is tried twice. The exception is a
    pipe, which separates, but may also stand for the `l`.
    """
    parts = [f"[{letters[letter]}]" for letter in _TAIL]
    al = _TAIL.index("al")
    parts[al : al + 2] = [f"{parts[al]}(?:{between}{parts[al + 1]}|[\\W_]{{0,16}}?[{_PIPES}])"]
    # Two letters that became one part: each of these moves what comes after it by one.
    r = _TAIL.index("rn")
    parts[r : r + 2] = [f"(?:{parts[r]}{between}{parts[r + 1]}|[{letters['m']}])"]
    s = _TAIL.index("st") - 2
    ligatures = "".join(map(chr, code_points("st"))) + LIGATURES["st"]
    parts[s : s + 2] = [f"(?:{parts[s]}{between}{parts[s + 1]}|[{ligatures}])"]
    return re.compile(between.join(parts), flags)


@cache
def _any_pattern() -> re.Pattern[str]:
    letters = {x: character_class(x + _LEET.get(x, "")) for x in {*NAME, "m"}}
    return _pattern(letters, _BETWEEN, re.RegexFlag(0))


@cache
def _ascii_pattern() -> re.Pattern[str]:
    letters = {x: x + x.upper() + _LEET.get(x, "").upper() + _LEET.get(x, "") for x in {*NAME, "m"}}
    return _pattern(letters, _ASCII_BETWEEN, re.ASCII)


# Prose may well speak of external, untrusted content.
_PROSE = re.compile(r"[Ee]xternal,?[ \n][Uu]ntrusted[ \n][Cc]ontent")
_FIRST = re.compile(rf"[{character_class('e3')}]{_BETWEEN}\Z")
_BRACKETS = "<>" + "".join(chr(c) for target in "<>" for c in code_points(target))
_CLOSERS = ">" + "".join(map(chr, code_points(">")))
_AFTER = re.compile(rf"[\s_]*+(?:id\b[^\n{_BRACKETS}]{{0,96}})?[\s\"'”/\-]*+[{_CLOSERS}]++", re.I)
_SEPARATORS = " \t\r\n_-–—=/\\.:\u00a0\u3000"  # noqa: RUF001 - a dash is a dash
_BEFORE_LIMIT = 64


# As we write them ourselves. They are replaced without a detour, since a text may be full of them.
_USUAL = re.compile(r'<<<(?:END_)?EXTERNAL_UNTRUSTED_CONTENT(?: id="[^\n"<>]{0,96}")?>>>')


def replace_usual(text: str) -> str:
    """`text` without markers in their usual form."""
    return _USUAL.sub(REPLACEMENT, text) if "<<<E" in text else text


def find_markers(text: str) -> Iterator[Edit]:
    """An edit for everything in `text` that folds to a marker or to its name."""
    if text.isascii():
        if not _ascii_may_have_name(text):
            return
        pattern, shadow = _ascii_pattern(), text
    else:
        shadow = flatten_astral(text)
        if not _may_have_name(shadow):
            return
        pattern = _any_pattern()
    for match in pattern.finditer(shadow):
        name = _name_start(shadow, match.start())
        start = _extend_back(shadow, name)
        after = _AFTER.match(shadow, match.end())
        bracketed = start < name or after is not None
        if not bracketed and _PROSE.fullmatch(text, name, match.end()):
            continue
        yield start, after.end() if after else match.end(), REPLACEMENT


_NOT_ALPHANUMERIC = bytes(c for c in range(128) if not chr(c).isalnum())
_SAME_LETTERS = bytes.maketrans(b"374150iv", b"etalsolu")
_FOLDED_NAMES = tuple(
    name.encode().translate(_SAME_LETTERS)
    for name in (NAME, NAME.replace("l", ""), NAME.replace("rn", "m"))
)


def _ascii_may_have_name(text: str) -> bool:
    """A quick necessary condition: the letters in a row, with everything else thrown out."""
    names = (*_FOLDED_NAMES, b"untrustedcontent") if "|" in text else _FOLDED_NAMES
    before = b""
    for part in parts(text):
        letters = part.lower().encode("ascii").translate(_SAME_LETTERS, _NOT_ALPHANUMERIC)
        letters = before + letters
        if any(name in letters for name in names):
            return True
        before = letters[-len(NAME) :]
    return False


def _may_have_name(text: str) -> bool:
    """The same for any script: the rarer letters of the name in a row, however they are written."""
    return _RARER_OF_NAME.search(_rarer_letters().of(text)) is not None


# Between the `a` and a pipe for an `l`, whatever looks like a letter may stand.
_RARER_OF_NAME = re.compile(rb"xt[xtdc]{0,17}ttdctt")


@cache
def _rarer_letters() -> Projection:
    """Of the name, the letters with the fewest lookalikes; a ligature of `s` and `t` is a `t`."""
    looks = {letter: _written_for(letter) for letter in "xtdc"}
    looks["t"] |= {*map(chr, code_points("st")), LIGATURES["st"]}
    return Projection(looks)


def _written_for(letter: str) -> set[str]:
    plain = letter + _LEET.get(letter, "")
    lookalikes = (chr(code) for target in plain for code in code_points(target))
    return {*plain, *plain.upper(), *(char for char in lookalikes if char < "\U00010000")}


def _name_start(text: str, x: int) -> int:
    """Where the first letter of the name is, if it stands before the `x` at all."""
    if x and text[x - 1] in "eE3":
        return x - 1
    before = _FIRST.search(text, max(0, x - _BEFORE_LIMIT), x)
    return before.start() if before is not None else x


def _extend_back(text: str, start: int) -> int:
    """Where the marker begins whose name begins at `start`: before END and the brackets."""
    head = text[max(0, start - _BEFORE_LIMIT) : start]
    kept = head.rstrip(_SEPARATORS)
    if kept[-3:].lower() == "end":
        kept = kept[:-3].rstrip(_SEPARATORS)
    bare = kept.rstrip(_BRACKETS)
    return start - len(head) + len(bare) if bare != kept else start
