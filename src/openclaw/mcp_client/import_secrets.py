"""Credentials of imported servers: each becomes a `secret://env/…` reference, wherever it stood. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from openclaw.config.keypath import KeyPath, format_path
from openclaw.config.sensitive import credential_values, is_reference
from openclaw.mcp_client.importing import Entry, ImportedServer, variable_name
from openclaw.secrets.lookslike import looks_random, names_no_secret

if TYPE_CHECKING:
    from openclaw.secrets.patterns import Patterns

_PLACES = ("env", "headers", "args", "url")
_SCHEME = re.compile(r"(?:Bearer|Basic|Token|ApiKey)\s+(\S+)", re.IGNORECASE)
_NAME_BEFORE = re.compile(r"(?:^|[?&;#\s='\"-])([A-Za-z_][\w-]*)(?:=|:\s+(?:\w+\s+)?)$")
_FLAG = re.compile(r"-{1,2}([A-Za-z][\w-]*)")
_OPTION = re.compile(r"-{0,2}([A-Za-z_][\w.-]*)(?:=|: *)([^/].*)", re.DOTALL)
# What is no credential whatever its name says.
_PLACEHOLDER = re.compile(r"\s*|true|false|yes|no|none|null|\d{1,3}|<[^>]*>|.{1,2}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reference:
    """A credential that became a reference: the variable that now has to hold it."""

    variable: str
    server: str
    key: str


@dataclass(slots=True)
class _Names:
    """Which variable stands for which value; two values never share one."""

    known: Mapping[str, str]
    taken: dict[str, str] = field(default_factory=dict[str, str])

    def variable(self, value: str, *wanted: str) -> str:
        """The variable that holds this value already, else the first of these that is free."""
        if value in self.known:
            return self.known[value]
        for name in map(variable_name, wanted):
            if self.taken.setdefault(name, value) == value:
                return name
        number = 2
        while self.taken.setdefault(f"{variable_name(wanted[-1])}_{number}", value) != value:
            number += 1
        return f"{variable_name(wanted[-1])}_{number}"


def protect(
    servers: Iterable[ImportedServer], environ: Mapping[str, str] | None = None
) -> tuple[tuple[ImportedServer, ...], tuple[Reference, ...]]:
    """The servers with every plain credential as a reference, and which variables they now need.

    A value that a variable of `environ` holds already is read from that one.
    """
    names = _Names({value: name for name, value in (environ or {}).items() if len(value) >= 8})
    references: list[Reference] = []
    protected: list[ImportedServer] = []
    for server in servers:
        entry, notes = deepcopy(server.entry), list(server.notes)
        for path, value in credentials(server.entry):
            text = _at(entry, path)
            variable = names.variable(value, *_wanted(server.name, entry, path, value))
            _put(entry, path, _with_reference(text, value, variable))
            references.append(Reference(variable, server.name, format_path(path)))
            if path[0] == "args" and _SEEN not in notes:
                notes.append(_SEEN)
        protected.append(ImportedServer(server.name, entry, tuple(notes)))
    return tuple(protected), tuple(references)


_SEEN = (
    "other users of this machine can see a credential in the arguments while the server runs; "
    "move it into 'env' where the server allows that"
)


def plain_values(servers: Iterable[ImportedServer]) -> tuple[str, ...]:
    """The credentials that stand in these entries in plain text, for the redactor."""
    return tuple(value for server in servers for _, value in credentials(server.entry))


def credentials(entry: Entry) -> Iterator[tuple[KeyPath, str]]:
    """Where credentials stand in plain text, and what they are, without `Bearer` and the like.

    They are known by the name that they have, or by how they look whatever it is.
    """
    places = {key: entry[key] for key in _PLACES if key in entry}
    found: dict[KeyPath, list[str]] = {}
    for path, text in credential_values(places):
        if is_reference(text):
            continue
        scheme = _SCHEME.fullmatch(text)
        value = scheme[1] if scheme else text
        if not _PLACEHOLDER.fullmatch(value):
            found.setdefault(path, []).append(value)
    for path, text in _texts(places, ()):
        known = found.setdefault(path, [])
        for value in _by_their_looks(path, text):
            if not any(value in other or other in value for other in known):
                known.append(value)
    yield from ((path, value) for path, values in found.items() for value in values)


def _texts(value: object, path: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, child in cast("dict[str, object]", value).items():
            yield from _texts(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(cast("list[object]", value)):
            yield from _texts(child, (*path, index))


def _by_their_looks(path: KeyPath, text: str) -> Iterator[str]:
    """Keys of known makers, what stands after `Bearer`, private keys, and words made by chance."""
    from openclaw.secrets.shapes import PEM_BEGIN

    if PEM_BEGIN.search(text):
        yield text
        return
    scheme = _SCHEME.fullmatch(text)
    if scheme and path[0] == "headers":
        yield scheme[1]
    pieces = [text[start:end] for start, end in _shapes().spans(text, shapes=True)]
    if not names_no_secret(str(path[-1])):
        pieces += filter(looks_random, _words(text))
    yield from (one for one in pieces if not (is_reference(one) or _PLACEHOLDER.fullmatch(one)))


def _words(text: str) -> Iterator[str]:
    """What may be a key by itself: all of it, the value of an option, a part of an address."""
    given = _OPTION.fullmatch(text)
    if given is not None:
        if names_no_secret(given[1]):
            return
        text = given[2]
    yield text
    if "://" in text:
        try:
            parts = urlsplit(text)
        except ValueError:
            return
        yield from parts.path.split("/")
        pairs = (
            pair.partition("=") for pair in re.split("[&;]", f"{parts.query}&{parts.fragment}")
        )
        yield from (value or name for name, _, value in pairs if not names_no_secret(name))


@cache
def _shapes() -> "Patterns":
    from openclaw.secrets.patterns import Patterns

    return Patterns((), (), ())


def _wanted(server: str, entry: Entry, path: KeyPath, value: str) -> tuple[str, ...]:
    text = _at(entry, path)
    if text == value and path[0] == "env":
        return str(path[-1]), f"{server}_{path[-1]}"
    if path[0] == "headers":
        return (f"{server}_{path[-1] if text == value else 'TOKEN'}", f"{server}_{path[-1]}")
    before = text[: text.find(value)]
    named = _NAME_BEFORE.search(before)
    if text == value:  # the word after its flag
        index = int(path[-1])
        named = _FLAG.fullmatch(str(entry["args"][index - 1])) if index else None
    word = named[1] if named else "password" if ":" in before.partition("//")[2] else "token"
    own = f"{path[-1]}_" if path[0] == "env" else ""
    return (f"{server}_{own}{word}",)


def _with_reference(text: str, value: str, variable: str) -> str:
    reference = f"secret://env/{variable}"
    if text.endswith(f" {value}"):  # what comes before it ends by itself
        return f"{text[: -len(value)]}{reference}"
    return reference if text == value else text.replace(value, f"<{reference}>")


def _at(entry: Entry, path: KeyPath) -> str:
    value: Any = entry
    for part in path:
        value = value[part]
    return str(value)


def _put(entry: Entry, path: KeyPath, text: str) -> None:
    place: Any = entry
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = text
