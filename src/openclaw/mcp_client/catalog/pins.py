"""Whether a server still declares what it declared when it was first seen. Pure.

A pin is the hash of one declaration as the server sent it: its instructions or a tool. A readable
form of the text is kept with it, so that a change can be shown.
"""

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

if TYPE_CHECKING:
    from openclaw.mcp.declarations import Listing, Tool

INSTRUCTIONS = ""  # the key of a server's instructions; no tool has an empty name

# characters of a declaration that are kept for display; the hash covers all of it
MAX_TEXT = 16 * 1024
MAX_SERVER_TEXT = 1024 * 1024  # characters of all declarations of one server that are kept
_CUT = "\n… (the rest is not kept)"
_UNORDERED = frozenset({"required", "enum", "type", "anyOf", "allOf", "oneOf"})
_MAX_WORDS = 200
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{2,127}")
_DISTINCTIVE = re.compile(r"[_-]|[a-z][A-Z]|\d")
_LONG_WORD = 12


class Declaration(NamedTuple):
    digest: str
    text: str = ""


Declarations = Mapping[str, Declaration]


@dataclass(frozen=True, slots=True)
class Pinned:
    name: str
    target: str
    accepted: Declarations
    pending: Declarations = field(default_factory=dict[str, Declaration])
    removed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PinReport:
    """What differs from what was accepted, by name; `INSTRUCTIONS` is one of the names."""

    changed: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def unaccepted(self) -> frozenset[str]:
        return frozenset((*self.changed, *self.added))

    def words(self) -> str:
        parts = (("changed:", self.changed), ("new:", self.added), ("gone:", self.removed))
        return "; ".join(f"{word} {', '.join(map(shown_name, n))}" for word, n in parts if n)


def declarations(listing: "Listing", redact: Callable[[str], str] = str) -> dict[str, Declaration]:
    """Everything that is pinned, without secrets: a changed secret isn't a changed declaration."""
    room = MAX_SERVER_TEXT
    declared: dict[str, Declaration] = {}
    for name, value in _declared(listing):
        written = _written(_canonical(value))
        digest = hashlib.sha256(redact(written).encode()).hexdigest()
        text = _readable(value, min(room, MAX_TEXT), redact)
        room -= len(text)
        declared[name] = Declaration(digest, text)
    return declared


def _written(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def _canonical(value: Any, keyword: str = "") -> Any:
    """Equal for two declarations that differ only in the order of unordered lists."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {key: _canonical(part, key) for key, part in fields.items()}
    if isinstance(value, list):
        parts = [_canonical(part) for part in cast("list[Any]", value)]
        return sorted(parts, key=_written) if keyword in _UNORDERED else parts
    return value


def _declared(listing: "Listing") -> Iterator[tuple[str, Any]]:
    if listing.instructions:
        yield INSTRUCTIONS, listing.instructions
    seen: set[str] = set()
    for tool in listing.tools:
        if tool.name and tool.name not in seen:
            seen.add(tool.name)
            yield tool.name, _of_tool(tool)


def _of_tool(tool: "Tool") -> dict[str, Any]:
    hints = tool.annotations
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": None if hints is None else hints.to_json(),
    }


def _readable(value: Any, limit: int, redact: Callable[[str], str]) -> str:
    """The declaration for a person to read, with invisible characters spelled out."""
    if limit <= len(_CUT):
        return ""
    if isinstance(value, dict):
        fields = {k: v for k, v in value.items() if v is not None}  # pyright: ignore[reportUnknownVariableType]
        text = json.dumps(fields, indent=2, sort_keys=True, ensure_ascii=False)
        text = text.replace("\\n", "\n    ")
    else:
        text = str(value)
    # Twice as much is redacted as is kept, so that no secret is cut in two and missed.
    text = spelled_out(redact(text[: 2 * limit + 2]))
    return text if len(text) <= limit else text[: limit - len(_CUT)] + _CUT


def spelled_out(text: str) -> str:
    """The text with invisible characters written as escapes; only line ends stay."""
    if text.isprintable():
        return text
    escapes = ((char, ord(char)) for char in text)
    return "".join(
        char
        if char.isprintable() or char == "\n"
        else (f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")
        for char, code in escapes
    )


def shown_name(name: str) -> str:
    return spelled_out(name).replace("\n", "\\n")[:120] or "(instructions)"


def compare(accepted: Declarations, now: Declarations) -> PinReport:
    return PinReport(
        changed=tuple(n for n in now if n in accepted and accepted[n].digest != now[n].digest),
        added=tuple(n for n in now if n not in accepted),
        # A server that drops its instructions harms nobody by that.
        removed=tuple(n for n in accepted if n != INSTRUCTIONS and n not in now),
    )


def observed(
    known: Pinned | None, name: str, target: str, now: Declarations
) -> tuple[Pinned, PinReport]:
    if known is None:
        return Pinned(name, target, dict(now)), PinReport()
    report = compare(known.accepted, now)
    pending = {key: now[key] for key in now if key in report.unaccepted}
    return replace(known, pending=pending, removed=report.removed), report


def accept(known: Pinned, names: Iterable[str] | None = None) -> Pinned:
    chosen = set(known.pending) | set(known.removed) if names is None else set(names)
    accepted = {k: v for k, v in known.accepted.items() if not (k in known.removed and k in chosen)}
    accepted |= {k: v for k, v in known.pending.items() if k in chosen}
    return replace(
        known,
        accepted=accepted,
        pending={k: v for k, v in known.pending.items() if k not in chosen},
        removed=tuple(n for n in known.removed if n not in chosen),
    )


def diff(known: Pinned, name: str) -> str:
    old, new = known.accepted.get(name), known.pending.get(name)
    before = [] if old is None else old.text.splitlines()
    after = [] if new is None else new.text.splitlines()
    lines = list(difflib.unified_diff(before, after, "accepted", "now", lineterm="", n=2))
    if not lines:
        return "(the change is in a part of the text that is not stored)"
    return "\n".join(lines)


# Servers that mention each other's tools


@dataclass(frozen=True, slots=True)
class ToolShadowing:
    """A tool of one server that has the name of another server's tool, or mentions it."""

    server: str
    tool: str
    other: str
    other_tool: str
    kind: str

    def words(self) -> str:
        mine, theirs = shown_name(self.tool), shown_name(self.other_tool)
        if self.kind == "shadows":
            return f"'{self.server}' and '{self.other}' both have a tool '{mine}'"
        return f"the declaration of '{self.server}/{mine}' mentions '{self.other}/{theirs}'"


def mentions(text: str) -> frozenset[str]:
    """Words of a declaration that may be a tool's name, folded; ordinary words are left out."""
    mentioned: set[str] = set()
    for match in _WORD.finditer(text):
        word = match[0]
        if len(word) >= _LONG_WORD or _DISTINCTIVE.search(word):
            mentioned.add(word.casefold())
            if len(mentioned) >= _MAX_WORDS:
                break
    return frozenset(mentioned)


def find_shadowing(servers: Mapping[str, Mapping[str, frozenset[str]]]) -> list[ToolShadowing]:
    """Takes, for each server, each tool's `mentions`."""
    owners: dict[str, list[tuple[str, str]]] = {}
    for server, tools in servers.items():
        for tool in tools:
            owners.setdefault(tool.casefold(), []).append((server, tool))
            owners.setdefault(f"mcp_{server}_{tool}".casefold(), []).append((server, tool))
    crossings: list[ToolShadowing] = []
    for (server, tool), *others in owners.values():
        for other, other_tool in others:
            if other != server and other_tool.casefold() == tool.casefold():
                crossings.append(ToolShadowing(server, tool, other, other_tool, "shadows"))
    for server, tools in servers.items():
        own = {tool.casefold() for tool in tools}
        for tool, words in tools.items():
            for word in sorted(words - own):
                others = [owner for owner in owners.get(word, ()) if owner[0] != server]
                crossings += [ToolShadowing(server, tool, *other, "mentions") for other in others]
    return crossings
