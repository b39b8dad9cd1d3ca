"""Opening a connection: spawn or dial, shake hands, and close all of it whatever happens."""

import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from openclaw.config.paths import expand
from openclaw.core.errors import OperatorFacing
from openclaw.mcp_client.errors import ConnectionFailed
from openclaw.mcp_client.session.dispatcher import InterceptingDispatcher, PipeDispatcher
from openclaw.mcp_client.session.negotiation import Era, EraMemory, greet
from openclaw.mcp_client.session.notifications import Answers, Incoming
from openclaw.mcp_client.session.server_session import RequestMetadata, ServerSession
from openclaw.mcp_client.transport.child_pipe import EXIT_AFTER_EOF, ChildPipe
from openclaw.mcp_client.transport.child_process import (
    Grace,
    Program,
    RunningChild,
    StderrTail,
    child_environment,
    popen,
    spawn,
)
from openclaw.mcp_client.transport.orphans import OrphanReaper
from openclaw.secrets.refs import has_reference

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

    from openclaw.config.agent_schema import McpServerConfig
    from openclaw.mcp_client.auth.oauth import Auth
    from openclaw.secrets.refs import Secret

_importing = threading.Lock()

ResolveSecrets = Callable[[Mapping[str, str]], "Awaitable[dict[str, Secret]]"]


@dataclass(frozen=True, slots=True)
class ConnectParams:
    name: str
    config: "McpServerConfig"
    environ: Mapping[str, str]
    resolve_secrets: ResolveSecrets
    redact: Callable[[str], str]
    keeper: OrphanReaper
    grace: Grace
    answers: Answers
    incoming: Incoming
    memory: EraMemory
    stderr: StderrTail
    confine: "Callable[[McpServerConfig, Program], Program]"
    auth: "Callable[[McpServerConfig], Awaitable[Auth]] | None" = None
    on_asked: Callable[[], None] = lambda: None
    """Called when all is loaded and the server has the word."""


@asynccontextmanager
async def open_link(opening: ConnectParams) -> AsyncGenerator[ServerSession]:
    """A connection that has shaken hands, within the configured time."""
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
    child = await _start(await _program(opening), opening)

    def pipe_for(dispatcher: PipeDispatcher) -> ChildPipe:
        return child.pipe(
            limit=opening.config.max_message_bytes,
            on_lines=dispatcher.lines,
            on_end=dispatcher.ended,
            stderr=opening.stderr,
        )

    dispatcher = PipeDispatcher(pipe_for, opening.name)
    dispatcher.redact = opening.redact
    try:
        await load("mcp.client.session")
        over = anyio.Event()
        hooked = InterceptingDispatcher(dispatcher, opening.incoming, opening.answers, over)
        async with opening.answers.session(hooked) as session:
            era = await _greet(opening, session, dispatcher, over)
            version = session.protocol_version or ""
            stamp = RequestMetadata(version, era, opening.answers.capabilities(), http=False)
            yield ServerSession(
                caller=dispatcher,
                session=session,
                stamp=stamp,
                era=era,
                ended=over,
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


async def _start(program: Program, opening: ConnectParams) -> RunningChild:
    if sys.platform == "win32":
        from openclaw.mcp_client.transport import windows

        process, job = await anyio.to_thread.run_sync(windows.start, program, popen)
        return windows.WindowsChild(process, job, opening.grace)
    return await spawn(program, opening.keeper, opening.grace)


async def _greet(
    opening: ConnectParams, session: "ClientSession", dispatcher: PipeDispatcher, over: anyio.Event
) -> Era:
    seconds = opening.config.timeout / 1000
    opening.on_asked()
    try:
        with anyio.fail_after(seconds):
            return await greet(session, opening.memory)
    except TimeoutError:
        raise ConnectionFailed(f"no handshake within {seconds:g} s") from None
    except Exception:
        if dispatcher.input_closed:  # it is leaving: why, its exit says
            with anyio.move_on_after(2 * EXIT_AFTER_EOF):
                await over.wait()
        if dispatcher.end_reason is None:
            raise
        raise ConnectionFailed(dispatcher.end_reason) from None


async def _program(opening: ConnectParams, *, windows: bool = sys.platform == "win32") -> Program:
    config = opening.config
    if config.command is None:
        raise OperatorFacing("a stdio server needs a `command`")
    secrets = await opening.resolve_secrets({k: str(v) for k, v in config.env.items()})
    own = {name: secret.reveal() for name, secret in secrets.items()}
    environment = child_environment(opening.environ, own, config.inherit_env, windows=windows)
    command = config.command
    if command.startswith("~"):
        command = str(expand(command, opening.environ))
    if windows:
        from openclaw.mcp_client.transport.windows import find_program

        command = find_program(command, environment)
    program = Program(
        command=command,
        arguments=await _arguments(opening),
        environment=environment,
        directory=None if config.cwd is None else expand(config.cwd, opening.environ),
    )
    # Looking at the machine and its files takes a moment.
    return await anyio.to_thread.run_sync(opening.confine, config, program)


async def _arguments(opening: ConnectParams) -> tuple[str, ...]:
    words = opening.config.args
    named = {f"args[{at}]": word for at, word in enumerate(words) if has_reference(word)}
    if not named:
        return tuple(words)
    resolved = await opening.resolve_secrets(named)
    return tuple(
        resolved[f"args[{at}]"].reveal() if f"args[{at}]" in named else word
        for at, word in enumerate(words)
    )


async def load(module: str) -> None:
    """Import without holding up the event loop; the SDK takes most of a second."""
    await anyio.to_thread.run_sync(_import, module)


def _import(module: str) -> None:
    with _importing:  # two threads in one circle of imports see each other's halves
        import_module(module)
