"""Checks whether a server's input schema can be passed on. Pure, and bounded for any input."""

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import NoneType, UnionType
from typing import Any, cast
from urllib.parse import unquote, urljoin

import anyio.to_thread
import orjson

from openclaw.core.tools import json_list, json_parts
from openclaw.mcp.jsonrpc import JsonObject as RawResult
from openclaw.mcp_client.errors import InvalidResult

MAX_CHARACTERS = 256 * 1024
MAX_NODES = 20_000
MAX_DEPTH = 64
MAX_EXPANDED_NODES = 100_000  # what a reader that inlines every $ref would see
MAX_REFERENCE_DEPTH = 100
MAX_SERVER_NODES = 200_000  # all the schemas of one server together
_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_ONE_SCHEMA = frozenset({
    "additionalItems", "additionalProperties", "contains", "else", "if", "not", "propertyNames",
    "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
_SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAPS = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_STRINGS = frozenset({
    "$anchor", "$comment", "$id", "$schema", "description", "format", "pattern", "title",
})  # fmt: skip


class BadSchema(ValueError):
    """Raised when a schema cannot be used; the message says why, in our words."""


class SchemaBudget:
    def __init__(self, nodes: int = MAX_SERVER_NODES) -> None:
        self._left = nodes

    def spend(self, nodes: int) -> None:
        self._left -= nodes
        if self._left <= 0:
            raise BadSchema("the combined size of its server's schemas exceeds the limit")


def check_schema(schema: object, budget: SchemaBudget | None = None) -> dict[str, Any]:
    budget = budget or SchemaBudget()
    if not isinstance(schema, dict):
        raise BadSchema("its input schema is not an object")
    budget.spend(0)
    root = cast(dict[str, Any], schema)
    try:
        written = orjson.dumps(root)
    except TypeError as error:
        raise BadSchema("its input schema is too deep, or not JSON") from error
    if len(written) > MAX_CHARACTERS:
        raise BadSchema("its input schema is too large")
    budget.spend(_count_nodes(root))
    if root.get("type", "object") != "object":
        raise BadSchema("its input schema does not describe an object")
    _check_shape(root)
    refers = b"Ref" in written or b"$ref" in written
    if refers and expanded_size(root) > MAX_EXPANDED_NODES:
        raise BadSchema("its input schema is too complex: its references multiply")
    return root if "type" in root else {**root, "type": "object"}


def _count_nodes(schema: dict[str, Any]) -> int:
    nodes = 0
    level: list[Any] = [schema]
    for _ in range(MAX_DEPTH + 1):
        nodes += len(level)
        if nodes > MAX_NODES:
            raise BadSchema("its input schema is too complex: too many parts")
        level = [part for value in level for part in json_parts(value)]
        if not level:
            return nodes
    raise BadSchema("its input schema is too deep")


def _check_shape(root: dict[str, Any]) -> None:
    for schema in _all_schemas(root):
        for keyword, value in schema.items():
            if keyword in _REFERENCES:
                resolve_reference(root, value)
            elif keyword in _SHAPES and not _SHAPES[keyword](value):
                raise BadSchema(f"'{keyword}' in its input schema has the wrong type")
        if not all(isinstance(part, dict | bool) for part in subschemas(schema)):
            raise BadSchema("its input schema holds something that is not a schema")


def _are_types(value: Any) -> bool:
    names = cast(list[Any], value) if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)


def _are_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, str) for v in cast(list[Any], value))


_SHAPES: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(_SCHEMA_MAPS, lambda value: isinstance(value, dict)),
    **dict.fromkeys(_SCHEMA_LISTS | {"enum"}, lambda value: isinstance(value, list)),
    **dict.fromkeys(_STRINGS, lambda value: isinstance(value, str)),
    "required": _are_strings,
    "type": _are_types,
}


def subschemas(schema: Mapping[str, Any]) -> Iterator[object]:
    """The schemas directly inside this one; examples, defaults and enums are data."""
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
    address, _, coded = reference.partition("#")
    start = _document(root, address) if address else root
    fragment = unquote(coded)
    if fragment and not fragment.startswith("/"):
        for schema in _all_schemas(start):
            if fragment in (schema.get("$anchor"), schema.get("$dynamicAnchor")):
                return schema
        raise BadSchema("its input schema refers to a part that is not there")
    node: object = start
    for step in fragment.split("/")[1:]:
        node = _step(node, step.replace("~1", "/").replace("~0", "~"))
    return node


def _document(root: Mapping[str, Any], address: str) -> Mapping[str, Any]:
    try:
        base = str(root.get("$id", ""))
        wanted = urljoin(base, address)
        for schema in _all_schemas(root):
            own = schema.get("$id")
            if isinstance(own, str) and urljoin(base, own).rstrip("#") == wanted:
                return schema
    except ValueError:  # not a valid address
        pass
    raise BadSchema("its input schema refers to another document")


def _step(holder: object, key: str) -> object:
    if isinstance(holder, dict) and key in holder:
        return cast(dict[str, object], holder)[key]
    if isinstance(holder, list):
        items = cast(list[object], holder)
        if key.isdecimal() and len(key) < 6 and int(key) < len(items):
            return items[int(key)]
    raise BadSchema("its input schema refers to a part that is not there")


def _all_schemas(root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    pending: list[object] = [root]
    while pending:
        schema = pending.pop()
        if isinstance(schema, dict):
            node = cast(dict[str, Any], schema)
            yield node
            pending.extend(subschemas(node))


def expanded_size(root: Mapping[str, Any]) -> int:
    """The number of nodes with every reference inlined; a cycle counts once."""
    sizes: dict[int, int] = {}

    def size(schema: object, path: frozenset[int]) -> int:
        if not isinstance(schema, dict) or id(cast(object, schema)) in path:
            return 1
        if len(path) > MAX_REFERENCE_DEPTH:
            return MAX_EXPANDED_NODES + 1
        node = cast(dict[str, Any], schema)
        key = id(node)
        if key not in sizes:
            inside = path | {key}
            targets = [resolve_reference(root, node[r]) for r in _REFERENCES if r in node]
            # Definitions apply where they are referred to.
            applied = {k: v for k, v in node.items() if k not in ("$defs", "definitions")}
            parts = [*subschemas(applied), *targets]
            sizes[key] = 1 + sum(size(part, inside) for part in parts)
        return min(sizes[key], MAX_EXPANDED_NODES + 1)

    return size(root, frozenset())


# A server writes both the schema and the value, so the cost of both is bounded: every step is
# counted, and a value that can't be decided in time passes. Regular expressions (`pattern`,
# `patternProperties`) and `format` are not checked, since a server could use them to make us wait.
# No reference leaves the schema.

MAX_STEPS = 50_000  # about 150 ms, in a thread
QUICK_STEPS = 1_500  # about 5 ms, on the event loop; most results need no more
MAX_VALUE_DEPTH = 150


class Undecided(Exception):
    """Raised when the check takes too many steps or goes too deep."""


def why_unfit(schema: Mapping[str, Any], value: object, steps: int = MAX_STEPS) -> str | None:
    """The first place where the value doesn't fit, in our words; raises `Undecided`."""
    with suppress(BadSchema, RecursionError):
        return next(_Checker(schema, steps).misfits(schema, value, "", 0), None)
    return None


async def enforce_output_schema(schema: Mapping[str, Any], raw: RawResult) -> RawResult:
    """Leave out a structured result that doesn't fit; raises `InvalidResult` if that is all."""
    value = raw.get("structuredContent")
    if value is None or raw.get("isError") is True:
        return raw
    misfit: str | None = None  # an undecided value passes
    try:
        misfit = why_unfit(schema, value, QUICK_STEPS)
    except Undecided:
        with suppress(Undecided):
            misfit = await anyio.to_thread.run_sync(why_unfit, schema, value)
    if misfit is None:
        return raw
    words = f"the structured result does not match the tool's own output schema: {misfit}"
    content: list[Any] = raw.get("content") or []
    if not content:
        raise InvalidResult(words)
    note = {"type": "text", "text": f"[Left out: {words}]"}
    rest = {key: part for key, part in raw.items() if key != "structuredContent"}
    return {**rest, "content": [*content, note]}


class _Checker:
    def __init__(self, root: Mapping[str, Any], steps: int) -> None:
        self._root = root
        self._steps = steps

    def misfits(self, schema: object, value: object, path: str, depth: int) -> Iterator[str]:
        """Where the value doesn't fit, and how, in our words."""
        self._spend(1)
        if depth > MAX_VALUE_DEPTH:
            raise Undecided
        if schema is False:
            yield f"{path or 'the value'} is not allowed"
        if not isinstance(schema, dict):
            return
        node = cast("dict[str, Any]", schema)
        if "$ref" in node:
            target = resolve_reference(self._root, node["$ref"])
            yield from self.misfits(target, value, path, depth + 1)
        for reason in self._own_misfits(node, value):
            yield f"{path or 'the value'} {reason}"
        yield from self._combined(node, value, path, depth)
        if isinstance(value, dict):
            yield from self._of_object(node, cast("dict[str, Any]", value), path, depth)
        elif isinstance(value, list):
            yield from self._of_array(node, cast("list[Any]", value), path, depth)

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise Undecided

    def _combined(
        self, schema: dict[str, Any], value: object, path: str, depth: int
    ) -> Iterator[str]:
        for option in schema.get("allOf") or ():
            yield from self.misfits(option, value, path, depth + 1)
        # `oneOf` is treated as `anyOf`: two that fit may differ in what is not checked.
        for keyword in ("anyOf", "oneOf"):
            options = json_list(schema.get(keyword))
            if options and not any(self._fits(option, value, depth) for option in options):
                yield f"{path or 'the value'} fits none of the choices of '{keyword}'"
        if _is_fully_checked(schema.get("not")) and self._fits(schema["not"], value, depth):
            yield f"{path or 'the value'} matches what it must not"

    def _fits(self, schema: object, value: object, depth: int) -> bool:
        return next(self.misfits(schema, value, "", depth + 1), None) is None

    def _own_misfits(self, schema: dict[str, Any], value: object) -> Iterator[str]:
        kinds = schema.get("type")
        if kinds is not None:
            named = cast("list[str]", kinds) if isinstance(kinds, list) else [str(kinds)]
            if not any(_is_a(value, kind) for kind in named):
                yield f"is not of type {' or '.join(named)}"
        if isinstance(choices := schema.get("enum"), list):
            self._spend(len(cast("list[Any]", choices)))
            if not any(_same(value, choice) for choice in cast("list[Any]", choices)):
                yield "is not one of the allowed values"
        if "const" in schema and not _same(value, schema["const"]):
            yield "is not the allowed value"
        for keyword, (kind, fits) in _LIMITS.items():
            if _is_a(schema.get(keyword), "number") and _is_a(value, kind):
                size = value if kind == "number" else len(cast("str", value))
                if not fits(size, schema[keyword]):
                    yield f"is beyond its {keyword}"

    def _of_object(
        self, schema: dict[str, Any], value: dict[str, Any], path: str, depth: int
    ) -> Iterator[str]:
        for name in schema.get("required") or ():
            self._spend(1)
            if name not in value:
                yield f"{path or 'the value'} lacks '{_shown(name)}'"
        properties: dict[str, Any] = schema.get("properties") or {}
        # `patternProperties` is not checked, so neither are the other properties.
        rest = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        for name, part in value.items():
            if (subschema := properties.get(name, rest)) is not True:
                yield from self.misfits(subschema, part, f"{path}/{_shown(name)}", depth + 1)

    def _of_array(
        self, schema: dict[str, Any], value: list[Any], path: str, depth: int
    ) -> Iterator[str]:
        prefix, rest = json_list(schema.get("prefixItems")), schema.get("items", True)
        checked = value[: len(prefix)] if rest is True else value
        for index, part in enumerate(checked):
            subschema = prefix[index] if index < len(prefix) else rest
            yield from self.misfits(subschema, part, f"{path}/{index}", depth + 1)


def _is_fully_checked(schema: object) -> bool:
    """Whether we check everything that this schema says, so that fitting it means something."""
    simple = isinstance(schema, dict) and cast("dict[str, Any]", schema).keys() <= _SIMPLE
    return simple or schema is True


_SIMPLE = {"type", "enum", "const", "required", "title", "description"}
_LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("number", operator.ge), "exclusiveMinimum": ("number", operator.gt),
    "maximum": ("number", operator.le), "exclusiveMaximum": ("number", operator.lt),
    "minLength": ("string", operator.ge), "maxLength": ("string", operator.le),
    "minItems": ("array", operator.ge), "maxItems": ("array", operator.le),
    "minProperties": ("object", operator.ge), "maxProperties": ("object", operator.le),
}  # fmt: skip
_KINDS: dict[str, type | UnionType] = {
    "object": dict, "array": list, "string": str, "number": int | float, "integer": int,
    "boolean": bool, "null": NoneType,
}  # fmt: skip


def _is_a(value: object, kind: str) -> bool:
    if kind not in _KINDS:
        return True
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _KINDS[kind])


def _same(left: object, right: object) -> bool:
    numbers = _is_a(left, "number") and _is_a(right, "number")
    return (numbers or type(left) is type(right)) and left == right


def _shown(name: object) -> str:
    text = str(name)[:60]
    return text if text.isprintable() else "?"
