"""The tools of one turn: what there is now, and what the model is shown of it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from openclaw.agent.budget import ToolSizes
from openclaw.agent.toolpath.search import ToolIndex
from openclaw.core.content import Text
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSource, ToolSpec, failed

SEARCH_TOOL = "tool_search"
_MOST_FOUND = 20
_DEFAULT_FOUND = 8
_SUMMARY_CHARS = 200

_SEARCH_SPEC = ToolSpec(
    name=SEARCH_TOOL,
    description=(
        "Find tools by what they do. There are more tools than those listed; search here before "
        "concluding that something cannot be done. Tools that are found can be called from the "
        "next step on."
    ),
    input_schema={
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What the tool should do, in a few words."},
            "limit": {
                "type": "integer",
                "description": f"Most tools to find (default {_DEFAULT_FOUND}).",
                "minimum": 1,
                "maximum": _MOST_FOUND,
            },
        },
        "required": ["query"],
    },
    label="Search tools",
    read_only=True,
)


@dataclass(slots=True)
class Toolbox:
    """The tools of a tool path, looked at afresh at every step, and the search among them.

    `watch` makes a search a call that others hear of.
    """

    path: ToolSource
    limit: int
    watch: Callable[[ToolSource], ToolSource] = lambda source: source
    found: list[str] = field(default_factory=list[str])
    sizes: ToolSizes = field(default_factory=ToolSizes)
    _tools: dict[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])

    def specs(self) -> Sequence[ToolSpec]:
        return self.path.specs()

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        if name == SEARCH_TOOL and name not in self._tools:
            search = self.watch(_Searching(self))
            return await search.call(name, arguments, replace(context, spec=_SEARCH_SPEC))
        return await self.path.call(name, arguments, context)

    def refresh(self) -> None:
        """Look at which tools there are now."""
        self._tools = {spec.name: spec for spec in self.path.specs()}

    def shown(self, tokens: int, *, everything: bool = False) -> list[ToolSpec]:
        """What the model is told of: everything, or what fits with the search among them.

        What fits are `limit` tools that take at most `tokens`. Our own tools and those that were
        found come before the others, which keep their order, so that the list changes as little as
        it can from step to step. `everything` is for models to which no tool costs anything.
        """
        specs = list(self._tools.values())
        if everything:
            return specs
        if len(specs) <= self.limit and self.sizes.total(specs) <= tokens:
            return specs
        room = min(self.limit, len(specs)) - 1
        wanted = dict.fromkeys(self.found[::-1][: max(1, room // 2)])
        own = [spec for spec in specs if spec.origin.server is None]
        found = [self._tools[name] for name in wanted if name in self._tools]
        rest = [spec for spec in specs if spec.origin.server is not None]
        ranked = list(_unique([*own[: max(1, room // 2)], *found, *own, *rest]))[: max(1, room)]
        chosen = self._fitting(ranked, tokens - self.sizes.of(_SEARCH_SPEC))
        return [*(spec for spec in specs if spec.name in chosen), _SEARCH_SPEC]

    def _fitting(self, ranked: Sequence[ToolSpec], tokens: int) -> set[str]:
        chosen: set[str] = set()
        for spec in ranked:
            tokens -= self.sizes.of(spec)
            if tokens < 0:
                break
            chosen.add(spec.name)
        return chosen

    def find(self, name: str) -> ToolSpec | None:
        """The tool of this name, shown or not, if it may be used."""
        if name == SEARCH_TOOL and name not in self._tools:
            return _SEARCH_SPEC
        return self._tools.get(name)

    def use(self, name: str) -> None:
        """Keep a tool among those that are shown."""
        if name in self.found:
            self.found.remove(name)
        self.found.append(name)

    def search(self, query: str, limit: int) -> Sequence[ToolSpec]:
        """Tools that fit the query, which are shown from now on."""
        specs = ToolIndex(self._tools.values()).search(query, limit)
        for spec in reversed(specs):
            self.use(spec.name)
        return specs


def _unique(specs: Iterable[ToolSpec]) -> Iterable[ToolSpec]:
    return {spec.name: spec for spec in specs}.values()


@dataclass(frozen=True, slots=True)
class _Searching:
    """The search as a source of one tool."""

    box: Toolbox

    def specs(self) -> Sequence[ToolSpec]:
        return (_SEARCH_SPEC,)

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        asked = int(arguments.get("limit") or _DEFAULT_FOUND)
        found = self.box.search(str(arguments["query"]), max(1, min(asked, _MOST_FOUND)))
        if not found:
            return failed("No tool fits. Try other words.")
        lines = [f"- {spec.name}: {_line(spec.description)}" for spec in found]
        text = "These tools can be called from the next step on:\n" + "\n".join(lines)
        return ToolResult(blocks=(Text(text),))


def _line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SUMMARY_CHARS else f"{line[: _SUMMARY_CHARS - 1]}…"
