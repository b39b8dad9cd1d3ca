"""What a tool's parameters want, read from names and JSON schema alone."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, cast

from openclaw.models.local.words import stem, terms, word_set, words


class Want(StrEnum):
    """What can fill a parameter."""

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
    """What kind of place a path parameter means."""

    FILE = "file"
    DIRECTORY = "directory"
    REPOSITORY = "repository"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class Param:
    """One parameter of a tool."""

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
    """The schema without the `null` alternative of an optional field."""
    for key in ("anyOf", "oneOf"):
        options = schema.get(key)
        if isinstance(options, list):
            some = [o for o in cast("list[Any]", options) if _object(o).get("type") != "null"]
            if len(some) == 1:
                return {**schema, **_object(some[0])}
    kind = schema.get("type")
    if isinstance(kind, list):
        named = [k for k in cast("list[Any]", kind) if k != "null"]
        return {**schema, "type": named[0] if len(named) == 1 else None}
    return schema


def _object(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


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
    listed = schema.get("enum")
    if isinstance(listed, list):
        return tuple(cast("list[Any]", listed))
    return _described_choices(str(schema.get("description") or ""))


def read_param(name: str, raw: Any, *, required: bool, tool_words: frozenset[str]) -> Param:
    """One parameter from its schema; whatever the schema is, there is an answer."""
    schema = _plain(_object(raw))
    is_list = schema.get("type") == "array"
    description = str(schema.get("description") or "")
    if is_list:
        schema = {"description": description, **_plain(_object(schema.get("items")))}
    name_words = frozenset(words(name))
    want = _want(name_words, schema, tool_words)
    default = _object(raw).get("default")
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
        has_default="default" in _object(raw) or described is not None,
        must_send_default=default is None and described is not None,
        stems=frozenset(terms(f"{name} {description}"))
        | frozenset(stem(word) for word in name_words),
        name_words=name_words,
    )


def read_params(input_schema: Mapping[str, Any], tool_text: str) -> tuple[Param, ...]:
    """Every parameter of a tool, in the schema's order."""
    properties = _object(input_schema.get("properties"))
    listed = input_schema.get("required")
    required: Sequence[Any] = cast("list[Any]", listed) if isinstance(listed, list) else ()
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
