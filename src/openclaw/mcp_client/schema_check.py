"""Whether an input schema that a server sent can be handed on. Pure, and bounded whatever comes."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import orjson

MAX_CHARACTERS = 256 * 1024
MAX_NODES = 20_000
MAX_DEPTH = 64
MAX_EXPANDED_NODES = 100_000  # what a reader that inlines every $ref would see
MAX_REFERENCE_DEPTH = 100
MAX_SERVER_NODES = 200_000  # all the schemas of one server together

_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_ONE_SCHEMA = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "else",
        "if",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAPS = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_STRINGS = frozenset({"$anchor", "$comment", "$id", "$schema", "description", "format", "title"})


class BadSchema(ValueError):
    """Raised when a schema cannot be used; the message says why, in our words."""


class SchemaBudget:
    """How much more of one server's schemas is looked at."""

    def __init__(self, nodes: int = MAX_SERVER_NODES) -> None:
        self._left = nodes

    def spend(self, nodes: int) -> None:
        """Use some of it; raises `BadSchema` when it is used up."""
        self._left -= nodes
        if self._left <= 0:
            raise BadSchema("its server's schemas are too large together")


def check_schema(schema: object, budget: SchemaBudget | None = None) -> dict[str, Any]:
    """The schema, usable as a tool's input; raises `BadSchema`."""
    if not isinstance(schema, dict):
        raise BadSchema("its input schema is not an object")
    if budget is not None:
        budget.spend(0)
    found = cast(dict[str, Any], schema)
    written = _written(found)
    nodes = _count_nodes(found)
    if budget is not None:
        budget.spend(nodes)
    kind = found.get("type", "object")
    if kind != "object":
        raise BadSchema("its input schema does not describe an object")
    _check_shape(found)
    if b"Ref" in written or b"$ref" in written:
        _check_expansion(found)
    return found if "type" in found else {**found, "type": "object"}


def _check_expansion(schema: dict[str, Any]) -> None:
    if expanded_size(schema) > MAX_EXPANDED_NODES:
        raise BadSchema("its input schema is too complex: its references multiply")


def _written(schema: dict[str, Any]) -> bytes:
    """The schema as text; the writer itself refuses what is very deep."""
    try:
        written = orjson.dumps(schema)
    except TypeError as error:
        raise BadSchema("its input schema is too deep, or not JSON") from error
    if len(written) > MAX_CHARACTERS:
        raise BadSchema("its input schema is too large")
    return written


def _count_nodes(schema: dict[str, Any]) -> int:
    """How many values there are, level by level, so that no depth can hurt."""
    nodes = 0
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH + 1):
        nodes += len(level)
        if nodes > MAX_NODES:
            raise BadSchema("its input schema is too complex: too many parts")
        below: list[Any] = []
        for value in level:
            if type(value) is dict:
                below.extend(cast(dict[str, Any], value).values())
            elif type(value) is list:
                below.extend(cast(list[Any], value))
        if not below:
            return nodes
        level = below
    raise BadSchema("its input schema is too deep")


def _check_shape(root: dict[str, Any]) -> None:
    pending: list[object] = [root]
    while pending:
        schema = pending.pop()
        if isinstance(schema, bool):
            continue
        if not isinstance(schema, dict):
            raise BadSchema("its input schema holds something that is not a schema")
        found = cast(dict[str, Any], schema)
        _check_keywords(root, found)
        pending.extend(subschemas(found))


def _check_keywords(root: dict[str, Any], schema: dict[str, Any]) -> None:
    for keyword, value in schema.items():
        _check_keyword(root, keyword, value)


def _check_keyword(root: dict[str, Any], keyword: str, value: Any) -> None:
    if keyword in _REFERENCES:
        resolve_reference(root, value)
    elif keyword == "type":
        _check_type(value)
    elif keyword in _SCHEMA_MAPS:
        _require(isinstance(value, dict), keyword)
    elif keyword in _SCHEMA_LISTS:
        _require(isinstance(value, list), keyword)
    elif keyword == "required":
        _require(_is_list_of_strings(value), keyword)
    elif keyword == "enum":
        _require(isinstance(value, list), keyword)
    elif keyword in _STRINGS or keyword == "pattern":
        _require(isinstance(value, str), keyword)


def _check_type(value: Any) -> None:
    names = cast(list[Any], value) if isinstance(value, list) else [value]
    _require(
        bool(names) and all(isinstance(name, str) and name in _TYPES for name in names), "type"
    )


def _is_list_of_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in cast(list[Any], value))


def _require(holds: bool, keyword: str) -> None:
    if not holds:
        raise BadSchema(f"'{keyword}' in its input schema has the wrong type")


def subschemas(schema: Mapping[str, Any]) -> Iterator[object]:
    """The schemas directly inside this one; examples, defaults and enums are data and not among them."""
    for keyword, value in schema.items():
        if keyword in _SCHEMA_MAPS and isinstance(value, dict):
            yield from cast(dict[str, object], value).values()
        elif keyword in _SCHEMA_LISTS and isinstance(value, list):
            yield from cast(list[object], value)
        elif keyword == "items":
            yield from cast(list[object], value) if isinstance(value, list) else [value]
        elif keyword in _ONE_SCHEMA:
            yield value


def resolve_reference(root: Mapping[str, Any], reference: object) -> object:
    """What a local reference means; raises `BadSchema` for a remote or dangling one."""
    if not isinstance(reference, str):
        raise BadSchema("'$ref' in its input schema has the wrong type")
    if not reference.startswith("#"):
        raise BadSchema("its input schema refers to another document")
    fragment = reference[1:]
    if fragment and not fragment.startswith("/"):
        return _anchored(root, fragment)
    found: object = root
    for step in fragment.split("/")[1:]:
        found = _step(found, step.replace("~1", "/").replace("~0", "~"))
    return found


def _step(holder: object, key: str) -> object:
    if isinstance(holder, dict) and key in holder:
        return cast(dict[str, object], holder)[key]
    if isinstance(holder, list):
        items = cast(list[object], holder)
        if key.isdecimal() and len(key) < 6 and int(key) < len(items):
            return items[int(key)]
    raise BadSchema("its input schema refers to a part that is not there")


def _anchored(root: Mapping[str, Any], anchor: str) -> object:
    pending: list[object] = [root]
    while pending:
        schema = pending.pop()
        if isinstance(schema, dict):
            found = cast(dict[str, Any], schema)
            if anchor in (found.get("$anchor"), found.get("$dynamicAnchor")):
                return found
            pending.extend(subschemas(found))
    raise BadSchema("its input schema refers to a part that is not there")


def expanded_size(root: Mapping[str, Any]) -> int:
    """How many nodes there are once every reference is inlined; a cycle counts once."""
    sizes: dict[int, int] = {}

    def size(schema: object, path: frozenset[int]) -> int:
        if not isinstance(schema, dict) or id(cast(object, schema)) in path:
            return 1
        if len(path) > MAX_REFERENCE_DEPTH:
            return MAX_EXPANDED_NODES + 1
        found = cast(dict[str, Any], schema)
        key = id(found)
        if key not in sizes:
            inside = path | {key}
            targets = [resolve_reference(root, found[r]) for r in _REFERENCES if r in found]
            parts = [*(s for s in _validated(found)), *targets]
            sizes[key] = 1 + sum(size(part, inside) for part in parts)
        return min(sizes[key], MAX_EXPANDED_NODES + 1)

    return size(root, frozenset())


def _validated(schema: Mapping[str, Any]) -> Iterator[object]:
    """The subschemas that apply where this one does: definitions apply where they are referred to."""
    applied = {k: v for k, v in schema.items() if k not in ("$defs", "definitions")}
    return subschemas(applied)
