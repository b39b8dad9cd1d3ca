"""Adapts tools to what each vendor's interface accepts, and a model's calls back to the tools.

One tool that a vendor does not accept makes it refuse the whole request. So each is changed as little
as its interface needs; if that loses something, its description says what.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pydantic_ai import JsonSchemaTransformer
from pydantic_ai.tools import ToolDefinition

from openclaw.models.choose import Api

Schema = dict[str, Any]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_NAME_CHARS = 64
_ID_CHARS = 40
_UNNAMED = "unnamed_tool"


def wire_name(name: str) -> str:
    """A tool's name as every vendor accepts it: mostly the same."""
    if _NAME.fullmatch(name):
        return name
    clean = re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:_NAME_CHARS]
    return clean if _NAME.fullmatch(clean) else f"_{clean}"[:_NAME_CHARS] if clean else _UNNAMED


def wire_id(call_id: str) -> str:
    """A call's id as every vendor accepts it; different ids stay different."""
    if not call_id or _ID.fullmatch(call_id):
        return call_id
    digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:8]
    clean = re.sub(r"[^A-Za-z0-9_-]+", "_", call_id)[: _ID_CHARS - len(digest) - 1]
    return f"{clean}-{digest}"


class UnchangedSchema(JsonSchemaTransformer):
    """Has the model library send a schema as it is."""

    def __init__(self, schema: Schema, *, strict: bool | None = None) -> None:
        super().__init__({}, strict=strict)  # what it copies is not needed
        self.schema = schema

    def walk(self) -> Schema:
        return self.schema

    def transform(self, schema: Schema) -> Schema:
        return schema


@dataclass(frozen=True, slots=True)
class AdaptedTool:
    """A tool as it is sent. `keys` has our names for the arguments' keys that had to be changed."""

    name: str
    definition: ToolDefinition
    keys: Mapping[str, str]

    def restore(self, value: Any) -> Any:
        """Arguments that a model wrote, with the tool's own keys."""
        if isinstance(value, dict):
            items = cast("dict[str, Any]", value).items()
            return {self.keys.get(key, key): self.restore(below) for key, below in items}
        if isinstance(value, list):
            return [self.restore(below) for below in cast("list[Any]", value)]
        return value


@dataclass(slots=True)
class ToolAdapter:
    """Adapts tools for one interface, and remembers the results."""

    api: Api
    _known: dict[str, tuple[ToolDefinition, AdaptedTool]] = field(
        default_factory=dict[str, tuple[ToolDefinition, AdaptedTool]]
    )

    def adapt(self, tool: ToolDefinition) -> AdaptedTool:
        known = self._known.get(tool.name)
        if known is None or known[0] != tool:
            known = self._known[tool.name] = tool, adapted(tool, self.api)
        return known[1]


def adapted(tool: ToolDefinition, api: Api) -> AdaptedTool:
    original = dict(tool.parameters_json_schema)
    work = _Adaptation(api, without_choice_at_top(original))
    schema = work.adapt_root()
    notes = [*_lost_choice(original), *work.notes]
    description = "\n".join([tool.description or "", *dict.fromkeys(notes)]).strip()
    if api == "openai-completions" and len(description) > _CHAT_DESCRIPTION:
        head = description[: _CHAT_DESCRIPTION - len(_CONTINUED)].rpartition(" ")[0]
        head = head or description[: _CHAT_DESCRIPTION - len(_CONTINUED)]
        rest = [description[len(head) :].strip(), str(schema.get("description", ""))]
        schema = {**schema, "description": "\n".join(filter(None, rest))}
        description = head + _CONTINUED
    definition = replace(
        tool,
        name=wire_name(tool.name),
        description=description,
        parameters_json_schema=schema,
    )
    return AdaptedTool(tool.name, definition, work.keys)


_CHAT_DESCRIPTION = 1024  # OpenAI's limit for a function's; a schema's may be longer
_CONTINUED = " […continued in the description of the parameters]"
_DEEPEST = 60
_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_KEY_CHARS = 64
_OF_NAMES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_OF_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_OF_ONE = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
)


@dataclass(slots=True)
class _Adaptation:
    """One schema on its way to one interface: draft 2020-12, with what the interface insists on."""

    api: Api
    root: Schema
    notes: list[str] = field(default_factory=list[str])
    keys: dict[str, str] = field(default_factory=dict[str, str])
    _renamed: dict[str, str] = field(default_factory=dict[str, str])

    def adapt_root(self) -> Schema:
        schema = self._adapt(self.root, 0)
        if schema.get("type") != "object":
            schema = {**schema, "type": "object"}
        return schema if "properties" in schema else {**schema, "properties": {}}

    def _adapt(self, schema: Mapping[str, Any], depth: int) -> Schema:
        if depth > _DEEPEST:
            if schema:
                self.notes.append("(The deepest parts of the schema are left out.)")
            return {}
        out: Schema = {key: value for key, value in schema.items() if key != "$schema"}
        self._fix_type(out)
        _use_new_bounds(out)
        _use_new_tuples(out)
        self._fix_values(out)
        for keyword in _OF_NAMES:
            if keyword in out:
                below = _object(out[keyword])
                out[keyword] = {key: self._below(one, depth) for key, one in below.items()}
        for keyword in _OF_LISTS:
            if keyword in out:
                out[keyword] = [self._below(one, depth) for one in _list(out[keyword])]
                if not out[keyword]:
                    del out[keyword]
        for keyword in _OF_ONE:
            if keyword in out:
                out[keyword] = self._below(out[keyword], depth)
        self._meet_demands(out)
        return out

    def _below(self, schema: object, depth: int) -> Any:
        if isinstance(schema, bool):
            return schema
        return self._adapt(_object(schema), depth + 1)

    def _fix_type(self, schema: Schema) -> None:
        if "type" not in schema:
            return
        named = _list(schema["type"]) or [schema["type"]]
        kinds = [kind for kind in named if isinstance(kind, str) and kind in _TYPES]
        others = [str(kind) for kind in named if kind not in kinds]
        if others:
            described = schema.get("description")
            words = [described] if isinstance(described, str) else []
            schema["description"] = " ".join([*words, f"(type: {', '.join(others)})"])
            if not kinds:
                del schema["type"]
                return
            schema["type"] = kinds[0] if len(kinds) == 1 else kinds

    def _fix_values(self, schema: Schema) -> None:
        if "required" in schema:
            listed = [one for one in _list(schema["required"]) if isinstance(one, str)]
            if listed:
                schema["required"] = list(dict.fromkeys(listed))
            else:
                del schema["required"]
        if "enum" in schema and not _list(schema["enum"]):
            del schema["enum"]
        for keyword in _OF_NAMES:
            if keyword in schema and not isinstance(schema[keyword], dict):
                del schema[keyword]
        if not isinstance(schema.get("additionalProperties", True), dict | bool):
            del schema["additionalProperties"]
        if "description" in schema and not isinstance(schema["description"], str):
            del schema["description"]
        reference = schema.get("$ref")
        if reference is not None and (
            not isinstance(reference, str) or _target(self.root, reference) is None
        ):
            del schema["$ref"]
            self.notes.append(f"(A part of the schema is missing: {str(reference)[:80]})")

    def _meet_demands(self, schema: Schema) -> None:
        kinds = _list(schema.get("type")) or [schema.get("type")]
        has_items = isinstance(schema.get("items"), dict)
        if "array" in kinds and not has_items and self.api != "anthropic-messages":
            schema["items"] = {}
        if self.api.startswith("openai"):
            if "object" in kinds and "properties" not in schema:
                schema["properties"] = {}
        elif self.api == "anthropic-messages":
            self._rename_keys(schema)
        elif self.api == "google-generative-ai":
            _fit_google(schema)

    def _rename_keys(self, schema: Schema) -> None:
        properties = _object(schema.get("properties"))
        if all(_KEY.fullmatch(key) for key in properties):
            return
        names = {key: self._key(key, properties) for key in properties}
        schema["properties"] = {names[key]: value for key, value in properties.items()}
        if "required" in schema:
            schema["required"] = [names.get(key, key) for key in schema["required"]]

    def _key(self, key: str, others: Iterable[str]) -> str:
        """The key as it is sent: the same for the same key, and no other's."""
        if _KEY.fullmatch(key):
            return key
        if key not in self._renamed:
            clean = re.sub(r"[^a-zA-Z0-9_.-]+", "_", key).strip("_")[:_KEY_CHARS]
            if not clean or clean in self.keys or clean in others or len(key) > _KEY_CHARS:
                digest = hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:8]
                clean = f"{clean[: _KEY_CHARS - 9]}_{digest}"
            self._renamed[key] = clean
            self.keys[clean] = key
        return self._renamed[key]


def _use_new_bounds(schema: Schema) -> None:
    """Draft 4 says with a boolean that a bound is exclusive."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(exclusive), bool):
            is_exclusive = schema.pop(exclusive)
            if is_exclusive and bound in schema:
                schema[exclusive] = schema.pop(bound)


def _use_new_tuples(schema: Schema) -> None:
    """Before draft 2020-12, a list of `items` is a tuple, and `additionalItems` come after it."""
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        if isinstance(schema.get("additionalItems"), dict):
            schema["items"] = schema["additionalItems"]
    schema.pop("additionalItems", None)
    items = schema.get("items")
    if items is not None and not isinstance(items, dict | bool):
        del schema["items"]


def _fit_google(schema: Schema) -> None:
    properties = _object(schema.get("properties"))
    if properties and "required" in schema:
        schema["required"] = [name for name in schema["required"] if name in properties]
        if not schema["required"]:
            del schema["required"]
    if "enum" in schema and (values := [one for one in _list(schema["enum"]) if one != ""]):
        schema["enum"] = values
    elif "enum" in schema:
        del schema["enum"]


# All vendors refuse a choice at the top level, where OpenAI and Anthropic want one object.

_CHOICES = ("anyOf", "oneOf", "allOf")
_REFUSED_AT_TOP = frozenset({*_CHOICES, "enum", "const", "not", "if", "then", "else"})
_MOST_REFERENCES = 20  # in a row
_MOST_CHOICES = 8


def without_choice_at_top(schema: Schema) -> Schema:
    """One object that allows what any branch allows; the server still checks what it gets."""
    if not _REFUSED_AT_TOP & schema.keys():
        return schema
    kept = {key: value for key, value in schema.items() if key not in _REFUSED_AT_TOP}
    properties: Schema = dict(_object(kept.get("properties")))
    required = [one for one in _list(kept.get("required")) if isinstance(one, str)]
    for keyword in _CHOICES:
        branches = [_followed(schema, branch) for branch in _list(schema.get(keyword))]
        for branch in branches:
            for name, value in _object(branch.get("properties")).items():
                properties.setdefault(name, value)
        named = [_list(branch.get("required")) for branch in branches]
        enough = 1 if keyword == "allOf" else len(named)
        every = sorted({name for names in named for name in names} - set(required))
        required += [n for n in every if sum(n in names for names in named) >= enough]
    merged: Schema = {**kept, "type": "object", "properties": properties}
    return {**merged, "required": required} if required else merged


def _lost_choice(schema: Schema) -> list[str]:
    """What `without_choice_at_top` could not keep: which arguments belong together."""
    notes: list[str] = []
    for keyword in ("anyOf", "oneOf"):
        branches = [_followed(schema, branch) for branch in _list(schema.get(keyword))]
        sets = [
            ", ".join(f"`{name}`" for name in _list(branch.get("required"))) or "none of these"
            for branch in branches[:_MOST_CHOICES]
        ]
        if len(set(sets)) > 1:
            notes.append(f"(Give these arguments together: {'; or '.join(dict.fromkeys(sets))}.)")
    return notes


def _followed(root: Schema, schema: object) -> Schema:
    """The schema at the end of a chain of references; empty if there is none."""
    current = dict(_object(schema))
    for _ in range(_MOST_REFERENCES):
        if "$ref" not in current:
            return current
        current = dict(_object(_target(root, current["$ref"])))
    return {}


def _target(root: Schema, reference: object) -> object:
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    target: object = root
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and name.isdecimal():
            items = cast("list[Any]", target)
            target = items[int(name)] if int(name) < len(items) else None
        else:
            target = _object(cast("object", target)).get(name)
    return target


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else ()
