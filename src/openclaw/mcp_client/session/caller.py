"""Does what a `ClientConnection` decides: futures for calls, one timer, tasks for the server's requests.

A call over pipes is one write and one future; what comes in is handled in the read callback. Only a
request from the server needs a task.
"""

import logging
from asyncio import CancelledError, Future, TimerHandle, get_running_loop
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from math import inf
from typing import Any, Protocol

import anyio
import anyio.abc

from openclaw.mcp.client import (
    Answered,
    AskCancelled,
    Asked,
    Call,
    ClientConnection,
    Closed,
    Event,
    Flooded,
    Garbled,
    Noise,
    Notified,
    Progressed,
    Refused,
    Send,
    State,
    TimedOut,
)
from openclaw.mcp.json_text import MAX_VALUES, TooManyValues
from openclaw.mcp.jsonrpc import (
    INTERNAL_ERROR,
    ErrorData,
    Id,
    Incoming,
    JsonObject,
    Message,
    Notification,
    Request,
    RpcError,
)
from openclaw.mcp_client import errors

logger = logging.getLogger(__name__)

OnProgress = Callable[[float, float | None, str | None], None]
AnswerRequest = Callable[[str, JsonObject], Awaitable[JsonObject]]
OnNotification = Callable[[str, JsonObject], None]

WARN_EVERY = 60.0  # seconds between two warnings about the same flood
_TOO_MANY = str(TooManyValues())


class Transport(Protocol):
    """How messages get to a server. What it sends back goes to `Caller.receive`."""

    async def send(self, call: Call, answer: "Future[JsonObject]") -> None:
        """Send its request; may wait for its answer. Raises `CallFailed`, `Unavailable` if it was not sent."""
        ...

    def post(self, message: Message) -> None:
        """Send what nobody waits for."""
        ...

    async def deliver(self, message: Message) -> None:
        """The same, but return only once it was sent."""
        ...


class Waiter:
    """Who waits for a call."""

    __slots__ = ("answer", "on_progress")

    def __init__(self, answer: "Future[JsonObject]", on_progress: OnProgress | None) -> None:
        self.answer, self.on_progress = answer, on_progress


def fail(call: Call, error: Exception) -> None:
    """End the wait with an error. The waiter may have been cancelled at the same moment."""
    answer: Future[JsonObject] = call.context.answer
    if not answer.done():
        answer.set_exception(error)
        answer.exception()  # seen, so that the loop does not complain if nobody waits


def _end_wait(event: Answered | Refused | Garbled | TimedOut) -> None:
    match event:
        case Answered(call, result):
            answer: Future[JsonObject] = call.context.answer
            if not answer.done():
                answer.set_result(result)
        case Refused(call, error):
            fail(call, remote_error(error))
        case Garbled(call, reason):
            fail(call, garbled(reason))
        case TimedOut(call):
            fail(call, errors.TimedOut(call.timeout))


class Caller:
    """Calls one server. `answer_request` and `on_notification` get what it sends by itself."""

    def __init__(
        self,
        connection: ClientConnection,
        server: str,
        answer_request: AnswerRequest,
        on_notification: OnNotification,
    ) -> None:
        self.connection = connection
        self.server = server
        self.transport: Transport
        self._answer_request, self._on_notification = answer_request, on_notification
        self._loop = get_running_loop()
        self._timer: TimerHandle | None = None
        self._group: anyio.abc.TaskGroup
        self._serving: dict[Id, anyio.CancelScope] = {}
        self.floods = 0  # notifications that came too fast
        self._warned_at: float | None = None
        self.lost = anyio.Event()  # it has ended, and everything it sent was handled
        self.end_reason: str | None = None
        self.needs_login = False

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[anyio.abc.TaskGroup]:
        async with anyio.create_task_group() as self._group:
            try:
                yield self._group
            finally:
                self.end("it was stopped")
                self._check_at(inf)
                self._group.cancel_scope.cancel()

    @property
    def is_gone(self) -> bool:
        return self.end_reason is not None

    def why_lost(self) -> str:
        reason = self.end_reason or "it ended"
        if self.needs_login:
            raise errors.NeedsLogin(reason)
        return reason

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> JsonObject:
        """Send one request and wait for its result; raises `CallFailed`."""
        waiter = Waiter(self._loop.create_future(), on_progress)
        try:
            call = self.connection.request(
                method,
                params,
                self._loop.time(),
                timeout,
                reports_progress=on_progress is not None,
                context=waiter,
            )
        except Closed:
            raise errors.Unavailable(self.end_reason or "it ended") from None
        if self._timer is None or call.due < self._timer.when():
            self._check_at(call.due)
        try:
            await self.transport.send(call, waiter.answer)
            return await waiter.answer
        except CancelledError:
            notification = self.connection.cancel(call, "the caller is no longer waiting")
            if notification is not None:
                self.transport.post(notification)
            raise
        finally:
            self.connection.forget(call)

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification; does nothing if the server is gone."""
        if self.connection.state is not State.CLOSED:
            self.transport.post(Notification(method, params))

    # ---- what the transport calls, from the event loop

    def receive(self, incoming: Incoming) -> bool:
        """Returns whether this was a message."""
        is_message = True
        for event in self.connection.receive(incoming, self._loop.time()):
            is_message = self._handle(event) and is_message
        return is_message

    def end(self, reason: str, oversized: Callable[[Call], Exception | None] | None = None) -> None:
        """Nothing more will come. Calls fail, perhaps one as `oversized` says."""
        if self.end_reason is None:
            self.end_reason = reason
        for call in self.connection.close():
            own = None if oversized is None else oversized(call)
            fail(call, own or errors.Interrupted(self.end_reason))
        self.lost.set()

    def _handle(self, event: Event) -> bool:
        match event:
            case Answered() | Refused() | Garbled() | TimedOut():
                _end_wait(event)
            case Notified():
                self._on_notification(event.method, event.params or {})
            case Progressed():
                self._report_progress(event)
            case Send():
                self.transport.post(event.message)
            case Asked():
                self._group.start_soon(self._serve, event.request, name="server request")
            case AskCancelled(id) if id in self._serving:
                self._serving[id].cancel()
            case AskCancelled():
                pass
            case Flooded():
                self.floods += 1
                self._warn_of_flood()
            case Noise():
                return False
        return True

    def _report_progress(self, event: Progressed) -> None:
        on_progress: OnProgress | None = event.call.context.on_progress
        if on_progress is None:
            return
        try:
            on_progress(event.progress, event.total, event.message)
        except Exception:
            logger.exception("MCP server '%s': progress could not be handed on", self.server)

    def _warn_of_flood(self) -> None:
        now = self._loop.time()
        if self._warned_at is None or now - self._warned_at > WARN_EVERY:
            self._warned_at = now
            logger.warning("MCP server '%s' sends too many notifications", self.server)

    # ---- time

    def _check_at(self, when: float) -> None:
        """Check for late answers then. One timer serves all calls: most are over long before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._check_deadlines) if when < inf else None

    def _check_deadlines(self) -> None:
        for event in self.connection.expire(self._loop.time()):
            self._handle(event)
        self._check_at(self.connection.next_deadline())

    # ---- the server's requests

    async def _serve(self, request: Request) -> None:
        with anyio.CancelScope() as self._serving[request.id]:
            try:
                result = await self._answered(request)
            finally:
                del self._serving[request.id]
            answer = self.connection.answer(request.id, result, self._loop.time())
            if answer is not None:
                self.transport.post(answer)

    async def _answered(self, request: Request) -> JsonObject | ErrorData:
        try:
            return await self._answer_request(request.method, request.params or {})
        except RpcError as refusal:
            return refusal.error
        except Exception:
            logger.debug("MCP server '%s': its request failed", self.server, exc_info=True)
            return ErrorData(INTERNAL_ERROR, "the request could not be handled")


def remote_error(error: ErrorData) -> errors.RemoteError:
    return errors.RemoteError(error.code, error.message, error.data)


def garbled(reason: str) -> errors.CallFailed:
    if reason == _TOO_MANY:
        return errors.TooLarge(MAX_VALUES, "values")
    return errors.InvalidResult(f"the server's answer cannot be read: {reason}")
