"""Input schemas for providers that cannot take everything JSON Schema has. Pure.

A schema goes to a provider as the server wrote it, except for what that provider is known to
refuse: OpenAI and Anthropic refuse a choice at the top level; Google takes a dialect of its own.
"""

from collections.abc import Callable, Mapping
from typing import Any, cast

from openclaw.mcp_client.schema_check import BadSchema, resolve_reference

Schema = dict[str, Any]

_CHOICES = ("anyOf", "oneOf", "allOf")
_REFUSED_AT_TOP = frozenset({*_CHOICES, "enum", "const", "not", "if", "then", "else"})
_GOOGLE_KEYWORDS = frozenset(
    {
        "anyOf",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "nullable",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
    }
)
_GOOGLE_FORMATS = {
    "string": {"date-time", "enum"},
    "integer": {"int32", "int64"},
    "number": {"float", "double"},
}


def schema_for(family: str, schema: Mapping[str, Any]) -> Schema:
    """The schema as that family of providers takes it: `openai`, `anthropic`, `google` or another."""
    convert = _FAMILIES.get(family)
    return convert(dict(schema)) if convert is not None else dict(schema)


def _without_choice_at_top(schema: Schema) -> Schema:
    """One object that allows what any branch allows; the server still checks what it gets."""
    if not _REFUSED_AT_TOP & set(schema):
        return schema
    kept = {key: value for key, value in schema.items() if key not in _REFUSED_AT_TOP}
    properties: Schema = dict(_object(kept.get("properties")))
    required: list[str] = list(kept.get("required") or ())
    for keyword in _CHOICES:
        branches = [_followed(schema, branch) for branch in schema.get(keyword) or ()]
        for branch in branches:
            for name, value in _object(branch.get("properties")).items():
                properties.setdefault(name, value)
        named = [cast(list[str], branch.get("required") or []) for branch in branches]
        enough = 1 if keyword == "allOf" else len(named)
        every = sorted({name for names in named for name in names} - set(required))
        required += [n for n in every if sum(n in names for names in named) >= enough]
    merged: Schema = {**kept, "type": "object", "properties": properties}
    return {**merged, "required": required} if required else merged


def _for_google(schema: Schema) -> Schema:
    return _google(schema, _without_choice_at_top(schema), frozenset())


def _google(root: Schema, schema: Schema, inside: frozenset[str]) -> Schema:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in inside:  # a schema that contains itself has no finite form
            return {"type": "object", "description": "As above, nested."}
        target = _object(resolve_reference(root, reference))
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        return _google(root, {**target, **beside}, inside | {reference})
    found = _respelled(_merged(root, schema))
    result = {key: value for key, value in found.items() if key in _GOOGLE_KEYWORDS}
    _fix_format(result)

    def below(value: object) -> Schema:
        return _google(root, dict(_object(value)), inside)

    if "properties" in result:
        result["properties"] = {k: below(v) for k, v in _object(result["properties"]).items()}
        required = [n for n in result.get("required") or () if n in result["properties"]]
        result.pop("required", None)
        if required:
            result["required"] = required
    if "items" in result:
        result["items"] = below(result["items"])
    if "anyOf" in result:
        result["anyOf"] = [below(branch) for branch in result["anyOf"]]
    return result


def _merged(root: Schema, schema: Schema) -> Schema:
    """`allOf` as one schema."""
    branches = schema.get("allOf")
    if not isinstance(branches, list):
        return schema
    merged: Schema = {key: value for key, value in schema.items() if key != "allOf"}
    for branch in cast(list[object], branches):
        found = _followed(root, branch)
        properties = {**_object(merged.get("properties")), **_object(found.get("properties"))}
        required = [*(merged.get("required") or ()), *(found.get("required") or ())]
        merged = {**found, **merged}
        if properties:
            merged["properties"] = properties
        if required:
            merged["required"] = list(dict.fromkeys(required))
    return merged


def _respelled(schema: Schema) -> Schema:
    """The same, in words that Google knows."""
    found = dict(schema)
    if "const" in found:
        found["enum"] = [found.pop("const")]
    if "oneOf" in found and "anyOf" not in found:
        found["anyOf"] = found.pop("oneOf")
    if "enum" in found:
        found["enum"] = [str(value) for value in found["enum"] if value is not None]
        found["type"] = "string"
    kinds = found.get("type")
    if isinstance(kinds, list):
        named = [kind for kind in cast(list[str], kinds) if kind != "null"]
        if len(named) < len(cast(list[str], kinds)):
            found["nullable"] = True
        found["type"] = named[0] if named else "string"
    return found


def _fix_format(schema: Schema) -> None:
    allowed = _GOOGLE_FORMATS.get(str(schema.get("type")), set[str]())
    if schema.get("format") not in allowed:
        schema.pop("format", None)


def _followed(root: Mapping[str, Any], schema: object) -> Schema:
    """The schema that a chain of references ends in."""
    found = dict(_object(schema))
    for _ in range(20):
        if "$ref" not in found:
            return found
        try:
            found = dict(_object(resolve_reference(root, found["$ref"])))
        except BadSchema:
            return {}
    return {}


def _object(value: object) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}


_FAMILIES: dict[str, Callable[[Schema], Schema]] = {
    "openai": _without_choice_at_top,
    "anthropic": _without_choice_at_top,
    "google": _for_google,
}
