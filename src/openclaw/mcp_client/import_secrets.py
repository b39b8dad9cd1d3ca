"""Credentials of imported servers: each becomes a `secret://env/…` reference, wherever it stood. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from openclaw.config.keypath import KeyPath, format_path
from openclaw.config.plaintext import plain_credentials
from openclaw.mcp_client.importing import Entry, ImportedServer, variable_name

_PLACES = ("env", "headers", "args", "url")
_NAME_BEFORE = re.compile(r"(?:^|[?&;#\s='\"-])([A-Za-z_][\w-]*)(?:=|:\s+(?:\w+\s+)?)$")
_FLAG = re.compile(r"-{1,2}([A-Za-z][\w-]*)")


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
    """Where credentials stand in plain text, and what they are, without `Bearer` and the like."""
    return plain_credentials({key: entry[key] for key in _PLACES if key in entry})


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
