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

from openclaw.core.installed import sections

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


def word_lists(kind: str) -> dict[str, list[str]]:
    return sections("openclaw.policy.dataflow", "words.txt")[kind]


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


AtomKind = Literal["email", "url", "account", "secret", "command", "path"]
Kinded = tuple[AtomKind, re.Pattern[str]]


@dataclass(frozen=True, slots=True)
class Atom:
    kind: AtomKind
    text: str


_TLD = (
    "com|org|net|io|dev|app|info|biz|edu|gov|mil|int|eu|uk|de|fr|es|it|nl|ch|at|be|pl|se|no|dk|fi|ru|"
    "cn|jp|kr|in|br|ca|au|us|me|co|ai|xyz|site|online|top|club|shop|link|live|tld|example|test|"
    "invalid|local|onion|ly|gl|to|cc|tv|ws|page|cloud|tech|store|space|website|zip|mov"
)
_REAL = re.compile(rf"^https?://|^www\.|^\d+\.|\.(?:{_TLD})(?:$|[:/?#])", re.IGNORECASE)
_TAIL = r"[^\s<>\"'`|\\^{}\[\]]*"
_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,128}@[\w-]+(?:\.[\w-]+)+")
_URL = re.compile(
    rf"(?:\b[a-z][a-z0-9+.-]{{1,9}}:)?//[^\s/<>\"'`]+{_TAIL}"
    rf"|\b(?:mailto|data|javascript|tel):[^\s<>\"'`]+"
    rf"|\bwww\.[\w-]+{_TAIL}"
    rf"|(?<![\w@./-])(?:[\w-]+\.)+(?:{_TLD})(?![\w-])(?:[:/?#]{_TAIL})?"
    r"|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])(?::\d+)?(?:/[^\s<>\"']*)?",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(
    r"(?<![\w.])(?:[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{2,4}){3,8}"
    r"|0x[0-9a-fA-F]{8,}|bc1\w{8,}"
    r"|\+?\d(?:[ ()/-]?\d){5,}"
    r"|(?<!-)(?=[\w-]{0,63}[A-Za-z])(?=(?:[\w-]{0,40}\d){3})[\w-]{6,64})(?!\w)"
)
_SECRET = re.compile(
    r"-----BEGIN[^-]*-----|\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|xox[abprs]|AKIA|ASIA|AIza|eyJ|glpat|hf)"
    r"[-_A-Za-z0-9]{8,}|(?<![\w/+-])(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])(?=[\w+/-]*[A-Z])[\w+/-]{20,}={0,2}"
    r"|(?<![\w/+-])[0-9a-fA-F]{24,}(?!\w)|(?<![\w+/])[A-Za-z0-9+/]{16,}={1,2}"
)
_LABELLED = re.compile(
    r"\b(?:password|passcode|passphrase|secret|token|api[ _-]?key|pin|otp|code|kennwort|passwort)"
    r"(?:\s{1,3}\w{1,20}){0,2}?\s{0,3}(?:is|:|=|ist)\s{0,3}[\"'`]?([^\s\"'`,;]{3,})",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b|\brm\s+-\w*[rf]\w*\s+\S+|\bcurl\s+\S[^\n]*|\bwget\s+\S[^\n]*"
    r"|\bbase64\s+(?:-d|--decode)|\beval\s*\(|\bexec\s*\(|\bos\.system\(|\bsubprocess\.|\bnc\s+-\w+"
    r"|\bchmod\s+\+?\w+\s+\S+|\bsudo\s+\S+|\b(?:iex|Invoke-Expression|Invoke-WebRequest)\b"
    r"|\bDROP\s+(?:TABLE|DATABASE)\b|\bscp\s+\S+|/dev/tcp/\S+",
    re.IGNORECASE,
)
_PATH = re.compile(
    r"(?:^|[\s\"'`(=~/\\])(\.?/?[\w./~\\-]{0,120}(?:"
    r"\.(?:bash|zsh)(?:rc|_profile|env)|\.profile|\.ssh\b|authorized_keys|id_(?:rsa|ed25519)|\.netrc"
    r"|\.npmrc|\.pypirc|\.aws\b|\.kube\b|\.gnupg\b|\.git/(?:hooks|config)|\.github/workflows|\.gitlab-ci"
    r"|crontab|cron\.d|systemd|\.service\b|sudoers|/etc/\w+|\.env\b|\.vscode/|\.cursor/|\.claude"
    r"|AGENTS\.md|CLAUDE\.md|MEMORY\.md|SOUL\.md|SKILL\.md|openclaw\.json|LaunchAgents|autostart"
    r"|\.mcp\.json|conftest\.py|sitecustomize\.py|\.pre-commit)[\w./\\-]*)",
    re.IGNORECASE,
)
_DATE_OR_TIME = re.compile(
    r"\d{4}-\d{1,2}(?:-\d{1,2})?(?:[T ]\d{1,2}(?::?\d{2}){0,2}\S*)?|\d{1,2}[-/. ]\d{1,2}[-/. ]\d{2,4}"
    r"|(?:19|20)\d\d[-/. ](?:19|20)\d\d|\d{1,2}(?:-\d{1,3}){1,2}|(?:19|20)\d{6}(?:T\d{4,6}Z?)?"
)


def find(text: str) -> list[Atom]:
    return list(_scan(text) if len(text) < 4096 else _scan.__wrapped__(text))


@lru_cache(maxsize=256)
def _scan(text: str) -> tuple[Atom, ...]:
    found: dict[str, Atom] = {}  # of two kinds, the first counts
    for kind, quoted in _candidates(text):
        if quoted:
            found.setdefault(quoted, Atom(kind, quoted))
    return tuple(found.values())


def _candidates(text: str) -> Iterator[tuple[AtomKind, str]]:
    listed: tuple[Kinded, ...] = ("secret", _SECRET), ("email", _EMAIL), ("url", _URL)
    for kind, pattern in listed:
        for match in pattern.finditer(text):
            yield kind, _trim(match.group())
    rest = _URL.sub(" ", _EMAIL.sub(" ", text))
    for match in _ACCOUNT.finditer(rest):
        if not _DATE_OR_TIME.fullmatch(match.group()):
            yield "account", match.group()
    for match in _LABELLED.finditer(rest):
        yield "secret", _trim(match.group(1))
    for match in _COMMAND.finditer(text):
        yield "command", match.group().strip()
    for match in _PATH.finditer(text):
        yield "path", match.group(1)


def _trim(text: str) -> str:
    text = text.rstrip(".,;:!?*_")
    return text[:-1].rstrip(".,;:!?") if text.endswith(")") and "(" not in text else text


def address(text: str) -> str | None:
    """The comparable form if the whole text is one address, account or host; else None."""
    bare = text.strip().strip("<>")
    listed: tuple[Kinded, ...] = ("email", _EMAIL), ("url", _URL), ("account", _ACCOUNT)
    for kind, pattern in listed:
        if pattern.fullmatch(bare) and not _DATE_OR_TIME.fullmatch(bare):
            return comparable(Atom(kind, bare))
    named = re.fullmatch(r"[^<>@]*<([^<>\s]+@[^<>\s]+)>", text.strip())
    return comparable(Atom("email", named.group(1))) if named else None


def is_real_address(atom: Atom) -> bool:
    return atom.kind in ("email", "url") and _REAL.search(atom.text) is not None


def comparable(atom: Atom) -> str:
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
    return _PATH.search(text) is not None
