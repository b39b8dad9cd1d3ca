"""Serves one client over its pipes. Ordinary orders need no SDK; it is imported for anything else.

Importing the SDK takes longer than a gateway takes to answer, and it does little for an ordinary
order: a test compares its answers with these, byte by byte.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import anyio
import anyio._backends._asyncio  # pyright: ignore[reportUnusedImport]  # otherwise loaded at the first await
import anyio.to_thread
import orjson
from anyio.abc import TaskGroup

from openclaw.agent.port import OpenAgent
from openclaw.core.clock import SystemClock
from openclaw.mcp_client.imports import import_in_thread
from openclaw.mcp_server import orders
from openclaw.mcp_server.bootstrap import ClientPipe
from openclaw.mcp_server.handshake import Handshake, OrderRequest, is_answer, is_notification
from openclaw.mcp_server.message_writer import Json, MessageWriter, log_traffic
from openclaw.stdio.descriptors import on_termination
from openclaw.stdio.lines import TooLong
from openclaw.stdio.pipes import LineReader, ThreadedWriter, open_reader, open_writer
from openclaw.version import __version__

_PARSE_IN_THREAD = 1 << 20
_READY = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
_CLOSED = {"code": -32000, "message": "Connection closed"}
_SERVER_INFO = "io.modelcontextprotocol/serverInfo"
_CLOSING_SECONDS = 1.0
_GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)

Line = bytes | TooLong


@dataclass(eq=False)
class StdioServer:
    """Takes ordinary orders, and gives everything else, in order, to the SDK."""

    handler: orders.OrderHandler
    handshake: Handshake
    lines: LineReader
    writer: MessageWriter
    tasks: TaskGroup
    _replayed: list[Line | Json] = field(default_factory=list[Line | Json])  # for the SDK
    _orders: dict[str, anyio.CancelScope] = field(default_factory=dict[str, anyio.CancelScope])
    _asked: dict[str, asyncio.Future[Json]] = field(default_factory=dict[str, asyncio.Future[Json]])
    _requests: int = 0

    async def run(self) -> Sequence[Line | Json] | None:
        """What is left for the SDK; None if the client has gone."""
        queue = deque(self.handshake.queue)
        self.handshake.queue = self._replayed  # the handshake adds to it
        while not self.handshake.needs_sdk:
            item = queue.popleft() if queue else await self.lines.next()
            if item is None:
                return None
            if isinstance(item, dict):
                self._replayed.append(item)
            elif not await self._take(item):
                queue.appendleft(item)
                break
            del item  # a line may be large
        return [*self._replayed, *queue]

    async def _take(self, line: Line) -> bool:
        """Handle a line; returns whether that was possible without the SDK."""
        message = await _parsed(line)
        if self.is_ours(message) or is_answer(message):
            return True
        if is_notification(message):
            if message["method"] == "notifications/initialized" and _READY not in self._replayed:
                self._replayed.append(_READY)
            return True
        answer = self.handshake.answer(message)
        if answer is not None:
            with suppress(*_GONE):
                await self.writer.send(answer)
            return True
        order = self.handshake.ordinary_order(message)
        if order is None:
            return False
        log_traffic("received", message)
        scope = self._orders[str(order.id)] = anyio.CancelScope()
        self.tasks.start_soon(self._carry_out, order, scope, name=f"order {order.id}")
        return True

    def is_ours(self, message: Any) -> bool:
        """Whether this only concerns an order that was taken here: cancels it, or answers it."""
        fields = _object(message)
        if fields.get("method") == "notifications/cancelled" and "id" not in fields:
            named = _object(fields.get("params")).get("requestId")
            scope = self._orders.get(str(named)) if type(named) in (int, str) else None
            if scope is not None:
                scope.cancel()
            return scope is not None
        waiter = self._asked.get(str(fields.get("id"))) if is_answer(fields) else None
        if waiter is not None and not waiter.done():
            waiter.set_result(fields)
        return waiter is not None

    async def _carry_out(self, order: OrderRequest, scope: anyio.CancelScope) -> None:
        key, result = str(order.id), None
        try:
            with scope:
                result = await self.handler.take(order.arguments, self._caller(order))
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
                await self._send(id=order.id, error=_CLOSED)
            raise
        finally:
            if self._orders.get(key) is scope:  # ids are the client's, and may come twice
                del self._orders[key]
        if result is None or scope.cancel_called:
            return  # an order that the client cancelled is not answered
        if order.version >= orders.ASKS_BY_RESULT:
            result["_meta"] = {_SERVER_INFO: {"name": self.handler.program, "version": __version__}}
        else:
            del result["resultType"]
        await self._send(id=order.id, result=result)

    def _caller(self, order: OrderRequest) -> orders.Caller:
        caller = orders.Caller(order.version, self._reporter(order.meta))
        asks, roots = "elicitation" in order.capabilities, "roots" in order.capabilities
        return orders.asked_by_request(caller, self._request, asks=asks, roots=roots)

    def _reporter(self, meta: Json) -> orders.Report | None:
        if "progressToken" not in meta:
            return None
        params: Json = {"progressToken": meta["progressToken"]}

        async def report(progress: float, total: float | None, message: str | None) -> None:
            news = {**params, "progress": progress, "message": message}
            await self._send(method="notifications/progress", params=news)

        return report

    async def _request(self, method: str, params: Json | None) -> Json:
        """The client's answer; empty if that is an error, or if it cannot be asked."""
        self._requests += 1
        name = f"openclaw-{self._requests}"  # the SDK's are numbers
        waiter = self._asked[name] = asyncio.get_running_loop().create_future()
        try:
            request: Json = {"jsonrpc": "2.0", "id": name, "method": method}
            await self.writer.send(request if params is None else {**request, "params": params})
            answer = await waiter
            return {} if "error" in answer else _object(answer.get("result"))
        except _GONE:
            return {}
        except anyio.get_cancelled_exc_class():
            why = {"requestId": name, "reason": "caller cancelled"}
            with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
                await self._send(method="notifications/cancelled", params=why)
            raise
        finally:
            del self._asked[name]

    async def _send(self, **message: Any) -> None:
        with suppress(*_GONE):
            await self.writer.send({"jsonrpc": "2.0", **message})


def _object(value: Any) -> Json:
    return cast("Json", value) if type(value) is dict else {}


async def _parsed(line: Line) -> Any:
    """The JSON in this line; None if it cannot be read."""
    if isinstance(line, TooLong):
        return None
    try:
        if len(line) < _PARSE_IN_THREAD:
            return orjson.loads(line)
        return await anyio.to_thread.run_sync(_parse_large, line)
    except ValueError:
        return None


def _parse_large(line: bytes) -> Any:
    from pydantic_core import from_json  # orjson would copy the line

    return from_json(line)


def _import_sdk() -> Any:
    from openclaw.mcp_server import sdk_handoff

    return sdk_handoff.serve


def prepare(
    program: str, agent_id: str | None, open_agent: OpenAgent
) -> Callable[[ClientPipe, Handshake], int]:
    """Import what serving needs, on the loading thread; returns the function that serves."""

    async def serve(pipe: ClientPipe, handshake: Handshake) -> None:
        write = partial(os.write, pipe.wire_out)
        writer = MessageWriter(ThreadedWriter(write) if pipe.reader else open_writer(pipe.wire_out))
        lines = LineReader(
            pipe.reader or open_reader(pipe.wire_in), pipe.splitter, at_end=pipe.at_end
        )
        async with open_agent() as agent:
            handler = orders.OrderHandler(program, agent, SystemClock(), agent_id)
            async with anyio.create_task_group() as tasks:
                on_termination(tasks.cancel_scope.cancel)
                server = StdioServer(handler, handshake, lines, writer, tasks)
                rest = await server.run()
                if rest is not None:
                    serve_rest = await import_in_thread(_import_sdk)
                    await serve_rest(handler, lines, writer, rest, server.is_ours)
                tasks.cancel_scope.cancel()
            await writer.aclose()

    def run(pipe: ClientPipe, handshake: Handshake) -> int:
        asyncio.run(serve(pipe, handshake))
        return 0

    return run
