"""Short texts of a server's that stand outside a frame: names, titles, descriptions, schemas."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

from openclaw.content.folding import FILLERS
from openclaw.content.sanitise import holds_orders, sanitise

DESCRIPTION_LIMIT = 4096
TITLE_LIMIT = 256

_T = TypeVar("_T")

# Deeper than this a schema is not looked into; what is there is replaced by "anything".
_DEEPEST = 64
_TEXT_KEYS = {"description": DESCRIPTION_LIMIT, "title": TITLE_LIMIT, "$comment": TITLE_LIMIT}
# Below these, keys are names of the server's choosing, not keywords.
_NAMED = frozenset(
    {
        "properties",
        "patternProperties",
        "$defs",
        "definitions",
        "dependentSchemas",
        "dependentRequired",
        "dependencies",
    }
)
# Below these are values that a tool compares with: they are as they were, or there is no tool.
_COMPARED = frozenset(
    {"const", "enum", "required", "$ref", "$dynamicRef", "$recursiveRef", "$anchor"}
    | {"$dynamicAnchor"}
)
# Below these are values that a model may copy: one that is harmless is as it was.
_COPIED = frozenset({"default", "examples", "example"})
# These mean something else, or nothing, once a word of theirs is replaced.
_WHOLE = frozenset({"pattern", "format", "$id", "id", "$schema", "$vocabulary"})
_SHORTEST = 12  # characters of a control token in an encoding, at least
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})

# Joiners stay: Persian, the Indic scripts and emoji need them, and `sanitise` has taken the rest.
_NEEDED = "\n\t\u200c\u200d"
_HIDDEN = re.compile(f"[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff{FILLERS}]")


def sanitise_label(text: str, limit: int) -> str:
    """`text` without hidden characters or control tokens, `limit` characters at most.

    For what a server calls itself and its tools, which a model reads outside any frame.
    """
    clean = _HIDDEN.sub("", sanitise(text[: 4 * limit + 64]))
    kept = "".join(c for c in clean if c in _NEEDED or unicodedata.category(c)[0] != "C").strip()
    return kept if len(kept) <= limit else kept[: max(0, limit - 1)].rstrip() + "…"


def single_line(text: str, limit: int) -> str:
    """A label on one line, as for a name."""
    return " ".join(sanitise_label(text, limit).split())


class UnsafeSchema(ValueError):
    """Raised for a schema that can be neither shown to a model as it is nor cleaned."""


def sanitise_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON schema in which no text is a marker or a control token.

    Names and values that a call must repeat cannot be changed; raises `UnsafeSchema` where one of
    them is such a thing.
    """
    return cast(dict[str, Any], _clean(schema, depth=0))


def _clean(value: object, *, depth: int) -> object:
    if isinstance(value, str):
        return value if value in _TYPES else sanitise_label(value, DESCRIPTION_LIMIT)
    if depth > _DEEPEST:
        return {} if isinstance(value, Mapping | list) else value
    if isinstance(value, Mapping):
        items = cast(Mapping[str, object], value).items()
        return {key: _clean_entry(key, entry, depth) for key, entry in items if _stays(key, entry)}
    if isinstance(value, list):
        return [_clean(item, depth=depth + 1) for item in cast(list[object], value)]
    return value


def _stays(key: str, entry: object) -> bool:
    return not (_unsafe(key) or (key in _WHOLE and any(map(_unsafe, _strings(entry)))))


def _clean_entry(key: str, entry: object, depth: int) -> object:
    if key in _COMPARED:
        return _as_it_is(entry)
    if key in _WHOLE:
        return entry
    if key in _COPIED:
        return _copied(entry, depth + 1)
    if key in _TEXT_KEYS and isinstance(entry, str):
        return sanitise_label(entry, _TEXT_KEYS[key])
    if key in _NAMED and isinstance(entry, Mapping):
        named = cast(Mapping[str, object], entry).items()
        return {_as_it_is(name): _clean_named(part, depth + 2) for name, part in named}
    return _clean(entry, depth=depth + 1)


def _clean_named(entry: object, depth: int) -> object:
    # A list is one of further names.
    if isinstance(entry, list):
        return _as_it_is(cast(list[object], entry))
    return _clean(entry, depth=depth)


def _as_it_is(value: _T) -> _T:
    if any(map(_unsafe, _strings(value))):
        raise UnsafeSchema("a name or a value in its input schema is a marker or a control token")
    return value


def _copied(value: object, depth: int) -> object:
    if isinstance(value, str):
        return sanitise_label(value, DESCRIPTION_LIMIT) if _unsafe(value) else value
    if depth > _DEEPEST:
        return {} if isinstance(value, Mapping | list) else value
    if isinstance(value, Mapping):
        items = cast(Mapping[str, object], value).items()
        return {key: _copied(entry, depth + 1) for key, entry in items if not _unsafe(key)}
    if isinstance(value, list):
        return [_copied(item, depth + 1) for item in cast(list[object], value)]
    return value


def _strings(value: object) -> Iterator[str]:
    """Every text in it, keys too."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            found = cast(Mapping[str, object], part)
            pending.extend(found)
            pending.extend(found.values())
        elif isinstance(part, list):
            pending.extend(cast(list[object], part))


def _unsafe(text: str) -> bool:
    # Most are short plain words, which hold nothing even when they are decoded.
    if len(text) < _SHORTEST and text.isascii() and text.replace("_", "").isalnum():
        return False
    return holds_orders(text)
