"""Validation errors in our own plain words."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from openclaw.config.consistency import suggest
from openclaw.config.keypath import KeyPath
from openclaw.config.schema import Config
from openclaw.config.unsupported_keys import foreign_names

# What people call a key elsewhere, where our own name for it is not close in spelling.
_ELSEWHERE = {
    "type": "transport",
    "workingDirectory": "cwd",
    "directory": "cwd",
    "environment": "env",
    "arguments": "args",
    "disabled": "enabled",
    "mcpServers": "mcp",
    "apikey": "apiKey",
    "endpoint": "url",
}


@dataclass(frozen=True, slots=True)
class Explained:
    """An error as a person reads it. `meant` is the key that was probably meant."""

    path: KeyPath
    message: str
    of_key: bool = False
    missing: bool = False
    meant: str | None = None


def explain(error: ErrorDetails) -> Explained:
    """What this validation error says, and where."""
    path = tuple(error["loc"])
    kind = error["type"]
    if path and path[-1] == "[key]":
        return Explained(path[:-1], "a name must not be empty", of_key=True)
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "missing":
        return Explained(path, "is required", missing=True)
    phrase = _PHRASES.get(kind)
    if phrase is None:  # no schema of ours can raise another; still, say something true
        return Explained(path, "is not a value that this setting can have")
    return Explained(path, phrase(error))


def _unknown_key(path: KeyPath) -> Explained:
    key = str(path[-1])
    if key == "$include":
        return Explained(path, "other files cannot be included", of_key=True)
    known = known_keys(path[:-1])
    close = _ELSEWHERE.get(key) if _ELSEWHERE.get(key) in known else suggest(key, known)
    hint = f'; did you mean "{close}"?' if close else ""
    return Explained(path, f"unknown key{hint}", of_key=True, meant=close)


def kind_of(value: object) -> str:
    """What a person calls a value of this kind."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "an object" if isinstance(value, Mapping) else "a list"


def _must_be(expected: str) -> Callable[[ErrorDetails], str]:
    return lambda error: f"must be {expected}, not {kind_of(error['input'])}"


def _whole_number(error: ErrorDetails) -> str:
    if isinstance(error["input"], float):
        return "must be a whole number"
    return _must_be("a whole number")(error)


def _bound(phrase: str, key: str) -> Callable[[ErrorDetails], str]:
    return lambda error: f"must be {phrase} {_plain(error.get('ctx', {}).get(key))}"


def _plain(number: Any) -> str:
    return f"{number:g}" if isinstance(number, float) else str(number)


def _one_of(error: ErrorDetails) -> str:
    allowed = literals(annotation_at(tuple(error["loc"])))
    listed = ", ".join(
        f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in allowed
    )
    given = error["input"]
    close = (
        suggest(given, [c for c in allowed if isinstance(c, str)])
        if isinstance(given, str)
        else None
    )
    hint = f'; did you mean "{close}"?' if close else ""
    return f"must be one of {listed}{hint}"


_PHRASES: dict[str, Callable[[ErrorDetails], str]] = {
    "string_type": _must_be("text"),
    "bool_type": _must_be("true or false"),
    "int_type": _whole_number,
    "float_type": _must_be("a number"),
    "model_type": _must_be("an object"),
    "model_attributes_type": _must_be("an object"),
    "dict_type": _must_be("an object"),
    "tuple_type": _must_be("a list"),
    "string_too_short": lambda error: "must not be empty",
    "greater_than": _bound("greater than", "gt"),
    "greater_than_equal": _bound("at least", "ge"),
    "less_than_equal": _bound("at most", "le"),
    "literal_error": _one_of,
    "wrong_shape": lambda error: error["msg"],
}


def literals(annotation: Any) -> list[Any]:
    """The values that a `Literal` anywhere in this annotation allows."""
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [value for inner in get_args(annotation) for value in literals(inner)]


def known_keys(path: Sequence[str | int]) -> list[str]:
    """The keys that the object at this path may have."""
    found = next(_models_in(annotation_at(path)), None)
    if found is None:
        return []
    return [field.alias or name for name, field in found.model_fields.items()] + sorted(
        foreign_names(tuple(path))
    )


def annotation_at(path: Sequence[str | int]) -> Any:
    """The type of the value at this path of the configuration."""
    annotation: Any = Config
    for part in path:
        annotation = _inner(annotation, part)
    return annotation


def _inner(annotation: Any, part: str | int) -> Any:
    for model in _models_in(annotation, deep=False):
        for name, field in model.model_fields.items():
            if part in (field.alias, name):
                return field.annotation
    for candidate in (annotation, *get_args(annotation)):
        arguments = [inner for inner in get_args(candidate) if inner not in (..., NoneType)]
        if get_origin(candidate) in (dict, tuple) and arguments:
            return arguments[-1]
    return None


def _models_in(annotation: Any, *, deep: bool = True) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif deep or get_origin(annotation) not in (dict, tuple):
        for inner in get_args(annotation):
            yield from _models_in(inner, deep=deep)
