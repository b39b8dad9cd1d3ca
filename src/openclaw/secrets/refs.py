r"""References to secrets: `secret://SCHEME/NAME[#FRAGMENT][?KEY=VALUE]`.

A reference may be a whole value or part of one (`Bearer secret://env/TOKEN`). It ends

- at whitespace, or at one of `" ' \` , ; < > ( ) [ ] { } | \ ^`, or at the end of the value;
- or, if more text follows, at the `>` of angle brackets around it:
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
from typing import Any, Final, NoReturn, cast
from urllib.parse import unquote

from openclaw.core.errors import SecretUnavailable

PREFIX: Final = "secret://"
_MAX_LENGTH: Final = 2048


# The syntax of each scheme; `#` and `?key=` show what may follow the name.
SCHEMES: Final[Mapping[str, str]] = {
    "env": "secret://env/VAR",
    "store": "secret://store/NAME",
    "file": "secret://file/PATH[#FIELD]",
    "exec": "secret://exec/NAME",
    "gcp": "secret://gcp/NAME[#VERSION]",
    "aws": "secret://aws/NAME[#VERSION-or-STAGE][?key=json.field]",
    "vault": "secret://vault/PATH[#FIELD][?version=N]",
    "azure": "secret://azure/VAULT/NAME[#VERSION]",
    "keyring": "secret://keyring/SERVICE/USER",
    "op": "secret://op/VAULT/ITEM/FIELD",
}

_REFERENCE: Final = re.compile(
    r"(<secret://[^<>]*>|(?<![A-Za-z0-9+.-])secret://[^\s\"'`,;<>()\[\]{}|\\^]*)", re.IGNORECASE
)


class InvalidReference(SecretUnavailable):
    """Raised when something begins like a reference but isn't one."""


@dataclass(frozen=True, slots=True)
class SecretRef:
    """One parsed reference. `text` is how it was written, and is used in messages."""

    scheme: str
    name: str
    fragment: str | None = None
    query: tuple[tuple[str, str], ...] = ()
    text: str = field(default="", compare=False)

    def option(self, key: str) -> str | None:
        return dict(self.query).get(key)


def parse(reference: str) -> SecretRef:
    """Parse one reference; raises `InvalidReference`, saying what is wrong with it."""
    text = reference.strip()
    if text[: len(PREFIX)].lower() != PREFIX:
        raise InvalidReference(_shortened(text), f"a reference starts with {PREFIX}")
    if len(text) > _MAX_LENGTH:
        raise InvalidReference(_shortened(text), f"longer than {_MAX_LENGTH} characters")
    scheme, slash, rest = text[len(PREFIX) :].partition("/")
    form = SCHEMES.get(scheme.lower())
    if form is None:
        nearest = difflib.get_close_matches(scheme.lower(), SCHEMES, n=1, cutoff=0.5)
        known = f"known schemes: {', '.join(SCHEMES)}"
        hint = f"did you mean secret://{nearest[0]}/…?" if nearest else known
        unknown = f"unknown scheme '{_shortened(scheme.lower())}'"
        raise InvalidReference(_shortened(text), unknown, hint=hint)
    name, *parts = re.split("(?=[#?])", rest)
    if not slash or not unquote(name).strip("/"):
        raise InvalidReference(text, "nothing is named", hint=f"write {form}")
    fragment, query = _fragment_and_query(text, parts, form)
    return SecretRef(scheme.lower(), unquote(name), fragment, query, text)


def split(text: str) -> list[str]:
    """The text around references, alternating with the references as written."""
    return _REFERENCE.split(text)


def find(text: str) -> list[SecretRef]:
    """Every reference in `text`, in order; raise `InvalidReference` for a malformed one."""
    return [parse(one.strip("<>")) for one in split(text)[1::2]]


def replaced(text: str, values: Mapping[SecretRef, str]) -> str:
    """The text with each reference's value in its place."""
    return _REFERENCE.sub(lambda match: values[parse(match[0].strip("<>"))], text)


def has_reference(text: str) -> bool:
    return _REFERENCE.search(text) is not None


def _fragment_and_query(
    text: str, parts: list[str], form: str
) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    fragments = [unquote(part[1:]) for part in parts if part[0] == "#"]
    options = [pair for part in parts if part[0] == "?" for pair in part[1:].split("&")]
    query = {key: unquote(value) for key, _, value in (pair.partition("=") for pair in options)}
    unknown = query.keys() - set(re.findall(r"\?(\w+)=", form))
    if unknown or len(fragments) > ("#" in form):
        hint = f"write {form}, and # or ? in a name as %23 or %3F"
        raise InvalidReference(text, "what follows the name does not belong there", hint=hint)
    if not all(fragments) or not all(pair.partition("=")[2] for pair in options):
        raise InvalidReference(text, "a part after the name is empty", hint=f"write {form}")
    return next(iter(fragments), None), tuple(sorted(query.items()))


def _shortened(text: str) -> str:
    # If it isn't a reference, it may be a pasted value: show little of it.
    if text[: len(PREFIX)].lower() == PREFIX:
        return text if len(text) <= 80 else text[:79] + "…"
    return text if len(text) <= 12 else text[:4] + "…"


REDACTED: Final = "[REDACTED]"


class Secret:
    """A value with no `str`: only `.reveal()` returns it, which is easy to spot in code.

    `repr` says `[REDACTED]`. `str`, `format` and pickling fail, because otherwise the text
    `[REDACTED]` could silently be sent somewhere as if it were the value.
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
    """The values in the file; none if it is unreadable, which is reported when one is needed."""
    try:
        return [value for value in read_store(state / STORE_FILE).values() if value]
    except BackendFailure:
        return []
