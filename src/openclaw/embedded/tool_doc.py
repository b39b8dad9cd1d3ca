"""A tool as the router sees it: weighted words, parameters, and whether it changes anything."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from openclaw.core.tools import json_list, json_object
from openclaw.discovery.stems import stem
from openclaw.embedded.vocabulary import (
    STOP_WORDS,
    synonyms,
    terms,
    vocabularies,
    vocabulary,
    word_set,
    words,
)

Want = Literal[
    "url", "email", "date", "time", "zone", "place", "glob", "path", "ref", "number", "flag", "choice",
    "query", "command", "id", "text", "other",
]  # fmt: skip
Role = Literal["file", "directory", "repository", "any"]


@dataclass(frozen=True, slots=True)
class Param:
    name: str
    want: Want
    required: bool
    schema: Mapping[str, Any]
    is_list: bool = False
    role: Role = "any"
    choices: tuple[Any, ...] = ()
    relative: bool = False
    default: Any = None
    stems: frozenset[str] = field(default_factory=frozenset[str])
    name_words: frozenset[str] = field(default_factory=frozenset[str])
    name_stems: frozenset[str] = field(default_factory=frozenset[str])


_BY_NAME = cast("Mapping[Want, frozenset[str]]", vocabularies("parameters"))
_ROLES = cast("Mapping[Role, frozenset[str]]", vocabularies("paths"))
_OF_GIT = word_set("commit commits branch branches git")
_OF_FILES = word_set("file files directory directories folder folders")
_ENDS = word_set("source destination")  # of a file that is moved, else of a journey
_CLOCK_SHAPE = re.compile(r"\bHH\b|\b\d?\d:\d\d|\bhour", re.IGNORECASE)
_QUOTED_OPTION = re.compile(r"['\"`]([A-Za-z][\w-]*)['\"`]")
_DEFAULT_IN_WORDS = re.compile(
    r"[Uu]se ['\"]([^'\"]+)['\"] as (?:the )?(?:local|default)[^.]*if no"
)
_RELATIVE = re.compile(r"\b(?:relative|workspace)\b")
_NEGATIVE = frozenset({"not", "exclude", "excluding", "ignore", "without"})
_BY_TYPE: Mapping[Any, Want] = {
    "integer": "number", "number": "number", "boolean": "flag", "object": "other", "array": "other",
}  # fmt: skip


def plain_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema with the first alternative that is not null in place of the choice."""
    for key in ("anyOf", "oneOf"):
        some = map(json_object, json_list(schema.get(key)))
        named = [one for one in some if one.get("type") != "null"]
        if named:
            return {**schema, **named[0]}
    kinds = [one for one in json_list(schema.get("type")) if one != "null"]
    return {**schema, "type": kinds[0]} if kinds else schema


def _by_name(name_words: frozenset[str], described: str, tool_words: frozenset[str]) -> Want:
    description = described.lower()
    if "iana" in description or ("timezone" in description and "time" not in name_words):
        return "zone"
    if name_words == frozenset({"target"}) and tool_words & _OF_GIT:
        return "ref"
    if name_words & _ENDS and tool_words & _OF_FILES:
        return "path"
    for want, names in _BY_NAME.items():
        if name_words & names and (want != "time" or _CLOCK_SHAPE.search(described)):
            break
    else:
        want = "glob" if "glob" in description else "text"
    if want == "glob" and re.search(r"\bregular expression|\bregexp?\b", description):
        return "query"
    return "text" if want == "ref" and "type" in name_words else want


def _want(
    name_words: frozenset[str],
    schema: Mapping[str, Any],
    description: str,
    tool_words: frozenset[str],
) -> Want:
    if json_list(schema.get("enum")):
        return "choice"
    kind = schema.get("type")
    if isinstance(kind, str) and kind in _BY_TYPE:
        return _BY_TYPE[kind]
    if name_words & _NEGATIVE:
        return "other"
    if schema.get("format") in ("uri", "url"):
        return "url"
    return _by_name(name_words, description, tool_words)


def _role(name_words: frozenset[str], tool_words: frozenset[str]) -> Role:
    for role, names in _ROLES.items():
        if name_words & names:
            return role
    if tool_words & _ROLES["directory"] and not tool_words & {"file"}:
        return "directory"
    return "file" if tool_words & {"file"} else "any"


def read_param(name: str, raw: Any, *, required: bool, tool_words: frozenset[str]) -> Param:
    schema = plain_schema(json_object(raw))
    is_list = schema.get("type") == "array"
    description = str(schema.get("description") or "")
    if is_list:
        schema = {**schema, "type": None, **plain_schema(json_object(schema.get("items")))}
    name_words = frozenset(words(name))
    want = _want(name_words, schema, description, tool_words)
    default = json_object(raw).get("default")
    described = _DEFAULT_IN_WORDS.search(description)
    # Options that a description quotes, if it quotes nothing else.
    options = tuple(dict.fromkeys(_QUOTED_OPTION.findall(description))) if want == "text" else ()
    return Param(
        name=name,
        want=want,
        required=required,
        schema=schema,
        is_list=is_list,
        role=_role(name_words, tool_words) if want == "path" else "any",
        choices=tuple(json_list(schema.get("enum"))) or (options if 2 <= len(options) <= 6 else ()),
        relative=bool(_RELATIVE.search(f"{description} {' '.join(tool_words)}".lower())),
        default=described[1] if default is None and described else default,
        stems=frozenset(terms(f"{name} {description}")),
        name_words=name_words,
        name_stems=frozenset(map(stem, name_words - STOP_WORDS)),
    )


def read_params(input_schema: Mapping[str, Any], tool_text: str) -> tuple[Param, ...]:
    properties = json_object(input_schema.get("properties"))
    required = json_list(input_schema.get("required"))
    tool_words = frozenset(words(tool_text))
    params = tuple(
        read_param(name, schema, required=name in required, tool_words=tool_words)
        for name, schema in properties.items()
    )
    if not any(param.want in ("glob", "query") and param.required for param in params):
        return params
    # In a tool that searches, a path says where to look.
    return tuple(
        replace(param, role="directory") if param.want == "path" else param for param in params
    )


Effect = Literal["reads", "changes", "unknown"]


@dataclass(frozen=True, slots=True)
class RoutableTool:
    name: str
    description: str
    schema: Mapping[str, Any]
    label: str = ""
    read_only: bool | None = None


@dataclass(frozen=True, slots=True)
class ToolDoc:
    tool: RoutableTool
    weights: Mapping[str, float]
    name_terms: frozenset[str]
    verbs: frozenset[str]
    params: tuple[Param, ...]
    effect: Effect
    deprecated: bool

    def says(self, term: str) -> bool:
        return self.weights.get(term, 0.0) >= _FIRST_SENTENCE


_NAME_WEIGHT, _FIRST_SENTENCE, _PARAM_WEIGHT, _REST_WEIGHT = 3.0, 1.5, 0.8, 0.3
_MAX_DESCRIPTION = 1500
_CHANGING = vocabulary("changing")
_PLAINLY_CHANGING = vocabulary("plainly_changing")
_READING = vocabulary("reading")
_ASKING_STEMS = frozenset(map(stem, _READING | vocabulary("asking")))
CHANGING_STEMS = frozenset(map(stem, _CHANGING))
_PREFIX = re.compile(r"^\[MCP server: [^\]]*\]\s*")
_LABEL = re.compile(r"MCP: ([^/]+)/(.+)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")


def _effect(tool: RoutableTool, name_words: Sequence[str]) -> Effect:
    if set(name_words) & _PLAINLY_CHANGING:
        return "changes"
    if tool.read_only is not None:
        return "reads" if tool.read_only else "changes"
    if set(name_words) & _CHANGING:
        return "changes"
    return "reads" if set(name_words) & _READING else "unknown"


def describe_tool(tool: RoutableTool) -> ToolDoc:
    text = _PREFIX.sub("", tool.description[:_MAX_DESCRIPTION]).strip()
    first, _, rest = (_SENTENCE_END.sub("\0", text, count=1) + "\0").partition("\0")
    labelled = _LABEL.fullmatch(tool.label)
    server, name = labelled.groups() if labelled else ("", tool.name.removeprefix("mcp_"))
    name_words = words(name)
    params = read_params(tool.schema, f"{' '.join(name_words)} {first}")
    weights: dict[str, float] = {}
    for words_of, weight in (
        (rest, _REST_WEIGHT),
        (server, _PARAM_WEIGHT),
        (" ".join(param.name for param in params), _PARAM_WEIGHT),
        (first, _FIRST_SENTENCE),
        (" ".join(name_words), _NAME_WEIGHT),
    ):
        for term in terms(words_of):
            weights[term] = max(weights.get(term, 0.0), weight)
    effect = _effect(tool, name_words)
    verbs = frozenset(map(stem, _CHANGING.intersection(name_words) or name_words))
    alike = frozenset[str]().union(*map(synonyms, verbs))
    return ToolDoc(
        tool=tool,
        weights=weights,
        name_terms=frozenset(terms(" ".join(name_words))),
        verbs=verbs | (alike - _ASKING_STEMS if effect == "changes" else alike),
        params=params,
        effect=effect,
        deprecated="deprecated" in text.lower(),
    )
