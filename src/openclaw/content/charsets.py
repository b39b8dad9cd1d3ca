"""Looking for characters in a text many times as quickly as a regex does.

The codec machinery has the quickest table of characters that Python offers: an encoding of at most
255 characters of the basic plane, with everything else ignored. Encoding a text so takes some two
nanoseconds a character, where a regex takes ten and a `str.translate` forty.
"""

import codecs
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

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
    """Some characters, none of them NUL."""

    def __init__(self, chars: Iterable[str]) -> None:
        distinct = sorted(set(chars) - {"\0"})
        basic = [char for char in distinct if char < "\U00010000"]
        chunks = [basic[at : at + _MOST] for at in range(0, len(basic), _MOST)]
        self._tables = [codecs.charmap_build("\0" + "".join(chunk)) for chunk in chunks]
        self._beyond = _leads(distinct[len(basic) :])

    def may_be_in(self, text: str) -> bool:
        """Whether there is any of them in `text`, or a neighbour of one beyond the basic plane."""
        kept = (codecs.charmap_encode(text, "ignore", table)[0] for table in self._tables)
        return any(part.strip(b"\0") for part in kept) or self._may_be_beyond(text)

    def _may_be_beyond(self, text: str) -> bool:
        if text.isascii() or not self._beyond:
            return False
        raw = text.encode("utf-8", "surrogatepass")
        # To look for one byte is many times as quick as to look for three.
        return any(first in raw and lead.search(raw) for first, lead in self._beyond.items())


def _leads(chars: Iterable[str]) -> dict[bytes, re.Pattern[bytes]]:
    """By the first byte of their UTF-8, the first three, which 64 neighbours have in common."""
    thirds: defaultdict[bytes, defaultdict[bytes, set[bytes]]]
    thirds = defaultdict(lambda: defaultdict(set))
    for block in {ord(char) >> 6 for char in chars}:
        raw = chr(block << 6).encode()
        thirds[raw[:1]][raw[1:2]].add(raw[2:3])
    return {
        first: re.compile(
            first
            + b"(?:"
            + b"|".join(b"%b[%b]" % (second, b"".join(third)) for second, third in rest.items())
            + b")"
        )
        for first, rest in thirds.items()
    }


class Projection:
    """Each of some characters stands for a letter; of a text, only those letters are kept."""

    def __init__(self, classes: Mapping[str, Iterable[str]]) -> None:
        letters = {char: letter for letter, chars in classes.items() for char in chars}
        if len(letters) > _MOST:
            raise ValueError("too many characters for one table")
        self._table = codecs.charmap_build("\0" + "".join(letters))
        self._letters = bytes([0, *map(ord, letters.values())]).ljust(256, b"\0")

    def of(self, text: str) -> bytes:
        """The letters that the characters of `text` stand for, in their order."""
        kept, _ = codecs.charmap_encode(text, "ignore", self._table)
        return kept.translate(self._letters, b"\0")
