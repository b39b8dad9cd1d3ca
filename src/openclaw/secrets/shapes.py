"""Patterns of credentials. Light to import: enough to check a short answer."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final

# Each shape is tried only where one of its `anchors`, a literal, was found. That keeps a pass linear:
# the anchors are found together with everything else, and every expression is bounded or cannot be
# retried inside what it already covered.


@dataclass(frozen=True, slots=True)
class Shape:
    """Where it may begin, and the expression whose group `v` (or all of it) is the credential."""

    anchors: tuple[str, ...]
    expression: str
    flags: int = 0

    def span(self, text: str, start: int) -> tuple[int, int] | None:
        pattern = _compiled(self.expression, self.flags)
        match = pattern.match(text, start)
        if match is None:
            return None
        return match.span("v") if "v" in pattern.groupindex else match.span()


@cache  # most are never needed, and compiling all takes as long as starting Python
def _compiled(expression: str, flags: int) -> re.Pattern[str]:
    return re.compile(expression, flags)


def _prefixed(body: str, *anchors: str, digit: bool = False) -> Shape:
    """A vendor's prefix and key; `digit` if plain words begin with the prefix too."""
    some_digit = r"(?=[A-Za-z0-9_-]{0,80}?[0-9])" if digit else ""
    heads = "|".join(re.escape(anchor) for anchor in anchors)
    return Shape(anchors, rf"(?<![A-Za-z0-9])(?:{heads}){some_digit}{body}")


def _named(pattern: str, *names: str) -> Shape:
    spellings = {spelt for n in names for spelt in (n, n.lower(), n.upper(), n.title())}
    return Shape(tuple(sorted(spellings)), pattern, re.IGNORECASE)


# Between a key and its value: `key: `, `"key": "`, `\"key\": \"`, `key=`. Never a comma: names are listed.
_GAP: Final = r"(?:\\{0,2}[\"'])?[^\S\r\n]{0,4}[:=][^\S\r\n]{0,4}+(?:b?\\{0,2}[\"'])?+"
# Between the name and the value of a header: `(b'authorization', b'Bearer `.
_PAIR: Final = (
    r"\\{0,2}[\"'],[^\S\r\n]{0,4}b?\\{0,2}[\"'](?=(?:bearer|basic|token|bot|apikey|negotiate)\s)"
)
_NOT_A_REFERENCE: Final = r"(?!<?secret://|\[REDACTED)"
_NOT_A_WORD: Final = (  # "Authorization: Bearer token" is what documentation says
    r"(?!(?:tokens?|keys?|headers?|auth|authentication|authorization|access_token|mac|credentials?|scheme|string|values?|your|the|for"
    r"|and|with|required|optional)(?![A-Za-z0-9._~+/=-]))"
)
_ENDS: Final = r"(?![^\s,;)\]}\"'\\])"
# `module.Name`, `some_name`, `TypeName`
_NOT_AN_IDENTIFIER: Final = (
    r"(?:(?<=[\"'])|"
    rf"(?!(?-i:[a-z_][a-z0-9_]{{0,40}}\.[A-Z])[A-Za-z0-9]{{1,40}}{_ENDS})"
    rf"(?![A-Za-z]{{1,40}}(?:_[A-Za-z]{{1,40}}){{1,8}}{_ENDS})"
    rf"(?!(?-i:(?:[A-Z][a-z]{{1,30}}){{1,8}}){_ENDS})(?!lambda:|[A-Za-z_]\w{{0,60}}\.[\w.]{{1,60}}\())"
)
# In code, an unquoted value is mostly a name, a member, a constant or a call.
_NOT_CODE: Final = (
    r"(?:(?<=[\"'])|(?![A-Za-z_.]{1,60}[(\[])"
    r"(?![A-Za-z_]\w{0,60}(?:\(\)|\([\w.]{1,60}[\[(,]))"
    rf"(?![A-Za-z_]{{1,60}}(?:\.[A-Za-z_]{{1,60}}){{1,8}}{_ENDS})"
    rf"{_NOT_AN_IDENTIFIER}"
    rf"(?!(?-i:[A-Z][A-Z_]{{1,60}}){_ENDS})(?!(?:SecretStr|string){_ENDS}))"
)
_NOT_A_TEMPLATE: Final = rf"(?![`(=]|:[A-Za-z_]{{1,60}}{_ENDS}|\{{[\w}}]|%[({{]|\$(?:[({{]|[A-Za-z_]{{1,60}}{_ENDS})|(?:arn|urn|https?):|[^\s\"']{{0,60}}(?:\.\.\.|…|\*\*\*))"
# A word among words, the name of a credential, a placeholder and what is left out are no values.
_NOT_A_NAME: Final = (
    r"(?![A-Za-z]{1,40}[.,]? [A-Za-z(])"
    r"(?![A-Za-z_-]{0,60}(?:api[_-]?key|passw(?:or)?d|passphrase|token|secret|private[_-]?key|credentials?)"
    rf"[A-Za-z_-]{{0,60}}{_ENDS})"
    rf"(?![a-z]{{1,40}}(?:-[a-z]{{1,40}}){{0,4}}/[a-z]{{1,40}}{_ENDS})"
    rf"{_NOT_A_TEMPLATE}"
)
_LINE_BREAK: Final = r"(?:\s|\\+[nr])"

SHAPES: Final[tuple[Shape, ...]] = (
    _prefixed(r"(?!ecdsa-|ssh-)[A-Za-z0-9_-]{16,}+", "sk-", digit=True),
    _prefixed(r"[A-Za-z0-9]{30,}+", "ghp_", "gho_", "ghu_", "ghs_", "ghr_"),
    _prefixed(r"[A-Za-z0-9_]{22,}+", "github_pat_"),
    _prefixed(r"[A-Za-z0-9_-]{16,}+", "glpat-", "gldt-", "glrt-", "glptt-"),
    _prefixed(r"[A-Za-z0-9-]{10,}+", "xoxa-", "xoxb-", "xoxe-", "xoxe.", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
    _prefixed(r"[A-Z0-9]{16}(?![A-Za-z0-9])", "AKIA", "ASIA"),
    _prefixed(r"[A-Za-z0-9_-]{35}", "AIza"),
    _prefixed(r"[A-Za-z0-9._-]{20,}+", "ya29."),
    _prefixed(r"[A-Za-z0-9]{30,}+", "hf_", "npm_", "r8_"),
    _prefixed(r"[A-Za-z0-9_-]{40,}+", "pypi-", "gsk_", "nvapi-", "pplx-", "xai-", "lin_api_", "ntn_"),
    _prefixed(r"[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+", "SG."),
    _prefixed(r"[A-Za-z0-9]{16,}+", "sk_live_", "sk_test_", "rk_live_", "rk_test_"),
    _prefixed(r"[A-Za-z0-9+/=_-]{24,}+", "whsec_", "dckr_pat_", "ops_"),
    _prefixed(r"[A-Za-z0-9_-]{20,}+", "hvs.", "hvb.", "hvr."),
    _prefixed(r"[a-f0-9]{32,}+", "dop_v1_", "doo_v1_", "shpat_", "shpss_", "shpca_", "rubygems_"),
    _prefixed(r"[A-Z0-9]{50,}+", "AGE-SECRET-KEY-1"),
    _prefixed(r"[A-Za-z0-9/+_-]{20,}+", "https://hooks.slack.com/services/"),
    _prefixed(r"[0-9]{5,25}/[A-Za-z0-9_-]{20,}+", "https://discord.com/api/webhooks/"),
    Shape((":AA",), r"(?<=[0-9]{8}):(?P<v>AA[A-Za-z0-9_-]{32,}+)"),
    Shape(("eyJ",),
        r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{4,}+(?:\.[A-Za-z0-9_-]*+){0,3}"),
    Shape(("://",),
        r"://(?:[^\s/?#@:\"'<>]{0,128}:(?P<v>(?!\[REDACTED|(?i:pass|password|passwd|pwd|token|secret|redacted|\*{2,9})@)[^\s/@\"'<>]{1,256})@)"),
    Shape(("://",), r"(?<!ssh)://(?P<v>[A-Za-z0-9_-]{20,256})@"),
    _named(rf"(?<![A-Za-z])authorization(?:{_GAP}|{_PAIR})(?:(?:bearer|basic|token|bot|apikey|negotiate)\s{{1,4}}+)?+"
           rf"(?P<v>{_NOT_A_REFERENCE}{_NOT_A_WORD}{_NOT_AN_IDENTIFIER}{_NOT_A_TEMPLATE}(?:(?:digest|aws4)[^\r\n]{{1,2000}}|[^\s\"',;\\)]{{3,}}+))",
           "authorization"),
    _named(rf"(?:bearer|basic)\s{{1,4}}(?P<v>{_NOT_A_REFERENCE}"
           r"(?=[A-Za-z0-9._~+/=-]{0,200}?(?:[0-9_~+=]|\.[A-Za-z0-9])|[A-Za-z]{24})[A-Za-z0-9._~+/=-]{12,}+)",
           "bearer", "basic"),
    _named(rf"cookie{_GAP}(?P<v>[^\s=;\"',]{{1,128}}=[^\r\n\"']{{1,4096}})", "cookie"),
    _named(rf"(?:x-api-key|x-auth-token|x-goog-api-key|(?-i:(?<![A-Z])A|(?<![a-z])a|A(?=p))pi[_-]?key|access[_-]token|refresh[_-]token"
           rf"|id[_-]token|auth[_-]token|client[_-]secret|api[_-]secret|secret[_-]access[_-]key|secret[_-]key"
           rf"|private[_-]key|password|passwd|passphrase|accountkey|sharedaccesskey"
           rf"|x-amz-signature|x-amz-security-token|x-goog-signature){_GAP}"
           rf"(?P<v>{_NOT_A_REFERENCE}{_NOT_CODE}{_NOT_A_NAME}(?!-----|\$\{{|null\b|none\b|true\b|false\b)[^\s\"'&,;<>\\)}}\]]{{6,}}+)",
           "x-api-key", "x-auth-token", "x-goog-api-key", "api_key", "api-key", "apikey", "apiKey",
           "access_token", "access-token", "refresh_token", "refresh-token", "id_token", "auth_token",
           "auth-token", "client_secret", "client-secret", "api_secret", "api-secret", "secret_access_key", "secret_key",
           "secret-key", "private_key", "password", "passwd", "passphrase", "AccountKey",
           "SharedAccessKey", "X-Amz-Signature", "X-Amz-Security-Token", "X-Goog-Signature"),
    Shape(("-----BEGIN ",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        rf"(?P<v>(?:{_LINE_BREAK}{{1,8}}[A-Za-z-]{{1,30}}: ?[^\r\n\\]{{0,200}}){{0,8}}+"
        rf"(?:{_LINE_BREAK}{{0,8}}[A-Za-z0-9+/=]{{16,}}+)*+"
        rf"(?:{_LINE_BREAK}{{1,8}}=?[A-Za-z0-9+/=]{{1,76}}(?={_LINE_BREAK}{{0,8}}-----END))?)"),
)  # fmt: skip

PEM_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
PEM_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


def anchors() -> Iterator[tuple[str, Shape]]:
    for shape in SHAPES:
        for anchor in shape.anchors:
            yield anchor, shape


def may_hold_credential(text: str) -> bool:
    """Whether a shape may occur in it; if not, redacting by shapes changes nothing."""
    return any(anchor in text for anchor, _ in anchors())
