"""Opens a connection: starts or dials the server, does the handshake, and always cleans up."""

import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from openclaw.config.paths import expand
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.errors import OperatorFacing
from openclaw.core.events import Emit, discard
from openclaw.mcp_client.errors import ConnectionFailed
from openclaw.mcp_client.imports import load
from openclaw.mcp_client.session.elicitation import decline
from openclaw.mcp_client.session.era_memory import EraMemory
from openclaw.mcp_client.session.notifications import NotificationHandler
from openclaw.mcp_client.session.pipes import PipeTransport
from openclaw.mcp_client.session.request_handlers import AskHost, RequestHandlers
from openclaw.mcp_client.session.server_session import ServerSession
from openclaw.mcp_client.transport import child_process
from openclaw.mcp_client.transport.orphan_reaper import OrphanReaper
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import has_reference

if TYPE_CHECKING:
    from openclaw.config.agent_schema import McpServerConfig
    from openclaw.mcp_client.auth.oauth import Auth
    from openclaw.secrets.refs import Secret

ResolveSecrets = Callable[[Mapping[str, str]], "Awaitable[dict[str, Secret]]"]


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
    confine: "Callable[[McpServerConfig, child_process.Program, str, Sequence[Path]], child_process.Program]" = (
        lambda config, program, name, roots: program
    )
    auth: "Callable[[McpServerConfig], Awaitable[Auth]] | None" = None

    async def reveal(self, values: Mapping[str, str]) -> dict[str, str]:
        return {k: secret.reveal() for k, secret in (await self.resolve_secrets(values)).items()}


@dataclass(frozen=True, slots=True)
class ConnectParams:
    name: str
    config: "McpServerConfig"
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


async def open_session(params: ConnectParams) -> AbstractAsyncContextManager[ServerSession]:
    """A context manager that opens the connection and closes it."""
    if params.config.kind == "stdio":
        return _open_stdio(params)
    await load("openclaw.mcp_client.session.remote")
    from openclaw.mcp_client.session.remote import open_remote

    return open_remote(params)


def make_session(params: ConnectParams, transport: str, pid: int | None = None) -> ServerSession:
    return ServerSession(params.name, params.notifications, params.request_handlers, transport, pid)


@asynccontextmanager
async def _open_stdio(params: ConnectParams) -> AsyncGenerator[ServerSession]:
    child = await child_process.spawn(await _program(params), params.deps.reaper, params.deps.grace)
    limit = params.config.max_message_bytes
    pipe = child_process.ChildPipe(child.ends(), child.exited, limit, params.stderr)
    session = make_session(params, "stdio", child.pid)
    transport = PipeTransport(pipe, session.caller, params.deps.redactor.redact)
    try:
        async with session.running() as group:
            group.start_soon(transport.run, name=f"pipes of {params.name}")
            await _stdio_handshake(params, session, transport)
            yield session
    finally:
        with anyio.CancelScope(shield=True):
            transport.close()
            await child.shut_down()
            transport.release()
            child.close_pipes()


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


async def _stdio_handshake(
    params: ConnectParams, session: ServerSession, transport: PipeTransport
) -> None:
    params.on_asked()
    caller = session.caller
    try:
        await handshake(params, session)
    except Exception:
        if transport.input_closed:  # it is exiting: its exit code says why
            with anyio.move_on_after(2 * child_process.EXIT_AFTER_EOF):
                await caller.lost.wait()
        if caller.end_reason is None:
            raise
        raise ConnectionFailed(caller.end_reason) from None


async def _program(
    params: ConnectParams, *, windows: bool = sys.platform == "win32"
) -> child_process.Program:
    config, deps = params.config, params.deps
    if config.command is None:
        raise OperatorFacing("a stdio server needs a `command`")
    own = await deps.reveal({k: str(v) for k, v in config.env.items()})
    environment = child_process.child_environment(
        deps.environ, own, config.inherit_env, windows=windows
    )
    command = config.command
    if command.startswith("~"):
        command = str(expand(command, deps.environ))
    if windows:
        command = child_process.find_windows_program(command, environment)
    elif config.cwd is None and os.sep in command and not Path(command).is_absolute():
        raise child_process.SpawnFailed(
            f"'{command}' is relative, and the server has no `cwd`",
            hint="give the full path in `command`, or set `cwd`",
        )
    words = {f"args[{at}]": word for at, word in enumerate(config.args)}
    referring = {name: word for name, word in words.items() if has_reference(word)}
    program = child_process.Program(
        command=command,
        arguments=tuple({**words, **await deps.reveal(referring)}.values()),
        environment=environment,
        directory=None if config.cwd is None else expand(config.cwd, deps.environ),
    )
    # Looking at the machine and its files takes a moment.
    return await anyio.to_thread.run_sync(deps.confine, config, program, params.name, deps.roots)
