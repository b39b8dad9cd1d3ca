"""What kinds of action the user wants, read from their own words alone.

The request for it takes `UserText`, which only the user's messages become: untrusted content cannot
reach it, so it cannot steer the answer.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from openclaw.core.tools import json_list, json_object
from openclaw.policy.dataflow.effects import Tool
from openclaw.policy.dataflow.text_index import UserText
from openclaw.policy.dataflow.text_values import split, words

ALLOW_ACTIONS = "allow_actions"

_INSTRUCTIONS = (
    "You see what a user told their assistant. Call allow_actions once with every listed tool that the "
    "assistant needs for what the user asks now, as the steps that a sensible person would expect. List "
    "none that they do not want. values: the names, addresses, dates and amounts for it that follow from "
    "the user's words, also translated or worked out.\n"
)
_MOST_TOOLS = 24
_TOOL_CHARS = 600  # of all descriptions together
_LATEST_CHARS = 1200
_EARLIER_CHARS = 400
_MOST_VALUES = 64
_LONGEST_VALUE = 500


@dataclass(frozen=True, slots=True)
class ActionTool:
    """A tool with an effect, as its server declares it."""

    tool: Tool
    description: str = ""


@dataclass(frozen=True, slots=True)
class Intent:
    """The tools that the user wants used for this request, and values that follow from their words.

    If there are none for a tool, what it is used for is to be found where they pointed.
    """

    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    named: frozenset[str] = frozenset()  # known by the cheap rules, which say nothing of values
    read: bool = False  # whether a model answered

    @property
    def tools(self) -> frozenset[str]:
        return self.named | self.values.keys()

    def to_json(self) -> list[dict[str, Any]]:
        return [{"tool": tool, "values": list(values)} for tool, values in self.values.items()]

    def sentence(self) -> str:
        """For the user: what was understood."""
        parts = [
            f"{tool} ({', '.join(values)})" if values else tool
            for tool, values in self.values.items()
        ]
        return f"What I understood you want: {', '.join(parts) or 'no action'}."


@dataclass(frozen=True, slots=True)
class IntentRequest:
    """One request to a model: instructions, the user's words, and the schema of the only tool."""

    instructions: str
    words: str
    schema: Mapping[str, Any]
    tools: frozenset[str]

    def read(self, arguments: str | Mapping[str, Any] | None) -> Intent | None:
        """The intent in a call of the tool; None if there was none that can be read."""
        if arguments is None:
            return None
        if isinstance(arguments, str):
            try:
                arguments = json_object(json.loads(arguments))
            except (ValueError, RecursionError):
                return None
        found: dict[str, tuple[str, ...]] = {}
        for action in map(json_object, json_list(json_object(arguments).get("actions"))):
            name = action.get("tool")
            if isinstance(name, str) and name in self.tools:
                values = [
                    value[:_LONGEST_VALUE]
                    for value in json_list(action.get("values"))
                    if isinstance(value, str)
                ]
                found[name] = (*found.get(name, ()), *values)[:_MOST_VALUES]
        return Intent(found, read=True)


def intent_request(
    messages: Sequence[UserText], tools: Iterable[ActionTool], called: Tool
) -> IntentRequest:
    """Ask which of the tools the user wants; if there are many, those nearest to `called` and to them."""
    offered = _nearest(list(tools), messages, called)
    each = max(24, _TOOL_CHARS // max(1, len(offered)))
    lines = [f"{one.tool.label}: {_brief(one, each)}" for one in offered]
    names = [one.tool.label for one in offered]
    action = {
        "type": "object",
        "required": ["tool"],
        "properties": {
            "tool": {"type": "string", "enum": names},
            "values": {"type": "array", "items": {"type": "string"}},
        },
    }
    schema = {
        "type": "object",
        "required": ["actions"],
        "properties": {"actions": {"type": "array", "items": action}},
    }
    return IntentRequest(
        _INSTRUCTIONS + "\n".join(lines), _conversation(messages), schema, frozenset(names)
    )


def _conversation(messages: Sequence[UserText]) -> str:
    """The user's messages in order, the latest in full as far as there is room."""
    parts: list[str] = []
    room = _LATEST_CHARS
    for at, message in enumerate(reversed(messages)):
        text = message.text.strip()
        parts.append(
            text if len(text) <= room else f"{text[: room * 2 // 3]} … {text[-room // 3 :]}"
        )
        room = (_EARLIER_CHARS if at == 0 else room) - (0 if at == 0 else len(parts[-1]))
        if room < 20:
            break
    return "\n---\n".join(reversed(parts))


def _brief(one: ActionTool, most: int) -> str:
    line = " ".join(one.description.split()).partition(". ")[0]
    return line if len(line) <= most else line[: most - 1] + "…"


def _nearest(
    tools: list[ActionTool], messages: Sequence[UserText], called: Tool
) -> list[ActionTool]:
    if len(tools) <= _MOST_TOOLS:
        return tools
    said = {word[:5] for message in messages for word in words(message.text)}

    def distance(one: ActionTool) -> tuple[bool, int, bool]:
        about = {word[:5] for word in (*split(one.tool.name), *words(one.description))}
        same = one.tool.server == called.server
        return one.tool.label != called.label, -len(about & said) - same, not same

    chosen = {id(one) for one in sorted(tools, key=distance)[:_MOST_TOOLS]}
    return [one for one in tools if id(one) in chosen]


def is_named(tool: Tool, messages: Sequence[UserText]) -> bool:
    """Whether the user's latest message has the tool's name as it is written in programs."""
    name = re.escape(tool.name)
    written = len(split(tool.name)) > 1 and bool(messages)
    return written and re.search(rf"(?<![\w-]){name}(?![\w-])", messages[-1].text) is not None


def is_verb_named(tool: Tool, messages: Sequence[UserText]) -> bool:
    """The same for its verb alone: the best that can be said without a model to ask."""
    said = words(messages[-1].text) if messages else []
    name = split(tool.name)
    return bool(name) and len(name[0]) > 2 and any(_is_form(name[0], one) for one in said)


def _is_form(word: str, said: str) -> bool:
    return said == word or (said.startswith(word) and len(said) - len(word) <= 2 and len(word) > 2)
