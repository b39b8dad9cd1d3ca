"""Tools' input schemas for providers that cannot take everything JSON Schema has.

A schema goes to a provider as the tool's maker wrote it, except for what that provider is known to
refuse: all of them refuse a choice at the top level, where OpenAI and Anthropic want one object.
What else Google cannot take, the model library rewrites. Imports the library.
"""

from collections.abc import Mapping
from typing import Any, cast

from pydantic_ai import JsonSchemaTransformer
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer

Schema = dict[str, Any]

_CHOICES = ("anyOf", "oneOf", "allOf")
_REFUSED_AT_TOP = frozenset({*_CHOICES, "enum", "const", "not", "if", "then", "else"})
_MOST_REFERENCES = 20  # in a row


class OneObject(JsonSchemaTransformer):
    """The schema as it is, but for a choice at its top."""

    def __init__(self, schema: Schema, *, strict: bool | None = None) -> None:
        super().__init__({}, strict=strict)  # what it copies is not needed
        self.schema = schema

    def walk(self) -> Schema:
        """The schema that is sent."""
        return without_choice_at_top(self.schema)

    def transform(self, schema: Schema) -> Schema:
        """Nothing below the top is changed."""
        return schema


class OneGoogleObject(GoogleJsonSchemaTransformer):
    """The library's rewriting for Google, of a schema without a choice at its top."""

    def __init__(self, schema: Schema, *, strict: bool | None = None) -> None:
        super().__init__(without_choice_at_top(schema), strict=strict)


def without_choice_at_top(schema: Schema) -> Schema:
    """One object that allows what any branch allows; the server still checks what it gets."""
    if not _REFUSED_AT_TOP & schema.keys():
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


def _followed(root: Schema, schema: object) -> Schema:
    """The schema that a chain of references ends in; empty where it ends nowhere."""
    found = dict(_object(schema))
    for _ in range(_MOST_REFERENCES):
        if "$ref" not in found:
            return found
        found = dict(_object(_target(root, found["$ref"])))
    return {}


def _target(root: Schema, reference: object) -> object:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: object = root
    for step in reference[2:].split("/"):
        found = _object(found).get(step.replace("~1", "/").replace("~0", "~"))
    return found


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
