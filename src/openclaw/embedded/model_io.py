"""Reads pydantic-ai's messages as the embedded model needs them."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, cast

from pydantic_ai.messages import (
    ModelMessage,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import ToolDefinition

from openclaw.content.frame import unframed_in_place, without_frames
from openclaw.embedded.router import Previous
from openclaw.embedded.runner import ChatMessage, Prompt
from openclaw.embedded.tool_doc import RoutableTool

MAX_CHARS = 4000
MAX_LINES = 120
_MAX_DEPTH = 8
_MOMENT = re.compile(
    r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"
)


def _moment(text: str) -> str:
    if not _MOMENT.fullmatch(text):
        return text
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        return text
    offset = when.strftime("%z")
    zone = f" (UTC{offset[:3]}:{offset[3:5]})" if offset else ""
    return f"{when:%H:%M} on {when:%A}, {when.day} {when:%B %Y}{zone}"


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    return _moment(value) if isinstance(value, str) else str(value)


def _lines(value: Any, name: str, depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH:
        yield f"{name}: …"
    elif isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            label = str(key).replace("_", " ").strip()
            yield from _lines(inner, f"{name} {label}".strip(), depth + 1)
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        if all(not isinstance(item, dict | list) for item in items):
            yield f"{name}: {', '.join(map(_scalar, items)) or 'none'}".removeprefix(": ")
            return
        for number, item in enumerate(items, start=1):
            yield from _lines(item, f"{name} {number}".strip(), depth + 1)
    else:
        text = _scalar(value)
        yield f"{name}: {text}" if name else text


def flatten(text: str) -> str:
    stripped = text.strip()
    if not stripped.startswith(("{", "[")):
        return stripped
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return stripped
    return "\n".join(_lines(value, "", 0))


def render_result(text: str, label: str, *, failed: bool) -> str:
    whole = flatten(unframed_in_place(text))
    body = "\n".join(whole.splitlines()[:MAX_LINES])[:MAX_CHARS].rstrip()
    if (left := len(whole.rstrip()) - len(body)) > 0:
        body += f"\n… ({left} more characters)"
    if failed:
        return f"That did not work: {body or 'the tool gave no reason.'}\n\nSource: {label}"
    return f"{body or 'The tool gave an empty result.'}\n\nSource: {label}"


# What the agent puts in the place of an attachment that the model does not get.
def _is_unseen(text: str) -> bool:
    """Whether it is `[NAME: not shown]` or `[NAME: not shown: REASON]`."""
    in_brackets = text.startswith("[") and text.endswith("]") and "\n" not in text
    return in_brackets and (": not shown: " in text or text.endswith(": not shown]"))


_UNAVAILABLE = re.compile(r"^The MCP server '[^'\n]+' is not available \([^)\n]*\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    tool: str
    text: str
    failed: bool


@dataclass(slots=True)
class Turn:
    message: str = ""
    attached: str = ""
    has_unseen: bool = False
    calls: Sequence[ToolCallPart] = ()
    outcomes: Sequence[ToolOutcome] = ()
    answer: str = ""
    history: Sequence[tuple[str, str]] = ()
    previous: Previous | None = None
    unavailable: Sequence[str] = ()


def _prompt(part: UserPromptPart) -> tuple[str, str, bool]:
    if isinstance(part.content, str):
        return part.content, "", False
    texts = [piece for piece in part.content if isinstance(piece, str)]
    unseen = len(texts) < len(part.content) or any(map(_is_unseen, texts))
    said = texts[0] if texts and not texts[0].startswith("[") else ""
    attached = [text for text in texts if text is not said and not _is_unseen(text)]
    return said, "\n".join(attached), unseen


def read_turn(messages: Sequence[ModelMessage], instructions: Sequence[str] = ()) -> Turn:
    turns: list[Turn] = []
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, UserPromptPart):
            # The agent may put more than one prompt into a request: the last one is the person's.
            turns.append(Turn(*_prompt(part)))
        elif not turns:
            continue
        elif isinstance(part, ToolReturnPart):
            text = part.model_response_str(wrap_if_error=False)
            outcome = ToolOutcome(part.tool_name, text, part.outcome != "success")
            turns[-1].outcomes = (*turns[-1].outcomes, outcome)
        elif isinstance(part, ToolCallPart):
            turns[-1].calls = (*turns[-1].calls, part)
        elif isinstance(part, TextPart):
            turns[-1].answer = f"{turns[-1].answer}\n{part.content}".strip()
    if not turns:
        return Turn()
    *before, now = turns
    last = before[-1] if before else Turn()
    now.message = without_frames(now.message).strip()  # what was framed may not decide anything
    now.history = tuple((one.message, one.answer) for one in before if one.answer and not one.calls)
    now.previous = Previous(last.message, last.calls[-1].tool_name) if last.calls else None
    ours = map(without_frames, instructions)  # what a server says of itself is framed
    now.unavailable = tuple(line for text in ours for line in _UNAVAILABLE.findall(text))
    return now


def routable(definition: ToolDefinition) -> RoutableTool:
    facts: dict[str, Any] = definition.metadata or {}
    read_only = facts.get("read_only")
    return RoutableTool(
        name=definition.name,
        description=definition.description or "",
        schema=definition.parameters_json_schema,
        label=str(facts.get("label") or ""),
        read_only=read_only if isinstance(read_only, bool) else None,
    )


MAX_REPLY_TOKENS = 200
MAX_MESSAGE = 3000
_MAX_REMEMBERED = 300
_REMEMBERED_TURNS = 2
_TEMPLATE_TOKENS, _TURN_TOKENS = 32, 8
_SYSTEM = "You are OpenClaw, a helpful assistant. Answer in one or two short sentences."
_EXAMPLES = (
    ("Hello!", "Hello! How can I help you?"),
    ("What is the capital of Norway?", "The capital of Norway is Oslo."),
    ("What is 7 times 8?", "7 times 8 is 56."),
    ("What are you?", "I am OpenClaw with a very small language model that runs on this computer."),
    (
        "What can you do?",
        "I can answer simple questions, and I can use the tools that are connected to me.",
    ),
    ("Why do birds sing?", "Birds sing to find a mate and to defend their place."),
    ("Thank you!", "You are welcome!"),
)
# Keeps a small model from saying the same thing over and over.
_DRY = {"dry_multiplier": 0.8, "dry_base": 1.75, "dry_allowed_length": 3}

CANNOT_SEE = (
    "I cannot see images, hear sound or open this kind of attachment: the embedded model reads text "
    "only. Configure a larger model to use them."
)


def read_in_part(read: int, total: int, what: str = "message") -> str:
    """A note if not all of a text was read; empty otherwise."""
    if read >= total:
        return ""
    return (
        f"[The {what} is too long for the embedded model: of its {total:,} characters, only the "
        f"first {read:,} were read.]"
    )


def chat_message(role: str, content: str) -> ChatMessage:
    return {"role": role, "content": content}


def talk_prompt(message: str, history: Sequence[tuple[str, str]], max_tokens: int) -> Prompt:
    remembered = [
        (said[:_MAX_REMEMBERED], answered[:_MAX_REMEMBERED])
        for said, answered in history[-_REMEMBERED_TURNS:]
    ]
    messages = [chat_message("system", _SYSTEM)]
    for said, answered in (*_EXAMPLES, *remembered):
        messages += [chat_message("user", said), chat_message("assistant", answered)]
    messages.append(chat_message("user", message[:MAX_MESSAGE]))
    return Prompt(messages, min(max_tokens, MAX_REPLY_TOKENS), sampling=_DRY)


def weight(text: str) -> int:
    """At least as many tokens as a text has: one for two letters, or for a byte of other scripts."""
    plain = sum(character < "\x80" for character in text)
    return plain // 2 + len(text.encode("utf-8", "replace")) - plain


def fitted(prompt: Prompt, context: int) -> Prompt:
    """The prompt; if it is too long, its last message is cut and those between may be left out."""
    first, *between, last = prompt.messages
    room = context - prompt.max_tokens - weight(first["content"]) - _TEMPLATE_TOKENS
    around = sum(weight(message["content"]) + _TURN_TOKENS for message in between)
    if weight(last["content"]) + around <= room:
        return prompt
    if weight(last["content"]) > room - around:
        between = between if around < room // 2 else []
        room -= around if between else 0
    share = min(1.0, max(0, room) / weight(last["content"]))
    cut = last["content"][: int(len(last["content"]) * share)]
    return replace(prompt, messages=[first, *between, chat_message(last["role"], cut)])
