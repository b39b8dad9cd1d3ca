"""Opens the connection to a local server: starts it, does the handshake, and always cleans up."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread

from openclaw.config.paths import expand
from openclaw.core.errors import OperatorFacing
from openclaw.mcp_client.errors import ConnectionFailed
from openclaw.mcp_client.session.connect import ConnectParams, handshake, make_session
from openclaw.mcp_client.session.pipes import PipeTransport
from openclaw.mcp_client.session.server_session import ServerSession
from openclaw.mcp_client.transport import child_process
from openclaw.mcp_client.transport.environment import child_environment
from openclaw.secrets.refs import has_reference


@asynccontextmanager
async def open_local(params: ConnectParams) -> AsyncGenerator[ServerSession]:
    child = await child_process.spawn(
        await child_program(params), params.deps.reaper, params.deps.grace
    )
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


async def child_program(
    params: ConnectParams, *, windows: bool = sys.platform == "win32"
) -> child_process.Program:
    config, deps = params.config, params.deps
    if config.command is None:
        raise OperatorFacing("a stdio server needs a `command`")
    own = await deps.reveal({k: str(v) for k, v in config.env.items()})
    environment = child_environment(deps.environ, own, config.inherit_env, windows=windows)
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
    words = {f"args[{index}]": word for index, word in enumerate(config.args)}
    referring = {name: word for name, word in words.items() if has_reference(word)}
    program = child_process.Program(
        command=command,
        arguments=tuple({**words, **await deps.reveal(referring)}.values()),
        environment=environment,
        directory=None if config.cwd is None else expand(config.cwd, deps.environ),
    )
    # Looking at the machine and its files takes a moment.
    return await anyio.to_thread.run_sync(deps.confine, config, program, params.name, deps.roots)
