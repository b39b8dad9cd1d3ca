"""A text as its reader may take it: folded, decoded, deciphered, its letters drawn together."""

import base64
import binascii
import codecs
import re
from collections.abc import Iterator

from openclaw.content.concepts import CIPHER
from openclaw.content.fold import HIDDEN, layers, may_be_encoded, shape

_RUNS = re.compile(r"[^\S\n]+")
_PLUSES = re.compile(r"[a-z]\+[a-z]+\+[a-z]")
# The conditions below begin with what is rare, so that they pass over ordinary text quickly.
_SPACED_OUT = re.compile(
    r" \w \w \w |-\w-\w-\w-|\.\w\.\w\.\w\.|_\w_\w_\w_|\*\w\*\w\*\w\*|·\w·\w·\w·"
)
_SPACED_RUN = re.compile(r"\b\w(?:([ \-._*·])\w(?:\1\w)*)\b")
_LEET_WORD = re.compile(r"\b(?=\w*[a-z])(?=\w*[013457@$!])[a-z013457@$!]{2,}\b")
_LEET_SIGN = re.compile(r"[013457](?:(?<=[a-z].)[a-z]|(?<=\b.)[a-z]{2})")
_LEET = tuple(str.maketrans("013457@$!", letters) for letters in ("oieastasi", "oleastasi"))
_BASE64 = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,4000}={0,2}")
_HEX = re.compile(r"(?<![0-9A-Fa-f])(?:(?:0x|\\x)?[0-9A-Fa-f]{2}[ ,:]?){16,2000}")
_NOT_HEX = re.compile(r"0x|\\x|[^0-9A-Fa-f]")
_TELLING = ("ignore", "previous", "instructions", "disregard", "system", "prompt", "forget", "your", "rules", "send", "reveal",
            "the", "all", "password", "key", "api", "secret")  # fmt: skip
_LEAST_ENCODED = 24
_MOST_DECODED = 12
_LEAST_READABLE = 0.92


def folded(text: str) -> str:
    """`text` in lower case, with lookalikes and hidden characters undone."""
    lowered = text.lower()
    if not lowered.isascii():
        lowered = shape(lowered).replace(HIDDEN, "")
    return "\n" + (_RUNS.sub(" ", lowered) if "  " in lowered or "\t" in lowered else lowered)


def disguises(text: str, plain: str, about: int) -> Iterator[str]:
    """Other readings of `text`, where it has any; `plain` is the folded text."""
    if may_be_encoded(text):
        for layer in layers(text):
            yield folded(layer.text)
    if "+" in plain and _PLUSES.search(plain):
        yield plain.replace("+", " ")
    if _SPACED_OUT.search(plain):
        yield from _drawn_together(text.lower())
    if len(_LEET_SIGN.findall(plain, 0, 4000)) >= 3:
        for table in _LEET:
            yield _LEET_WORD.sub(lambda match, table=table: match[0].translate(table), plain)
    if max(map(len, plain.split()), default=0) >= _LEAST_ENCODED:
        for inner in _decoded(text):
            yield folded(inner)
    if about & CIPHER:
        yield codecs.encode(plain, "rot13")
        yield plain[::-1]


def _drawn_together(text: str) -> Iterator[str]:
    joined = _SPACED_RUN.sub(lambda match: match[0].replace(match[1], ""), text)
    yield _RUNS.sub(" ", joined)
    for word in _TELLING:  # without wider gaps the words have run together: find the telling ones
        joined = joined.replace(word, f" {word} ")
    yield _RUNS.sub(" ", joined)


def _decoded(text: str) -> Iterator[str]:
    for number, match in enumerate(_BASE64.finditer(text)):
        if number == _MOST_DECODED:
            return
        inner = _from_hex(match[0]) or _from_base64(match[0])
        if inner:
            yield inner
    for number, match in enumerate(_HEX.finditer(text)):
        if number == _MOST_DECODED:
            return
        inner = _from_hex(match[0])
        if inner:
            yield inner


def _from_base64(run: str) -> str:
    body = run.rstrip("=").replace("-", "+").replace("_", "/")
    if body.isalpha() and (body.islower() or body.isupper()):
        return ""
    try:
        raw = base64.b64decode(body[: len(body) - (len(body) % 4 == 1)] + "==")
    except (binascii.Error, ValueError):
        return ""
    return _readable(raw)


def _from_hex(run: str) -> str:
    digits = _NOT_HEX.sub("", run)
    if len(digits) < 2 * len(run) // 5:
        return ""
    return _readable(bytes.fromhex(digits[: len(digits) & ~1]))


def _readable(raw: bytes) -> str:
    text = raw.decode(errors="replace")
    plain = sum(char.isalpha() or char in " .,:;'!?-\n" for char in text)
    return text if b" " in raw and plain >= _LEAST_READABLE * len(text) else ""
