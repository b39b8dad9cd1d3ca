"""Finds what free text quotes: addresses, accounts, secrets, commands, sensitive paths."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from openclaw.policy.dataflow.normalise import fold


class AtomKind(StrEnum):
    EMAIL = "e-mail address"
    URL = "web address"
    ACCOUNT = "account or code"
    SECRET = "secret"  # noqa: S105 - the name of a kind
    COMMAND = "command"
    PATH = "sensitive path"


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
    return list(_cached(text)) if len(text) < 4096 else list(_scan(text))


@lru_cache(maxsize=256)
def _cached(text: str) -> tuple[Atom, ...]:
    return tuple(_scan(text))


def _scan(text: str) -> Iterator[Atom]:
    taken: set[str] = set()
    for kind, found in _candidates(text):
        if found and found not in taken:
            taken.add(found)
            yield Atom(kind, found)


def _candidates(text: str) -> Iterator[tuple[AtomKind, str]]:
    for kind, pattern in (
        (AtomKind.SECRET, _SECRET),
        (AtomKind.EMAIL, _EMAIL),
        (AtomKind.URL, _URL),
    ):
        for match in pattern.finditer(text):
            yield kind, _trim(match.group())
    rest = _URL.sub(" ", _EMAIL.sub(" ", text))
    for match in _ACCOUNT.finditer(rest):
        if not _DATE_OR_TIME.fullmatch(match.group()):
            yield AtomKind.ACCOUNT, match.group()
    for match in _LABELLED.finditer(rest):
        yield AtomKind.SECRET, _trim(match.group(1))
    for match in _COMMAND.finditer(text):
        yield AtomKind.COMMAND, match.group().strip()
    for match in _PATH.finditer(text):
        yield AtomKind.PATH, match.group(1)


def _trim(text: str) -> str:
    text = text.rstrip(".,;:!?*_")
    return text[:-1].rstrip(".,;:!?") if text.endswith(")") and "(" not in text else text


def address(text: str) -> str | None:
    """The comparable form if the whole text is one address, account or host; else None."""
    bare = text.strip().strip("<>")
    for kind, pattern in (
        (AtomKind.EMAIL, _EMAIL),
        (AtomKind.URL, _URL),
        (AtomKind.ACCOUNT, _ACCOUNT),
    ):
        if pattern.fullmatch(bare) and not _DATE_OR_TIME.fullmatch(bare):
            return comparable(Atom(kind, bare))
    named = re.fullmatch(r"[^<>@]*<([^<>\s]+@[^<>\s]+)>", text.strip())
    return comparable(Atom(AtomKind.EMAIL, named.group(1))) if named else None


def is_real_address(atom: Atom) -> bool:
    return atom.kind in (AtomKind.EMAIL, AtomKind.URL) and _REAL.search(atom.text) is not None


def comparable(atom: Atom) -> str:
    if atom.kind is AtomKind.URL:
        return comparable_url(atom.text)
    if atom.kind is AtomKind.ACCOUNT:
        return re.sub(r"[\s()/+-]", "", atom.text).casefold()
    if atom.kind is AtomKind.EMAIL:
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
