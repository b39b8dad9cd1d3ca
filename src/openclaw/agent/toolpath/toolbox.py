"""The tools of one turn: what there is now, what may be used, and what the model is shown of it."""

import difflib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from openclaw.agent.budget import ToolSizes
from openclaw.agent.toolpath.search import ToolIndex
from openclaw.core.content import Text
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSource, ToolSpec, failed
from openclaw.policy import Decision

logger = logging.getLogger(__name__)

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

Decide = Callable[[str], Decision]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that may be used, and who runs it."""

    spec: ToolSpec
    source: ToolSource
    asks: bool = False


@dataclass(slots=True)
class Toolbox:
    """Tools from every source, looked at afresh at every step.

    With `can_ask`, a person decides over calls for which the policy says so; else they are denied.
    """

    sources: Sequence[ToolSource]
    decide: Decide
    limit: int
    can_ask: bool = False
    found: list[str] = field(default_factory=list[str])
    sizes: ToolSizes = field(default_factory=ToolSizes)
    _tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    _denied: dict[str, Decision] = field(default_factory=dict[str, Decision])

    def refresh(self) -> None:
        """Look at what every source offers now. The first source to use a name has it."""
        self._tools, self._denied = {}, {}
        for source in self.sources:
            for spec in source.specs():
                self._add(spec, source)

    def _add(self, spec: ToolSpec, source: ToolSource) -> None:
        if spec.name in self._tools or spec.name in self._denied:
            logger.warning("two tools have one name", extra={"tool": spec.name})
            return
        decision = self.decide(spec.name)
        if decision.allowed or (decision.asks and self.can_ask):
            self._tools[spec.name] = Tool(spec, source, asks=decision.asks)
        else:
            self._denied[spec.name] = decision

    def shown(self, tokens: int, *, everything: bool = False) -> list[ToolSpec]:
        """What the model is told of: everything, or what fits with the search among them.

        What fits are `limit` tools that take at most `tokens`. Our own tools and those that were
        found come before the others, which keep their order, so that the list changes as little as
        it can from step to step. `everything` is for models to which no tool costs anything.
        """
        specs = [tool.spec for tool in self._tools.values()]
        if everything:
            return specs
        if len(specs) <= self.limit and self.sizes.total(specs) <= tokens:
            return specs
        room = min(self.limit, len(specs)) - 1
        wanted = dict.fromkeys(self.found[::-1][: max(1, room // 2)])
        own = [spec for spec in specs if spec.origin.server is None]
        found = [self._tools[name].spec for name in wanted if name in self._tools]
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

    def find(self, name: str) -> Tool | None:
        """The tool of this name, shown or not, where it may be used."""
        if name == SEARCH_TOOL and name not in self._tools:
            return Tool(_SEARCH_SPEC, _Searching(self))
        return self._tools.get(name)

    def refusal(self, name: str) -> str:
        """Why a name that `find` does not know cannot be called, for the model to read."""
        denied = self._denied.get(name)
        if denied is not None:
            return f"The tool {name} is not allowed here ({denied.reason}). Do without it."
        close = difflib.get_close_matches(name, self._tools, n=3)
        guess = f" Did you mean {', '.join(close)}?" if close else ""
        return f"There is no tool {name}.{guess} Use one of the tools that are listed."

    def use(self, name: str) -> None:
        """Keep a tool among those that are shown."""
        if name in self.found:
            self.found.remove(name)
        self.found.append(name)

    def search(self, query: str, limit: int) -> Sequence[ToolSpec]:
        """Tools that fit the query, which are shown from now on."""
        index = ToolIndex(tool.spec for tool in self._tools.values())
        specs = index.search(query, limit)
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
