"""`tool_search` as the model sees it: its definition, its answers, and what was found before."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from openclaw.agent.toolpath.choice import by_server
from openclaw.agent.toolpath.search import Found
from openclaw.content.labels import single_line
from openclaw.core.tools import JsonObject, ToolSpec

SEARCH_TOOL = "tool_search"
MOST_FOUND = 20
MOST_NEEDS = 8
_DEFAULT_FOUND = 5
_DEFAULT_FOUND_EACH = 3

_SUMMARY_CHARS = 200
_NEED_CHARS = 80
_NAME_CHARS = 60
_MOST_OPTIONAL = 6
_MOST_VALUES = 6

_DESCRIPTION = (
    "Find tools by what they do: there are more than those listed. Search before concluding that "
    "something cannot be done. What is found can be called from the next step on."
)
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What the tool should do."},
        "queries": {
            "type": "array",
            "items": {"type": "string"},
            "description": f"Or several needs, up to {MOST_NEEDS}.",
        },
        "limit": {"type": "integer", "description": "Tools for each."},
    },
}


def search_spec(lines: Sequence[str] = ()) -> ToolSpec:
    """The definition; `lines` say what servers have that is not shown."""
    text = _DESCRIPTION
    if lines:
        text += "\nTools that are not listed, by server:\n" + "\n".join(lines)
    return ToolSpec(SEARCH_TOOL, text, _SCHEMA, "Search tools", read_only=True)


def needs_of(arguments: JsonObject) -> tuple[list[str], int]:
    listed: Any = arguments.get("queries") or ()
    asked = [arguments.get("query"), *listed]
    needs = list(dict.fromkeys(str(one).strip() for one in asked if one is not None))
    needs = [need for need in needs if need][:MOST_NEEDS]
    default = _DEFAULT_FOUND if len(needs) == 1 else _DEFAULT_FOUND_EACH
    limit = max(1, min(int(arguments.get("limit") or default), MOST_FOUND))
    return needs, limit


def answer(found: Sequence[Found]) -> str:
    several = len(found) > 1
    lines = [_ranked(one, several) for one in found]
    specs = {spec.name: spec for one in found for spec in one.specs}
    if specs:
        lines.append("They can be called from the next step on.")
    for server, tools in by_server(specs.values()).items():
        title = f"server {server}" if server else "built in"
        lines += ["", f"{title}:", *map(_tool_line, tools)]
    return "\n".join(lines)


_FITTING = "Found"
_NOT_FITTING = "Nothing fits well"
_RANKED = re.compile(rf"^(?:{_FITTING}|{_NOT_FITTING})\b.*best first: ([\w, .-]+)$", re.MULTILINE)


def names_in(text: str) -> list[str]:
    """The tools that an answer listed, so that a later turn can show them again."""
    return [name for line in _RANKED.findall(text) for name in line.split(", ")]


def _ranked(found: Found, several: bool) -> str:
    need = f' for "{single_line(found.need, _NEED_CHARS)}"' if several else ""
    if not found.specs:
        return f"{_NOT_FITTING}{need}. Try other words."
    names = ", ".join(spec.name for spec in found.specs)
    if found.fits:
        return f"{_FITTING}{need}, best first: {names}"
    return f"{_NOT_FITTING}{need}; try other words. The nearest, best first: {names}"


def _tool_line(spec: ToolSpec) -> str:
    line = " ".join(spec.description.split())
    if len(line) > _SUMMARY_CHARS:
        line = f"{line[: _SUMMARY_CHARS - 1]}…"
    return f"- {spec.name}: {line}{_parameters(spec.input_schema)}"


def _parameters(schema: JsonObject) -> str:
    properties = _mapping(schema.get("properties"))
    listed: Any = schema.get("required")
    required = cast("list[Any]", listed) if isinstance(listed, list) else []
    needed = [_parameter(name, properties[name]) for name in required if name in properties]
    others = [single_line(name, _NAME_CHARS) for name in properties if name not in required]
    text = f" Needs {', '.join(needed)}." if needed else ""
    if others:
        more = ", …" if len(others) > _MOST_OPTIONAL else ""
        text += f" Optional: {', '.join(others[:_MOST_OPTIONAL])}{more}."
    return text


def _parameter(name: str, schema: Any) -> str:
    described = _mapping(schema)
    values: Any = described.get("enum")
    kind: Any = described.get("type")
    told = ""
    if isinstance(values, list) and values:
        some = _shown(cast("list[Any]", values)[:_MOST_VALUES])
        told = f" ({some}{'|…' if len(cast('list[Any]', values)) > _MOST_VALUES else ''})"
    elif isinstance(kind, str):
        told = f" ({single_line(kind, _NAME_CHARS)})"
    return single_line(name, _NAME_CHARS) + told


def _shown(values: Iterable[Any]) -> str:
    return "|".join(single_line(str(value), _NAME_CHARS) for value in values)


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}
