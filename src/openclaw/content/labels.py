"""Short texts of a server's that stand outside a frame: names, titles, descriptions, schemas."""

import re
import unicodedata
from collections.abc import Mapping
from typing import Any, cast

from openclaw.content.fold import FILLERS
from openclaw.content.sanitise import sanitise

DESCRIPTION_LIMIT = 4096
TITLE_LIMIT = 256

# Deeper than this a schema is not looked into; what is there is replaced by "anything".
_DEEPEST = 64
_TEXT_KEYS = {"description": DESCRIPTION_LIMIT, "title": TITLE_LIMIT, "$comment": TITLE_LIMIT}
# Below these, keys are names of the server's choosing, not keywords.
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
# Below these are values that a tool compares with, so they stay as they are.
_VALUES = frozenset({"const", "enum", "default", "examples", "required", "dependentRequired"})

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


def sanitise_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON schema whose descriptions and titles are sanitised, otherwise as it was."""
    return cast(dict[str, Any], _clean(schema, depth=0, named=False))


def _clean(value: object, *, depth: int, named: bool) -> object:
    if depth > _DEEPEST:
        return {} if isinstance(value, Mapping) else value
    if isinstance(value, Mapping):
        items = cast(Mapping[str, object], value).items()
        return {key: _clean_entry(key, entry, depth, named=named) for key, entry in items}
    if isinstance(value, list):
        return [_clean(item, depth=depth + 1, named=False) for item in cast(list[object], value)]
    return value


def _clean_entry(key: str, entry: object, depth: int, *, named: bool) -> object:
    if named:
        return _clean(entry, depth=depth + 1, named=False)
    if key in _VALUES:
        return entry
    if key in _TEXT_KEYS and isinstance(entry, str):
        return sanitise_label(entry, _TEXT_KEYS[key])
    return _clean(entry, depth=depth + 1, named=key in _NAMED)
