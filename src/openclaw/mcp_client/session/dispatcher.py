"""Requests and answers over a server's pipes: the SDK's `Dispatcher` with fewer hops.

A call is one write and one future. Incoming messages are handled in the read callback; only what
needs a task (a request from the server, a huge message) is left to `run`.
"""

import logging
from asyncio import CancelledError, Future, TimerHandle, get_running_loop
from collections import deque
from collections.abc import Callable, Mapping
from itertools import count
from math import inf
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.abc
import anyio.to_thread

from openclaw.mcp_client import bounds, errors
from openclaw.mcp_client.session import jsonrpc
from openclaw.mcp_client.session.jsonrpc import OnProgress, RawResult, answered_id
from openclaw.mcp_client.transport.child_process import ChildPipe
from openclaw.stdio.lines import TooLong

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions, OnRequest
    from mcp.shared.transport_context import TransportContext

_MAX_DIGITS = 18


class Pending:
    __slots__ = ("due", "future", "give_up_at", "on_progress", "reported_at", "timeout")

    def __init__(self, future: "Future[RawResult]", timeout: float) -> None:
        self.future = future
        self.timeout = timeout
        self.due = self.give_up_at = inf
        self.on_progress: OnProgress | None = None
        self.reported_at = 0.0

    def refuse(self, error: Exception) -> None:
        """End the wait with an error. The waiter may have been cancelled at the same moment."""
        self.future.set_exception(error)
        self.future.exception()  # seen, so that the loop does not complain if nobody waits


logger = logging.getLogger(__name__)


MAX_EXTENSION = 60.0  # how many timeouts a call may last, however much progress is reported
PROGRESS_EVERY = 0.05  # seconds between two reports of one call's progress
WARN_EVERY = 60.0  # seconds between two warnings about the same flood

_ABSENT = object()
_ID_TYPES = (int, str)


class PipeDispatcher:
    """Correlates requests and answers. `call` raises `CallFailed`; the SDK's methods `MCPError`."""

    def __init__(self, pipe: ChildPipe, server: str, redact: Callable[[str], str] = str) -> None:
        self._pipe, self._server, self._redact = pipe, server, redact
        self._loop = get_running_loop()
        self._ids = count(1)
        self._pending: dict[int | str, Pending] = {}
        self._deferred: deque[bytes] = deque()
        self._asked: deque[dict[str, Any]] = deque()
        self._serving: dict[int | str, anyio.CancelScope] = {}
        self._unanswered = 0
        self._wake: Future[None] | None = None
        self._timer: TimerHandle | None = None
        self._notifications = bounds.RateLimit(
            bounds.NOTIFICATIONS_PER_SECOND, bounds.NOTIFICATION_BURST
        )
        self._noise = bounds.RateLimit(bounds.LOG_LINES_PER_SECOND, bounds.LOG_BURST)
        self._warned_at: float | None = None
        self._on_notification: Callable[[str, Mapping[str, Any] | None], None] = lambda _, __: None
        self.end_reason: str | None = None
        self.lost = anyio.Event()  # it has ended, and everything it sent was handled
        self.input_closed = False
        self._too_long: TooLong | None = None

    @property
    def is_gone(self) -> bool:
        return self.end_reason is not None

    def why_lost(self) -> str:
        return self.end_reason or "it ended"

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        headers: dict[str, str] | None = None,
        request_id: int | str | None = None,
        cancellable: bool = True,
    ) -> RawResult:
        """Send one request and wait for its result. Headers are ignored."""
        key = self._new_key(request_id)
        pending = Pending(self._loop.create_future(), inf if timeout is None else timeout)
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": key, "method": method}
        if on_progress is not None:
            pending.on_progress = on_progress
            params = jsonrpc.with_progress_token(params, key)
        if params:
            message["params"] = params
        line = jsonrpc.encode(message)
        self._pending[key] = pending
        try:
            if pending.timeout < inf:
                self._await_until(pending)
            if self._pipe.congested:
                await self._pipe.drained(pending.future)
            if not pending.future.done():  # else it is too late to send it
                self._send(line)
            return await pending.future
        except CancelledError:
            if cancellable:
                self._notify_cancelled(key, "the caller is no longer waiting")
            raise
        except errors.TimedOut:
            if cancellable:
                self._notify_cancelled(key, "no answer in time")
            raise
        finally:
            del self._pending[key]

    def _await_until(self, pending: Pending) -> None:
        now = self._loop.time()
        pending.give_up_at = now + pending.timeout * MAX_EXTENSION
        pending.due = now + pending.timeout
        if self._timer is None or pending.due < self._timer.when():
            self._check_at(pending.due)

    def _send(self, line: bytes) -> None:
        if self.end_reason is None and not self._pipe.write(line):
            self.input_closed = True
        if self.end_reason is not None or self.input_closed:
            raise errors.Unavailable(self.end_reason or "the server closed its input")

    def _new_key(self, wanted: int | str | None) -> int | str:
        if wanted is None:
            return next(self._ids)
        if wanted in self._pending:
            raise ValueError(f"request id {wanted!r} is already in flight")
        return wanted

    def _notify_cancelled(self, key: int | str, reason: str) -> None:
        params = {"requestId": key, "reason": reason}
        self._answer(method="notifications/cancelled", params=params)

    # What the SDK's session calls.

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: "CallOptions | None" = None
    ) -> dict[str, Any]:
        """The same as `call`, in the SDK's terms."""
        options = opts or {}
        try:
            return await self.call(
                method,
                params,
                timeout=options.get("timeout"),
                request_id=options.get("request_id"),
                cancellable=options.get("cancel_on_abandon", True),
            )
        except errors.CallFailed as failure:
            raise jsonrpc.as_mcp_error(failure) from None

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: "CallOptions | None" = None
    ) -> None:
        """Send a notification; does nothing if the server is gone."""
        self._answer(method=method, **({} if params is None else {"params": params}))

    def _answer(self, **message: Any) -> None:
        """Send a message that nobody waits for."""
        self._pipe.answer(jsonrpc.encode({"jsonrpc": "2.0", **message}))

    async def run(
        self,
        on_request: "OnRequest",
        on_notification: Callable[[str, Mapping[str, Any] | None], None],
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve the server's requests and decode its huge messages until the pipe ends.

        `on_notification` gets every notification, in order and without a task, so that a flood
        can't overwhelm us.
        """
        self._on_notification = on_notification
        self._pipe.open(self.lines, self.ended)
        async with anyio.create_task_group() as group:
            task_status.started()
            while self.end_reason is None or self._deferred:
                if self._deferred:
                    await self._take_deferred()
                while self._asked:
                    request = self._asked.popleft()
                    group.start_soon(self._serve, on_request, request, name="server request")
                if self.end_reason is None and not self._deferred and not self._asked:
                    self._wake = self._loop.create_future()
                    await self._wake
            self._fail_pending()
            group.cancel_scope.cancel()

    # What the pipe calls, from the event loop.

    def lines(self, lines: list[bytes]) -> None:
        """Handle whole lines. Huge ones, and those after them, wait for `run`."""
        if self._deferred:
            self._deferred.extend(lines)
            return
        for index, line in enumerate(lines):
            if len(line) >= jsonrpc.LARGE:
                self._deferred.extend(lines[index:])
                self._pipe.pause()
                self._wake_up()
                return
            try:
                self._take(jsonrpc.decode(line))
            except jsonrpc.Undecodable as problem:
                self._undecodable(line, problem)

    def ended(self, reason: str, too_long: TooLong | None) -> None:
        """The pipe has ended; pending calls fail."""
        self.end_reason, self._too_long = reason, too_long
        if not self._deferred:
            self._fail_pending()
        self._wake_up()

    def close(self) -> None:
        self._pipe.discard()
        if self.end_reason is None:
            self.end_reason = "it was stopped"
        self._fail_pending()
        self._check_at(inf)
        self._wake_up()

    def release(self) -> None:
        self._pipe.close()

    def _wake_up(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _take_deferred(self) -> None:
        line = self._deferred.popleft()
        try:
            if len(line) < jsonrpc.LARGE:
                self._take(jsonrpc.decode(line))
            else:
                self._take(await anyio.to_thread.run_sync(jsonrpc.decode, line))
        except jsonrpc.Undecodable as problem:
            self._undecodable(line, problem)
        if not self._deferred:
            self._pipe.resume()

    def _take(self, message: jsonrpc.Message | jsonrpc.Batch) -> None:
        if type(message) is list:
            for part in message:
                if type(part) is dict:
                    self._take(cast("jsonrpc.Message", part))
            return
        assert type(message) is dict
        method = message.get("method", _ABSENT)
        if method is _ABSENT:
            self._answered(message)
        elif type(method) is not str:
            logger.debug("MCP server '%s': a message whose method is not text", self._server)
        elif type(message.get("id")) in _ID_TYPES:
            self._requested(message)
        elif "id" in message:
            logger.debug("MCP server '%s': a request whose id is invalid", self._server)
        else:
            self._notified(method, message.get("params"))

    def _answered(self, message: jsonrpc.Message) -> None:
        pending = self._find(message.get("id"))
        if pending is None or pending.future.done():
            return
        result = message.get("result")
        if type(result) is dict:
            pending.future.set_result(cast("RawResult", result))
        else:
            pending.refuse(jsonrpc.failure(message.get("error")))

    def _notified(self, method: str, params: Any) -> None:
        params = cast("dict[str, Any]", params) if type(params) is dict else None
        if method == "notifications/progress" and params is not None and self._progressed(params):
            return
        if not self._notifications.allows(self._loop.time()):
            self._warn_of_flood()
            return
        if method == "notifications/cancelled" and params is not None:
            key = params.get("requestId")
            scope = self._serving.get(key) if type(key) in _ID_TYPES else None
            if scope is not None:
                scope.cancel()
        self._on_notification(method, params)

    def _warn_of_flood(self) -> None:
        now = self._loop.time()
        if self._warned_at is None or now - self._warned_at > WARN_EVERY:
            self._warned_at = now
            logger.warning("MCP server '%s' sends too many notifications", self._server)

    def _progressed(self, params: dict[str, Any]) -> bool:
        pending = self._find(params.get("progressToken"))
        if pending is None:
            return False
        now = self._loop.time()
        if now < pending.give_up_at:
            pending.due = min(now + pending.timeout, pending.give_up_at)
        if pending.on_progress is not None and now - pending.reported_at >= PROGRESS_EVERY:
            pending.reported_at = now
            jsonrpc.report_progress(pending.on_progress, params, self._server)
        return True

    def _check_at(self, when: float) -> None:
        """Check for late answers then. One timer serves all calls: most are over long before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._check_deadlines) if when < inf else None

    def _check_deadlines(self) -> None:
        now = self._loop.time()
        for pending in self._pending.values():
            if pending.due > now or pending.future.done():
                continue
            if self._serving and now < pending.give_up_at:
                # The server waits for our answer, perhaps a person's: that is not its delay.
                pending.due = now + pending.timeout
            else:
                pending.refuse(errors.TimedOut(pending.timeout))
        waiting = (one.due for one in self._pending.values() if not one.future.done())
        self._check_at(min(waiting, default=inf))

    def _requested(self, message: jsonrpc.Message) -> None:
        if self._unanswered >= bounds.MAX_SERVER_REQUESTS:
            self._reply_error(message["id"], jsonrpc.BUSY, "too many requests at once")
            return
        self._unanswered += 1
        self._asked.append(message)
        self._wake_up()

    async def _serve(self, on_request: "OnRequest", message: dict[str, Any]) -> None:
        key = message["id"]
        try:
            with anyio.CancelScope() as self._serving[key]:
                await self._reply(on_request, key, message)
        finally:
            self._unanswered -= 1
            self._serving.pop(key, None)

    async def _reply(
        self, on_request: "OnRequest", key: int | str, message: dict[str, Any]
    ) -> None:
        if message["method"] == "ping":
            self._answer(id=key, result={})
            return
        params = message.get("params")
        params = cast("dict[str, Any]", params) if type(params) is dict else None
        try:
            result = await on_request(PipeContext(self, key), message["method"], params)
            self._answer(id=key, result=result)
        except Exception as error:
            from mcp.shared.exceptions import MCPError  # by now it is loaded

            if isinstance(error, MCPError):
                self._reply_error(key, error.code, error.message)
                return
            logger.debug("MCP server '%s': its request failed", self._server, exc_info=True)
            self._reply_error(key, jsonrpc.INTERNAL, "the request could not be handled")

    def _reply_error(self, key: Any, code: int, text: str) -> None:
        self._answer(id=key, error={"code": code, "message": text})

    def _undecodable(self, line: bytes, problem: jsonrpc.Undecodable) -> None:
        pending = self._find(problem.id)
        if pending is not None and not pending.future.done():
            pending.refuse(jsonrpc.unreadable(problem))
            return
        if line.strip() and self._noise.allows(self._loop.time()):
            text = bounds.printable(self._redact(line[:65536].decode("utf-8", "replace")), 500)
            logger.warning("MCP server '%s' wrote to its output: %s", self._server, text)

    def _find(self, key: Any) -> Pending | None:
        """The request with this id; a server may return a number as text."""
        if type(key) is int:
            return self._pending.get(key)
        if type(key) is not str:
            return None
        number = int(key) if key.isdecimal() and len(key) <= _MAX_DIGITS else key
        return self._pending.get(key) or self._pending.get(number)

    def _fail_pending(self) -> None:
        """Fail all pending calls; one of them may have got an answer that was too long."""
        oversized = None
        if self._too_long is not None:
            alone = next(iter(self._pending.values())) if len(self._pending) == 1 else None
            oversized = self._find(answered_id(self._too_long.head)) or alone
        for pending in self._pending.values():
            if pending.future.done():
                continue
            if pending is oversized and self._too_long is not None:
                pending.refuse(errors.TooLarge(self._too_long.limit))
            else:
                pending.refuse(errors.Interrupted(self.end_reason or "it ended"))


class PipeContext:
    """The SDK's `DispatchContext` for a request that came through a pipe."""

    can_send_request = True
    message_metadata = None

    def __init__(self, dispatcher: "PipeDispatcher", request_id: int | str) -> None:
        self.send_raw_request, self.notify = dispatcher.send_raw_request, dispatcher.notify
        self.request_id = request_id
        self.cancel_requested = anyio.Event()

    @property
    def transport(self) -> "TransportContext":
        from mcp.shared.transport_context import TransportContext

        return TransportContext(kind="stdio", can_send_request=True)

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Our handlers are quick: nothing to report."""
