"""Whose servers they are: an agent's, with its policy, and what the host gives to all of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.mcp_client.connection import ConnectionDeps
from openclaw.mcp_client.toolsource import OnCall, Verdict, allow_all

if TYPE_CHECKING:
    from openclaw.config.schema import McpServerConfig


def nothing_denied(_: str) -> bool:
    """No server is denied as a whole."""
    return False


@dataclass(frozen=True, slots=True)
class AgentServers:
    """One agent's servers, and what it may do with them.

    `decide` takes a prefixed tool name. `wholly_denied` takes a server's prefix and says whether no
    tool of it can be allowed; such a server is not started. `roots` are the agent's own; a server
    may be told of others, as its configuration says.
    """

    id: str
    servers: "Mapping[str, McpServerConfig]"
    decide: Callable[[str], Verdict] = allow_all
    wholly_denied: Callable[[str], bool] = nothing_denied
    roots: tuple[Path, ...] = ()
    resource_budget: int = 40_000


@dataclass(frozen=True, slots=True)
class ManagerDeps:
    """What the manager needs of its host; `results` is where over-long results are kept."""

    connection: ConnectionDeps
    results: Path | None = None
    on_call: OnCall = lambda record: None
