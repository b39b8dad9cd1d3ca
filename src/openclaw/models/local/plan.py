"""What the embedded model does next: call tools, say something fixed, or write."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import anyio.to_thread

from openclaw.models.local.ask import read_ask
from openclaw.models.local.render import render_result
from openclaw.models.local.router import MAX_MESSAGE, Call, Router, is_bare_name
from openclaw.models.local.runner import Prompt
from openclaw.models.local.spans import Kind, find_spans
from openclaw.models.local.talk import CANNOT_SEE, talk_prompt
from openclaw.models.local.tooldoc import RoutableTool
from openclaw.models.local.turn import Turn, label_of

TOOL_SEARCH = "tool_search"
NO_TOOL = (
    "I could not tell which of my tools would do that, or I have none for it. The embedded model "
    "understands plainly worded requests, one at a time; a larger model understands more."
)
_MAX_ATTACHED = 1500
_WORTH_SEARCHING = frozenset({Kind.PATH, Kind.URL, Kind.TIME, Kind.QUOTED, Kind.EMAIL})


@dataclass(frozen=True, slots=True)
class CallTools:
    """Call these."""

    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Say:
    """Answer with these words, which no model wrote."""

    text: str


@dataclass(frozen=True, slots=True)
class Write:
    """Let the model write the answer."""

    prompt: Prompt


Plan = CallTools | Say | Write


class Planner(Protocol):
    """Decides what comes next in a turn."""

    async def plan(self, turn: Turn, tools: Sequence[RoutableTool], max_tokens: int) -> Plan:
        """What comes next."""
        ...


class RouterPlanner:
    """For models too small to choose: rules choose the tools and render what they give.

    A turn has one step of tool calls, or two where the right tool had to be searched for, and then
    an answer, so that it can never go round in circles.
    """

    def __init__(self) -> None:
        self._tools: tuple[RoutableTool, ...] = ()
        self._router = Router(())
        self._changing = threading.Lock()

    def _router_for(self, tools: Sequence[RoutableTool]) -> Router:
        current = tuple(tool for tool in tools if tool.name != TOOL_SEARCH)
        with self._changing:  # turns of several sessions may think at once
            if current != self._tools:
                self._tools, self._router = current, Router(current)
            return self._router

    async def plan(self, turn: Turn, tools: Sequence[RoutableTool], max_tokens: int) -> Plan:
        """What comes next. Thought out in a thread: 500 tools, or the first place name, take a while."""
        return await anyio.to_thread.run_sync(self._plan, turn, tools, max_tokens)

    def _plan(self, turn: Turn, tools: Sequence[RoutableTool], max_tokens: int) -> Plan:
        searched = any(call.tool_name == TOOL_SEARCH for call in turn.calls)
        real = [outcome for outcome in turn.outcomes if outcome.tool != TOOL_SEARCH]
        if real:
            by_name = {tool.name: tool for tool in tools}
            parts = [
                render_result(o.text, label_of(by_name.get(o.tool), o.tool), failed=o.failed)
                for o in real
            ]
            return Say("\n\n".join(parts))
        calls = self._router_for(tools).route(turn.message, turn.previous)
        if calls:
            return CallTools(calls)
        if not searched and _may_search(turn, tools):
            return CallTools((Call(TOOL_SEARCH, {"query": turn.message[:200]}),))
        if turn.has_unseen:
            return Say(CANNOT_SEE)
        if _needs_a_tool(turn):
            return Say(NO_TOOL)
        message = turn.message
        if turn.attached:
            message = f"{turn.attached[:_MAX_ATTACHED]}\n\n{message}".strip()
        return Write(talk_prompt(message, turn.history, max_tokens))


def _needs_a_tool(turn: Turn) -> bool:
    """A model that cannot look would make something up about a file or a page."""
    message = turn.message[:MAX_MESSAGE]
    ask = read_ask(message)
    kinds = {span.kind for span in find_spans(message) if not is_bare_name(span)}
    return ask.wants_something and not ask.explains and bool(kinds & {Kind.PATH, Kind.URL})


def _may_search(turn: Turn, tools: Sequence[RoutableTool]) -> bool:
    """Tools beyond those that are shown are looked for only where the message names a thing."""
    if all(tool.name != TOOL_SEARCH for tool in tools):
        return False
    return any(span.kind in _WORTH_SEARCHING for span in find_spans(turn.message[:MAX_MESSAGE]))
