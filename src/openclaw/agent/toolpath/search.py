"""Which tools the model is shown at first, and how it finds the others."""

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import anyio.to_thread

from openclaw.agent.budget import ToolSizes
from openclaw.agent.tools.base import WHOLE, schema
from openclaw.content.labels import single_line
from openclaw.core.tools import JsonObject, ToolSpec, json_list, json_object
from openclaw.discovery.cache import IndexCache
from openclaw.discovery.stems import ToolDocument

if TYPE_CHECKING:
    from openclaw.discovery.tool_index import ToolIndex  # imports numpy

DEFAULT_PERCENT = 3.0
# Tokens for a part or for all of the tools. Large contexts have room for more, but tools that nobody
# asked for should cost little.
MOST_AT_FIRST = 4_000
MOST_WHOLE = 8_000
MOST_DEFERRED = 100_000  # tokens that a provider loads by itself: free, but sent each time
# In a small context, a few percent would not even fit our own tools: they get `LEAST` tokens, or
# this share of the context if that is less.
LEAST = 3_000
LEAST_SHARE = 0.25
OWN_SHARE = 0.02  # of the context: our own tools within it do not count against showing everything
NEAREST = 24
# Shares of the room, so that neither our own tools nor one server's many matches hide all others.
OWN_ROOM = 0.6
NEAREST_SHARE = 0.6
# Our own tools that are chosen like a server's: if they are near, or in turn.
RARE = frozenset({"cron", "delegate", "session_history", "sessions_list"})

_OURS = "built in"

_LINES_SHARE = 0.2
_CHARS_PER_TOKEN = 3
_LONGEST_LINE = 120
_SHORTEST_LINE = 30


@dataclass(frozen=True, slots=True)
class ToolListLimits:
    """`percent` of the context for tools, and at `most` this many of them at first.

    `code` says when the model may write scripts: on `auto`, if not all tools are shown.
    """

    percent: float = DEFAULT_PERCENT
    most: int | None = None
    code: Literal["off", "auto", "on"] = "off"

    def tokens(self, window: int) -> int:
        return int(max(window * self.percent / 100, min(LEAST, window * LEAST_SHARE)))


DEFAULT_BOUNDS = ToolListLimits()


def choose_shown(
    specs: Sequence[ToolSpec],
    nearest: Iterable[str],
    tokens: int,
    most: int | None,
    sizes: ToolSizes,
) -> list[ToolSpec]:
    """Our own tools, those `nearest` to the conversation, then one of each server in turn."""
    taken: set[str] = set()
    count = len(specs) if most is None else most
    by_name = {spec.name: spec for spec in specs}
    own = [spec for spec in specs if spec.origin.server is None and spec.name not in RARE]
    wanted = [by_name[name] for name in nearest if name in by_name]
    few_first = sorted(by_server(chain(wanted, specs)).values(), key=len)
    in_turn = [spec for row in zip_longest(*few_first) for spec in row if spec is not None]
    for group, share in ((own, OWN_ROOM), (wanted, NEAREST_SHARE), (in_turn, 1.0)):
        keep_free = int(tokens * (1 - share))
        for spec in group:
            size = sizes.of(spec)
            room = len(taken) < count and size <= tokens - keep_free
            if room and spec.name not in taken:
                taken.add(spec.name)
                tokens -= size
    return [spec for spec in specs if spec.name in taken]


def by_server(specs: Iterable[ToolSpec]) -> dict[str, list[ToolSpec]]:
    """The tools of each server, each once; our own are under the empty name."""
    servers: dict[str, dict[str, ToolSpec]] = {}
    for spec in specs:
        servers.setdefault(spec.origin.server or "", {})[spec.name] = spec
    return {server: list(tools.values()) for server, tools in servers.items()}


def lines_room(specs: Iterable[ToolSpec], tokens: int) -> int:
    wanted = len(by_server(specs)) * _LONGEST_LINE // _CHARS_PER_TOKEN
    return min(wanted, int(tokens * _LINES_SHARE))


def server_lines(specs: Sequence[ToolSpec], shown: Iterable[ToolSpec], tokens: int) -> list[str]:
    """One line per server about its tools that are not shown, within about `tokens`."""
    seen = {spec.name for spec in shown}
    hidden = by_server(spec for spec in specs if spec.name not in seen)
    room = tokens * _CHARS_PER_TOKEN
    width = min(_LONGEST_LINE, room // max(1, len(hidden)))
    if width >= _SHORTEST_LINE:
        return [_line(server, tools, width) for server, tools in hidden.items()]
    # Too many servers for a line each: as many of their names as fit.
    names = _joined([f"{server or _OURS} ({len(tools)})" for server, tools in hidden.items()], room)
    return [names] if names else []


def _line(server: str, tools: Sequence[ToolSpec], width: int) -> str:
    start = f"- {server or _OURS}, {len(tools)} more: "
    short = (spec.name.partition(f"{server}_")[2] if server else "" for spec in tools)
    names = [name or spec.name for name, spec in zip(short, tools, strict=True)]
    names = _joined(names, width - len(start))
    return start + names if names else start.removesuffix(": ")


def _joined(names: Sequence[str], width: int) -> str:
    text = ""
    for name in names:
        longer = f"{text}, {name}" if text else name
        if len(longer) > width:
            return f"{text}, …" if text else ""
        text = longer
    return text


_LISTS_KEPT = 8


@dataclass(frozen=True, slots=True)
class ToolMatches:
    """Tools for one need, the best first; unless one `fits`, they are only the nearest."""

    need: str
    specs: tuple[ToolSpec, ...]
    fits: bool


@dataclass(frozen=True, slots=True)
class _Catalogue:
    specs: Sequence[ToolSpec]
    index: "ToolIndex"

    def search(self, need: str, limit: int) -> ToolMatches:
        """A tool asked for by name comes first; tools that share no word or concept are left out."""
        matches = self.index.search(need, limit)
        near = [match for match in matches if match.score > 0 or match.fits]
        by_name = {spec.name: spec for spec in self.specs}
        exact = [name for name in by_name if name.casefold() == need.strip().casefold()]
        names = dict.fromkeys([*exact[-1:], *(match.full_name for match in near)])
        specs = tuple(by_name[name] for name in islice(names, limit))
        return ToolMatches(need, specs, bool(exact) or any(match.fits for match in near))


class ToolSearch:
    """Searches any list of tools. Without a `directory`, indexes live in memory only."""

    def __init__(self, directory: Path | None = None) -> None:
        self._cache = IndexCache(directory)
        # The catalogue keeps the tools alive, so that their ids are not reused.
        self._known: OrderedDict[tuple[int, ...], _Catalogue] = OrderedDict()

    async def find(
        self, specs: Sequence[ToolSpec], needs: Iterable[str], limit: int
    ) -> list[ToolMatches]:
        catalogue = await self._catalogue(specs)
        return [await anyio.to_thread.run_sync(catalogue.search, need, limit) for need in needs]

    async def nearest(self, specs: Sequence[ToolSpec], text: str, limit: int) -> list[str]:
        if not text.strip():
            return []
        index = (await self._catalogue(specs)).index
        matches = await anyio.to_thread.run_sync(index.nearest, text, limit)
        return [match.full_name for match in matches if match.fits]

    async def _catalogue(self, specs: Sequence[ToolSpec]) -> _Catalogue:
        key = tuple(map(id, specs))
        known = self._known.get(key)
        if known is None:
            known = await anyio.to_thread.run_sync(self._read, specs)
        self._known[key] = known
        self._known.move_to_end(key)
        while len(self._known) > _LISTS_KEPT:
            self._known.popitem(last=False)
        return known

    def _read(self, specs: Sequence[ToolSpec]) -> _Catalogue:
        return _Catalogue(specs, self._cache.index_of([_document(spec) for spec in specs]))


def _document(spec: ToolSpec) -> ToolDocument:
    return ToolDocument(
        full_name=spec.name,
        server=spec.origin.server or "",
        name=spec.origin.tool or spec.name,
        description=spec.description,
        schema=spec.input_schema,
    )


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
_SCHEMA = schema(
    (),
    query="What the tool should do.",
    queries={
        "type": "array",
        "items": {"type": "string"},
        "description": f"Or several needs, up to {MOST_NEEDS}.",
    },
    limit={**WHOLE, "description": "Tools for each."},
)


def search_spec(lines: Sequence[str] = ()) -> ToolSpec:
    """The definition; `lines` list servers' tools that are not shown."""
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


def answer(found: Sequence[ToolMatches]) -> str:
    several = len(found) > 1
    lines = [_ranked(one, several) for one in found]
    specs = {spec.name: spec for one in found for spec in one.specs}
    if specs:
        lines.append("They can be called from the next step on.")
    return "\n".join([*lines, *described(specs.values())])


def described(specs: Iterable[ToolSpec]) -> Iterator[str]:
    """A line for each tool, under its server."""
    for server, tools in by_server(specs).items():
        title = f"server {server}" if server else "built in"
        yield from ("", f"{title}:", *map(_tool_line, tools))


_FITTING = "Found"
_NOT_FITTING = "Nothing fits well"
_RANKED = re.compile(rf"^(?:{_FITTING}|{_NOT_FITTING})\b.*best first: ([\w, .-]+)$", re.MULTILINE)


def names_in(text: str) -> list[str]:
    """The tools that an answer listed, so that a later turn can show them again."""
    return [name for line in _RANKED.findall(text) for name in line.split(", ")]


def _ranked(found: ToolMatches, several: bool) -> str:
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
    properties = json_object(schema.get("properties"))
    required = json_list(schema.get("required"))
    needed = [_parameter(name, properties[name]) for name in required if name in properties]
    others = [single_line(name, _NAME_CHARS) for name in properties if name not in required]
    text = f" Needs {', '.join(needed)}." if needed else ""
    if others:
        more = ", …" if len(others) > _MOST_OPTIONAL else ""
        text += f" Optional: {', '.join(others[:_MOST_OPTIONAL])}{more}."
    return text


def _parameter(name: str, schema: Any) -> str:
    described = json_object(schema)
    values, kind = json_list(described.get("enum")), described.get("type")
    note = ""
    if values:
        some = "|".join(single_line(str(one), _NAME_CHARS) for one in values[:_MOST_VALUES])
        note = f" ({some}{'|…' if len(values) > _MOST_VALUES else ''})"
    elif isinstance(kind, str):
        note = f" ({single_line(kind, _NAME_CHARS)})"
    return single_line(name, _NAME_CHARS) + note
