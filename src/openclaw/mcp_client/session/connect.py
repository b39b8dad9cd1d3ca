"""Opens a connection: starts or dials the server, does the handshake, and always cleans up."""

import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.to_thread

from openclaw.config.paths import expand
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.errors import OperatorFacing
from openclaw.core.events import Emit, discard
from openclaw.mcp_client.errors import ConnectionFailed, Interrupted
from openclaw.mcp_client.imports import load
from openclaw.mcp_client.session import negotiation
from openclaw.mcp_client.session.dispatcher import PipeDispatcher
from openclaw.mcp_client.session.elicitation import decline
from openclaw.mcp_client.session.notifications import Answers, AskHost, Incoming
from openclaw.mcp_client.session.server_session import RequestMetadata, ServerSession
from openclaw.mcp_client.transport import child_process
from openclaw.mcp_client.transport.orphans import OrphanReaper
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import has_reference

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.shared.dispatcher import DispatchContext, OnNotify, OnNotifyIntercept, OnRequest
    from mcp.shared.transport_context import TransportContext

    from openclaw.config.agent_schema import McpServerConfig
    from openclaw.mcp_client.auth.oauth import Auth
    from openclaw.mcp_client.session.http import StreamDispatcher
    from openclaw.secrets.refs import Secret

ResolveSecrets = Callable[[Mapping[str, str]], "Awaitable[dict[str, Secret]]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionDeps:
    """What a connection needs of its host.

    `keeper` is one for all connections of a host, and closed after them; `grace` is what an ending
    server is given. `cache` is the directory where a server's protocol era is remembered; without
    it nothing is. `on_sampling` and `on_elicitation` take the server's name and the request's params
    and give back the result's object; without the former, such requests are refused. `confine`
    may put a sandbox around a program, given the server's name and its roots. `auth` gives the HTTP
    authentication of a server that is configured with one; without it such a server needs a login
    that nobody can give.
    """

    resolve_secrets: ResolveSecrets
    environ: Mapping[str, str]
    keeper: OrphanReaper = field(default_factory=OrphanReaper)
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
    answers: Answers
    incoming: Incoming
    memory: negotiation.EraMemory
    stderr: child_process.StderrTail
    on_asked: Callable[[], None] = lambda: None
    """Called when all is loaded and the server has the word."""


@asynccontextmanager
async def open_link(opening: ConnectParams) -> AsyncGenerator[ServerSession]:
    if opening.config.kind == "stdio":
        async with _open_stdio(opening) as link:
            yield link
        return
    await load("openclaw.mcp_client.session.http")
    from openclaw.mcp_client.session.http import open_http

    async with open_http(opening) as link:
        yield link


@asynccontextmanager
async def _open_stdio(opening: ConnectParams) -> AsyncGenerator[ServerSession]:
    child = await child_process.spawn(
        await _program(opening), opening.deps.keeper, opening.deps.grace
    )
    limit = opening.config.max_message_bytes
    pipe = child_process.ChildPipe(child.ends(), child.exited, limit, opening.stderr)
    dispatcher = PipeDispatcher(pipe, opening.name, opening.deps.redactor.redact)
    try:
        session = LazySession(dispatcher, opening.incoming, opening.answers)
        async with session.running():
            stamp, greeting = await _greet(opening, session.greeter, dispatcher, session.over)
            yield ServerSession(
                call=dispatcher.call,
                sdk=session.sdk,
                greeting=greeting,
                stamp=stamp,
                ended=session.over,
                is_gone=lambda: dispatcher.end_reason is not None,
                why_ended=lambda: dispatcher.end_reason or "it ended",
                transport="stdio",
                pid=child.pid,
            )
    finally:
        with anyio.CancelScope(shield=True):
            dispatcher.close()
            await child.shut_down()
            dispatcher.release()
            child.close_pipes()


class LazySession:
    """Runs the dispatcher and greets; `sdk` makes the SDK's own session, which then takes over.

    Importing it takes a third of a start, and most servers never ask for roots, for the model or
    for a person. `over` is set when the connection has ended.
    """

    def __init__(
        self, dispatcher: "PipeDispatcher | StreamDispatcher", incoming: Incoming, answers: Answers
    ) -> None:
        self._dispatcher, self._incoming, self._answers = dispatcher, incoming, answers
        self.send_raw_request, self.notify = dispatcher.send_raw_request, dispatcher.notify
        offered = {k: v for k, v in answers.capabilities().items() if k != "extensions"}
        self.greeter = negotiation.Greeter(dispatcher.call, dispatcher.notify, offered)
        self.over = anyio.Event()
        self._group: anyio.abc.TaskGroup | None = None
        self._making = anyio.Lock()
        self._sdk: ClientSession | None = None
        self._sdk_on_request: OnRequest | None = None
        self._sdk_intercept: OnNotifyIntercept | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as self._group:
            await self._group.start(self._serve)
            try:
                yield
            finally:
                self._group.cancel_scope.cancel()

    async def _serve(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        run = self._dispatcher.run
        try:
            await run(self._on_request, self._on_notification, task_status=task_status)
        finally:
            self.over.set()

    async def sdk(self) -> "ClientSession":
        """The SDK's session; a server may need it before it is greeted. Raises `Interrupted`."""
        async with self._making:
            if self._sdk is None:
                self._sdk = await self._make()
            greeting = self.greeter.greeting
            if greeting is not None and self._sdk.protocol_version is None:
                self._sdk.adopt(negotiation.as_sdk_result(greeting))
            return self._sdk

    async def _make(self) -> "ClientSession":
        assert self._group is not None
        await load("mcp.client.session")
        session = self._answers.session(self)
        try:
            await self._group.start(_hold, session, name="the SDK's session")
        except RuntimeError:  # the connection was closed meanwhile
            raise Interrupted("it ended") from None
        return session

    async def run(
        self,
        on_request: "OnRequest",
        on_notify: "OnNotify",
        on_notify_intercept: "OnNotifyIntercept | None" = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """What the SDK's session calls, to which this is a dispatcher: it already runs."""
        self._sdk_on_request, self._sdk_intercept = on_request, on_notify_intercept
        task_status.started()
        await anyio.sleep_forever()

    async def _on_request(
        self,
        context: "DispatchContext[TransportContext]",
        method: str,
        params: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        await self.sdk()
        assert self._sdk_on_request is not None
        return await self._sdk_on_request(context, method, params)

    def _on_notification(self, method: str, params: Mapping[str, Any] | None) -> None:
        if self._sdk_intercept is None or not self._sdk_intercept(method, params):
            self._incoming.notification(method, params)


async def _hold(session: "ClientSession", *, task_status: anyio.abc.TaskStatus[None]) -> None:
    async with session:
        task_status.started()
        await anyio.sleep_forever()


async def shake_hands(
    opening: ConnectParams,
    greeter: negotiation.Greeter,
    turned_away: Callable[[], bool] | None = None,
) -> tuple[RequestMetadata, negotiation.Greeting]:
    """Greet the server within the configured time; how to talk to it from then on."""
    seconds = opening.config.timeout / 1000
    try:
        with anyio.fail_after(seconds):
            greeting = await negotiation.greet(greeter, opening.memory, turned_away)
    except TimeoutError:
        raise ConnectionFailed(f"no handshake within {seconds:g} s") from None
    offered, http = opening.answers.capabilities(), turned_away is not None
    return RequestMetadata(greeting, offered, http=http), greeting


async def _greet(
    opening: ConnectParams,
    greeter: negotiation.Greeter,
    dispatcher: PipeDispatcher,
    over: anyio.Event,
) -> tuple[RequestMetadata, negotiation.Greeting]:
    opening.on_asked()
    try:
        return await shake_hands(opening, greeter)
    except Exception:
        if dispatcher.input_closed:  # it is leaving: why, its exit says
            with anyio.move_on_after(2 * child_process.EXIT_AFTER_EOF):
                await over.wait()
        if dispatcher.end_reason is None:
            raise
        raise ConnectionFailed(dispatcher.end_reason) from None


async def _program(
    opening: ConnectParams, *, windows: bool = sys.platform == "win32"
) -> child_process.Program:
    config, deps = opening.config, opening.deps
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
    words = {f"args[{at}]": word for at, word in enumerate(config.args)}
    referring = {name: word for name, word in words.items() if has_reference(word)}
    program = child_process.Program(
        command=command,
        arguments=tuple({**words, **await deps.reveal(referring)}.values()),
        environment=environment,
        directory=None if config.cwd is None else expand(config.cwd, deps.environ),
    )
    # Looking at the machine and its files takes a moment.
    return await anyio.to_thread.run_sync(deps.confine, config, program, opening.name, deps.roots)
