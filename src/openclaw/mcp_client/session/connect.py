"""What a connection to a server needs, and its handshake."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.events import Emit, discard
from openclaw.mcp_client.auth.oauth import Auth
from openclaw.mcp_client.errors import ConnectionFailed
from openclaw.mcp_client.session.elicitation import decline
from openclaw.mcp_client.session.era_memory import EraMemory
from openclaw.mcp_client.session.notifications import NotificationHandler
from openclaw.mcp_client.session.request_handlers import AskHost, RequestHandlers
from openclaw.mcp_client.session.server_session import ServerSession
from openclaw.mcp_client.transport import child_process
from openclaw.mcp_client.transport.orphan_reaper import OrphanReaper
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import Secret

ResolveSecrets = Callable[[Mapping[str, str]], Awaitable[dict[str, Secret]]]
Confine = Callable[
    [McpServerConfig, child_process.Program, str, Sequence[Path]], child_process.Program
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionDeps:
    """What a connection needs from its host.

    `reaper` is shared by all connections of a host, and closed after them; `grace` is how long an
    ending server gets. `cache` is the directory where servers' protocol eras are remembered;
    without it they are not. `on_sampling` and `on_elicitation` take the server's name and the
    request's params and return the result; without the former, such requests are refused.
    `confine` may put a program into a sandbox, given the server's name and roots. `auth` returns
    the HTTP authentication of a server that has one configured; without it, nobody can log in to
    such a server.
    """

    resolve_secrets: ResolveSecrets
    environ: Mapping[str, str]
    reaper: OrphanReaper = field(default_factory=OrphanReaper)
    grace: child_process.Grace = field(default_factory=child_process.Grace)
    redactor: Redactor = field(default_factory=Redactor)
    clock: Clock = field(default_factory=SystemClock)
    cache: Path | None = None
    roots: Sequence[Path] = ()
    emit: Emit = discard
    on_sampling: AskHost | None = None
    on_elicitation: AskHost = decline
    confine: Confine = lambda config, program, name, roots: program
    auth: Callable[[McpServerConfig], Awaitable[Auth]] | None = None

    async def reveal(self, values: Mapping[str, str]) -> dict[str, str]:
        return {k: secret.reveal() for k, secret in (await self.resolve_secrets(values)).items()}


@dataclass(frozen=True, slots=True)
class ConnectParams:
    name: str
    config: McpServerConfig
    deps: ConnectionDeps
    request_handlers: RequestHandlers
    notifications: NotificationHandler
    memory: EraMemory
    stderr: child_process.StderrTail
    on_asked: Callable[[], None] = lambda: None
    """Called when everything is loaded, right before the handshake."""
    patience: float | None = None
    """Seconds for each step of the handshake, if a user logs in meanwhile."""

    @property
    def handshake_seconds(self) -> float:
        return self.config.timeout / 1000 if self.patience is None else self.patience


def make_session(params: ConnectParams, transport: str, pid: int | None = None) -> ServerSession:
    return ServerSession(params.name, params.notifications, params.request_handlers, transport, pid)


async def handshake(
    params: ConnectParams, session: ServerSession, turned_away: Callable[[], bool] | None = None
) -> None:
    """Do the handshake within the configured time."""
    seconds = params.handshake_seconds
    try:
        with anyio.fail_after(seconds):
            await session.handshake(params.memory, turned_away, params.patience)
    except TimeoutError:
        raise ConnectionFailed(f"no handshake within {seconds:g} s") from None
