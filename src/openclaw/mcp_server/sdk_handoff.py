"""Hands the connection to the SDK's server in the state that the handshake left it in.

The SDK's own stdio uses threads, which cost two and a half times the CPU; these streams are on the
event loop, and reading pauses while the server is behind.
"""

import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import anyio
import anyio.to_thread
import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.shared.message import SessionMessage
from pydantic_core import from_json

from openclaw.core.clock import random_id
from openclaw.mcp_server.handshake import can_be_written, is_answer, parsed
from openclaw.mcp_server.message_writer import Json, MessageWriter, log_traffic
from openclaw.mcp_server.orders import OrderHandler
from openclaw.mcp_server.server import open_server
from openclaw.stdio.lines import TooLong
from openclaw.stdio.pipes import LineReader

logger = logging.getLogger(__name__)

Queued = bytes | TooLong | SessionMessage

_REPLAY_PREFIX = f"\x00{random_id()}-"  # no client's id begins with this


def _replayed(queue: Sequence[bytes | TooLong | Json]) -> Iterator[Queued]:
    """The queue for the SDK; its answers to requests that were already answered are not sent."""
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

    The SDK doesn't see messages for which `is_taken` is true.
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
                if isinstance(item, bytes) and len(item) >= PARSE_IN_THREAD:
                    judged = await anyio.to_thread.run_sync(parse_line, item)
                else:
                    judged = parse_line(item)
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
        """Closes nothing: an order that was begun before may still be answered."""


def _dumped(message: types.JSONRPCMessage) -> Json:
    return message.model_dump(by_alias=True, exclude_unset=True)


async def serve(
    handler: OrderHandler,
    lines: LineReader,
    writer: MessageWriter,
    queue: Sequence[bytes | TooLong | Json],
    is_taken: Callable[[Json], bool],
) -> None:
    """Serve the rest of a connection, except what `is_taken` handles for earlier orders."""
    reader = MessageReader(lines, writer.tell, _replayed(queue), is_taken)
    async with open_server(handler) as server:
        options = server.create_initialization_options()
        await server.run(reader, MessageSender(writer), options)


# ---- what a line from the client is: a message for the SDK, or an error to send back
#
# The SDK silently drops what it doesn't recognise, and the client would wait forever.

PARSE_IN_THREAD = 1 << 20  # a message of this size would hold up the loop while it is parsed

# In a line that is too long, the members at its start that are plain numbers or strings, and an id
# at its end: in these positions, it can only be the message's own.
_PLAIN = rb'(-?\d{1,18}|"[^"\\\x00-\x1f]{0,512}")'
_MEMBER = re.compile(rb'\s*[{,]\s*"(\w+)"\s*:\s*(?:%b\s*(?=[,}]))?' % _PLAIN)
_ID_AT_THE_END = re.compile(rb'"id"\s*:\s*%b\s*\}\s*\Z' % _PLAIN)

_END = 4096  # bytes at either end of an unreadable line, which may contain its id

Id = int | str | None


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """A message, or an error to send back; neither if nobody waits for an answer."""

    message: types.JSONRPCMessage | None = None
    fault: types.JSONRPCError | None = None


def parse_line(line: bytes | TooLong) -> ParsedLine:
    if isinstance(line, TooLong):  # the request fails, the client's or ours
        problem = f"a message of over {line.limit} bytes is not accepted"
        return _refused(*_glimpsed(line.head, line.tail), types.INVALID_REQUEST, problem)
    value: Any
    try:
        value = from_json(line)
    except ValueError:
        # A stray byte inside a string costs that character, not the message.
        line = line.decode("utf-8", "replace").encode()
        try:
            value = from_json(line)
        except ValueError:
            return _judge_unreadable(line)
    if type(value) is not dict:
        problem = "a message is a JSON object, and batches are not accepted"
        return _refused({}, None, types.INVALID_REQUEST, problem)
    return _judge_object(cast("dict[str, Any]", value))


def _glimpsed(head: bytes, tail: bytes) -> tuple[dict[str, Any], Id]:
    """The members that the two ends of a line show, and its id."""
    seen: dict[str, Any] = {}
    at = 0
    while (found := _MEMBER.match(head, at)) is not None:
        seen[found[1].decode()] = parsed(found[2] or b"null")
        at = found.end() if found[2] else len(head)
    request_id = _usable(seen.get("id"))
    if request_id is None and (found := _ID_AT_THE_END.search(tail)):
        request_id = _usable(parsed(found[1]))
    return seen, request_id


def _judge_unreadable(line: bytes) -> ParsedLine:
    value = parsed(line)  # a more lenient parser may find an id to answer to
    if value is None:
        problem = "this line is not JSON, or nested too deeply"
        seen, request_id = _glimpsed(line[:_END], line[-_END:])
        if not is_answer(seen) or request_id is None:  # an error of the parser has no id
            seen, request_id = {}, None
        return _refused(seen, request_id, types.PARSE_ERROR, problem)
    raw = cast("dict[str, Any]", value) if type(value) is dict else {}
    problem = "the message is nested too deeply, or has half a surrogate pair in it"
    return _refused(raw, _usable(raw.get("id")), types.INVALID_REQUEST, problem)


def _judge_object(raw: dict[str, Any]) -> ParsedLine:
    request_id = _usable(raw.get("id"))
    try:
        message = types.jsonrpc_message_adapter.validate_python(raw, by_name=False)
    except (ValueError, RecursionError):
        message = None
    fault = None if is_answer(raw) else _fault(raw, request_id)
    if fault is not None:
        return _refused(raw, request_id, *fault)
    if message is not None:
        return ParsedLine(message)
    if "id" not in raw:
        return ParsedLine()  # a notification is never answered
    if type(raw.get("params", {})) is not dict:
        return _refused(raw, request_id, types.INVALID_PARAMS, "params must be an object")
    return _refused(raw, request_id, types.INVALID_REQUEST, "the message cannot be read as MCP")


def _refused(raw: dict[str, Any], request_id: Id, code: int, problem: str) -> ParsedLine:
    """An error to send back; if the line is an answer, our own request fails with it."""
    error = types.ErrorData(code=code, message=problem)
    answer = types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error)
    if not is_answer(raw):
        return ParsedLine(fault=answer)
    return ParsedLine(answer if request_id is not None else None)


def _fault(raw: dict[str, Any], request_id: Id) -> tuple[int, str] | None:
    if raw.get("jsonrpc") != "2.0":
        return types.INVALID_REQUEST, 'jsonrpc must be "2.0"'
    if type(raw.get("method")) is not str:
        return types.INVALID_REQUEST, "method must be a string"
    if "id" in raw and request_id is None:
        return types.INVALID_REQUEST, "id must be a string or an integer"
    return None


def _usable(request_id: Any) -> Id:
    return request_id if can_be_written(request_id) else None
