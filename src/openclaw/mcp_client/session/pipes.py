"""A server's pipes as a transport: lines to messages and back."""

import logging
from asyncio import Future, get_running_loop
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import thread_time

import anyio
import anyio.to_thread

from openclaw.core.rate_limit import RateLimit
from openclaw.mcp import jsonrpc
from openclaw.mcp.client import Call
from openclaw.mcp.json_text import LARGE
from openclaw.mcp.jsonrpc import Incoming, JsonObject, Message
from openclaw.mcp_client import bounds, errors
from openclaw.mcp_client.session.caller import Caller
from openclaw.mcp_client.transport.child_process import ChildPipe
from openclaw.stdio.lines import TooLong

logger = logging.getLogger(__name__)

_SHOWN, _READ = 500, 65536
_FLOOD_SHARE, _LONGEST_REST = 0.2, 1.0  # of a core; seconds


@dataclass(frozen=True, slots=True)
class PipeEnd:
    """Why nothing more comes; `too_long` is the line that was over the limit, if that is why."""

    reason: str
    too_long: TooLong | None = None


class PipeTransport:
    """Writes requests and answers as lines; hands what it reads to the caller.

    Lines of a mebibyte and more are decoded on a thread, by `run`; those behind them wait. A server
    that sends too many notifications is read more slowly, so that it doesn't slow down others.
    """

    def __init__(self, pipe: ChildPipe, caller: Caller, redact: Callable[[str], str] = str) -> None:
        self._pipe, self._caller, self._redact = pipe, caller, redact
        self._loop = get_running_loop()
        self._deferred: deque[bytes] = deque()
        self._wake: Future[None] | None = None
        self._ending: PipeEnd | None = None
        self._noise = RateLimit(bounds.LOG_LINES_PER_SECOND, bounds.LOG_BURST)
        self.input_closed = False
        caller.transport = self

    async def send(self, call: Call, answer: "Future[JsonObject]") -> None:
        line = jsonrpc.encode(call.request) + b"\n"
        if self._pipe.congested:
            await self._pipe.drained(answer)
            if answer.done():  # too late to send it
                return
        if self._caller.end_reason is None and not self._pipe.write(line):
            self.input_closed = True
        if self._caller.end_reason is not None or self.input_closed:
            raise errors.Unavailable(self._caller.end_reason or "the server closed its input")

    def post(self, message: Message) -> None:
        self._pipe.answer(jsonrpc.encode(message) + b"\n")

    async def deliver(self, message: Message) -> None:
        self.post(message)

    async def run(self) -> None:
        """Decode the huge lines until the pipe ends."""
        self._pipe.open(self.lines, self.ended)
        while self._ending is None or self._deferred:
            if self._deferred:
                await self._take_deferred()
            else:
                self._wake = self._loop.create_future()
                await self._wake
        self._end()

    # ---- what the pipe calls, from the event loop

    def lines(self, lines: list[bytes]) -> None:
        if self._deferred:
            self._deferred.extend(lines)
            return
        floods, started = self._caller.floods, thread_time()
        for index, line in enumerate(lines):
            if len(line) >= LARGE:
                self._deferred.extend(lines[index:])
                self._pipe.pause()
                self._wake_up()
                return
            self._take(jsonrpc.decode(line), line)
        if self._caller.floods > floods:
            self._rest(thread_time() - started)

    def _rest(self, spent: float) -> None:
        """Read nothing for some time, after so much was spent on a flood."""
        self._pipe.pause()
        seconds = min(spent / _FLOOD_SHARE, _LONGEST_REST)
        self._loop.call_later(seconds, self._read_on)

    def _read_on(self) -> None:
        if not self._deferred:  # otherwise the pipe is resumed once they are taken
            self._pipe.resume()

    def ended(self, reason: str, too_long: TooLong | None) -> None:
        self._ending = PipeEnd(reason, too_long)
        if not self._deferred:
            self._end()
        self._wake_up()

    def close(self) -> None:
        self._pipe.discard()
        self._ending = self._ending or PipeEnd("it was stopped")
        self._deferred.clear()
        self._wake_up()

    def release(self) -> None:
        self._pipe.close()

    def _end(self) -> None:
        assert self._ending is not None
        reason, too_long = self._ending.reason, self._ending.too_long
        if too_long is None:
            self._caller.end(reason)
            return
        connection, limit = self._caller.connection, too_long.limit
        # The line was cut: only its beginning says whose answer it is.
        glimpse = jsonrpc.unreadable(too_long.head, too_long.tail, reason)
        alone = connection.open_calls[0] if len(connection.open_calls) == 1 else None
        oversized = connection.find(glimpse.id) or alone
        self._caller.end(reason, lambda call: errors.TooLarge(limit) if call is oversized else None)

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _take_deferred(self) -> None:
        line = self._deferred[0]  # stays there until it is taken, so that what follows waits for it
        if len(line) < LARGE:
            message = jsonrpc.decode(line)
        else:
            message = await anyio.to_thread.run_sync(jsonrpc.decode, line)
        if not self._deferred:  # closed meanwhile
            return
        self._take(message, line)
        self._deferred.popleft()
        if not self._deferred:
            self._pipe.resume()

    def _take(self, message: Incoming, line: bytes) -> None:
        if not self._caller.receive(message) and self._noise.allows(self._loop.time()):
            text = self._redact(line[:_READ].decode("utf-8", "replace"))
            shown = bounds.printable(text, _SHOWN)
            logger.warning("MCP server '%s' wrote to its output: %s", self._caller.server, shown)
