"""Whether a structured result fits the output schema that its tool declared, within bounds.

A server writes both the schema and the value, so that neither may cost more than a bound: every
step is counted, and what is not decided within them is let pass. Regular expressions (`pattern`,
`patternProperties`) and `format` are not judged, since they are where a server could make us wait.
No reference leaves the schema.
"""

import operator
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import anyio.to_thread

from openclaw.mcp_client.failures import InvalidResult
from openclaw.mcp_client.schema_check import BadSchema, resolve_reference
from openclaw.mcp_client.snapshot import RawResult

MAX_STEPS = 50_000
"""Some 150 ms, for a thread of its own."""

QUICK_STEPS = 1_500
"""Some 5 ms, on the event loop; most results need no more."""

MAX_DEPTH = 150

_UNJUDGED_NEIGHBOURS = frozenset({"patternProperties"})


class Undecided(Exception):
    """Raised when the steps are used up, or the depth is."""


class _Misfit(Exception):
    """Raised when the value does not fit; `path` is where."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'the value'} {reason}")


def why_unfit(schema: Mapping[str, Any], value: object, *, steps: int = MAX_STEPS) -> str | None:
    """The first place where the value does not fit, in our words; None where none was found."""
    try:
        return _judged_within(steps, schema, value)
    except Undecided:
        return None


def _judged_within(steps: int, schema: Mapping[str, Any], value: object) -> str | None:
    try:
        _Judge(schema, steps).judge(schema, value, "", 0)
    except _Misfit as misfit:
        return str(misfit)
    except (BadSchema, RecursionError):
        return None
    return None


async def hold(schema: Mapping[str, Any] | None, raw: RawResult) -> RawResult:
    """`held_to`, without holding up the event loop."""
    try:
        return held_to(schema, raw, partial(_judged_within, QUICK_STEPS))
    except Undecided:
        return await anyio.to_thread.run_sync(held_to, schema, raw)


def held_to(
    schema: Mapping[str, Any] | None,
    raw: RawResult,
    judge: Callable[[Mapping[str, Any], object], str | None] = why_unfit,
) -> RawResult:
    """The result without a structured part that does not fit; raises `InvalidResult` if that is all.

    A server's own words about it stay, with ours about what was left out.
    """
    value = raw.get("structuredContent")
    if schema is None or value is None or raw.get("isError") is True:
        return raw
    misfit = judge(schema, value)
    if misfit is None:
        return raw
    words = f"the structured result does not fit the tool's own output schema: {misfit}"
    content: list[Any] = raw.get("content") or []
    if not content:
        raise InvalidResult(words)
    note = {"type": "text", "text": f"[Left out: {words}]"}
    kept = {key: part for key, part in raw.items() if key != "structuredContent"}
    return {**kept, "content": [*content, note]}


class _Judge:
    def __init__(self, root: Mapping[str, Any], steps: int) -> None:
        self._root = root
        self._steps = steps

    def judge(self, schema: object, value: object, path: str, depth: int) -> None:
        self._spend(1)
        if depth > MAX_DEPTH:
            raise Undecided
        if schema is False:
            raise _Misfit(path, "is not allowed")
        if not isinstance(schema, dict):
            return
        found = cast("dict[str, Any]", schema)
        if "$ref" in found:
            self.judge(resolve_reference(self._root, found["$ref"]), value, path, depth + 1)
        self._judge_value(found, value, path)
        self._judge_inside(found, value, path, depth)
        self._judge_combined(found, value, path, depth)

    def _spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0:
            raise Undecided

    def _judge_value(self, schema: dict[str, Any], value: object, path: str) -> None:
        kinds = schema.get("type")
        if kinds is not None:
            named = cast("list[str]", kinds) if isinstance(kinds, list) else [str(kinds)]
            if not any(_is_a(value, kind) for kind in named):
                raise _Misfit(path, f"is not of type {' or '.join(named)}")
        if isinstance(choices := schema.get("enum"), list):
            self._spend(len(cast("list[Any]", choices)))
            if not any(_same(value, one) for one in cast("list[Any]", choices)):
                raise _Misfit(path, "is none of the values that are allowed")
        if "const" in schema and not _same(value, schema["const"]):
            raise _Misfit(path, "is not the value that is allowed")
        _judge_size(schema, value, path)

    def _judge_inside(self, schema: dict[str, Any], value: object, path: str, depth: int) -> None:
        if isinstance(value, dict):
            self._judge_object(schema, cast("dict[str, Any]", value), path, depth)
        elif isinstance(value, list):
            self._judge_array(schema, cast("list[Any]", value), path, depth)

    def _judge_object(
        self, schema: dict[str, Any], value: dict[str, Any], path: str, depth: int
    ) -> None:
        for name in schema.get("required") or ():
            self._spend(1)
            if name not in value:
                raise _Misfit(path, f"lacks '{_shown(name)}'")
        properties: dict[str, Any] = schema.get("properties") or {}
        for name, part in value.items():
            if name in properties:
                self.judge(properties[name], part, f"{path}/{_shown(name)}", depth + 1)
        if "additionalProperties" in schema and _UNJUDGED_NEIGHBOURS.isdisjoint(schema):
            rest = schema["additionalProperties"]
            for name, part in value.items():
                if name not in properties:
                    self.judge(rest, part, f"{path}/{_shown(name)}", depth + 1)

    def _judge_array(self, schema: dict[str, Any], value: list[Any], path: str, depth: int) -> None:
        first = schema.get("prefixItems")
        prefix = cast("list[Any]", first) if isinstance(first, list) else []
        for index, (one, part) in enumerate(zip(prefix, value, strict=False)):
            self.judge(one, part, f"{path}/{index}", depth + 1)
        items = schema.get("items")
        if isinstance(items, dict | bool):
            for index in range(len(prefix), len(value)):
                self.judge(items, value[index], f"{path}/{index}", depth + 1)  # pyright: ignore[reportUnknownArgumentType]

    def _judge_combined(self, schema: dict[str, Any], value: object, path: str, depth: int) -> None:
        for one in schema.get("allOf") or ():
            self.judge(one, value, path, depth + 1)
        for keyword, fits in _CHOICES.items():
            if isinstance(options := schema.get(keyword), list):
                fitting = sum(self._fits(one, value, depth) for one in cast("list[Any]", options))
                if not fits(fitting):
                    raise _Misfit(path, f"fits {fitting} of the choices of '{keyword}'")
        if "not" in schema and self._fits(schema["not"], value, depth) and _judged(schema["not"]):
            raise _Misfit(path, "fits what it must not")

    def _fits(self, schema: object, value: object, depth: int) -> bool:
        try:
            self.judge(schema, value, "", depth + 1)
        except _Misfit:
            return False
        return True


def _at_least_one(count: int) -> bool:
    return count >= 1


_CHOICES: dict[str, Callable[[int], bool]] = {"anyOf": _at_least_one, "oneOf": _at_least_one}
"""`oneOf` is taken for `anyOf`: two that fit may differ in what is not judged."""


def _judged(schema: object) -> bool:
    """Whether we know all that this schema asks, so that fitting it means something."""
    simple = {"type", "enum", "const", "required", "title", "description"}
    return schema is True or (
        isinstance(schema, dict) and set(cast("dict[str, Any]", schema)) <= simple
    )


def _is_a(value: object, kind: str) -> bool:
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer":
        whole = isinstance(value, float) and value.is_integer()
        return whole or (isinstance(value, int) and not isinstance(value, bool))
    types: dict[str, type] = {"object": dict, "array": list, "string": str, "boolean": bool}
    if kind == "null":
        return value is None
    return kind not in types or isinstance(value, types[kind])


def _same(one: object, other: object) -> bool:
    numbers = _is_a(one, "number") and _is_a(other, "number")
    return (numbers or type(one) is type(other)) and one == other


_BOUNDS: dict[str, Callable[[float, float], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}
_SIZES = (
    (str, "minLength", "maxLength", "characters"),
    (list, "minItems", "maxItems", "items"),
    (dict, "minProperties", "maxProperties", "properties"),
)


def _judge_size(schema: dict[str, Any], value: object, path: str) -> None:
    for kind, least, most, what in _SIZES:
        if isinstance(value, kind):
            size = len(cast(str, value))
            if (low := _number(schema.get(least))) is not None and size < low:
                raise _Misfit(path, f"has {size} {what}, which are too few")
            if (high := _number(schema.get(most))) is not None and size > high:
                raise _Misfit(path, f"has {size} {what}, which are too many")
    if (number := _number(cast(object, value))) is not None:
        for keyword, fits in _BOUNDS.items():
            bound = _number(schema.get(keyword))
            if bound is not None and not fits(number, bound):
                raise _Misfit(path, f"is beyond its {keyword}")


def _number(value: object) -> float | None:
    return cast(float, value) if _is_a(value, "number") else None


def _shown(name: object) -> str:
    text = str(name)[:60]
    return text if text.isprintable() else "?"
