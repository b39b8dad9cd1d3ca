"""The agent on a client's pipes, from the first byte until the client goes away."""

import asyncio
import json
import logging
import os
import signal
import stat
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn, cast

import anyio
from acp import AgentSideConnection

from openclaw.acp_agent.agent import OpenClawAgent
from openclaw.agent.port import OpenAgent
from openclaw.core.errors import InvalidRequest

_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600

logger = logging.getLogger(__name__)


class LineTransport:
    """A client's messages on asyncio's streams, for a connection of the SDK."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._writing = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message, once there is room for it."""
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        async with self._writing:
            self._writer.write(line)
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when there will be none."""
        while line := await self._line():
            if not line.strip():
                continue
            try:
                message: Any = json.loads(line)
            except (ValueError, RecursionError):
                await self._refuse(_PARSE_ERROR, "a line is not JSON")
                continue
            if isinstance(message, dict):
                return message  # pyright: ignore[reportUnknownVariableType] - any JSON
            await self._refuse(_INVALID_REQUEST, "a message is not a JSON object")
        return None

    async def close(self) -> None:
        """Nothing is kept back: what was sent is written."""

    async def _refuse(self, code: int, problem: str) -> None:
        logger.warning("from the client: %s", problem)
        error = {"code": code, "message": problem}
        await self.send({"jsonrpc": "2.0", "id": None, "error": error})

    async def _line(self) -> bytes:
        """A line of any length, taken in pieces where it is longer than the buffer."""
        pieces: list[bytes] = []
        while True:
            try:
                pieces.append(await self._reader.readuntil(b"\n"))
            except asyncio.LimitOverrunError as longer:
                pieces.append(await self._reader.readexactly(longer.consumed))
                continue
            except asyncio.IncompleteReadError as end:
                pieces.append(end.partial)
            return b"".join(pieces)


_LINE_BYTES = 64 * 1024 * 1024
"""Buffered of one message before it is taken in pieces; a prompt carries images in it."""

_CLOSING_SECONDS = 2.0
"""What turns that are stopped by the client's going away get to write that down."""


def serve_stdio(open_agent: OpenAgent, *, program: str, agent_id: str | None) -> NoReturn:
    """Serve one client on stdin and stdout, and leave the process."""
    _check_pipes()
    wire_in, wire_out = _claim_stdio()
    code = 0
    try:
        asyncio.run(serve(open_agent, wire_in, wire_out, program=program, agent_id=agent_id))
    except BrokenPipeError:
        code = 0
    except KeyboardInterrupt:
        code = 130
    sys.stderr.flush()
    # Threads that wait for somebody have nothing left to say once the client is gone.
    os._exit(code)


async def serve(
    open_agent: OpenAgent, wire_in: int, wire_out: int, *, program: str, agent_id: str | None
) -> None:
    """Serve until the client closes its end or the process is asked to stop."""
    reader, writer = await _streams(wire_in, wire_out)
    with anyio.CancelScope() as scope:
        _on_termination(scope.cancel)
        async with open_agent() as answering, anyio.create_task_group() as tasks:
            agent = OpenClawAgent(answering, tasks, program=program, agent_id=agent_id)
            # Closing and resuming a session are still marked as unstable in the SDK.
            connection = AgentSideConnection(
                cast(Any, agent),
                LineTransport(reader, writer),
                listening=False,
                use_unstable_protocol=True,
            )
            try:
                await connection.listen()
            finally:
                agent.cancel_all()
                with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_SECONDS):
                    await connection.close()
                agent.forget_files()
            tasks.cancel_scope.cancel()


async def _streams(
    wire_in: int, wire_out: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE_BYTES)
    await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(wire_in, "rb", buffering=0)
    )
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()),
        os.fdopen(wire_out, "wb", buffering=0),
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def _on_termination(cancel: Callable[[], Any]) -> None:
    loop = asyncio.get_running_loop()
    if sys.platform == "win32":
        return  # a client there ends the process, or closes its end
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        loop.add_signal_handler(getattr(signal, name), cancel)


def _check_pipes() -> None:
    for number, name in ((0, "stdin"), (1, "stdout")):
        mode = os.fstat(number).st_mode
        # A device that is no terminal, such as /dev/null, cannot be waited for.
        waited_for = number == 1 or not stat.S_ISCHR(mode) or os.isatty(number)
        if stat.S_ISREG(mode) or not waited_for:
            raise InvalidRequest("must be a pipe: an ACP client starts this command", field=name)


def _claim_stdio() -> tuple[int, int]:
    """Keep the wire to ourselves: what any library reads or prints goes elsewhere."""
    wire_in, wire_out = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    try:
        os.dup2(2, 1)
    except OSError:
        os.dup2(null, 1)
    os.close(null)
    sys.stdout = sys.stderr
    return wire_in, wire_out
