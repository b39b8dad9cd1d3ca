"""What a tool is, whoever provides it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from openclaw.core.content import Block, Text

JsonObject = Mapping[str, Any]

Elicit = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""Asks the person what an MCP server wants to know: its name and the request, MCP's result back."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a tool comes from: an MCP server (`server` and its own `tool` name), or ourselves."""

    server: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    input_schema: JsonObject
    label: str
    origin: Origin = field(default_factory=Origin)
    read_only: bool | None = None
    destructive: bool | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a call gave.

    `blocks` go to the model, with untrusted text already framed. `outputs` are the same things as
    the tool gave them, unframed, for front ends. `details` never enter a prompt.
    """

    blocks: tuple[Block, ...]
    outputs: tuple[Block, ...] = ()
    is_error: bool = False
    details: JsonObject = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class CallContext:
    """On whose behalf a tool is called. `progress` takes a message and never blocks.

    `approved` says that a person agreed to this very call. `elicit` asks that person for what the
    tool wants to know; without it nobody can be asked.
    """

    agent: str
    session: str
    call_id: str
    progress: Callable[[str], None] = lambda message: None
    approved: bool = False
    elicit: Elicit | None = None


class ToolSource(Protocol):
    """Tools that may appear and vanish between two steps of a turn."""

    def specs(self) -> Sequence[ToolSpec]:
        """The tools there are now."""
        ...

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        """Call one. A failure is a result with `is_error`, never an exception."""
        ...


def failed(message: str, *, details: JsonObject | None = None) -> ToolResult:
    """The result of a call that could not be made or went wrong."""
    return ToolResult(blocks=(Text(message),), is_error=True, details=details or {})
