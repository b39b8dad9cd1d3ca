"""Brings texts and values to comparable forms, and undoes common disguises.

Folding for comparison with the person's words is strict: a lookalike letter stays different.
`readings` is generous: it is used only to find what a text may hide.
"""

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from urllib.parse import unquote

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)
_WORD = re.compile(r"[^\W_]+")
_ASCII_KEEP = b"abcdefghijklmnopqrstuvwxyz0123456789"
_ASCII_SPACES = bytes(one if one > 127 or one in _ASCII_KEEP else 32 for one in range(256))
_ASCII_DROP = bytes(set(range(128)) - set(_ASCII_KEEP))
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d.,' ]*(?![\w])")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[ :]?){6,}")
_SPACED = re.compile(r"(?:(?<!\w)\w[ .\-_*|]{1,2}){4,}\w(?!\w)")
_BYTES = re.compile(r"(?:\b\d{2,3}\b[ ,]+){5,}\d{2,3}\b")
_LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁոցһӏкмтвнοανρτιεκυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧАВЕКМНОРСТХ",
    "aeopcyxijsdnghlkmtbhoavptiekyxabezhikmnoptyxabekmhopctx",
)
_DIGITS = {
    word: str(digit)
    for row in (
        "zero one two three four five six seven eight nine",
        "null eins zwei drei vier fünf sechs sieben acht neun",
        "zéro un deux trois quatre cinq six sept huit neuf",
        "cero uno dos tres cuatro cinco seis siete ocho nueve",
    )
    for digit, word in enumerate(row.split())
}
_DIGIT_WORDS = re.compile(
    r"\b(?:{0})(?:[\s,.-]+(?:{0}))+\b".format("|".join(sorted(_DIGITS, key=len, reverse=True))),
    re.IGNORECASE,
)
_BETWEEN_DIGITS = re.compile(r"(?<=\d)\s*[- ]\s*(?=\d)")
_SPOKEN = tuple(
    (re.compile(pattern, re.IGNORECASE), sign)
    for pattern, sign in (
        (r"\s{0,3}[\[({<]\s?(?:at|@)\s?[\])}>]\s{0,3}|\s(?:at|arroba|klammeraffe)\s", "@"),
        (r"\s{0,3}[\[({<]\s?(?:dot|\.)\s?[\])}>]\s{0,3}|\s(?:dot|punkt|point|punto)\s", "."),
        (r"\s(?:dash|hyphen|minus|bindestrich)\s", "-"),
        (r"\s(?:slash|schrägstrich)\s", "/"),
        (r"\bhxxp", "http"),
    )
)


def fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).casefold()


def squeeze(text: str) -> bytes:
    """Letters and digits only, for finding a value whatever its case, spacing or punctuation."""
    return fold(text).encode("utf-8", "replace").translate(None, _ASCII_DROP)


def tokens(text: str) -> list[bytes]:
    """Like `words`, but fast on megabytes: anything in ASCII that is no letter or digit separates."""
    return fold(text).encode("utf-8", "replace").translate(_ASCII_SPACES).split()


def words(text: str) -> list[str]:
    return _WORD.findall(fold(text))


def phrase(text: str) -> str:
    return f" {' '.join(words(text))} "


def number(text: str) -> str | None:
    bare = re.sub(r"[\s'€$£%]", "", text)
    if not re.fullmatch(r"[-+]?\d[\d.,]*", bare):
        return None
    whole, _, fraction = _decimal_point(bare).partition(".")
    fraction = fraction.rstrip("0")
    whole = whole.lstrip("+0") or "0"
    return f"{whole}.{fraction}" if fraction else whole


def _decimal_point(bare: str) -> str:
    last = max(bare.rfind("."), bare.rfind(","))
    if last < 0:
        return bare
    head, tail = re.sub(r"[.,]", "", bare[:last]), bare[last + 1 :]
    thousands = (
        len(tail) == 3 and bare.count(bare[last]) >= 1 and head.lstrip("-+") not in ("", "0")
    )
    return head + tail if thousands else f"{head}.{tail}"


def numbers(text: str) -> set[str]:
    found = (number(match.group().strip(" .,'")) for match in _NUMBER.finditer(text))
    return {one for one in found if one is not None}


def readings(text: str) -> Iterator[str]:
    """What a text says once common disguises are undone; the plain text itself is not repeated."""
    plain = html.unescape(_INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))
    candidates = [plain, unquote(plain), _spoken(plain), plain.translate(_LOOKALIKES)]
    candidates += [codecs.decode(plain, "rot13"), plain[::-1], _joined(plain)]
    candidates += _decoded(plain)
    seen = {text}
    for candidate in candidates:
        if candidate and candidate not in seen:
            seen.add(candidate)
            yield candidate


def _spoken(text: str) -> str:
    for pattern, sign in _SPOKEN:
        text = pattern.sub(sign, text)
    return _BETWEEN_DIGITS.sub("", _DIGIT_WORDS.sub(_digits, text))


def _digits(match: re.Match[str]) -> str:
    return "".join(_DIGITS[word] for word in re.split(r"[\s,.-]+", match.group().casefold()))


def _joined(text: str) -> str:
    return _SPACED.sub(lambda match: re.sub(r"[ .\-_*|]+(?=\w)", "", match.group()), text)


def _decoded(text: str) -> list[str]:
    found = [_from_base64(match.group()) for match in _BASE64.finditer(text)]
    found += [_from_hex(match.group()) for match in _HEX.finditer(text)]
    found += [_from_codes(match.group()) for match in _BYTES.finditer(text)]
    return [one for one in found if one]


def _from_base64(blob: str) -> str:
    body = blob.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return _readable(base64.b64decode(body + "=" * (-len(body) % 4)))
    except (binascii.Error, ValueError):
        return ""


def _from_hex(blob: str) -> str:
    try:
        return _readable(bytes.fromhex(re.sub(r"[ :]", "", blob)))
    except ValueError:
        return ""


def _from_codes(blob: str) -> str:
    codes = [int(code) for code in re.findall(r"\d+", blob)]
    return _readable(bytes(codes)) if all(code < 128 for code in codes) else ""


def _readable(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return ""
    return text if len(text) >= 4 and text.isprintable() else ""


_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PLURAL = re.compile(r"(?<=[^s])s$")


def word_set(*rows: str) -> frozenset[str]:
    return frozenset(word for row in rows for word in row.split())


@lru_cache(maxsize=4096)
def split(name: str) -> tuple[str, ...]:
    return tuple(part for part in re.split(r"[^A-Za-z0-9]+", _CAMEL.sub("_", name).lower()) if part)


def singular(word: str) -> str:
    return _PLURAL.sub("", word) if len(word) > 3 else word


def nouns_of(tool: str) -> list[str]:
    """The words of a tool's name after its verb: `search_emails` is about an `email`."""
    return [
        singular(word) for word in split(tool)[1:] if len(word) > 3 and word not in ("with", "from")
    ]
