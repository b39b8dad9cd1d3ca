"""Whether a key's name says that its value is a credential."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from openclaw.secrets.refs import has_reference

_CREDENTIAL: Final = re.compile(
    r"passw(?:or)?d|passwd|passphrase|\bpwd\b|\bpass\b|secret|tokens?\b|credential|\bauth\b"
    r"|authorization|\bkeys?\b|\bcookies?\b|\bdsn\b|\bpat\b|\bjwt\b|\bbearer\b|signature|\bsig\b"
    r"|private|webhook|connection string",
)
# Names that contain such a word and hold nothing secret.
_HARMLESS: Final = re.compile(
    r"\bpublic\b|\bkey ?(?:id|name|file|path|prefix)\b|\bmax tokens?\b|\btokens? (?:limit|count|budget)\b"
    r"|\btoken (?:url|uri|endpoint|type)\b|\bauth (?:url|uri|type|method|mode|provider)\b"
    r"|\b(?:secret|token|password|credentials?) (?:file|path|dir|name)\b"
    # Vault's secret id is half of a login, and so not among these.
    r"|\b(?:token|password|credentials?) id\b"
    r"|\bsort key\b|\bprivate (?:registry|network|ip)\b|\bkeyboard\b",
)
# Fields of our own configuration; SESSION_KEY, spelt like that, may well be a secret.
_OUR_FIELDS: Final = frozenset(["sessionKey", "allowedKeys"])
_WORD_BREAK: Final = re.compile(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINED: Final = re.compile(r"\b(api|access|private|secret|ssh|auth|client)(key|token|secret)\b")
# Values that are no credential whatever the key says.
_PLACEHOLDER: Final = re.compile(
    r"\s*|true|false|yes|no|none|null|\d{1,3}|<[^>]*>|\$\{[^}]*\}", re.I
)


def looks_like_credential(key: str) -> bool:
    """Whether the name of a variable, header or field says that its value is a credential."""
    if key in _OUR_FIELDS:
        return False
    words = " ".join(part.lower() for part in _WORD_BREAK.split(key) if part)
    words = _JOINED.sub(r"\1 \2", words)
    return _CREDENTIAL.search(words) is not None and _HARMLESS.search(words) is None


def plaintext_credentials(values: Mapping[str, str]) -> Iterator[str]:
    """The values that are credentials, by their key, and were written out in full."""
    for key, value in values.items():
        plain = not has_reference(value) and not _PLACEHOLDER.fullmatch(value)
        if plain and looks_like_credential(key):
            yield value
