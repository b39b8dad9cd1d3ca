"""What others may know of a server: its state, and what it offers."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openclaw.mcp_client.state import ServerState

if TYPE_CHECKING:
    from mcp_types import Prompt, Resource, ResourceTemplate, Tool

RawResult = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """A server at one moment. `since` is milliseconds since 1970; `next_retry_in` is in seconds."""

    name: str
    state: ServerState
    since: int
    transport: str
    pid: int | None = None
    protocol: str | None = None
    server_name: str | None = None
    server_version: str | None = None
    restarts: int = 0
    last_error: str | None = None
    next_retry_in: float | None = None
    stderr: tuple[str, ...] = ()
    capabilities: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Listing:
    """What a server offers: bounded, each entry well formed, in the server's own words.

    `dropped` says, in our words, what was left out and why.
    """

    tools: "tuple[Tool, ...]" = ()
    resources: "tuple[Resource, ...]" = ()
    resource_templates: "tuple[ResourceTemplate, ...]" = ()
    prompts: "tuple[Prompt, ...]" = ()
    instructions: str | None = None
    dropped: tuple[str, ...] = field(default=())
