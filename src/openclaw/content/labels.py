"""Cleans a server's short texts that aren't framed: names, titles, descriptions, schemas."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast

from openclaw.content.folding import FILLERS, strip_invisible
from openclaw.content.sanitise import holds_orders, sanitise

DESCRIPTION_LIMIT = 32_000  # a schema as a whole is bounded too: catalog.schema_check
TITLE_LIMIT = 256

_T = TypeVar("_T")

# A schema is not inspected deeper than this; what is there is replaced by "anything".
_DEEPEST = 64
_TEXT_KEYS = {"description": DESCRIPTION_LIMIT, "title": TITLE_LIMIT, "$comment": TITLE_LIMIT}
# Below these, keys are names that the server chose, not keywords.
_NAMED = frozenset({
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas",
    "dependentRequired", "dependencies",
})  # fmt: skip
# Below these are values that a tool compares with: they stay unchanged, or the tool is refused.
_COMPARED = frozenset({
    "const", "enum", "required", "$ref", "$dynamicRef", "$recursiveRef", "$anchor", "$dynamicAnchor",
})  # fmt: skip
# Below these are values that a model may copy: harmless ones stay unchanged.
_COPIED = frozenset({"default", "examples", "example"})
# These change or lose their meaning if a word in them is replaced.
_WHOLE = frozenset({"pattern", "format", "$id", "id", "$schema", "$vocabulary"})
_SHORTEST = 12  # characters of a control token in an encoding, at least
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})

# Joiners stay: Persian, the Indic scripts and emoji need them, and `sanitise` has removed the rest.
_NEEDED = "\n\t\u200c\u200d"
_BREAKS = "\n\t\r"
_SEEN = _BREAKS + _NEEDED
_HIDDEN = re.compile(f"[\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff{FILLERS}]")
# A selector chooses a form of a symbol or an ideograph; after a letter it can only carry data.
_IDLE_SELECTOR = re.compile("(?<![#*0-9])(?<=[!-~])[\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def sanitise_label(text: str, limit: int) -> str:
    """`text` without hidden characters or control tokens, for use outside of a frame."""
    clean = _HIDDEN.sub("", sanitise(text[: 4 * limit + 64]))
    kept = "".join(c for c in clean if c in _NEEDED or unicodedata.category(c)[0] != "C").strip()
    return kept if len(kept) <= limit else kept[: max(0, limit - 1)].rstrip() + "…"


def single_line(text: str, limit: int) -> str:
    return " ".join(sanitise_label(text, limit).split())


class UnsafeSchema(ValueError):
    """Raised for a schema that can be neither shown to a model as it is nor cleaned."""


def has_hidden(text: str) -> bool:
    """Whether `text` has characters, other than line breaks, that nobody sees or needs."""
    if text.isascii():
        return any(char < " " or char == "\x7f" for char in text if char not in _BREAKS)
    if _HIDDEN.search(text) or _IDLE_SELECTOR.search(text):
        return True
    if any(c not in _SEEN and unicodedata.category(c)[0] == "C" for c in text):
        return True
    return strip_invisible(text) != text


def sanitise_schema(schema: Mapping[str, Any], dropped: list[str] | None = None) -> dict[str, Any]:
    """A JSON schema in which no text is a marker or a control token, or has hidden characters.

    Names and values that a call must repeat cannot be changed. A choice, a default or an example
    that contains one of these is left out, and `dropped` gets a line that says so; for a name, or
    if no choice is left, it raises `UnsafeSchema`.
    """
    return cast(dict[str, Any], _Cleaner([] if dropped is None else dropped).clean(schema, 0))


class _Cleaner:
    def __init__(self, dropped: list[str]) -> None:
        self._dropped = dropped

    def clean(self, value: object, depth: int, *, copied: bool = False) -> object:
        """`value` made harmless; what may be `copied` stays unchanged if it is harmless."""
        if isinstance(value, str):
            same = not _problem(value) if copied else value in _TYPES
            return value if same else sanitise_label(value, DESCRIPTION_LIMIT)
        if depth > _DEEPEST:
            return {} if isinstance(value, Mapping | list) else value
        if isinstance(value, Mapping):
            entries = cast(Mapping[str, object], value)
            if not copied:
                return dict(self._entries(entries, depth))
            shown = (key for key in entries if not _problem(key))
            return {key: self.clean(entries[key], depth + 1, copied=True) for key in shown}
        if isinstance(value, list):
            items = cast(list[object], value)
            seen = [(one, not copied or _problem_in(one) != _UNSEEN) for one in items]
            for one, shown in seen:
                if not shown:
                    self._drop("an example", one)
            return [self.clean(one, depth + 1, copied=copied) for one, shown in seen if shown]
        return value

    def _entries(self, entries: Mapping[str, object], depth: int) -> Iterator[tuple[str, object]]:
        for key, entry in entries.items():
            if _problem(key) or (key in _WHOLE and _problem_in(entry)):
                self._drop(f"a `{key}`" if key in _WHOLE else "a keyword", key, entry)
            elif key == "default" and _problem_in(entry) == _UNSEEN:
                self._drop("a default", entry)
            else:
                yield key, self._entry(key, entry, depth)

    def _entry(self, key: str, entry: object, depth: int) -> object:
        if key == "enum" and isinstance(entry, list):
            return self._choices(cast(list[object], entry))
        if key in _COMPARED:
            return _as_it_is(entry)
        if key in _WHOLE:
            return entry
        if key in _COPIED:
            return self.clean(entry, depth + 1, copied=True)
        if key in _TEXT_KEYS and isinstance(entry, str):
            return sanitise_label(entry, _TEXT_KEYS[key])
        if key in _NAMED and isinstance(entry, Mapping):
            named = cast(Mapping[str, object], entry).items()
            return {  # a list has further names
                _as_it_is(name): _as_it_is(cast(list[object], part))
                if isinstance(part, list)
                else self.clean(part, depth + 2)
                for name, part in named
            }
        return self.clean(entry, depth + 1)

    def _choices(self, choices: list[object]) -> list[object]:
        """The choices without those that must not be shown to a model: the others still work."""
        found = [(choice, _problem_in(choice)) for choice in choices]
        kept = [choice for choice, problem in found if not problem]
        markers = [choice for choice, problem in found if problem == _MARKER]
        _as_it_is(markers or ([] if kept else choices))
        for choice, problem in found:
            if problem:
                self._drop("a choice", choice)
        return kept

    def _drop(self, what: str, *values: object) -> None:
        problem = next(filter(None, map(_problem_in, values)), _UNSEEN)
        self._dropped.append(f"{what} in its input schema {problem}, and is left out")


def _as_it_is(value: _T) -> _T:
    if problem := _problem_in(value):
        raise UnsafeSchema(f"a name or a value in its input schema {problem}")
    return value


_MARKER = "is a marker or a control token"
_UNSEEN = "has characters that cannot be seen"


def _problem(text: str) -> str | None:
    # Most are short plain words, which hold nothing even when they are decoded.
    plain = len(text) < _SHORTEST and text.isascii() and text.replace("_", "").isalnum()
    if not plain and holds_orders(text):
        return _MARKER
    return _UNSEEN if has_hidden(text) else None


def _problem_in(value: object) -> str | None:
    return next((found for text in _strings(value) if (found := _problem(text))), None)


def _strings(value: object) -> Iterator[str]:
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
