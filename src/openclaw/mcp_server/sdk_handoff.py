"""Hands the connection to the SDK's server in the state the handshake left it in.

The SDK's own stdio uses threads, which cost two and a half times the CPU; these streams are on the
event loop, and reading pauses while the server is behind.
"""

import asyncio
import json
import logging
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import anyio
import anyio._backends._asyncio  # pyright: ignore[reportUnusedImport]  # otherwise loaded at the first await
import anyio.to_thread
import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic_core import to_json

from openclaw.agent.port import OpenAgent
from openclaw.core.ids import random_id
from openclaw.mcp_server.bootstrap import Wire
from openclaw.mcp_server.handshake import Answered
from openclaw.mcp_server.line_parsing import PARSE_IN_THREAD, judge, judge_too_long
from openclaw.mcp_server.server import open_server, warm_up
from openclaw.stdio.descriptors import on_termination
from openclaw.stdio.lines import TooLong
from openclaw.stdio.pipes import (
    HIGH_WATER,
    LineReader,
    Piece,
    ThreadedWriter,
    Writer,
    open_reader,
    open_writer,
)

logger = logging.getLogger(__name__)

Queued = bytes | TooLong | SessionMessage

_REPLAY_PREFIX = "\x00replay:"


class Replay:
    """Shows the SDK what was already answered, and keeps its own answers to that off the wire."""

    def __init__(self) -> None:
        self._sent: dict[str, Answered] = {}

    def queued(self, queue: list[bytes | TooLong | Answered]) -> list[Queued]:
        items: list[Queued] = []
        for item in queue:
            if isinstance(item, Answered):
                name, asked = f"{_REPLAY_PREFIX}{len(self._sent)}", item.message
                self._sent[name] = item
                method, params = asked["method"], asked.get("params")
                item = SessionMessage(
                    types.JSONRPCRequest(jsonrpc="2.0", id=name, method=method, params=params)
                )
            items.append(item)
        return items

    def keep_back(self, item: SessionMessage) -> bool:
        """Whether this is an answer that the client already has."""
        message = item.message
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            return False
        answered = self._sent.get(str(message.id))
        if answered is None:
            return False
        if isinstance(message, types.JSONRPCError):
            logger.error("the SDK refuses a %s that was answered", answered.message["method"])
        elif message.result != json.loads(answered.sent):
            logger.error("the recorded answer to %s is out of date", answered.message["method"])
        return True


class MessageReader(ObjectReceiveStream[SessionMessage]):
    """The SDK's read stream, with the queue of the handshake first; `tell` sends errors back."""

    def __init__(
        self,
        lines: LineReader,
        tell: Callable[[types.JSONRPCError], None],
        queued: list[Queued] | None = None,
    ) -> None:
        self._lines, self._tell = lines, tell
        self._queued = deque(queued or [])

    async def receive(self) -> SessionMessage:
        while True:
            item = self._queued.popleft() if self._queued else await self._lines.next()
            if item is None:
                raise anyio.EndOfStream
            if not isinstance(item, SessionMessage):
                if isinstance(item, TooLong):
                    judged = judge_too_long(item)
                elif len(item) < PARSE_IN_THREAD:
                    judged = judge(item)
                else:
                    judged = await anyio.to_thread.run_sync(judge, item)
                if judged.fault is not None:
                    logger.debug("refused: %s", judged.fault.error.message)
                    self._tell(judged.fault)
                if judged.message is None:
                    continue
                item = SessionMessage(judged.message)
            _log_traffic("received", item)
            return item

    async def aclose(self) -> None:
        self._lines.close()


_DRAIN_SECONDS = 0.5  # for a client that stopped reading, at the end


class MessageWriter(ObjectSendStream[SessionMessage]):
    """The SDK's write stream, and our own messages. `keep_back` says which are not written."""

    def __init__(
        self, writer: Writer, keep_back: Callable[[SessionMessage], bool] = lambda item: False
    ) -> None:
        self._writer, self._keep_back = writer, keep_back
        self._closed = False

    async def send(self, item: SessionMessage) -> None:
        if self._closed:
            raise anyio.ClosedResourceError
        if self._writer.broken:
            raise anyio.BrokenResourceError
        if not self._keep_back(item):
            self._write(item)
        if self._writer.unsent > HIGH_WATER:
            await self._writer.drained()

    def tell(self, fault: types.JSONRPCError) -> None:
        """Write an error of ours, unless the client is too far behind."""
        if not self._closed and self._writer.unsent <= HIGH_WATER:
            self._write(SessionMessage(fault))

    def _write(self, item: SessionMessage) -> None:
        _log_traffic("sent", item)
        for piece in encode(item):
            self._writer.write(piece)

    async def aclose(self) -> None:
        self._closed = True
        with anyio.move_on_after(_DRAIN_SECONDS, shield=True):
            await self._writer.drained(0)
        self._writer.close()


_SET_APART = 1 << 16  # base64 of this length is not copied into the line
_MARK = f"\x00{random_id()}"  # no string of a message can be this
_PLACE = to_json(_MARK)[1:-1]


def encode(item: SessionMessage) -> list[Piece]:
    """The pieces of a line; large base64 is a piece of its own, and not copied."""
    large: list[str] = []
    message = item.message
    if isinstance(message, types.JSONRPCResponse):
        message = message.model_copy(update={"result": _set_apart(message.result, large)})
    line = message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    pieces: list[Piece] = []
    for words in large:
        before, line = line.split(_PLACE, 1)
        pieces += [before, words]
    return [*pieces, line + b"\n"]


def _set_apart(value: Any, large: list[str]) -> Any:
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value)
        return {
            key: _mark(inner, large) if key in _MEDIA_KEYS else _set_apart(inner, large)
            for key, inner in inside.items()
        }
    if isinstance(value, list):
        return [_set_apart(inner, large) for inner in cast("list[Any]", value)]
    return value


def _mark(value: Any, large: list[str]) -> Any:
    if not isinstance(value, str) or len(value) < _SET_APART:
        return value
    if not value.isascii() or not value.isprintable() or '"' in value or "\\" in value:
        return value  # it has to be escaped
    large.append(value)
    return _MARK


_MEDIA_KEYS = ("data", "blob")
_LONGEST_TEXT = 2_000
_LONGEST_LOGGED = 20_000


def _log_traffic(direction: str, item: SessionMessage) -> None:
    if logger.isEnabledFor(logging.DEBUG):
        body = item.message.model_dump(by_alias=True, exclude_unset=True)
        shown = json.dumps(abridge(body), ensure_ascii=False)[:_LONGEST_LOGGED]
        logger.debug("%s %s", direction, shown)


def abridge(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        inside = cast("dict[str, Any]", value)
        return {name: abridge(inner, name) for name, inner in inside.items()}
    if isinstance(value, list):
        return [abridge(inner) for inner in cast("list[Any]", value)]
    if isinstance(value, str):
        if key in _MEDIA_KEYS and len(value) > 64:
            return f"<{len(value) * 3 // 4} bytes as base64>"
        if len(value) > _LONGEST_TEXT:
            return f"{value[:_LONGEST_TEXT]}… <{len(value)} characters>"
    return value


def prepare(
    program: str, agent_id: str | None, open_agent: OpenAgent
) -> Callable[[Wire, list[bytes | TooLong | Answered]], int]:
    """Load and build everything that serving needs, on the loading thread; returns the function that serves."""
    warm_up()

    async def serve(wire: Wire, queue: list[bytes | TooLong | Answered]) -> None:
        replay = Replay()
        by_threads = wire.reader is not None
        write = partial(os.write, wire.wire_out)
        writer = MessageWriter(
            ThreadedWriter(write) if by_threads else open_writer(wire.wire_out), replay.keep_back
        )
        lines = LineReader(
            wire.reader or open_reader(wire.wire_in), wire.splitter, at_end=wire.at_end
        )
        reader = MessageReader(lines, writer.tell, replay.queued(queue))
        async with open_server(program, open_agent, agent_id) as server:
            with anyio.CancelScope() as scope:
                on_termination(scope.cancel)
                await server.run(reader, writer, server.create_initialization_options())

    def run(wire: Wire, queue: list[bytes | TooLong | Answered]) -> int:
        asyncio.run(serve(wire, queue))
        return 0

    return run
