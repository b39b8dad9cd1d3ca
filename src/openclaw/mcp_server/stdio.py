"""Serves one client over its pipes. The handshake is answered at once; the agent is opened meanwhile.

Imports are few on purpose: this is the cold path of every client that starts the server.
"""

import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from typing import NoReturn

import anyio
import anyio.lowlevel
import anyio.to_thread

from openclaw.mcp import json_text, jsonrpc
from openclaw.mcp.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    Incoming,
    JsonObject,
    Malformed,
    RpcError,
    to_json,
)
from openclaw.mcp.server import Call, Command, Offer, Outgoing, ServerConnection
from openclaw.mcp_server.conversation import Conversation, Peer, Service
from openclaw.mcp_server.message_writer import MessageWriter, log_traffic, logs_traffic
from openclaw.mcp_server.order_tool import HERE, known_answers, offer_of
from openclaw.stdio.descriptors import ThreadedReader, claim_stdio, on_termination, run_and_leave
from openclaw.stdio.lines import LineSplitter, TooLong
from openclaw.stdio.pipes import LineReader, ThreadedWriter, Writer, open_reader, open_writer

logger = logging.getLogger(__name__)

_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)
_FAILED_TO_START = "the server failed to start; see its log"

Tell = Callable[[Command], Awaitable[None]]
OpenService = Callable[[Tell], AbstractAsyncContextManager[Service]]
"""Opens a service, which may tell the client of changes."""
Load = Callable[[], OpenService]
"""Imports what opens the service; it is called in a thread."""


class OpeningService:
    """`known` answers at once, by method; everything else once `load` was called and has opened it."""

    def __init__(self, offer: Offer, known: Mapping[str, JsonObject], load: Load) -> None:
        self.offer, self._known, self._load = offer, known, load
        self._opened = anyio.Event()
        self._service: Service | None = None

    async def open(self, tell: Tell) -> None:
        """Carry out what is waiting; without a service, because this raises, it fails."""
        try:
            open_service = await anyio.to_thread.run_sync(self._load, abandon_on_cancel=True)
            async with open_service(tell) as self._service:
                self._opened.set()
                await anyio.sleep_forever()
        finally:
            self._opened.set()

    async def carry_out(self, call: Call, peer: Peer) -> JsonObject:
        if call.method in self._known:
            return self._known[call.method]
        await self._opened.wait()
        if self._service is None:
            raise RpcError(INTERNAL_ERROR, _FAILED_TO_START)
        return await self._service.carry_out(call, peer)


class StdioServer:
    """Serves one client. Once the first message is answered, `prepare` runs beside the service."""

    def __init__(
        self,
        lines: LineReader,
        writer: Writer,
        service: Service,
        prepare: Callable[[Tell], Awaitable[None]],
    ) -> None:
        self._lines, self._service, self._prepare = lines, service, prepare
        self._reading = anyio.CancelScope()
        self._writer = MessageWriter(writer, on_broken=self.stop)
        self._conversation: Conversation | None = None
        self._failed = False

    def stop(self) -> None:
        """End as if the client had gone."""
        self._reading.cancel()

    async def tell(self, command: Command) -> None:
        """Have the client know of a change, if it wants to know of it."""
        if self._conversation is not None:
            await self._conversation.send(command)

    async def run(self) -> int:
        """Serve until the client's end of the pipe is closed; returns the exit code."""
        async with anyio.create_task_group() as background:
            async with anyio.create_task_group() as calls:
                connection = ServerConnection(self._service.offer)
                conversation = Conversation(connection, self._service, calls, self._write)
                self._conversation = conversation
                with self._reading:
                    await self._take_next(conversation)
                    background.start_soon(self._run_prepare, name="agent")
                    while await self._take_next(conversation):
                        pass
                await anyio.lowlevel.checkpoint()  # what needs no waiting is answered
                if not self._failed:  # otherwise every call is being refused
                    calls.cancel_scope.cancel()
            background.cancel_scope.cancel()
        await self._writer.aclose()
        return int(self._failed)

    async def _take_next(self, conversation: Conversation) -> bool:
        line = await self._lines.next()
        if line is None:
            return False
        incoming = await _decoded(line)
        del line  # it may be large
        if logs_traffic() and not isinstance(incoming, Malformed | jsonrpc.Batch):
            log_traffic("received", to_json(incoming))
        await conversation.take(incoming, HERE)
        return True

    async def _run_prepare(self) -> None:
        try:
            await self._prepare(self.tell)
        except Exception as error:  # noqa: BLE001 (reported here; the process ends)
            sys.excepthook(type(error), error, error.__traceback__)
            self._failed = True
            self.stop()

    async def _write(self, outgoing: Outgoing) -> None:
        first = outgoing.messages[0]
        if outgoing.call is None and isinstance(first, jsonrpc.ErrorResponse):
            self._writer.tell(to_json(first))
            return
        with suppress(*_GONE):
            if outgoing.is_batch:
                await self._writer.send([to_json(message) for message in outgoing.messages])
            else:
                await self._writer.send(to_json(first))


async def _decoded(line: bytes | TooLong) -> Incoming:
    if isinstance(line, TooLong):
        problem = f"a message of over {line.limit} bytes is not accepted"
        return jsonrpc.unreadable(line.head, line.tail, problem, INVALID_REQUEST)
    if len(line) < json_text.LARGE:
        return jsonrpc.decode(line)
    return await anyio.to_thread.run_sync(jsonrpc.decode, line)


async def _serve(service: OpeningService, wires: tuple[int, int], by_threads: bool) -> int:
    wire_in, wire_out = wires
    reader = ThreadedReader(partial(os.read, wire_in)) if by_threads else open_reader(wire_in)
    write = partial(os.write, wire_out)
    writer = ThreadedWriter(write) if by_threads else open_writer(wire_out)
    lines = LineReader(reader, LineSplitter())
    server = StdioServer(lines, writer, service, service.open)
    on_termination(server.stop)
    return await server.run()


def serve(
    offer: Offer,
    known: Mapping[str, JsonObject],
    load: Load,
    *,
    by_threads: bool = sys.platform == "win32",
) -> NoReturn:
    """Serve one client until it goes away, and leave the process."""
    service = OpeningService(offer, known, load)
    # Unlike asyncio.run, anyio.run lets the loop's callbacks start tasks.
    run_and_leave(lambda: anyio.run(_serve, service, claim_stdio(), by_threads))


def serve_orders(program: str, load: Load) -> NoReturn:
    """Serve `openclaw` or `clawdbot`."""
    serve(offer_of(program), known_answers(program), load)
