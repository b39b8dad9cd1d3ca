"""One MCP server, and the one task that owns it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from openclaw.core.clock import Clock, SystemClock
from openclaw.core.events import Emit, discard
from openclaw.core.tools import JsonObject
from openclaw.mcp_client.snapshot import Listing, RawResult, ServerSnapshot
from openclaw.mcp_client.state import ServerState

if TYPE_CHECKING:
    from openclaw.config.schema import McpServerConfig
    from openclaw.secrets.secret import Secret

OnProgress = Callable[[float, float | None, str | None], None]
ResolveSecrets = Callable[[Mapping[str, str]], "Awaitable[dict[str, Secret]]"]
AskHost = Callable[[str, JsonObject], Awaitable[JsonObject]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionDeps:
    """What a connection needs of its host.

    `redact` takes one line of text and gives it back without secrets. `cache` is the directory
    where a server's protocol era is remembered; without it nothing is. `on_sampling` and
    `on_elicitation` take the server's name and the request's params and give back the result's
    object; without them the requests are refused and declined.
    """

    resolve_secrets: ResolveSecrets
    environ: Mapping[str, str]
    redact: Callable[[str], str] = str
    clock: Clock = field(default_factory=SystemClock)
    cache: Path | None = None
    roots: Sequence[Path] = ()
    emit: Emit = discard
    on_sampling: AskHost | None = None
    on_elicitation: AskHost | None = None


class ServerConnection:
    """One server: whoever has it may call; `run` alone opens and closes."""

    def __init__(self, name: str, config: "McpServerConfig", deps: ConnectionDeps) -> None:
        self.name = name
        self.config = config
        self.snapshot = ServerSnapshot(name, ServerState.DISCONNECTED, deps.clock.now_ms(), "stdio")
        self.listing = Listing()
        self.on_listing: list[Callable[[ServerConnection], None]] = []
        self.on_state: list[Callable[[ServerConnection], None]] = []
        self.on_resource_updated: list[Callable[[ServerConnection, str], None]] = []

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Own the server until `stop`; never raises, except cancellation."""
        raise NotImplementedError

    def start(self) -> None:
        """Ask for a connection, where the server is lazy and has none."""
        raise NotImplementedError

    def stop(self) -> None:
        """Ask `run` to close everything and return."""
        raise NotImplementedError

    def restart(self) -> None:
        """Connect afresh, whatever the state, with the count of restarts at zero."""
        raise NotImplementedError

    async def wait_ready(self, timeout: float) -> None:
        """Return once the server is ready; raises `ServerUnavailable`."""
        raise NotImplementedError

    async def call_tool(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
    ) -> RawResult:
        """The decoded result of one call; raises `CallFailed`."""
        raise NotImplementedError

    async def read_resource(self, uri: str) -> RawResult:
        """The decoded result of `resources/read`; raises `CallFailed`."""
        raise NotImplementedError

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> RawResult:
        """The decoded result of `prompts/get`; raises `CallFailed`."""
        raise NotImplementedError

    async def subscribe(self, uris: Sequence[str]) -> None:
        """Be told of updates of these resources, where the server offers it."""
        raise NotImplementedError
