"""Brings the SDK's server to where the handshake left the connection, and serves from there."""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import Callable
from typing import Any

import anyio
import anyio._backends._asyncio  # pyright: ignore[reportUnusedImport]  # otherwise loaded at the first await
import mcp_types as types
from mcp.shared.message import SessionMessage

from openclaw.agent.port import OpenAgent
from openclaw.mcp_server.chunk_reader import Pieces
from openclaw.mcp_server.handshake import Answered
from openclaw.mcp_server.pipes import Conversation, PipeReader, PipeWriter, Queued
from openclaw.mcp_server.server import open_server, warm_up
from openclaw.mcp_server.threaded import ThreadedReader, ThreadedWriter

logger = logging.getLogger(__name__)

_REPLAY_PREFIX = "\x00replay:"


class Replay:
    """Shows the SDK what was already answered, and keeps its own answers to that off the wire."""

    def __init__(self) -> None:
        self._sent: dict[str, Answered] = {}

    def queued(self, queue: list[bytes | Answered]) -> list[Queued]:
        """What the SDK has to read first, in the order in which it came."""
        return [self._again(item) if isinstance(item, Answered) else item for item in queue]

    def _again(self, answered: Answered) -> SessionMessage:
        request_id = f"{_REPLAY_PREFIX}{len(self._sent)}"
        self._sent[request_id] = answered
        return SessionMessage(
            types.JSONRPCRequest(
                jsonrpc="2.0",
                id=request_id,
                method=answered.message["method"],
                params=answered.message.get("params"),
            )
        )

    def keep_back(self, item: SessionMessage) -> bool:
        """Whether this is an answer that the client already has."""
        message = item.message
        if isinstance(message, types.JSONRPCResponse):
            answered = self._sent.get(str(message.id))
            if answered is not None and message.result != json.loads(answered.sent):
                logger.error("the recorded answer to %s is out of date", answered.message["method"])
        elif isinstance(message, types.JSONRPCError):
            answered = self._sent.get(str(message.id))
            if answered is not None:
                logger.error("the SDK refuses a %s that was answered", answered.message["method"])
        else:
            return False
        return answered is not None


class Prepared:
    """The SDK's side, loaded and waiting for the wire."""

    def __init__(self, program: str, agent_id: str | None, open_agent: OpenAgent) -> None:
        self._program, self._agent_id, self._open_agent = program, agent_id, open_agent

    def run(
        self,
        wire_in: int,
        wire_out: int,
        queue: list[bytes | Answered],
        rest: list[bytes],
        *,
        at_end: bool,
        pieces: Pieces | None = None,
    ) -> int:
        """Serve until the client goes away; returns the exit code.

        With `pieces` a thread reads, and threads go on to: nothing can watch the pipes.
        """
        asyncio.run(self._serve(wire_in, wire_out, queue, rest, at_end=at_end, pieces=pieces))
        return 0

    async def _serve(
        self,
        wire_in: int,
        wire_out: int,
        queue: list[bytes | Answered],
        rest: list[bytes],
        *,
        at_end: bool,
        pieces: Pieces | None,
    ) -> None:
        replay = Replay()
        conversation = Conversation(replay.keep_back)
        queued = replay.queued(queue)
        if pieces is None:
            reader = PipeReader(wire_in, conversation, queued=queued, rest=rest, at_end=at_end)
            writer = PipeWriter(wire_out, conversation)
        else:
            reader = ThreadedReader(
                wire_in, conversation, pieces, queued=queued, rest=rest, at_end=at_end
            )
            writer = ThreadedWriter(wire_out, conversation)
        async with open_server(self._program, self._open_agent, self._agent_id) as server:
            with anyio.CancelScope() as scope:
                _on_termination(scope.cancel)
                await server.run(reader, writer, server.create_initialization_options())


def _on_termination(cancel: Callable[[], Any]) -> None:
    if sys.platform == "win32":  # its event loop has no signal handlers
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, cancel)


def prepare(program: str, agent_id: str | None, open_agent: OpenAgent) -> Prepared:
    """Load and build everything that serving needs, on the thread that loads."""
    warm_up()
    return Prepared(program, agent_id, open_agent)
