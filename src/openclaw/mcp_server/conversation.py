"""Carries out what a `ServerConnection` says: calls run as tasks, questions wait for their answers.

It is the same for every transport; `write` is where the transport begins.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, Protocol

import anyio
from anyio.abc import TaskGroup

from openclaw.mcp import names
from openclaw.mcp.jsonrpc import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    ErrorData,
    Id,
    Incoming,
    JsonObject,
    Request,
    RpcError,
)
from openclaw.mcp.server import (
    Answer,
    Answered,
    Ask,
    Call,
    Cancelled,
    Command,
    Event,
    LocalProtocolError,
    Log,
    Notify,
    Offer,
    Outgoing,
    Refuse,
    Report,
    ServerConnection,
    Withdraw,
)

logger = logging.getLogger(__name__)

_CLOSING_SECONDS = 1.0
_CLOSED = ErrorData(CONNECTION_CLOSED, "Connection closed")

Write = Callable[[Outgoing], Awaitable[None]]


class Service(Protocol):
    """What a server does for its clients."""

    @property
    def offer(self) -> Offer: ...

    async def carry_out(self, call: Call, peer: "Peer") -> JsonObject:
        """The result of a call; raises `RpcError`."""
        ...


def _without_streams(call: Id) -> None:
    """There is only one stream, which stays open."""


class Conversation:
    """One connection. `pause` lets a client go that comes back for its answer, where that is possible."""

    def __init__(
        self,
        connection: ServerConnection,
        service: Service,
        tasks: TaskGroup,
        write: Write,
        pause: Callable[[Id], None] = _without_streams,
    ) -> None:
        self.connection, self.service, self.write, self.pause = connection, service, write, pause
        self._tasks = tasks
        self._scopes: dict[Id, anyio.CancelScope] = {}
        self._waiting: dict[Id, asyncio.Future[Answered]] = {}

    async def take(self, incoming: Incoming, source: Any) -> None:
        """`source` is what the transport knows about who sent it."""
        await self.handle(self.connection.receive(incoming), source)

    async def handle(self, events: Iterable[Event], source: Any = None) -> None:
        for event in events:
            match event:
                case Outgoing():
                    await self.write(event)
                case Call():
                    scope = self._scopes[event.id] = anyio.CancelScope()
                    self._tasks.start_soon(
                        self._carry_out, event, source, scope, name=f"call {event.id}"
                    )
                case Cancelled(id):
                    if (scope := self._scopes.get(id)) is not None:
                        scope.cancel()
                case Answered(id):
                    waiter = self._waiting.get(id)
                    if waiter is not None and not waiter.done():
                        waiter.set_result(event)
                case _:
                    pass  # nothing that we serve depends on it

    async def send(self, command: Command) -> None:
        for outgoing in self.connection.send(command):
            await self.write(outgoing)

    async def _carry_out(self, call: Call, source: Any, scope: anyio.CancelScope) -> None:
        command: Command | None = None
        try:
            with scope:
                command = await self._outcome(call, source)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
                await self.send(Refuse(call.id, _CLOSED))
            raise
        finally:
            if self._scopes.get(call.id) is scope:
                del self._scopes[call.id]
        if command is not None:  # otherwise the client cancelled it
            await self.send(command)

    async def _outcome(self, call: Call, source: Any) -> Command:
        try:
            return Answer(call.id, await self.service.carry_out(call, Peer(self, call, source)))
        except RpcError as refusal:
            return Refuse(call.id, refusal.error)
        except Exception as error:
            logger.exception("%s failed", call.method)
            problem = f"unexpected {type(error).__name__}; see the server's log"
            return Refuse(call.id, ErrorData(INTERNAL_ERROR, problem))

    async def ask(self, question: Ask) -> JsonObject:
        """The client's answer; raises `RpcError` if there is none."""
        try:
            asked = self.connection.send(question)
        except LocalProtocolError as error:
            raise RpcError(INTERNAL_ERROR, str(error)) from None
        (outgoing,) = asked
        (request,) = outgoing.messages
        assert isinstance(request, Request)
        waiter = self._waiting[request.id] = asyncio.get_running_loop().create_future()
        try:
            await self.write(outgoing)
            answer = await self._answer_to(waiter)
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_CLOSING_SECONDS, shield=True):
                await self.send(Withdraw(request.id, "caller cancelled"))
            raise
        finally:
            del self._waiting[request.id]
        if answer.error is not None:
            raise RpcError(answer.error.code, answer.error.message, answer.error.data)
        return answer.result or {}

    async def _answer_to(self, waiter: asyncio.Future[Answered]) -> Answered:
        while not waiter.done():
            deadline = self.connection.next_deadline()
            with anyio.CancelScope(deadline=float("inf") if deadline is None else deadline):
                await asyncio.wait([waiter])
            await self.handle(self.connection.time_passed(anyio.current_time()))
        return waiter.result()


class Peer(NamedTuple):
    """The client, as one call sees it."""

    conversation: Conversation
    call: Call
    source: Any

    @property
    def wants_progress(self) -> bool:
        return self.call.progress_token is not None

    async def ask(
        self, method: str, params: JsonObject | None = None, *, seconds: float | None = None
    ) -> JsonObject:
        """The client's answer to a request of ours; raises `RpcError`, also after `seconds`."""
        deadline = None if seconds is None else anyio.current_time() + seconds
        return await self.conversation.ask(Ask(method, params, self.call.id, deadline))

    async def report(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        await self.send(Report(self.call.id, progress, total, message))

    async def log(self, level: str, data: Any, logger: str | None = None) -> None:
        await self.send(Log(level, data, logger, self.call.id))

    async def notify(self, method: str, params: JsonObject | None = None) -> None:
        if method == names.PROGRESS and params is not None:
            await self.report(params["progress"], params.get("total"), params.get("message"))
        else:
            await self.send(Notify(method, params, self.call.id))

    async def send(self, command: Command) -> None:
        await self.conversation.send(command)

    def pause(self) -> None:
        self.conversation.pause(self.call.id)
