"""The tools of MCP servers as the model sees them: names, descriptions, schemas. Pure.

A name depends only on the server's and the tool's own names, so it is the same in every run and in
whatever order servers answer. One that is too long or collides ends in a hash of both names;
without the hash it is the "natural" name, to which rules also apply. `read_resource` is ours on
every server: a server's own tool of that name always gets a hash.
"""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from openclaw.content.detection import detect_declaration
from openclaw.content.labels import UnsafeSchema, sanitise_label, sanitise_schema, single_line
from openclaw.core.tools import Origin, ToolSpec, json_parts
from openclaw.mcp_client.catalog.schema_check import BadSchema, SchemaBudget, check_schema

if TYPE_CHECKING:
    from openclaw.mcp.declarations import Tool

MAX_NAME = 64
MAX_DESCRIPTION = 32_000
MAX_SERVER_DESCRIPTIONS = 400_000  # all the descriptions of one server together
MAX_LABEL = 120
READ_RESOURCE = "read_resource"
_CUT = "… [cut: {shown} of {whole} characters. Read all of it: read_resource of this server, uri {uri}]"
DESCRIPTION = "openclaw:description/"  # where `read_resource` finds a description that was cut
_SHORT_HASH = 8
_LONG_HASH = 16
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Detection fired on a declaration; `tool` is None for the server's instructions.

    The sentence is for a person to judge, without hidden characters; it must not be logged.
    """

    tool: str | None
    score: float
    signals: tuple[str, ...]
    sentence: str = ""

    @property
    def summary(self) -> str:
        """Says that detection fired, but not on which text."""
        subject = "its description of itself"
        if self.tool is not None:
            subject = f"tool '{single_line(self.tool, MAX_LABEL)}'"
        return f"{subject} looks like an attempt to give the agent orders"

    def words(self) -> str:
        return f'{self.summary}: "{self.sentence}"'


def suspicion(tool: str | None, text: str) -> Suspicion | None:
    verdict = detect_declaration(text)
    if not verdict.suspicious:
        return None
    return Suspicion(tool, verdict.score, verdict.signals, single_line(verdict.sentence, 300))


@dataclass(frozen=True, slots=True)
class PreparedTool:
    """A tool whose declaration was checked and cleaned; `name` is the server's own.

    `ours` marks our own tool that reads the server's resources.
    """

    name: str
    label: str
    description: str
    schema: Mapping[str, Any]
    read_only: bool | None = None
    destructive: bool | None = None
    output_schema: Mapping[str, Any] | None = None
    whole: str = ""  # the description, if it was cut
    ours: bool = False

    @property
    def uri(self) -> str:
        return _uri(self.name)


READER = PreparedTool(
    name=READ_RESOURCE,
    label=READ_RESOURCE,
    description="Read one of this server's resources by its URI, or the whole of a description that "
    f"was cut ({DESCRIPTION}NAME).",
    schema={
        "type": "object",
        "properties": {"uri": {"type": "string", "description": "The resource's URI."}},
        "required": ["uri"],
        "additionalProperties": False,
    },
    read_only=True,
    destructive=False,
    ours=True,
)


@dataclass(frozen=True, slots=True)
class PreparedTools:
    tools: tuple[PreparedTool, ...] = ()
    warnings: tuple[str, ...] = ()
    suspicions: tuple[Suspicion, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerTools:
    server: str
    prefix: str
    tools: Sequence[PreparedTool]


@dataclass(frozen=True, slots=True, eq=False)
class _Named:
    server: str
    tool: PreparedTool
    base: str
    # Its name starts like another server's tools or equals our `read_resource`, so it always gets
    # a hash: the other may come and go, but names must not change.
    apart: bool = False


def safe_name(name: str) -> str:
    return _UNSAFE.sub("_", name)


def prepare_tools(
    tools: "Iterable[Tool]", redact: Callable[[str], str] = str, instructions: str | None = None
) -> PreparedTools:
    """Check and clean what a server declares; a bad tool costs only that tool.

    Bounded, but slow for a hostile server: don't call it on the event loop.
    """
    budget = SchemaBudget()
    room = MAX_SERVER_DESCRIPTIONS
    prepared: dict[str, PreparedTool] = {}
    warnings: list[str] = []
    suspicions = [suspicion(None, redact(instructions or ""))]
    for tool in tools:
        label = sanitise_label(tool.name, MAX_LABEL)
        if _only_for_apps(tool):
            continue
        if tool.name in prepared:
            warnings.append(f"tool '{label}' is declared twice; the first is used")
            continue
        dropped: list[str] = []
        try:
            ready = _prepare(label, tool, budget, redact, dropped, min(room, MAX_DESCRIPTION))
        except (BadSchema, UnsafeSchema) as bad:
            warnings.append(f"tool '{label}' is left out: {bad}")
            continue
        prepared[tool.name] = ready
        room -= len(ready.description)
        warnings.extend(f"tool '{label}': {reason}" for reason in dict.fromkeys(dropped))
        suspicions.append(suspicion(tool.name, redact("\n\n".join(_words(tool)))))
    seen = tuple(suspicion for suspicion in suspicions if suspicion is not None)
    return PreparedTools(tuple(prepared.values()), tuple(warnings), seen)


def build_catalog(servers: Iterable[ServerTools]) -> list[tuple[ToolSpec, PreparedTool]]:
    """The tools, sorted by name, whatever the order of the servers."""
    wanted = list(_names(list(servers)))
    owners: dict[str, set[str]] = defaultdict(set)
    for named in wanted:
        owners[named.base.casefold()].add(named.server)
    entries: list[tuple[ToolSpec, PreparedTool]] = []
    for named, name in sorted(_assign(wanted).items(), key=lambda item: item[1]):
        server, tool = named.server, named.tool
        # Whether its natural name is, or may become, the name of another server's tool.
        contested = named.apart or len(owners[named.base.casefold()]) > 1
        spec = ToolSpec(
            name=name,
            description=f"[MCP server: {server}] {tool.description or 'No description'}",
            input_schema=tool.schema,
            label=f"MCP: {server}/{tool.label}",
            origin=Origin(server, tool.name),
            read_only=tool.read_only,
            destructive=tool.destructive,
            natural_name=named.base,
            contested=contested,
        )
        entries.append((spec, tool))
    return entries


def _names(servers: Sequence[ServerTools]) -> Iterable[_Named]:
    for server in servers:
        longer = tuple(
            _base(other.prefix, "").casefold()
            for other in servers
            if other.server != server.server and len(other.prefix) > len(server.prefix)
        )
        reader = _base(server.prefix, READ_RESOURCE)
        for tool in server.tools:
            base = _base(server.prefix, tool.name)
            apart = base.casefold().startswith(longer) or base.casefold() == reader.casefold()
            yield _Named(server.server, tool, base, apart and not tool.ours)


def _assign(wanted: Sequence[_Named]) -> dict[_Named, str]:
    """A name for each tool; all that collide get a hash."""
    groups: dict[str, list[_Named]] = defaultdict(list)
    for named in wanted:
        groups[("\0" if named.apart else "") + named.base.casefold()].append(named)
    names: dict[_Named, str] = {}
    for group in groups.values():
        for named in group:
            plain = len(group) == 1 and not named.apart and len(named.base) <= MAX_NAME
            names[named] = named.base if plain else _distinct(named, _SHORT_HASH)
    # A tool may be named after another's hash on purpose: then both get a longer one.
    users: dict[str, list[_Named]] = defaultdict(list)
    for named, name in names.items():
        users[name.casefold()].append(named)
    for group in users.values():
        if len(group) > 1:
            names.update({named: _distinct(named, _LONG_HASH) for named in group})
    return names


def _distinct(named: _Named, digits: int) -> str:
    identity = f"{named.server}\0{named.tool.name}" + ("\0ours" if named.tool.ours else "")
    digest = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{named.base[: MAX_NAME - digits - 1]}_{digest[:digits]}"


def _base(prefix: str, tool: str) -> str:
    return f"mcp_{safe_name(prefix)}_{safe_name(tool)}"


def _only_for_apps(tool: "Tool") -> bool:
    """Whether only an MCP app's own page may call this (`_meta.ui.visibility`)."""
    match tool.meta:
        case {"ui": {"visibility": [*visible]}}:
            return "model" not in visible
        case _:
            return False


def _uri(name: str) -> str:
    return DESCRIPTION + quote(name)


def _described(name: str, whole: str, limit: int) -> str:
    if len(whole) <= limit:
        return whole
    uri = _uri(name)
    shown = max(0, limit - len(_CUT) - len(uri) - 16)
    return f"{whole[:shown]}{_CUT.format(shown=shown, whole=len(whole), uri=uri)}"


def _prepare(
    label: str,
    tool: "Tool",
    budget: SchemaBudget,
    redact: Callable[[str], str],
    dropped: list[str],
    room: int,
) -> PreparedTool:
    hints = tool.annotations
    schema = _redacted(sanitise_schema(check_schema(tool.input_schema, budget), dropped), redact)
    output: Mapping[str, Any] | None = None  # a bad one isn't enforced
    if tool.output_schema is not None:
        with suppress(BadSchema):
            output = check_schema(tool.output_schema, budget)
    text = redact(tool.description or "")
    whole = sanitise_label(text, len(text) + 1)
    return PreparedTool(
        name=tool.name,
        label=label,
        description=_described(tool.name, whole, room),
        whole=whole if len(whole) > room else "",
        schema=schema,
        read_only=hints.read_only_hint if hints else None,
        destructive=hints.destructive_hint if hints else None,
        output_schema=output,
    )


def _redacted(schema: dict[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    written = orjson.dumps(schema).decode()
    clean = redact(written)
    if clean == written:
        return schema
    try:
        return orjson.loads(clean)
    except orjson.JSONDecodeError:
        raise BadSchema("its input schema holds a secret") from None


def _words(tool: "Tool") -> Iterable[str]:
    """Everything in a declaration that a model would read as prose."""
    yield tool.description or ""
    pending: list[object] = [tool.input_schema]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        pending.extend(json_parts(part))
