"""What the embedded model does next: call tools, say something fixed, or write."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import anyio.to_thread

from openclaw.models.local.needs import Need, goes_on, need_of
from openclaw.models.local.render import render_result
from openclaw.models.local.router import MAX_MESSAGE, Call, Router
from openclaw.models.local.runner import Prompt
from openclaw.models.local.spans import Kind, find_spans
from openclaw.models.local.talk import CANNOT_SEE, read_in_part, talk_prompt
from openclaw.models.local.talk import MAX_MESSAGE as MAX_TALK
from openclaw.models.local.tooldoc import RoutableTool
from openclaw.models.local.turn import Turn, label_of

TOOL_SEARCH = "tool_search"
_ADVICE = (
    "The embedded model understands plainly worded requests, one at a time; a larger model "
    "understands more."
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
    """Let the model write the answer.

    Of the person's `total` characters, `planned` stand in the last message of the prompt, after
    `before` characters, which are of an attached text that has `attached` of them.
    """

    prompt: Prompt
    total: int = 0
    planned: int = 0
    before: int = 0
    attached: int = 0

    def heading(self, sent: Prompt) -> str:
        """What is said before the answer, where the prompt as it was sent has not all of it."""
        room = len(sent.messages[-1]["content"])
        notes = (
            read_in_part(min(self.before, room), self.attached, "attached text"),
            read_in_part(max(0, min(self.planned, room - self.before)), self.total),
        )
        return "".join(f"{note}\n\n" for note in notes if note)


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
            return _say("\n\n".join(parts), turn)
        calls = self._router_for(tools).route(turn.message, turn.previous)
        if calls:
            return CallTools(calls)
        if not searched and _may_search(turn, tools):
            return CallTools((Call(TOOL_SEARCH, {"query": turn.message[:200]}),))
        if turn.has_unseen:
            return _say(CANNOT_SEE, turn)
        need = _need(turn)
        if need is not None:
            return _say(no_tool(need, turn.unavailable), turn)
        return _write(turn, max_tokens)


def _say(text: str, turn: Turn) -> Say:
    """Rules read the beginning of a message; where it has more, that is said."""
    cut = read_in_part(MAX_MESSAGE, len(turn.message))
    return Say(f"{text}\n\n{cut}".strip())


def _write(turn: Turn, max_tokens: int) -> Write:
    attached = turn.attached[:_MAX_ATTACHED]
    asked = f"{attached}\n\n{turn.message}" if attached else turn.message
    total = len(turn.message)
    planned = min(total, MAX_TALK - len(attached))
    prompt = talk_prompt(asked.strip(), turn.history, max_tokens)
    return Write(prompt, total, planned, len(attached), len(turn.attached))


def no_tool(need: Need, unavailable: Sequence[str] = ()) -> str:
    """What is said instead of an invention, and which servers might have had a tool for it."""
    if need is Need.MEDIA:
        return CANNOT_SEE
    missing = "".join(f"{line}. " for line in unavailable)
    return (
        f"I cannot {need} by myself, and no tool that I have here fits this request. {missing}"
        f"{_ADVICE}"
    )


def _need(turn: Turn) -> Need | None:
    """What a model that cannot look would make up; a follow-up needs what was needed before it."""
    message = turn.message[:MAX_MESSAGE]
    need = need_of(message)
    if need is not None or not goes_on(message):
        return need
    if turn.previous is not None:
        return need_of(turn.previous.message[:MAX_MESSAGE])
    return need_of(turn.history[-1][0][:MAX_MESSAGE]) if turn.history else None


def _may_search(turn: Turn, tools: Sequence[RoutableTool]) -> bool:
    """Tools beyond those that are shown are looked for only where the message names a thing."""
    if all(tool.name != TOOL_SEARCH for tool in tools):
        return False
    return any(span.kind in _WORTH_SEARCHING for span in find_spans(turn.message[:MAX_MESSAGE]))
