"""`run_code` as the model sees it, and tools as Python functions: names, parameters, types. Pure."""

import builtins
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

_TYPES = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list",
    "object": "dict", "null": "None",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A tool as a script sees it.

    `parameters` maps the names that a script uses, the required ones first, to the schema's names.
    """

    identifier: str
    spec: ToolSpec
    parameters: Mapping[str, str]

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The tool's arguments; raises `TypeError` as Python would.

        Unknown names are passed on: the tool path checks arguments against the schema.
        """
        if len(args) > len(self.parameters):
            raise TypeError(f"{self.identifier}() takes {len(self.parameters)} arguments")
        bound = dict(zip(self.parameters.values(), args, strict=False))
        for name, value in kwargs.items():
            key = self.parameters.get(name, name)
            if key in bound:
                raise TypeError(f"{self.identifier}() got two values for '{name}'")
            bound[key] = value
        return bound

    def signature(self) -> str:
        known = json_object(self.spec.input_schema.get("properties"))
        required = json_list(self.spec.input_schema.get("required"))
        named = (
            f"{name}: {_type(known[key])}{'' if key in required else ' = ...'}"
            for name, key in self.parameters.items()
        )
        return f"{self.identifier}({', '.join(named)})"


def tool_functions(specs: Sequence[ToolSpec]) -> dict[str, ToolFunction]:
    """Every tool by its identifier, which does not depend on their order."""
    named = zip(_unique([spec.name for spec in specs]), specs, strict=True)
    return {name: ToolFunction(name, spec, _parameters(spec.input_schema)) for name, spec in named}


def _unique(names: Sequence[str]) -> list[str]:
    """A valid identifier for each name; names that clash end in a short hash."""
    plain = [_identifier(name) for name in names]
    count = Counter(plain)
    for at, (ident, name) in enumerate(zip(plain, names, strict=True)):
        if count[ident] > 1 and ident != name:
            digest = blake2s(name.encode(errors="replace"), digest_size=3).hexdigest()
            plain[at] = f"{ident}_{digest}"
    return plain


def _identifier(name: str) -> str:
    # A leading underscore is reserved for the sandbox; see the prelude in `run_code`.
    ident = re.sub(r"[^A-Za-z0-9_]", "_", name).lstrip("_") or "tool"
    if ident[0].isdigit():
        ident = f"n{ident}"
    return f"{ident}_" if ident in _RESERVED else ident


def _parameters(schema: JsonObject) -> dict[str, str]:
    known, required = json_object(schema.get("properties")), json_list(schema.get("required"))
    keys = sorted(known, key=lambda key: key not in required)
    return dict(zip(_unique(keys), keys, strict=True))


def _type(schema: Any) -> str:
    """The outermost type as Python writes it, as in `list | None`."""
    node = json_object(schema)
    options = json_list(node.get("anyOf")) or json_list(node.get("oneOf")) or [node]
    declared = [json_object(one).get("type") for one in options]
    kinds = [kind for one in declared for kind in json_list(one) or [one]]
    names = (_TYPES.get(kind, "Any") if isinstance(kind, str) else "Any" for kind in kinds)
    return " | ".join(dict.fromkeys(names))
