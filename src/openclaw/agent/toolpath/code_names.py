"""`run_code` as the model sees it, and tools as Python functions: names, parameters, signatures. Pure."""

import builtins
import json
import keyword
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2s
from typing import Any

from openclaw.core.events import RUN_CODE
from openclaw.core.tools import JsonObject, ToolSpec, json_list, json_object

CODE_SPEC = ToolSpec(
    name=RUN_CODE,
    description=(
        "Run a Python script that calls tools, for work of several calls or much data. Every tool, "
        "listed or found by tool_search, is an async function of its name (_ for what Python does "
        "not take) with keyword arguments: `rows = await mcp_db_query(sql='…')`. It returns a dict "
        "or list if its text is JSON, else a str, and raises RuntimeError if it fails. You see only "
        "what is printed and the last line's value. No files, network or packages but asyncio, "
        "base64, collections, csv, datetime, decimal, functools, itertools, json, math, re."
    ),
    input_schema={
        "type": "object",
        "properties": {"code": {"type": "string"}},
        "required": ["code"],
    },
    label="Run a script",
    read_only=None,
    destructive=None,
)

_RESERVED = frozenset([*keyword.kwlist, *keyword.softkwlist, *dir(builtins)])
_SIMPLE = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None",
}  # fmt: skip
_ORIGIN = re.compile(r"^\[MCP server: [^\]]*\] ")
_MOST_CHOICES = 12
_MOST_FIELDS = 12
_MOST_OPTIONS = 6
_MOST_LITERAL_CHARS = 40
_MOST_TYPE_CHARS = 160
_MOST_NOTE_CHARS = 90
_MOST_DEPTH = 3  # with the limits above it also bounds the work that a hostile schema can cause


@dataclass(frozen=True, slots=True)
class Parameter:
    """`key` is the schema's own name, `identifier` the one that a script writes."""

    key: str
    identifier: str
    declaration: str
    required: bool


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A tool as a script sees it; required parameters come first."""

    identifier: str
    spec: ToolSpec
    parameters: tuple[Parameter, ...]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The tool's arguments; raises `TypeError` as Python would.

        Unknown names are passed on: the tool path checks arguments against the schema.
        """
        if len(args) > len(self.parameters):
            raise TypeError(f"{self.identifier}() takes {len(self.parameters)} arguments")
        bound = {one.key: value for one, value in zip(self.parameters, args, strict=False)}
        keys = {one.identifier: one.key for one in self.parameters}
        for name, value in kwargs.items():
            key = keys.get(name, name)
            if key in bound:
                raise TypeError(f"{self.identifier}() got two values for '{name}'")
            bound[key] = value
        return bound

    def stub(self, note: bool = True) -> str:
        parameters = ", ".join(one.declaration for one in self.parameters)
        line = f"async def {self.identifier}({'*, ' + parameters if parameters else ''}) -> Any"
        described = _one_line(self.spec.description) if note else ""
        return f"{line}  # {described}" if described else line


def tool_functions(specs: Sequence[ToolSpec]) -> dict[str, ToolFunction]:
    """Every tool by its identifier, which does not depend on their order."""
    named = zip(_unique([spec.name for spec in specs]), specs, strict=True)
    return {name: ToolFunction(name, spec, _parameters(spec.input_schema)) for name, spec in named}


def _unique(names: Sequence[str]) -> list[str]:
    """A valid identifier for each name; names that become equal end in a short hash."""
    plain = [_identifier(name) for name in names]
    count = Counter(plain)
    for at, (ident, name) in enumerate(zip(plain, names, strict=True)):
        if count[ident] > 1 and ident != name:
            digest = blake2s(name.encode(errors="replace"), digest_size=3).hexdigest()
            plain[at] = f"{ident}_{digest}"
    return plain


def _identifier(name: str) -> str:
    # A leading underscore is the sandbox's own; see the prelude in `code`.
    ident = re.sub(r"[^A-Za-z0-9_]", "_", name).lstrip("_") or "tool"
    if ident[0].isdigit():
        ident = f"n{ident}"
    return f"{ident}_" if ident in _RESERVED else ident


def _parameters(schema: JsonObject) -> tuple[Parameter, ...]:
    known = json_object(schema.get("properties"))
    required = json_list(schema.get("required"))
    found: list[Parameter] = []
    for key, ident in zip(known, _unique(list(known)), strict=True):
        default = _literal(json_object(known[key]).get("default")) or "..."
        kind = _type(known[key], schema, 0)
        if len(kind) > _MOST_TYPE_CHARS:
            kind = _type(known[key], schema, _MOST_DEPTH)
        declaration = f"{ident}: {kind}"
        if key not in required:
            declaration += f" = {default}"
        found.append(Parameter(key, ident, declaration, key in required))
    return tuple(sorted(found, key=lambda one: not one.required))


def _literal(value: Any) -> str:
    if not isinstance(value, str | int | float | bool):
        return ""
    text = json.dumps(value) if isinstance(value, str) else repr(value)
    return text if len(text) <= _MOST_LITERAL_CHARS else ""


def _type(schema: Any, root: JsonObject, depth: int) -> str:
    node = json_object(schema)
    if depth > _MOST_DEPTH:
        return "Any"
    if "$ref" in node:
        return _type(_resolve(str(node["$ref"]), root), root, depth + 1)
    if choices := _choices(node):
        return choices
    if options := json_list(node.get("anyOf")) or json_list(node.get("oneOf")):
        return _union([_type(one, root, depth + 1) for one in options[:_MOST_OPTIONS]])
    kinds = json_list(node.get("type")) or [node.get("type")]
    return _union([_of_kind(str(kind), node, root, depth) for kind in kinds[:_MOST_OPTIONS]])


def _of_kind(kind: str, node: Mapping[str, Any], root: JsonObject, depth: int) -> str:
    if kind == "array":
        inner = _type(node.get("items"), root, depth + 1)
        return "list" if inner == "Any" else f"list[{inner}]"
    if kind == "object":
        return _object(node, root, depth)
    return _SIMPLE.get(kind, "Any")


def _object(node: Mapping[str, Any], root: JsonObject, depth: int) -> str:
    """Known keys as a dict display, optional ones with a question mark."""
    properties = json_object(node.get("properties"))
    if 0 < len(properties) <= _MOST_FIELDS and depth < _MOST_DEPTH:
        required = json_list(node.get("required"))
        fields = [
            f"{json.dumps(key if key in required else key + '?')}: {_type(one, root, depth + 1)}"
            for key, one in properties.items()
        ]
        return "{" + ", ".join(fields) + "}"
    inner = _type(node.get("additionalProperties"), root, depth + 1)
    return "dict" if inner == "Any" else f"dict[str, {inner}]"


def _choices(node: Mapping[str, Any]) -> str:
    values = [node["const"]] if "const" in node else json_list(node.get("enum"))
    literals = ["None" if one is None else _literal(one) for one in values[: _MOST_CHOICES + 1]]
    fits = 0 < len(literals) <= _MOST_CHOICES and all(literals)
    return f"Literal[{', '.join(literals)}]" if fits else ""


def _union(options: Sequence[str]) -> str:
    unique = list(dict.fromkeys(options))
    return "Any" if "Any" in unique else " | ".join(unique)


def _resolve(reference: str, root: JsonObject) -> Any:
    node: Any = root if reference.startswith("#/") else None
    for step in reference[2:].split("/"):
        node = json_object(node).get(step.replace("~1", "/").replace("~0", "~"))
    return node


def _one_line(text: str) -> str:
    sentence = re.split(r"(?<=[.!?]) ", _ORIGIN.sub("", " ".join(text.split())), maxsplit=1)[0]
    if len(sentence) > _MOST_NOTE_CHARS:
        return sentence[: _MOST_NOTE_CHARS - 1] + "…"
    return sentence.rstrip(".")
