"""Looking for characters in a text many times as quickly as a regex does.

The codec machinery has the quickest table of characters that Python offers: an encoding of at most
255 characters of the basic plane, with everything else ignored. Encoding a text so takes some two
nanoseconds a character, where a regex takes ten and a `str.translate` forty.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

# Of the 256 places the first is for NUL, which every such encoding has to keep.
_MOST = 255


_PART = 1 << 16
_RANGE = re.compile("(.)-(.)|(.)", re.DOTALL)


def members(ranges: str) -> Iterator[str]:
    """The characters that the inside of a regex set stands for; nothing in it is escaped."""
    for first, last, single in _RANGE.findall(ranges):
        yield from (single,) if single else map(chr, range(ord(first), ord(last) + 1))


def parts(text: str) -> Iterator[str]:
    """`text` in parts that fit the caches: copies of a long one as a whole take twice the time."""
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
    """Each of some characters stands for a letter; of a text, only those letters are kept."""

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
# Of controls, those beyond ASCII, but for tags, of which some flags are made.
_CONTROLS = "\x80-\x9f\u202d\u202e\u206a-\u206f\ufff9-\ufffb"
_CONTROL_RUN = re.compile(f"[{_CONTROLS}\U0001d173-\U0001d17a\U000e01f0-\U000e0fff]++")
_CONTROL_BYTES = bytes(c for c in range(0x80) if c < 0x20 and c not in b"\t\n\x0c\r") + b"\x7f"
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

# How the controls beyond the basic plane, and the selectors there, begin in UTF-8. To look for one
# byte is many times as quick as to look for two.
_MUSIC_LEAD, _TAG_LEAD = b"\xf0\x9d\x85", b"\xf3"
# The rest once more, to pass over texts that have none of it.
_CONTROL_SET = CharSet(members(_CONTROLS))
_ESCAPE_SET = CharSet("\x90\x98\x9b\x9d\x9e\x9f")
_EMBEDDING_SET = CharSet(members(_EMBEDDINGS))
_UNUSUAL_SET = CharSet(members(f"{_CONTROLS}{_EMBEDDINGS}\u00ad{_JOINERS}{_BASIC_SELECTORS}"))


_LONE_RETURN = re.compile(r"\r(?!\n)")  # on a screen, what follows is written over what stood there


def strip_invisible(text: str) -> str:
    """`text` without what only a machine reads; ordinary text of any script comes back as it was."""
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
    return len(raw.translate(None, _CONTROL_BYTES)) != len(raw)


def _encoded(text: str) -> tuple[str, bytes]:
    """`text` as UTF-8 too; half a surrogate pair cannot be, and what it stood for is lost already."""
    try:
        return text, text.encode()
    except UnicodeEncodeError:
        text = _SURROGATE_RUN.sub(lambda run: "\ufffd" * len(run[0]), text)
        return text, text.encode()


def _strip_controls(text: str) -> str:
    if "\x1b[" in text:  # by far the commonest, and many times as quick alone
        text = _COLOURS.sub("", text)
    if "\x1b" in text or _ESCAPE_SET.may_be_in(text):
        text = _ESCAPES.sub("", text)
    if "\x08" in text:
        text = _OVERSTRUCK.sub("", text)
    raw = text.encode()
    if _TAG_LEAD in raw:
        raw = _TAG_RUN.sub(lambda run: run[0] if run[0] in _FLAGS else "", text).encode()
    text = raw.translate(None, _CONTROL_BYTES).decode()
    return text if text.isascii() else _CONTROL_RUN.sub("", text)


Edit = tuple[int, int, str]
"""Put the third in place of the characters from the first to the second.

A mere tuple: there may be a hundred thousand of them, and the garbage collector passes it over.
"""


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
