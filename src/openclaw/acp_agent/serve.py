"""The agent on a client's pipes, from the first byte until the client goes away."""

import asyncio
import json
import logging
import os
import stat
import sys
from typing import Any, Final, NoReturn, cast

import anyio
from acp import AgentSideConnection

from openclaw.acp_agent.agent import OpenClawAgent
from openclaw.agent.port import OpenAgent
from openclaw.core.errors import InvalidRequest
from openclaw.stdio.descriptors import claim_stdio, on_termination
from openclaw.stdio.lines import LineSplitter, TooLong
from openclaw.stdio.pipes import HIGH_WATER, LineReader, Writer, open_reader, open_writer

_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600

logger = logging.getLogger(__name__)


class LineTransport:
    """A client's messages, one to a line, for a connection of the SDK."""

    def __init__(self, lines: LineReader, writer: Writer) -> None:
        self._lines, self._writer = lines, writer

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message; waits while the client lags far behind."""
        if not self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n"):
            raise ConnectionResetError("the client closed its end")
        if self._writer.unsent > HIGH_WATER:
            await self._writer.drained()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when there will be none."""
        while (line := await self._lines.next()) is not None:
            if isinstance(line, TooLong):
                await self._refuse(_INVALID_REQUEST, f"a message is over {line.limit} bytes long")
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
        """Send what is unsent, if the client takes it."""
        await self._writer.drained(0)

    async def _refuse(self, code: int, problem: str) -> None:
        logger.warning("from the client: %s", problem)
        error = {"code": code, "message": problem}
        await self.send({"jsonrpc": "2.0", "id": None, "error": error})


_CLOSING_SECONDS = 2.0
"""What turns that are stopped by the client's going away get to write that down."""


def serve_stdio(open_agent: OpenAgent, *, program: str, agent_id: str | None) -> NoReturn:
    """Serve one client on stdin and stdout, and leave the process."""
    _check_pipes()
    wire_in, wire_out = claim_stdio()
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
    transport = LineTransport(
        LineReader(open_reader(wire_in), LineSplitter()), open_writer(wire_out)
    )
    with anyio.CancelScope() as scope:
        on_termination(scope.cancel)
        async with open_agent() as answering, anyio.create_task_group() as tasks:
            agent = OpenClawAgent(answering, tasks, program=program, agent_id=agent_id)
            # Closing and resuming a session are still marked as unstable in the SDK.
            connection = AgentSideConnection(
                cast(Any, agent), transport, listening=False, use_unstable_protocol=True
            )
            try:
                await connection.listen()
            finally:
                agent.cancel_all()
                with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_SECONDS):
                    await connection.close()
                agent.forget_files()
            tasks.cancel_scope.cancel()


def _check_pipes() -> None:
    for number, name in ((0, "stdin"), (1, "stdout")):
        mode = os.fstat(number).st_mode
        # A device that is no terminal, such as /dev/null, cannot be waited for.
        waited_for = number == 1 or not stat.S_ISCHR(mode) or os.isatty(number)
        if stat.S_ISREG(mode) or not waited_for:
            raise InvalidRequest("must be a pipe: an ACP client starts this command", field=name)
