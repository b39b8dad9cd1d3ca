"""Which tools the model is shown at first: the same tools and words give the same list."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Literal

from openclaw.agent.budget import ToolSizes
from openclaw.core.tools import ToolSpec

DEFAULT_PERCENT = 3.0
MOST_AT_FIRST = 4_000
MOST_WHOLE = 8_000
"""Tokens, if a part or all of the tools are shown. Large contexts have room for more, but what nobody
asked for should cost little."""

MOST_DEFERRED = 100_000
"""Tokens of what a provider is handed to load by itself: they cost nothing, but travel each time."""

LEAST = 3_000
LEAST_SHARE = 0.25
"""In a small context, a few percent would not hold even our own tools: they get `LEAST` tokens, or
this share of the context if that is less."""

OWN_SHARE = 0.02  # of the context: our own tools within it do not count against showing everything

OWN_ROOM = 0.6
NEAREST = 24
NEAREST_SHARE = 0.6
"""Of the room, so that neither our own tools nor many of one server that fit hide all others."""

RARE = frozenset({"cron", "delegate", "session_history", "sessions_list"})
"""Our own tools that have to be near, or wait for their turn, as a server's do."""

_OURS = "built in"

_LINES_SHARE = 0.2
_CHARS_PER_TOKEN = 3
_LONGEST_LINE = 120
_SHORTEST_LINE = 30


@dataclass(frozen=True, slots=True)
class Bounds:
    """`percent` of the context for tools; `most` of them at first, if that is bounded too.

    `code` says when the model may write scripts: on `auto`, if not all tools are shown.
    """

    percent: float = DEFAULT_PERCENT
    most: int | None = None
    code: Literal["off", "auto", "on"] = "off"

    def tokens(self, window: int) -> int:
        return int(max(window * self.percent / 100, min(LEAST, window * LEAST_SHARE)))


DEFAULT_BOUNDS = Bounds()


def fits_whole(specs: Sequence[ToolSpec], tokens: int, bounds: Bounds, sizes: ToolSizes) -> bool:
    """Whether everything can be shown, so that no search is needed."""
    few = bounds.most is None or len(specs) <= bounds.most
    return few and sizes.total(specs) <= tokens


def choose(
    specs: Sequence[ToolSpec],
    nearest: Iterable[str],
    tokens: int,
    most: int | None,
    sizes: ToolSizes,
) -> list[ToolSpec]:
    """Our own tools, those `nearest` to the conversation, then one of each server in turn."""
    taking = _Taking(sizes, tokens, len(specs) if most is None else most)
    by_name = {spec.name: spec for spec in specs}
    own = [spec for spec in specs if spec.origin.server is None and spec.name not in RARE]
    taking.take(own, keep_free=int(taking.tokens * (1 - OWN_ROOM)))
    wanted = [by_name[name] for name in nearest if name in by_name]
    taking.take(wanted, keep_free=int(taking.tokens * (1 - NEAREST_SHARE)))
    taking.take(_in_turn(specs, wanted))
    return [spec for spec in specs if spec.name in taking.names]


class _Taking:
    """Takes tools for as long as there is room; one that is too long is passed over."""

    def __init__(self, sizes: ToolSizes, tokens: int, count: int) -> None:
        self.names: set[str] = set()
        self.tokens = tokens
        self._sizes = sizes
        self._count = count

    def take(self, specs: Iterable[ToolSpec], *, keep_free: int = 0) -> None:
        for spec in specs:
            size = self._sizes.of(spec)
            room = len(self.names) < self._count and size <= self.tokens - keep_free
            if room and spec.name not in self.names:
                self.names.add(spec.name)
                self.tokens -= size


def _in_turn(specs: Iterable[ToolSpec], first: Iterable[ToolSpec]) -> Iterable[ToolSpec]:
    """The first tool of each server, then the second of each; servers with few tools come first."""
    servers = by_server(chain(first, specs))
    few_first = sorted(servers.values(), key=len)
    return (spec for row in zip_longest(*few_first) for spec in row if spec is not None)


def by_server(specs: Iterable[ToolSpec]) -> dict[str, list[ToolSpec]]:
    """Tools, each once; our own under the empty name."""
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
    # Too many servers for a line each: their names, as far as they go.
    names = _joined([f"{server or _OURS} ({len(tools)})" for server, tools in hidden.items()], room)
    return [names] if names else []


def _line(server: str, tools: Sequence[ToolSpec], width: int) -> str:
    start = f"- {server or _OURS}, {len(tools)} more: "
    names = _joined([_short(spec, server) for spec in tools], width - len(start))
    return start + names if names else start.removesuffix(": ")


def _short(spec: ToolSpec, server: str) -> str:
    _, found, rest = spec.name.partition(f"{server}_")
    return rest if server and found and rest else spec.name


def _joined(names: Sequence[str], width: int) -> str:
    text = ""
    for name in names:
        longer = f"{text}, {name}" if text else name
        if len(longer) > width:
            return f"{text}, …" if text else ""
        text = longer
    return text
