"""What a conversation in the library's messages means to the embedded model."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from openclaw.models.local.render import without_frames
from openclaw.models.local.router import Previous
from openclaw.models.local.tooldoc import RoutableTool

# What the agent puts in the place of an attachment that the model does not get.
_UNSEEN = re.compile(r"\[[^\n]*: not shown(?:: [^\n]*)?\]")

_UNAVAILABLE = re.compile(r"^The MCP server '[^'\n]+' is not available \([^)\n]*\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a tool call of this turn gave."""

    tool: str
    text: str
    failed: bool


@dataclass(frozen=True, slots=True)
class Turn:
    """The turn that is being answered."""

    message: str = ""
    attached: str = ""
    has_unseen: bool = False
    calls: tuple[ToolCallPart, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    history: tuple[tuple[str, str], ...] = ()
    previous: Previous | None = None
    unavailable: tuple[str, ...] = ()

    @property
    def ends_with_results(self) -> bool:
        """Whether tools have answered and the person has not."""
        return bool(self.outcomes)


@dataclass(slots=True)
class _Open:
    message: str = ""
    attached: str = ""
    has_unseen: bool = False
    calls: list[ToolCallPart] = field(default_factory=list[ToolCallPart])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    answer: str = ""


def _prompt(part: UserPromptPart) -> tuple[str, str, bool]:
    """A message's own words, the text of what is attached, and whether something cannot be seen."""
    if isinstance(part.content, str):
        return part.content, "", False
    texts = [piece for piece in part.content if isinstance(piece, str)]
    unseen = len(texts) < len(part.content) or any(map(_UNSEEN.fullmatch, texts))
    said = texts[0] if texts and not texts[0].startswith("[") else ""
    attached = [text for text in texts if text is not said and not _UNSEEN.fullmatch(text)]
    return said, "\n".join(attached), unseen


def _outcome(part: ModelRequestPart) -> Outcome | None:
    if isinstance(part, ToolReturnPart):
        failed = part.outcome != "success"
        return Outcome(part.tool_name, part.model_response_str(wrap_if_error=False), failed)
    return None


def _take_request(message: ModelRequest, turns: list[_Open]) -> None:
    for part in message.parts:
        if isinstance(part, UserPromptPart):
            said, attached, unseen = _prompt(part)
            # The agent may put more than one prompt into a request: the last one is the person's.
            turns.append(_Open(said, attached, unseen))
        elif turns and (outcome := _outcome(part)) is not None:
            turns[-1].outcomes.append(outcome)


def _take_response(message: ModelResponse, turn: _Open) -> None:
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            turn.calls.append(part)
        elif isinstance(part, TextPart):
            turn.answer = f"{turn.answer}\n{part.content}".strip()


def _unavailable(instructions: Sequence[str]) -> tuple[str, ...]:
    """What the agent says of servers that cannot be used; what a server says of itself is framed."""
    found = (_UNAVAILABLE.findall(without_frames(text)) for text in instructions)
    return tuple(line for lines in found for line in lines)


def read_turn(messages: Sequence[ModelMessage], instructions: Sequence[str] = ()) -> Turn:
    """The turn at the end of the conversation, with what came before it."""
    turns: list[_Open] = []
    for message in messages:
        if isinstance(message, ModelRequest):
            _take_request(message, turns)
        elif turns:
            _take_response(message, turns[-1])
    if not turns:
        return Turn()
    *before, now = turns
    last_call = next((t for t in reversed(before[-1:]) if t.calls), None)
    return Turn(
        message=without_frames(now.message).strip(),
        attached=now.attached,
        has_unseen=now.has_unseen,
        calls=tuple(now.calls),
        outcomes=tuple(now.outcomes),
        history=tuple((t.message, t.answer) for t in before if t.answer and not t.calls),
        previous=Previous(last_call.message, last_call.calls[-1].tool_name) if last_call else None,
        unavailable=_unavailable(instructions),
    )


def routable(definition: ToolDefinition) -> RoutableTool:
    """A tool definition as the router reads it."""
    facts: dict[str, Any] = definition.metadata or {}
    read_only = facts.get("read_only")
    return RoutableTool(
        name=definition.name,
        description=definition.description or "",
        schema=definition.parameters_json_schema,
        label=str(facts.get("label") or ""),
        read_only=read_only if isinstance(read_only, bool) else None,
    )


def label_of(tool: RoutableTool | None, name: str) -> str:
    """What a tool is called in an answer."""
    if tool is None:
        return name
    if tool.label:
        return tool.label
    server = tool.description.removeprefix("[MCP server: ").partition("]")[0]
    if tool.description.startswith("[MCP server: ") and name.startswith(f"mcp_{server}_"):
        return f"MCP: {server}/{name.removeprefix(f'mcp_{server}_')}"
    return name
