"""What happens in a turn, as the protocol's session updates. Decides only; sends nothing."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from acp import (
    plan_entry,
    start_tool_call,
    text_block,
    update_agent_message,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
)
from acp.schema import ToolCallLocation, ToolKind

from openclaw.acp_agent.blocks import content_block, tool_blocks, tool_contents
from openclaw.agent.context import PermissionRequest, Reply
from openclaw.core.content import text_of
from openclaw.core.events import (
    BlockReply,
    Event,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
)
from openclaw.core.plan import PLAN_TOOL, PlanStep, plan_of
from openclaw.core.tools import JsonObject
from openclaw.secrets.deltas import DeltaRedactor
from openclaw.secrets.redactor import Redactor

Update = Any
"""One of the SDK's session updates."""

Status = Literal["pending", "in_progress"]

_KINDS: Mapping[str, ToolKind] = {
    "read": "read",
    "attach": "read",
    "list": "search",
    "search": "search",
    "write": "edit",
    "edit": "edit",
    "exec": "execute",
    "web_fetch": "fetch",
    "sessions_list": "read",
    "session_history": "read",
    "tool_search": "search",
}


def kind_of(name: str) -> ToolKind:
    """What a tool does, as editors tell tools apart."""
    return _KINDS.get(name, "other")


def locations(name: str, arguments: JsonObject, cwd: Path) -> list[ToolCallLocation] | None:
    """The file that one of our own tools is about, so that an editor can follow."""
    path = arguments.get("path")
    if name not in _KINDS or not isinstance(path, str) or not path:
        return None
    return [ToolCallLocation(path=str(cwd / path))]


class Translator:
    """Turns the events of one turn into updates, and knows what the client has been shown."""

    def __init__(self, redactor: Redactor, cwd: Path) -> None:
        self._redact = redactor.redact
        self._words = DeltaRedactor(redactor)
        self._thoughts = DeltaRedactor(redactor)
        self._cwd = cwd
        self._announced: set[str] = set()
        self._written = ""  # of the answer since the last block that was finished

    def updates(self, event: Event) -> list[Update]:
        """What the client is told of an event; often nothing."""
        match event:
            case TextDelta():
                self._written += event.text
                return [*self._thought(), *_said(self._words.feed(event.text))]
            case ThinkingDelta():
                return _thought(self._thoughts.feed(event.text))
            case BlockReply():
                return self._rest(text_of(event.blocks))
            case ToolStarted() | ToolProgress() | ToolFinished():
                planned = self._planned(event)
                return [*self._held(), *(self._tool(event) if planned is None else planned)]
            case Notice(level="warning" | "error"):
                return [*self._held(), *_thought(f"{self._redact(event.message)}\n")]
            case _:
                return []

    def asking(self, request: PermissionRequest) -> list[Update]:
        """The call that the person is about to be asked about."""
        return [
            *self._held(),
            *self._announce(
                request.call_id, request.name, request.label, request.arguments, "pending"
            ),
        ]

    def closing(self, reply: Reply) -> list[Update]:
        """What of the answer has not been streamed, and media that were handed to the person."""
        return [
            *self._rest(reply.text),
            *(update_agent_message(content_block(media)) for media in reply.media),
        ]

    def _rest(self, text: str) -> list[Update]:
        """The end of a block: what was held back of it, and what was not streamed."""
        written, self._written = self._written, ""
        if text == self._redact(written):
            return self._held()
        if not text.startswith(written):
            return [*self._held(), *(_said(self._redact(text)) if text.strip() else ())]
        rest = text[len(written) :]
        words = self._words.feed(rest) if rest.strip() else ""
        return [*self._thought(), *_said(words + self._words.finish())]

    def _held(self) -> list[Update]:
        """What was held back because it might have been the beginning of a secret."""
        return [*self._thought(), *_said(self._words.finish())]

    def _thought(self) -> list[Update]:
        return _thought(self._thoughts.finish())

    def _planned(self, event: ToolStarted | ToolProgress | ToolFinished) -> list[Update] | None:
        """The plan that a call sets, which is shown instead of the call; None for other calls."""
        if event.name != PLAN_TOOL or event.call_id in self._announced:
            return None  # one that the person was asked about is shown as a call
        plan = plan_of(event.name, event.arguments) if isinstance(event, ToolStarted) else None
        return [] if plan is None else [plan_update(plan, self._redact)]

    def _tool(self, event: ToolStarted | ToolProgress | ToolFinished) -> list[Update]:
        match event:
            case ToolStarted():
                if event.call_id in self._announced:
                    return [update_tool_call(event.call_id, status="in_progress")]
                return self._announce(
                    event.call_id, event.name, event.label, event.arguments, "in_progress"
                )
            case ToolProgress():
                message = tool_contents([text_block(event.message)])
                return [update_tool_call(event.call_id, status="in_progress", content=message)]
            case ToolFinished():
                status = "failed" if event.result.is_error else "completed"
                content = tool_blocks(event.result)
                return [update_tool_call(event.call_id, status=status, content=content)]

    def _announce(
        self, call_id: str, name: str, label: str, arguments: JsonObject, status: Status
    ) -> list[Update]:
        self._announced.add(call_id)
        return [
            start_tool_call(
                call_id,
                label or name,
                kind=kind_of(name),
                status=status,
                locations=locations(name, arguments, self._cwd),
                raw_input=dict(arguments),
            )
        ]


def plan_update(plan: Iterable[PlanStep], redact: Callable[[str], str] = str) -> Update:
    """A plan as the protocol has it."""
    return update_plan(
        plan_entry(redact(one.step), priority=one.priority, status=one.status) for one in plan
    )


def _said(text: str) -> list[Update]:
    return [update_agent_message_text(text)] if text else []


def _thought(text: str) -> list[Update]:
    return [update_agent_thought_text(text)] if text else []
