r"""References to secrets: `secret://SCHEME/NAME[#FRAGMENT][?KEY=VALUE]`.

A reference may be a whole value or stand inside one (`Bearer secret://env/TOKEN`). It ends

- at whitespace, or at one of `" ' \` , ; < > ( ) [ ] { } | \ ^`, or at the end of the value;
- or, where what follows would otherwise belong to it, at the `>` of angle brackets around it:
  `postgres://me:<secret://env/PGPASS>@db/app`. The brackets are not part of the result, and
  inside them everything up to `>` belongs to the reference, spaces and quotes included.

`%XX` in a name, fragment or query value stands for that character, so that any name can be
written. `#FRAGMENT` and `?KEY=VALUE` may come in either order. What the parts mean is up to the
scheme: see `SCHEMES`.
"""

import difflib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn, cast
from urllib.parse import unquote

from openclaw.core.errors import SecretUnavailable

PREFIX: Final = "secret://"
_MAX_LENGTH: Final = 2048


@dataclass(frozen=True, slots=True)
class Scheme:
    form: str
    fragment: str | None = None
    query: frozenset[str] = frozenset()


SCHEMES: Final[Mapping[str, Scheme]] = MappingProxyType(
    {
        "env": Scheme("secret://env/VAR"),
        "store": Scheme("secret://store/NAME"),
        "file": Scheme("secret://file/PATH[#FIELD]", "field"),
        "exec": Scheme("secret://exec/NAME"),
        "gcp": Scheme("secret://gcp/NAME[#VERSION]", "version"),
        "aws": Scheme("secret://aws/NAME[#VERSION-or-STAGE][?key=json.field]", "version", frozenset({"key"})),
        "vault": Scheme("secret://vault/PATH[#FIELD]", "field", frozenset({"version"})),
        "azure": Scheme("secret://azure/VAULT/NAME[#VERSION]", "version"),
        "keyring": Scheme("secret://keyring/SERVICE/USER"),
        "op": Scheme("secret://op/VAULT/ITEM/FIELD"),
    }
)  # fmt: skip

_REFERENCE: Final = re.compile(
    r"<(?P<bracketed>secret://[^<>]*)>"
    r"|(?<![A-Za-z0-9+.-])(?P<bare>secret://[^\s\"'`,;<>()\[\]{}|\\^]*)",
    re.IGNORECASE,
)
_PARTS: Final = re.compile(r"(?P<name>[^#?]*)(?P<rest>(?:[#?][^#?]*)*)")


class InvalidReference(SecretUnavailable):
    """Raised when something begins like a reference and is not one."""


@dataclass(frozen=True, slots=True)
class SecretRef:
    """One reference, taken apart. `text` is how it was written, and names it in messages."""

    scheme: str
    name: str
    fragment: str | None = None
    query: tuple[tuple[str, str], ...] = ()
    text: str = field(default="", compare=False)

    def option(self, key: str) -> str | None:
        return dict(self.query).get(key)


@dataclass(frozen=True, slots=True)
class Occurrence:
    start: int
    end: int
    ref: SecretRef


def parse(reference: str) -> SecretRef:
    """Take one reference apart; raise `InvalidReference` saying what is wrong with it."""
    text = reference.strip()
    if text[: len(PREFIX)].lower() != PREFIX:
        raise InvalidReference(_shortened(text), f"a reference starts with {PREFIX}")
    if len(text) > _MAX_LENGTH:
        raise InvalidReference(_shortened(text), f"longer than {_MAX_LENGTH} characters")
    scheme, slash, rest = text[len(PREFIX) :].partition("/")
    rules = SCHEMES.get(scheme.lower())
    if rules is None:
        nearest = difflib.get_close_matches(scheme.lower(), SCHEMES, n=1, cutoff=0.5)
        known = f"known schemes: {', '.join(SCHEMES)}"
        hint = f"did you mean secret://{nearest[0]}/…?" if nearest else known
        unknown = f"unknown scheme '{_shortened(scheme.lower())}'"
        raise InvalidReference(_shortened(text), unknown, hint=hint)
    parts = _PARTS.fullmatch(rest)
    name = unquote(parts["name"]) if parts else ""
    if not slash or not name.strip("/"):
        raise InvalidReference(text, "nothing is named", hint=f"write {rules.form}")
    fragment, query = _fragment_and_query(text, parts["rest"] if parts else "", rules)
    return SecretRef(scheme.lower(), name, fragment, query, text)


def find(text: str) -> list[Occurrence]:
    """Every reference in `text`, in order; raise `InvalidReference` for a malformed one."""
    return [
        Occurrence(m.start(), m.end(), parse(m["bracketed"] or m["bare"]))
        for m in _REFERENCE.finditer(text)
    ]


def replaced(text: str, values: Mapping[SecretRef, str]) -> str:
    """The text with each reference's value in its place."""
    return _REFERENCE.sub(lambda match: values[parse(match["bracketed"] or match["bare"])], text)


def has_reference(text: str) -> bool:
    return _REFERENCE.search(text) is not None


def _fragment_and_query(
    text: str, rest: str, rules: Scheme
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    fragment: str | None = None
    query: dict[str, str] = {}
    for mark, value in re.findall(r"([#?])([^#?]*)", rest):
        if mark == "?":
            query.update(_query(text, value, rules))
        elif fragment is not None:
            raise InvalidReference(text, "two fragments", hint="write # in a name as %23")
        elif rules.fragment is None:
            raise InvalidReference(text, "takes no #fragment", hint=f"write {rules.form}")
        elif not value:
            raise InvalidReference(text, f"the {rules.fragment} after # is empty")
        else:
            fragment = unquote(value)
    return fragment, tuple(sorted(query.items()))


def _query(text: str, value: str, rules: Scheme) -> dict[str, str]:
    query: dict[str, str] = {}
    for pair in value.split("&"):
        key, equals, content = pair.partition("=")
        if key not in rules.query:
            raise InvalidReference(text, f"takes no ?{key}=", hint=f"write {rules.form}")
        if not equals or not content:
            raise InvalidReference(text, f"the value of ?{key}= is empty")
        query[key] = unquote(content)
    return query


def _shortened(text: str) -> str:
    # Something that is no reference may be a value pasted in its place: show little of it.
    if text[: len(PREFIX)].lower() == PREFIX:
        return text if len(text) <= 80 else text[:79] + "…"
    return text if len(text) <= 12 else text[:4] + "…"


REDACTED: Final = "[REDACTED]"


class Secret:
    """A value with no `str`: only `.reveal()` gives it, where a reader of the code sees it.

    `repr` says `[REDACTED]`. `str`, `format` and pickling fail, because text that silently held
    the word `[REDACTED]` would be sent somewhere as if it were the value.
    """

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        return self.__value

    def __repr__(self) -> str:
        return f"Secret({REDACTED})"

    def __str__(self) -> NoReturn:
        raise TypeError("a Secret has no str; call .reveal() where the value is really meant")

    def __format__(self, spec: str) -> NoReturn:
        raise TypeError("a Secret cannot be formatted; call .reveal() where the value is meant")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError("a Secret cannot be pickled")

    def __copy__(self) -> "Secret":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "Secret":
        return self

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal().encode(), other.reveal().encode())

    def __hash__(self) -> int:
        return hash((Secret, self.__value))


class BackendFailure(Exception):
    """Raised when a backend has no value; `reason` and `hint` never contain one."""

    def __init__(self, reason: str, *, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


# ---- the file behind `secret://store/NAME`: every name, with its value unless the keyring has it

STORE_FILE: Final = "secrets.json"
KEYRING_SERVICE: Final = "openclaw-store"  # of our entries in the keyring


def read_store(path: Path) -> dict[str, str | None]:
    """Every name with its value, or None if the keyring has it."""
    try:
        content: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        hint = f"check {path}: it must be a file that you can read"
        raise BackendFailure(f"cannot read {path}: {error.strerror}", hint=hint) from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        hint = "correct it, or move it away and store your secrets again: openclaw secrets set NAME"
        raise BackendFailure(f"{path} is damaged: it is not a JSON object", hint=hint)
    entries = cast("dict[str, Any]", content)
    return {name: one if isinstance(one, str) else None for name, one in entries.items()}


def known_values(state: Path) -> list[str]:
    """What is in the file; nothing if it cannot be read, which whoever needs a value reports."""
    try:
        return [value for value in read_store(state / STORE_FILE).values() if value]
    except BackendFailure:
        return []
