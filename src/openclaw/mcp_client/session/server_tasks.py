"""A server's tasks: calls that continue without an open request.

At 2026-07-28 (the extension) the server decides that a call is a task; at 2025-11-25 we do, for tools
that support it.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import anyio

from openclaw.core.tools import JsonObject
from openclaw.mcp import names
from openclaw.mcp.jsonrpc import JsonObject as RawResult
from openclaw.mcp.jsonrpc import error_data
from openclaw.mcp.tasks import CORE_TASKS, EXTENSION_TASKS, InvalidTask, Task, TaskForm, TaskStatus
from openclaw.mcp_client import errors
from openclaw.mcp_client.session.caller import OnProgress, remote_error

TTL_MS = 24 * 3_600_000

_FIRST_POLL, _LEAST_POLL, _MOST_POLL = 0.1, 0.05, 60.0
_MAX_FAILURES = 5
_CANCEL_WITHIN = 2.0
_CANCELLED = -32000

OnTask = Callable[[JsonObject], Awaitable[None]]


def handle_of(result: RawResult) -> JsonObject | None:
    """What to remember of the task that a call returned; None if it returned none."""
    form = EXTENSION_TASKS if result.get("resultType") == "task" else CORE_TASKS
    try:
        task = form.handle_in(result)
    except InvalidTask as problem:
        raise errors.InvalidResult(str(problem)) from None
    if task is None:
        return None
    return {"id": task.id, "extension": form is EXTENSION_TASKS, "pollMs": task.poll_ms}


@dataclass(frozen=True, slots=True)
class RemoteTask:
    """A call that a server runs as a task. `ask` sends a request, to a restarted server if need be;
    `answers` puts the questions in a status to the user."""

    handle: JsonObject
    ask: Callable[[str, JsonObject], Awaitable[RawResult]]
    answers: Callable[[RawResult], Awaitable[JsonObject]]
    on_progress: OnProgress
    patience: float

    @property
    def form(self) -> TaskForm:
        return EXTENSION_TASKS if self.handle["extension"] else CORE_TASKS

    async def result(self, on_task: OnTask | None = None) -> RawResult:
        """Wait for the result of the call; cancelling the wait cancels the task."""
        try:
            if on_task is not None:
                await on_task(self.handle)
            with anyio.fail_after(self.patience):
                return await self._polled()
        except errors.CallFailed:
            raise
        except TimeoutError:
            await self._cancel()
            raise errors.TimedOut(self.patience) from None
        except BaseException:
            await self._cancel()
            raise

    async def once(self) -> RawResult:
        """The result if it is ready; raises `StillWorking` otherwise."""
        ended = await self._ended(await self._get())
        if ended is None:
            raise errors.StillWorking
        return ended

    async def _polled(self) -> RawResult:
        # Poll once before the first interval is over, in case the call is short.
        pause = _seconds(self.handle["pollMs"]) if self.handle["extension"] else _FIRST_POLL
        answered: set[str] = set()
        steps, failures, message = 0, 0, None
        started = anyio.current_time()
        while True:
            await anyio.sleep(pause)
            try:
                task = await self._get()
                ended = await self._ended(task)
            except (errors.Interrupted, errors.Unavailable, errors.TimedOut) as gone:
                failures += 1  # polling again repeats nothing
                if failures > _MAX_FAILURES:
                    raise errors.Interrupted(gone.message) from None
                continue
            failures = 0
            if ended is not None:
                return ended
            if task.ttl_ms is not None and anyio.current_time() - started > task.ttl_ms / 1000:
                raise errors.Interrupted("the task of this call has expired")
            if task.status is TaskStatus.INPUT_REQUIRED and self.form is EXTENSION_TASKS:
                await self._answer(task, answered)
            if task.message not in (None, message):
                message, steps = task.message, steps + 1
                self.on_progress(float(steps), None, message)
            pause = _seconds(task.poll_ms)

    async def _get(self) -> Task:
        try:
            status = await self.ask(names.TASKS_GET, {"taskId": self.handle["id"]})
            return self.form.parse({self.form.poll_key: self.handle["pollMs"], **status})
        except errors.RemoteError as error:
            reason = f"it no longer knows the task of this call: {error.message}"
            raise errors.Interrupted(reason) from None
        except InvalidTask as problem:
            raise errors.InvalidResult(str(problem)) from None

    async def _ended(self, task: Task) -> RawResult | None:
        """The call's result if the task has ended; raises if it failed."""
        match task.status:
            case TaskStatus.CANCELLED:
                words = task.message or "the server cancelled it"
                raise errors.RemoteError(_CANCELLED, f"the call was cancelled: {words}")
            case TaskStatus.WORKING:
                return None
            case _ if self.form is CORE_TASKS:
                # In the older form the server asks while we wait for the result.
                return await self.ask(names.TASKS_RESULT, {"taskId": self.handle["id"]})
            case TaskStatus.COMPLETED:
                if task.result is None:
                    raise errors.InvalidResult("the task has ended without a result")
                return task.result
            case TaskStatus.FAILED:
                raise remote_error(task.error or error_data(None))
            case TaskStatus.INPUT_REQUIRED:
                return None

    async def _answer(self, task: Task, answered: set[str]) -> None:
        fresh = {key: request for key, request in task.requests.items() if key not in answered}
        if fresh:
            responses = await self.answers({"resultType": "input_required", "inputRequests": fresh})
            answered.update(fresh)
            params = {"taskId": self.handle["id"], "inputResponses": responses}
            await self.ask(names.TASKS_UPDATE, params)

    async def _cancel(self) -> None:
        with anyio.move_on_after(_CANCEL_WITHIN, shield=True), suppress(errors.CallFailed):
            await self.ask(names.TASKS_CANCEL, {"taskId": self.handle["id"]})


def _seconds(poll_ms: float) -> float:
    return min(max(poll_ms / 1000, _LEAST_POLL), _MOST_POLL)
