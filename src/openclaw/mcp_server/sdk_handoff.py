"""Hands the connection to the SDK's server in the state that the handshake left it in.

The SDK's own stdio uses threads, which cost two and a half times the CPU; these streams are on the
event loop, and reading pauses while the server is behind.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage

from openclaw.agent.port import Agent
from openclaw.core.clock import random_id
from openclaw.mcp_server.line_parsing import PARSE_IN_THREAD, judge, judge_too_long
from openclaw.mcp_server.messages import Json, MessageWriter, log_traffic
from openclaw.mcp_server.orders import OrderDesk
from openclaw.mcp_server.server import open_server
from openclaw.stdio.lines import TooLong
from openclaw.stdio.pipes import LineReader

logger = logging.getLogger(__name__)

Queued = bytes | TooLong | SessionMessage

_REPLAY_PREFIX = f"\x00{random_id()}-"  # no client's id begins with this


def _replayed(queue: Sequence[bytes | TooLong | Json]) -> Iterator[Queued]:
    """The queue for the SDK; its own answers to what was answered are kept off the wire."""
    for number, item in enumerate(queue):
        if not isinstance(item, dict):
            yield item
            continue
        name, method, params = f"{_REPLAY_PREFIX}{number}", item["method"], item.get("params")
        yield SessionMessage(
            types.JSONRPCRequest(jsonrpc="2.0", id=name, method=method, params=params)
        )


class MessageReader(ObjectReceiveStream[SessionMessage]):
    """The SDK's read stream, with the queue of the handshake first; `tell` sends errors back.

    The SDK doesn't see what `is_taken` takes.
    """

    def __init__(
        self,
        lines: LineReader,
        tell: Callable[[Json], None],
        queued: Iterable[Queued] = (),
        is_taken: Callable[[Json], bool] = lambda message: False,
    ) -> None:
        self._lines, self._tell, self._is_taken = lines, tell, is_taken
        self._queued = deque(queued)

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
                    self._tell(_dumped(judged.fault))
                if judged.message is None or self._concerns_an_earlier_order(judged.message):
                    continue
                item = SessionMessage(judged.message)
            if logger.isEnabledFor(logging.DEBUG):
                log_traffic("received", _dumped(item.message))
            return item

    def _concerns_an_earlier_order(self, message: types.JSONRPCMessage) -> bool:
        return not isinstance(message, types.JSONRPCRequest) and self._is_taken(_dumped(message))

    async def aclose(self) -> None:
        self._lines.close()


class MessageSender(ObjectSendStream[SessionMessage]):
    """The SDK's write stream."""

    def __init__(self, writer: MessageWriter) -> None:
        self._writer = writer

    async def send(self, item: SessionMessage) -> None:
        if not str(getattr(item.message, "id", "")).startswith(_REPLAY_PREFIX):
            await self._writer.send(_dumped(item.message))

    async def aclose(self) -> None:
        """An order that was begun before may still be answered."""


def _dumped(message: types.JSONRPCMessage) -> Json:
    return message.model_dump(by_alias=True, exclude_unset=True)


async def serve(
    program: str,
    agent: Agent,
    desk: OrderDesk,
    lines: LineReader,
    writer: MessageWriter,
    queue: Sequence[bytes | TooLong | Json],
    is_taken: Callable[[Json], bool],
) -> None:
    """Serve the rest of a connection, except what `is_taken` takes for orders begun before."""
    reader = MessageReader(lines, writer.tell, _replayed(queue), is_taken)
    async with open_server(program, agent, desk) as server:
        options = server.create_initialization_options()
        await server.run(reader, MessageSender(writer), options)
