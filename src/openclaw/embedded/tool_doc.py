"""A tool as the router sees it: weighted words, parameters, and whether it changes anything."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, cast

from openclaw.core.tools import json_list, json_object
from openclaw.embedded.words import stem, synonyms, terms, word_set, words


class Want(StrEnum):
    URL = "url"
    EMAIL = "email"
    DATE = "date"
    TIME = "time"
    ZONE = "zone"
    PLACE = "place"
    GLOB = "glob"
    PATH = "path"
    REF = "ref"
    NUMBER = "number"
    FLAG = "flag"
    CHOICE = "choice"
    QUERY = "query"
    COMMAND = "command"
    TEXT = "text"
    OTHER = "other"


class Role(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    REPOSITORY = "repository"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Param:
    name: str
    want: Want
    required: bool
    is_list: bool = False
    role: Role = Role.ANY
    choices: tuple[Any, ...] = ()
    integer: bool = False
    relative: bool = False
    default: Any = None
    has_default: bool = False
    # The default is only described in words, so it must be written out in the call.
    must_send_default: bool = False
    stems: frozenset[str] = field(default_factory=frozenset[str])
    name_words: frozenset[str] = field(default_factory=frozenset[str])


_BY_NAME: tuple[tuple[Want, frozenset[str]], ...] = (
    (Want.URL, frozenset({"url", "uri", "link", "href", "website"})),
    (Want.EMAIL, frozenset({"email", "mail", "recipient", "recipients"})),
    (Want.ZONE, frozenset({"timezone", "tz", "zone", "timezones"})),
    (Want.DATE, frozenset({"date", "day", "since", "until", "timestamp", "datetime"})),
    (Want.TIME, frozenset({"time"})),
    (Want.GLOB, frozenset({"pattern", "glob", "patterns", "include", "exclude"})),
    (Want.REF, frozenset({"revision", "ref", "branch", "sha", "commit", "tag", "rev"})),
    (
        Want.PATH,
        word_set("""path paths file files filename filepath directory dir folder source destination
            cwd root repo repository"""),
    ),
    (Want.PLACE, frozenset({"city", "location", "place", "town", "country"})),
    (Want.COMMAND, frozenset({"command", "cmd"})),
    (
        Want.QUERY,
        frozenset({"query", "search", "q", "term", "keyword", "keywords", "question", "topic"}),
    ),
)
_REPOSITORY = frozenset({"repo", "repository"})
_DIRECTORY = frozenset({"directory", "dir", "folder", "cwd", "root", "directories"})
_FILE = frozenset({"file", "filename", "filepath", "files"})
_QUOTED_OPTION = re.compile(r"['\"`]([A-Za-z][\w-]*)['\"`]")
_DEFAULT_IN_WORDS = re.compile(
    r"[Uu]se ['\"]([^'\"]+)['\"] as (?:the )?(?:local|default)[^.]*if no"
)
_RELATIVE = re.compile(r"\b(?:relative|workspace)\b")
_NEGATIVE = frozenset({"not", "exclude", "excluding", "ignore", "without"})


def _plain(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list):
            some = [o for o in cast("list[Any]", options) if json_object(o).get("type") != "null"]
            if len(some) == 1:
                return {**schema, **json_object(some[0])}
    kind = schema.get("type")
    if isinstance(kind, list):
        named = [k for k in cast("list[Any]", kind) if k != "null"]
        return {**schema, "type": named[0] if len(named) == 1 else None}
    return schema


def _described_choices(description: str) -> tuple[str, ...]:
    """Options that a description quotes, where it quotes nothing but options."""
    options = tuple(dict.fromkeys(_QUOTED_OPTION.findall(description)))
    return options if 2 <= len(options) <= 6 else ()


def _by_name(name_words: frozenset[str], description: str) -> Want:
    if "iana" in description or ("timezone" in description and "time" not in name_words):
        return Want.ZONE
    for want, names in _BY_NAME:
        if name_words & names:
            return want
    return Want.GLOB if "glob" in description else Want.TEXT


def _want(
    name_words: frozenset[str], schema: Mapping[str, Any], tool_words: frozenset[str]
) -> Want:
    description = str(schema.get("description") or "").lower()
    kind = schema.get("type")
    if "enum" in schema:
        return Want.CHOICE
    if kind in ("integer", "number"):
        return Want.NUMBER
    if kind == "boolean":
        return Want.FLAG
    if kind == "object":
        return Want.OTHER
    if schema.get("format") in ("uri", "url"):
        return Want.URL
    if name_words == frozenset({"target"}) and tool_words & {
        "commit",
        "commits",
        "branch",
        "branches",
        "git",
    }:
        return Want.REF
    want = _by_name(name_words, description)
    if want is Want.GLOB and re.search(r"\bregular expression|\bregexp?\b", description):
        return Want.QUERY
    if want is Want.REF and {"type"} & name_words:
        want = Want.TEXT
    if want is Want.TEXT and _described_choices(str(schema.get("description") or "")):
        return Want.CHOICE
    return want


def _role(name_words: frozenset[str], tool_words: frozenset[str]) -> Role:
    for role, names in (
        (Role.REPOSITORY, _REPOSITORY),
        (Role.DIRECTORY, _DIRECTORY),
        (Role.FILE, _FILE),
    ):
        if name_words & names:
            return role
    if tool_words & _DIRECTORY and not tool_words & {"file"}:
        return Role.DIRECTORY
    return Role.FILE if tool_words & {"file"} else Role.ANY


def _choices(schema: Mapping[str, Any]) -> tuple[Any, ...]:
    if isinstance(listed := schema.get("enum"), list):
        return tuple(json_list(cast("object", listed)))
    return _described_choices(str(schema.get("description") or ""))


def read_param(name: str, raw: Any, *, required: bool, tool_words: frozenset[str]) -> Param:
    """One parameter from its schema; whatever the schema is, there is an answer."""
    schema = _plain(json_object(raw))
    is_list = schema.get("type") == "array"
    description = str(schema.get("description") or "")
    if is_list:
        schema = {"description": description, **_plain(json_object(schema.get("items")))}
    name_words = frozenset(words(name))
    want = _want(name_words, schema, tool_words)
    default = json_object(raw).get("default")
    described = _DEFAULT_IN_WORDS.search(description)
    return Param(
        name=name,
        want=Want.OTHER if name_words & _NEGATIVE else want,
        required=required,
        is_list=is_list,
        role=_role(name_words, tool_words) if want is Want.PATH else Role.ANY,
        choices=_choices(schema) if want is Want.CHOICE else (),
        integer=schema.get("type") == "integer",
        relative=bool(_RELATIVE.search(f"{description} {' '.join(tool_words)}".lower())),
        default=described[1] if default is None and described else default,
        has_default="default" in json_object(raw) or described is not None,
        must_send_default=default is None and described is not None,
        stems=frozenset(terms(f"{name} {description}"))
        | frozenset(stem(word) for word in name_words),
        name_words=name_words,
    )


def read_params(input_schema: Mapping[str, Any], tool_text: str) -> tuple[Param, ...]:
    properties = json_object(input_schema.get("properties"))
    required = json_list(input_schema.get("required"))
    tool_words = frozenset(words(tool_text))
    params = tuple(
        read_param(name, schema, required=name in required, tool_words=tool_words)
        for name, schema in properties.items()
    )
    if not any(param.want in (Want.GLOB, Want.QUERY) and param.required for param in params):
        return params
    # A tool that seeks something takes the path of where to look.
    return tuple(
        replace(param, role=Role.DIRECTORY) if param.want is Want.PATH else param
        for param in params
    )


class Effect(StrEnum):
    READS = "reads"
    CHANGES = "changes"
    UNKNOWN = "unknown"


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
_CHANGING = word_set("""add append apply approve archive assign attach cancel clear clone close commit create delete
    deploy disable drop edit enable erase exec execute exec install invite kill merge modify move
    patch pay post publish purge push put rebase remove rename replace reset restart restore run
    save schedule send set stop submit trigger truncate uninstall update upload write checkout
    switch insert""")
# A server that says that such a tool only reads is not believed.
_PLAINLY_CHANGING = word_set(
    "delete drop edit erase kill move overwrite purge remove rename reset truncate uninstall write"
)
CHANGING_STEMS = frozenset(map(stem, _CHANGING))
_READING = word_set("""check compare convert count current describe diff explain fetch find get grep info inspect
    list log look lookup query read retrieve search show stat status summarize tree validate view
    history branch""")
_PREFIX = re.compile(r"^\[MCP server: ([^\]]*)\]\s*")
_LABEL = re.compile(r"MCP: ([^/]+)/(.+)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")


def _own_name(tool: RoutableTool) -> tuple[str, str]:
    labelled = _LABEL.fullmatch(tool.label)
    if labelled:
        return labelled[2], labelled[1]
    said = _PREFIX.match(tool.description)
    if said and tool.name.startswith(f"mcp_{said[1]}_"):
        return tool.name.removeprefix(f"mcp_{said[1]}_"), said[1]
    return tool.name.removeprefix("mcp_"), ""


def _effect(tool: RoutableTool, name_words: list[str]) -> Effect:
    if set(name_words) & _PLAINLY_CHANGING:
        return Effect.CHANGES
    if tool.read_only is not None:
        return Effect.READS if tool.read_only else Effect.CHANGES
    if set(name_words) & _CHANGING:
        return Effect.CHANGES
    return Effect.READS if set(name_words) & _READING else Effect.UNKNOWN


def _verbs(name_words: list[str]) -> frozenset[str]:
    named = {word for word in name_words if word in _CHANGING} or set(name_words)
    stems = {stem(word) for word in named}
    return frozenset(stems | {other for term in stems for other in synonyms(term)})


def describe_tool(tool: RoutableTool) -> ToolDoc:
    text = _PREFIX.sub("", tool.description[:_MAX_DESCRIPTION]).strip()
    first, _, rest = (_SENTENCE_END.sub("\0", text, count=1) + "\0").partition("\0")
    name, server = _own_name(tool)
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
    return ToolDoc(
        tool=tool,
        weights=weights,
        name_terms=frozenset(terms(" ".join(name_words))),
        verbs=_verbs(name_words),
        params=params,
        effect=_effect(tool, name_words),
        deprecated="deprecated" in text.lower(),
    )
