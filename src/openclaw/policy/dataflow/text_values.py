"""Texts in comparable forms, and what they quote: addresses, accounts, secrets, commands, paths."""

import base64
import binascii
import codecs
import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote

from openclaw.core.installed import compiled, sections


def word_lists(kind: str) -> dict[str, list[str]]:
    return sections("openclaw.policy.dataflow", "words.txt")[kind]


# Brings texts and values to comparable forms, and undoes common disguises.
#
# Folding for comparison with the person's words is strict: a lookalike letter stays different.
# `readings` is generous: it is used only to find what a text may hide.

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
    word: str(digit) for row in word_lists("digits")[""] for digit, word in enumerate(row.split())
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
    """Like `words`, but fast on megabytes: any ASCII character but letters and digits separates."""
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
    thousands = len(tail) == 3 and head.lstrip("-+") not in ("", "0")
    return head + tail if thousands else f"{head}.{tail}"


def numbers(text: str) -> set[str]:
    found = (number(match.group().strip(" .,'")) for match in _NUMBER.finditer(text))
    return {one for one in found if one is not None}


def readings(text: str) -> Iterator[str]:
    """What a text says once common disguises are undone; the plain text itself is not repeated."""
    plain = html.unescape(_INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))
    candidates = [plain, unquote(plain), _spoken(plain), plain.translate(_LOOKALIKES)]
    candidates += [codecs.decode(plain, "rot13"), plain[::-1]]
    candidates.append(_SPACED.sub(lambda run: re.sub(r"[ .\-_*|]+(?=\w)", "", run[0]), plain))
    candidates += _decoded(plain)
    seen = {text}
    for candidate in candidates:
        if candidate and candidate not in seen:
            seen.add(candidate)
            yield candidate


def _spoken(text: str) -> str:
    for pattern, sign in _SPOKEN:
        text = pattern.sub(sign, text)
    text = _DIGIT_WORDS.sub(
        lambda match: "".join(map(_DIGITS.__getitem__, re.split(r"[\s,.-]+", match[0].casefold()))),
        text,
    )
    return _BETWEEN_DIGITS.sub("", text)


def _decoded(text: str) -> list[str]:
    undo = ((_BASE64, _from_base64), (_HEX, _from_hex), (_BYTES, _from_codes))
    found = [decode(match[0]) for pattern, decode in undo for match in pattern.finditer(text)]
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


def patterns(kind: str) -> dict[str, re.Pattern[str]]:
    return compiled("openclaw.policy.dataflow", kind)


def word_set(name: str) -> frozenset[str]:
    return frozenset(" ".join(word_lists("set")[name]).split())


_COMMON_WORDS = word_set("common_words")


def distinctive(text: str) -> list[str]:
    return [word for word in words(text) if len(word) > 2 and word not in _COMMON_WORDS]


def name_words(email: str) -> list[str]:
    return distinctive(email.split("@")[0])


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


QuotedKind = Literal["email", "url", "account", "secret", "command", "path"]


@dataclass(frozen=True, slots=True)
class QuotedValue:
    kind: QuotedKind
    text: str


_QUOTED = patterns("quoted")


def find(text: str) -> list[QuotedValue]:
    return list(_scan(text) if len(text) < 4096 else _scan.__wrapped__(text))


@lru_cache(maxsize=256)
def _scan(text: str) -> tuple[QuotedValue, ...]:
    found: dict[str, QuotedValue] = {}  # of two kinds, the first counts
    for kind, quoted in _candidates(text):
        if quoted:
            found.setdefault(quoted, QuotedValue(kind, quoted))
    return tuple(found.values())


def _candidates(text: str) -> Iterator[tuple[QuotedKind, str]]:
    kinds: tuple[QuotedKind, ...] = ("secret", "email", "url")
    for kind in kinds:
        for match in _QUOTED[kind].finditer(text):
            yield kind, _trim(match.group())
    rest = _QUOTED["url"].sub(" ", _QUOTED["email"].sub(" ", text))
    for match in _QUOTED["account"].finditer(rest):
        if not _QUOTED["date"].fullmatch(match.group()):
            yield "account", match.group()
    for match in _QUOTED["labelled"].finditer(rest):
        yield "secret", _trim(match.group(1))
    for match in _QUOTED["command"].finditer(text):
        yield "command", match.group().strip()
    for match in _QUOTED["path"].finditer(text):
        yield "path", match.group(1)


def _trim(text: str) -> str:
    text = text.rstrip(".,;:!?*_")
    return text[:-1].rstrip(".,;:!?") if text.endswith(")") and "(" not in text else text


def address(text: str) -> str | None:
    """The comparable form if the whole text is one address, account or host; else None."""
    bare = text.strip().strip("<>")
    kinds: tuple[QuotedKind, ...] = ("email", "url", "account")
    for kind in kinds:
        if _QUOTED[kind].fullmatch(bare) and not _QUOTED["date"].fullmatch(bare):
            return comparable(QuotedValue(kind, bare))
    named = re.fullmatch(r"[^<>@]*<([^<>\s]+@[^<>\s]+)>", text.strip())
    return comparable(QuotedValue("email", named.group(1))) if named else None


def is_real_address(atom: QuotedValue) -> bool:
    return atom.kind in ("email", "url") and _QUOTED["real"].search(atom.text) is not None


def comparable(atom: QuotedValue) -> str:
    if atom.kind == "url":
        return comparable_url(atom.text)
    if atom.kind == "account":
        return re.sub(r"[\s()/+-]", "", atom.text).casefold()
    if atom.kind == "email":
        return fold(atom.text)
    return atom.text


def comparable_url(url: str) -> str:
    """Host in lower case, without a default scheme, `www.` or trailing slash; the path as it is."""
    bare = re.sub(r"^(?:https?:)?//", "", url.strip(), flags=re.IGNORECASE)
    host, slash, rest = re.match(r"([^/?#]*)([/?#]?)(.*)", bare, re.DOTALL).groups()  # type: ignore[union-attr]
    host = fold(host).removeprefix("www.")
    return f"{host}{slash}{rest}".rstrip("/").removesuffix("#")


def host_of(url: str) -> str:
    return re.split(r"[/?#]", comparable_url(url), maxsplit=1)[0]


def is_sensitive_path(text: str) -> bool:
    return _QUOTED["path"].search(text) is not None
