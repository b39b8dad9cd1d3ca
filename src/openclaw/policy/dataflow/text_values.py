"""Texts in comparable forms, and what they quote: addresses, accounts, secrets and places.

Nothing here knows a natural language: values are compared by their characters.
"""

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal
from urllib.parse import unquote

_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f]"
)
_WORD = re.compile(r"[^\W_]+")
_ASCII_KEEP = b"abcdefghijklmnopqrstuvwxyz0123456789"
_ASCII_DROP = bytes(set(range(128)) - set(_ASCII_KEEP))
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d.,' \u00a0\u202f]*(?!\w)")
_LONGEST_NUMBER = 100
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{12,}={0,2}")
_HEX = re.compile(r"(?:[0-9a-fA-F]{2}[ :]?){6,}")
_SPACED = re.compile(r"(?:(?<!\w)\w[ .\-_*|]{1,2}){4,}\w(?!\w)")
_CODES = re.compile(r"(?:\b\d{2,3}\b[ ,]+){5,}\d{2,3}\b")
_LOOKALIKES = str.maketrans(
    "аеорсухіјѕԁոցһӏкмтвнοανρτιεκυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧАВЕКМНОРСТХ",
    "aeopcyxijsdnghlkmtbhoavptiekyxabezhikmnoptyxabekmhopctx",
)
_FULL_STOPS = str.maketrans("\u3002\uff61\uff0e\u2024", "....")
_AROUND_SIGNS = re.compile(
    r"(?:\s{1,3}|\s{0,3}[\[({<]\s?)([@.:/])(?:\s?[\])}>])?\s{0,3}(?=[^\s@.])"
)
# Scripts that are written without spaces: a word has no beginning or end that could be seen.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)


def fold(text: str) -> str:
    if text.isascii():
        return text.lower()
    return _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).casefold()


def squeeze(text: str) -> bytes:
    """Letters and digits only, for finding a value whatever its case, spacing or punctuation."""
    return fold(text).encode("utf-8", "replace").translate(None, _ASCII_DROP)


def words(text: str) -> list[str]:
    return _WORD.findall(fold(text))


def is_unspaced(text: str) -> bool:
    return _UNSPACED.search(text) is not None


def number(text: str) -> str | None:
    bare = re.sub(r"[\s'€$£¥₹%]", "", text) if len(text) < _LONGEST_NUMBER else ""
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
    found: set[str] = set()
    for match in _NUMBER.finditer(unicodedata.normalize("NFKC", text)):
        for part in (match.group(), *re.split(r"[ ,'\u00a0\u202f]+", match.group())):
            value = number(part.strip(" .,'"))
            if value is not None:
                found.add(value)
    return found


def readings(text: str) -> Iterator[str]:
    """What a text says once common disguises are undone; the plain text itself is not repeated."""
    plain = html.unescape(_INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))
    candidates = [plain, unquote(plain), plain.translate(_LOOKALIKES), plain[::-1]]
    candidates.append(_AROUND_SIGNS.sub(r"\1", plain.translate(_FULL_STOPS)))
    candidates.append(_SPACED.sub(lambda run: re.sub(r"[ .\-_*|]{1,2}(?=\w)", "", run[0]), plain))
    undo = ((_BASE64, _from_base64), (_HEX, _from_hex), (_CODES, _from_codes))
    candidates += [
        decode(match[0]) for pattern, decode in undo for match in pattern.finditer(plain)
    ]
    seen = {text, ""}
    for candidate in candidates:
        if candidate not in seen:
            seen.add(candidate)
            yield candidate


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


@lru_cache(maxsize=4096)
def split(name: str) -> tuple[str, ...]:
    """The words of an identifier."""
    return tuple(part for part in re.split(r"[^A-Za-z0-9]+", _CAMEL.sub("_", name).lower()) if part)


def singular(word: str) -> str:
    return _PLURAL.sub("", word) if len(word) > 3 else word


QuotedKind = Literal["secret", "email", "url", "account", "path"]


@dataclass(frozen=True, slots=True)
class QuotedValue:
    kind: QuotedKind
    text: str


_TAIL = r"[^\s<>\"'`|\\^{}\[\]]*"
# What looks like a host and is the name of a file.
_FILES = (
    r"(?:txt|md|rst|pdf|docx?|xlsx?|pptx?|csv|tsv|json|ya?ml|toml|ini|cfg|conf|lock|log|xml|html?|css|js|mjs|ts|tsx"
    r"|jsx|py|pyi|ipynb|rb|go|rs|java|kt|c|h|cpp|hpp|cs|php|swift|sql|db|png|jpe?g|gif|svg|webp|mp[34]|wav|ics|eml"
    r"|gz|tgz|tar|bak|tmp|env|exe|bin|sum|mod)"
)
# Scripts without spaces put a word right before an address, so their letters end one.
_LETTER = r"[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
_PATTERNS: dict[QuotedKind, re.Pattern[str]] = {
    "secret": re.compile(
        r"-----BEGIN[^-]*-----|\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|xox[abprs]|AKIA|ASIA|AIza|eyJ|glpat|hf)[-_A-Za-z0-9]{8,}"
        r"|(?<![\w/+-])(?=[\w+/-]{0,80}\d)(?=[\w+/-]{0,80}[a-z])(?=[\w+/-]{0,80}[A-Z])[\w+/-]{20,}={0,2}"
        r"|(?<![\w/+-])[0-9a-fA-F]{24,}(?!\w)|(?<![\w+/])[A-Za-z0-9+/]{16,}={1,2}"
    ),
    "email": re.compile(rf"(?<![.+%-])(?<!{_LETTER})(?:[.+%-]|{_LETTER}){{1,64}}@[\w-]+(?:\.[\w-]+)*"),
    "url": re.compile(
        r"(?i)(?:\b[a-z][a-z0-9+.-]{1,9}:)?//[^\s/<>\"'`]+" + _TAIL + r"|\b(?:mailto|data|javascript|tel):[^\s<>\"'`]+"
        r"|\bwww\.[\w-]+" + _TAIL + r"|(?<![\w@./-])(?:[\w-]{1,63}\.){1,8}(?!" + _FILES + r"\b)[a-z\u00a1-\uffff][\w-]{1,62}(?![\w(=@-])"
        r"(?:[:/?#]" + _TAIL + r")?|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])(?::\d+)?(?:/[^\s<>\"']*)?"
    ),
    "account": re.compile(
        r"(?<![\w.])(?:[A-Z]{2}\d{2}(?:[ ]?[A-Z0-9]{2,4}){3,8}|0x[0-9a-fA-F]{8,}|bc1\w{8,}|\+?\d(?:[ ()/-]{0,2}\d){5,20}"
        r"|(?<!-)[A-Za-z0-9_-]{6,64})(?!\w|\.\w)"
    ),
    "path": re.compile(
        r"(?i)(?:^|[\s\"'`(=~/\\])(\.?/?[\w./~\\-]{0,120}(?:\.(?:bash|zsh)(?:rc|_profile|env)|\.profile|\.ssh\b"
        r"|authorized_keys|id_(?:rsa|ed25519)|\.netrc|\.npmrc|\.pypirc|\.aws\b|\.kube\b|\.gnupg\b|\.git/(?:hooks|config)"
        r"|\.github/workflows|\.gitlab-ci|crontab|cron\.d|systemd|\.service\b|sudoers|/etc/\w+|\.env\b|\.vscode/|\.cursor/"
        r"|\.claude|AGENTS\.md|CLAUDE\.md|MEMORY\.md|SOUL\.md|SKILL\.md|openclaw\.json|LaunchAgents|autostart|\.mcp\.json"
        r"|conftest\.py|sitecustomize\.py|\.pre-commit)[\w./\\-]*)"
    ),
}  # fmt: skip
# What looks like an account and is none. A word of an account has a letter and three digits.
_DIGITS_AND_LETTER = re.compile(r"(?=.*[^\W\d_])(?:\D*\d){3}")
_DATE = re.compile(
    r"\d{4}-\d{1,2}(?:-\d{1,2})?(?:[T ]\d{1,2}(?::?\d{2}){0,2}\S*)?|\d{1,2}[-/. ]\d{1,2}[-/. ]\d{2,4}"
    r"|(?:19|20)\d\d[-/. ](?:19|20)\d\d|\d{1,2}(?:-\d{1,3}){1,2}|(?:19|20)\d{6}(?:T\d{4,6}Z?)?"
)


def find(text: str) -> list[QuotedValue]:
    return list(_scan(text) if len(text) < 4096 else _scan.__wrapped__(text))


@lru_cache(maxsize=512)
def _scan(text: str) -> tuple[QuotedValue, ...]:
    found: dict[str, QuotedValue] = {}  # of two kinds, the first counts
    for kind, quoted in _candidates(text):
        if quoted:
            found.setdefault(quoted, QuotedValue(kind, quoted))
    return tuple(found.values())


def _candidates(text: str) -> Iterator[tuple[QuotedKind, str]]:
    kinds: tuple[QuotedKind, ...] = ("secret", "email", "url")
    for kind in kinds:
        for match in _PATTERNS[kind].finditer(text):
            yield kind, trimmed(match.group())
    rest = _PATTERNS["url"].sub(" ", _PATTERNS["email"].sub(" ", text))
    for match in _PATTERNS["account"].finditer(rest):
        if _is_account(match.group()):
            yield "account", match.group()
    for match in _PATTERNS["path"].finditer(text):
        yield "path", match.group(1)


def is_date(text: str) -> bool:
    return len(text) < _LONGEST_NUMBER and _DATE.fullmatch(text.strip()) is not None


def _is_account(text: str) -> bool:
    if _DATE.fullmatch(text):
        return False
    return re.fullmatch(r"[\d +()/-]+", text) is not None or bool(_DIGITS_AND_LETTER.match(text))


def trimmed(text: str) -> str:
    text = text.rstrip(".,;:!?*_")
    return text[:-1].rstrip(".,;:!?") if text.endswith(")") and "(" not in text else text


def whole_address(text: str) -> QuotedValue | None:
    """The text if it is one address, account or host and nothing else."""
    bare = text.strip().strip("<>")
    kinds: tuple[QuotedKind, ...] = ("email", "url", "account")
    for kind in kinds if len(bare) < 2048 else ():
        if _PATTERNS[kind].fullmatch(bare) and (kind != "account" or _is_account(bare)):
            return QuotedValue(kind, bare)
    named = re.fullmatch(r"[^<>@]{0,200}<([^<>\s]+@[^<>\s]+)>", text.strip())
    return QuotedValue("email", named.group(1)) if named else None


def comparable(atom: QuotedValue) -> str:
    if atom.kind == "url":
        return comparable_url(atom.text)
    if atom.kind == "account":
        return squeeze(atom.text).decode()
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


def without_accents(text: str) -> str:
    parts = unicodedata.normalize("NFD", fold(text)).replace("\u0131", "i").replace("\xdf", "ss")
    return "".join(one for one in parts if not unicodedata.combining(one))


def kind_of(atom: QuotedValue) -> str:
    """Which of the things that it could be mistaken for it cannot be."""
    if atom.kind != "account":
        return atom.kind
    if re.match(r"[A-Z]{2}\d{2}[ A-Z0-9]{8}", atom.text):
        return "iban"
    return "phone" if atom.text.startswith("+") else "account"


def is_near(address: str) -> bool:
    """Whether the address is on this machine."""
    host = re.sub(r":\d+$", "", host_of(address))
    return (
        host in ("localhost", "[::1]")
        or re.fullmatch(r"127(?:\.\d+){3}|0\.0\.0\.0", host) is not None
    )


_PATH = re.compile(rf"(?i)[\w.~-]*/[\w./~-]+|[\w-]+\.{_FILES}")


def is_path(text: str) -> bool:
    return _PATH.fullmatch(text) is not None


def is_long_number(text: str) -> bool:
    """Whether it is nothing but five digits or more, as in a phone number."""
    return re.fullmatch(r"\+?\d(?:[ ()/-]{0,2}\d){4,20}", text) is not None


def is_sensitive_path(text: str) -> bool:
    return _PATTERNS["path"].search(text) is not None
