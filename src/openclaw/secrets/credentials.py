"""Whether a key's name, or the value itself, says that it is a credential."""

import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from openclaw.secrets.refs import has_reference

_CREDENTIAL: Final = re.compile(
    r"passw(?:or)?d|passwd|passphrase|\bpwd\b|\bpass\b|secret|tokens?\b|credential|\bauth\b"
    r"|authorization|\bkeys?\b|\bcookies?\b|\bdsn\b|\bpat\b|\bjwt\b|\bbearer\b|signature|\bsig\b"
    r"|private|webhook|connection string"
)
# Names that contain such a word but aren't secret.
_HARMLESS: Final = re.compile(
    r"\bpublic\b|\bkey ?(?:id|name|file|path|prefix|header)\b|\bmax tokens?\b|\btokens? (?:limit|count|budget|per)\b"
    r"|\btoken (?:url|uri|endpoint|type)\b|\bauth (?:url|uri|type|method|mode|provider)\b"
    r"|\b(?:secret|token|password|credentials?) (?:file|path|dir|name)\b"
    # Vault's secret id is half of a login, and so not among these.
    r"|\b(?:token|password|credentials?) id\b"
    r"|\bsort key\b|\bprivate (?:registry|network|ip)\b|\bkeyboard\b"
)
# Fields of our own configuration; SESSION_KEY, spelt like that, may well be a secret.
_OUR_FIELDS: Final = frozenset(["sessionKey", "allowedKeys"])
_WORD_BREAK: Final = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINED: Final = re.compile(r"\b(api|access|private|secret|ssh|auth|client)(key|token|secret)\b")
# Values that aren't credentials, whatever the key says.
_PLACEHOLDER: Final = re.compile(
    r"\s*|true|false|yes|no|none|null|\d{1,3}|<[^>]*>|\$\{[^}]*\}", re.I
)

_WORD: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.~+/=-]{23,511}")
_UUID: Final = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_HUMP: Final = re.compile(r"[A-Z][a-z]{2,}")  # of aNameInCamelCase
_RESTLESS: Final = 0.3  # changes of kind per letter or digit: half of what randomness gives
_IDENTIFIES: Final = re.compile(
    r"\b(?:ids?|uuid|guid|hash|sha|sha1|sha256|commit|digest|checksum|version|revision|image|model"
    r"|path|file|dir|directory|project|tenant|account|org|organi[sz]ation|workspace|subscription"
    r"|database|cluster|instance|deployment|region|team|branch|tag|repo|repository|sheet|spreadsheet"
    r"|document|folder|channel|board|page|site)$"
)


def _words(key: str) -> str:
    return " ".join(part.lower() for part in _WORD_BREAK.split(key) if part)


def looks_like_credential(key: str) -> bool:
    if key in _OUR_FIELDS:
        return False
    words = _JOINED.sub(r"\1 \2", _words(key))
    return _CREDENTIAL.search(words) is not None and _HARMLESS.search(words) is None


def looks_random(value: str) -> bool:
    """Whether this is most likely a key: its characters change kind more often than in words."""
    if _WORD.fullmatch(value) is None or _UUID.fullmatch(value) is not None:
        return False
    kinds = [
        "9" if char.isdigit() else "A" if char.isupper() else "a"
        for char in _HUMP.sub("a", value)
        if char.isalnum()
    ]
    changes = sum(one != other for one, other in pairwise(kinds))
    return "9" in kinds and len(set(kinds)) > 1 and changes >= _RESTLESS * len(kinds)


def names_no_secret(key: str) -> bool:
    """Whether a value with this name may look random without being a credential."""
    return _IDENTIFIES.search(_words(key)) is not None


def plaintext_credentials(values: Mapping[str, str]) -> Iterator[str]:
    for key, value in values.items():
        plain = not has_reference(value) and not _PLACEHOLDER.fullmatch(value)
        if plain and looks_like_credential(key):
            yield value
