"""A server's prompts: how a person asks for one, and how its messages are framed."""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openclaw.content.frame import frame, frame_result
from openclaw.core.content import Block, Media, Text
from openclaw.core.errors import InvalidRequest
from openclaw.core.prompts import PromptInfo
from openclaw.core.tools import ToolResult, json_list, json_objects
from openclaw.mcp_client.bridge.results import Rendering, render_result

_COMMAND = re.compile(r"/([^\s:/]+):(\S+)(?:\s+(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PromptCall:
    server: str
    prompt: str
    arguments: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One message of a prompt; its text is framed."""

    role: str
    blocks: tuple[Block, ...]


def parse_prompt_call(text: str) -> PromptCall | None:
    """Parse `/server:prompt key=value key="two words"`; None if it doesn't have that form.

    Raises `InvalidRequest` if it does, but an argument is invalid.
    """
    match = _COMMAND.fullmatch(text.strip())
    if match is None:
        return None
    server, prompt, rest = match.groups()
    try:
        words = shlex.split(rest or "")
    except ValueError as error:
        raise InvalidRequest(f"a quotation mark is not closed ({error})") from error
    return PromptCall(server, prompt, parse_arguments(words))


def parse_arguments(words: Sequence[str]) -> dict[str, str]:
    arguments: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise InvalidRequest(f"arguments must have the form key=value, not {word!r}")
        arguments[key] = value
    return arguments


def check_arguments(prompt: PromptInfo, arguments: Mapping[str, str]) -> None:
    known = {argument.name for argument in prompt.arguments}
    missing = [a.name for a in prompt.arguments if a.required and a.name not in arguments]
    if missing:
        raise InvalidRequest(f"{prompt.command} needs {', '.join(missing)}")
    unknown = sorted(set(arguments) - known)
    if unknown:
        takes = ", ".join(sorted(known)) or "none"
        raise InvalidRequest(
            f"{prompt.command} does not take {', '.join(unknown)} (it takes {takes})"
        )


def render_prompt(
    raw: Mapping[str, Any], how: Rendering, clean: Callable[[ToolResult], ToolResult]
) -> tuple[PromptMessage, ...]:
    """The answer to `prompts/get`: every message in its own frame, after `clean`."""
    rendered: list[PromptMessage] = []
    for message in json_objects(raw.get("messages")):
        role = "assistant" if message.get("role") == "assistant" else "user"
        content = message.get("content")
        blocks = json_list(content) or [content]
        result = frame_result(clean(render_result({"content": blocks}, how)))
        rendered.append(PromptMessage(role, result.blocks))
    return tuple(rendered)


def prompt_text(messages: Sequence[PromptMessage]) -> tuple[Block, ...]:
    """A prompt's messages as one message from a person: their frames in order, then the media."""
    words: list[str] = []
    media: list[Media] = []
    for message in messages:
        for block in message.blocks:
            if isinstance(block, Text):
                words.append(f"[{message.role}]\n{block.text}")
            elif isinstance(block, Media):
                media.append(block)
    text = "\n\n".join(words) or frame("(the prompt is empty)", sender="MCP")
    return (Text(text), *media)
