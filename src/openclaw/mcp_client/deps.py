"""What a connection needs of its host."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.core.clock import Clock, SystemClock
from openclaw.core.events import Emit, discard
from openclaw.mcp_client.incoming import AskHost
from openclaw.mcp_client.keeper import Keeper
from openclaw.mcp_client.opening import ResolveSecrets
from openclaw.mcp_client.process import Grace, Program
from openclaw.mcp_client.stderr import EachLine, LineRedactor

if TYPE_CHECKING:
    from openclaw.config.schema import McpServerConfig
    from openclaw.mcp_client.oauth import Auth
    from openclaw.mcp_client.pin_store import PinStore


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionDeps:
    """What a connection needs of its host.

    `keeper` is one for all connections of a host, and closed after them; `grace` is what an
    ending server is given. `redact` takes one line of text and gives it back without secrets;
    `stderr_redactor` makes what reads a server's stderr and its log across lines; `holds_secret` says whether
    there is a secret in what cannot be changed. `cache` is the directory where a server's protocol
    era is remembered; without it nothing is. `on_sampling` and `on_elicitation` take the server's
    name and the request's params and give back the result's object; without them the requests are
    refused and declined. `confine` may put a sandbox around a program. `auth` gives the HTTP
    authentication of a server that is configured with one; without it such a server needs a login
    that nobody can give. `pins` is where tools' declarations are compared; without it they are not.
    """

    resolve_secrets: ResolveSecrets
    environ: Mapping[str, str]
    keeper: Keeper = field(default_factory=Keeper)
    grace: Grace = field(default_factory=Grace)
    redact: Callable[[str], str] = str
    stderr_redactor: Callable[[], LineRedactor] | None = None
    holds_secret: Callable[[bytes | str], bool] = lambda data: False
    clock: Clock = field(default_factory=SystemClock)
    cache: Path | None = None
    roots: Sequence[Path] = ()
    emit: Emit = discard
    on_sampling: AskHost | None = None
    on_elicitation: AskHost | None = None
    confine: "Callable[[McpServerConfig, Program], Program]" = lambda config, program: program
    auth: "Callable[[McpServerConfig], Awaitable[Auth]] | None" = None
    pins: "PinStore | None" = None

    def line_redactor(self) -> LineRedactor:
        """What reads a server's words from line to line."""
        return self.stderr_redactor() if self.stderr_redactor else EachLine(self.redact)
