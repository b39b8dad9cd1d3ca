"""Prompts of MCP servers, as front ends offer them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class PromptArgument:
    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class PromptInfo:
    """A prompt that an agent may use; `command` is how a person asks for it."""

    server: str
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()

    @property
    def command(self) -> str:
        return f"/{self.server}:{self.name}"


@dataclass(frozen=True, slots=True)
class PartialArgument:
    """An argument of a prompt, or of a resource template, that somebody has begun to type."""

    server: str
    argument: str
    value: str
    prompt: str | None = None
    template: str | None = None
    given: Mapping[str, str] = field(default_factory=dict[str, str])

    def params(self) -> dict[str, Any]:
        ref = {"type": "ref/prompt", "name": self.prompt}
        if self.prompt is None:
            ref = {"type": "ref/resource", "uri": self.template}
        argument = {"name": self.argument, "value": self.value}
        context = {"context": {"arguments": dict(self.given)}} if self.given else {}
        return {"ref": ref, "argument": argument, **context}
