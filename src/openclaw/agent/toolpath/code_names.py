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
from openclaw.core.tools import ToolSpec, json_list, json_object

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


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A tool as a script sees it. `keys` are the schema's own names by those that a script writes,

    the `required` ones first.
    """

    identifier: str
    spec: ToolSpec
    keys: Mapping[str, str]
    required: int

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The tool's arguments; raises `TypeError` as Python would.

        Unknown names are passed on: the tool path checks arguments against the schema.
        """
        if len(args) > len(self.keys):
            raise TypeError(f"{self.identifier}() takes {len(self.keys)} arguments")
        bound = dict(zip(self.keys.values(), args, strict=False))
        for name, value in kwargs.items():
            key = self.keys.get(name, name)
            if key in bound:
                raise TypeError(f"{self.identifier}() got two values for '{name}'")
            bound[key] = value
        return bound

    def stub(self) -> str:
        named = [f"{name}=..." if n >= self.required else name for n, name in enumerate(self.keys)]
        return f"{self.identifier}({', '.join(named)})"


def tool_functions(specs: Sequence[ToolSpec]) -> dict[str, ToolFunction]:
    """Every tool by its identifier, which does not depend on their order."""
    named = zip(_unique([spec.name for spec in specs]), specs, strict=True)
    return {name: _function(name, spec) for name, spec in named}


def _function(identifier: str, spec: ToolSpec) -> ToolFunction:
    known = list(json_object(spec.input_schema.get("properties")))
    required = json_list(spec.input_schema.get("required"))
    named = zip(_unique(known), known, strict=True)
    keys = dict(sorted(named, key=lambda one: one[1] not in required))
    return ToolFunction(identifier, spec, keys, sum(key in required for key in known))


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
