"""The arguments of a tool call, as a model wrote them: read, checked, and complained about plainly."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from openclaw.content.labels import single_line
from openclaw.core.errors import ToolFailure
from openclaw.core.tools import ToolSpec

_NAME_CHARS = 64

_NAMED: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: (
        (isinstance(value, int) and not isinstance(value, bool))
        or (isinstance(value, float) and value.is_integer())
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "null": lambda value: value is None,
}


def read_arguments(spec: ToolSpec, raw: str) -> dict[str, Any]:
    """The arguments as an object; raises `ToolFailure` in words that let the model mend them."""
    arguments = _parse(spec.name, raw)
    complaints = _missing(spec.input_schema, arguments)
    if spec.origin.server is None:
        # A server checks types itself, and may well take "5" for 5; our own tools rely on them.
        complaints += _wrong_types(spec.input_schema, arguments)
    if complaints:
        raise ToolFailure(
            f"The call to {spec.name} was not made: {'; '.join(complaints)}. "
            "Call it again with arguments that fit its schema."
        )
    return arguments


def _parse(name: str, raw: str) -> dict[str, Any]:
    if not raw.strip():
        return {}
    try:
        parsed: Any = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ToolFailure(
            f"The call to {name} was not made: its arguments are not valid JSON ({error}). "
            "Call it again with a JSON object."
        ) from error
    if not isinstance(parsed, dict):
        raise ToolFailure(
            f"The call to {name} was not made: its arguments must be a JSON object, "
            f"not {_kind(parsed)}."
        )
    return cast("dict[str, Any]", parsed)


def _missing(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    if not isinstance(required, list | tuple):
        return []
    names = cast("list[Any]", required)
    # The names are a server's words, and nothing frames what we say ourselves.
    return [
        f"'{single_line(name, _NAME_CHARS)}' is required"
        for name in names
        if isinstance(name, str) and name not in arguments
    ]


def _wrong_types(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> list[str]:
    properties: Any = schema.get("properties")
    if not isinstance(properties, dict):
        return []
    known = cast("dict[str, Any]", properties)
    complaints: list[str] = []
    for name, value in arguments.items():
        if name not in known:
            complaints.append(f"there is no argument '{name}'")
            continue
        expected = _types(known[name])
        if expected and not any(_NAMED[kind](value) for kind in expected):
            complaints.append(f"'{name}' must be {' or '.join(expected)}, not {_kind(value)}")
    return complaints


def _types(schema: Any) -> list[str]:
    declared: Any = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    listed = cast("list[Any]", declared) if isinstance(declared, list) else [declared]
    return [kind for kind in listed if isinstance(kind, str) and kind in _NAMED]


def _kind(value: Any) -> str:
    return next((name for name, is_kind in _NAMED.items() if is_kind(value)), "something else")
