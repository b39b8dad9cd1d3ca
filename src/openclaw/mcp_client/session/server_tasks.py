"""A server's tasks: calls that continue without an open request.

At 2026-07-28 (the extension) the server decides that a call is a task; at 2025-11-25 we do, for tools
that support it.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import anyio

from openclaw.core.tools import JsonObject, json_object
from openclaw.mcp_client import errors
from openclaw.mcp_client.session.jsonrpc import OnProgress, RawResult, failure

EXTENSION = "io.modelcontextprotocol/tasks"
TTL_MS = 24 * 3_600_000

_MAX_ID = 1024
_FIRST_POLL, _LEAST_POLL, _MOST_POLL = 0.1, 0.05, 60.0
_DEFAULT_POLL_MS = 1000
_MAX_FAILURES = 5
_CANCEL_WITHIN = 2.0
_CANCELLED = -32000

OnTask = Callable[[JsonObject], Awaitable[None]]


def handle_of(result: RawResult) -> JsonObject | None:
    """What to remember of the task that a call returned; None if it returned none."""
    extension = result.get("resultType") == "task"
    task = result if extension else result.get("task")
    if not isinstance(task, dict) or (not extension and "content" in result):
        return None
    fields = cast("dict[str, Any]", task)
    id = fields.get("taskId")
    if not isinstance(id, str) or not 0 < len(id) <= _MAX_ID or not id.isprintable():
        raise errors.InvalidResult("the server's task has no usable id")
    return {"id": id, "extension": extension, "pollMs": _poll_ms(fields, _DEFAULT_POLL_MS)}


def takes_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Whether a server of 2025-11-25 accepts tool calls as tasks."""
    match capabilities:
        case {"tasks": {"requests": {"tools": {"call": _}}}}:
            return True
        case _:
            return False


def _poll_ms(task: Mapping[str, Any], before: float) -> float:
    wanted = task.get("pollIntervalMs", task.get("pollInterval"))
    is_number = isinstance(wanted, int | float) and not isinstance(wanted, bool)
    return wanted if is_number and wanted >= 0 else before


@dataclass(frozen=True, slots=True)
class RemoteTask:
    """A call that a server runs as a task. `ask` sends a request, to a restarted server if need be;
    `answers` puts the questions in a status to the person."""

    handle: JsonObject
    ask: Callable[[str, JsonObject], Awaitable[RawResult]]
    answers: Callable[[RawResult], Awaitable[JsonObject]]
    on_progress: OnProgress
    patience: float

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
        status = await self._get()
        ended = await self._ended(status)
        if ended is None:
            raise errors.StillWorking
        return ended

    async def _polled(self) -> RawResult:
        # Poll once before the first interval is over, in case the call is short.
        pause = self._seconds(self.handle["pollMs"]) if self.handle["extension"] else _FIRST_POLL
        answered: set[str] = set()
        steps, failures, message = 0, 0, None
        while True:
            await anyio.sleep(pause)
            try:
                status = await self._get()
                ended = await self._ended(status)
            except (errors.Interrupted, errors.Unavailable, errors.TimedOut) as gone:
                failures += 1  # polling again repeats nothing
                if failures > _MAX_FAILURES:
                    raise errors.Interrupted(gone.message) from None
                continue
            failures = 0
            if ended is not None:
                return ended
            if status.get("status") == "input_required" and self.handle["extension"]:
                await self._answer(status, answered)
            if status.get("statusMessage") not in (None, message):
                message, steps = str(status["statusMessage"]), steps + 1
                self.on_progress(float(steps), None, message)
            pause = self._seconds(_poll_ms(status, self.handle["pollMs"]))

    def _seconds(self, poll_ms: float) -> float:
        return min(max(poll_ms / 1000, _LEAST_POLL), _MOST_POLL)

    async def _get(self) -> RawResult:
        try:
            return await self.ask("tasks/get", {"taskId": self.handle["id"]})
        except errors.RemoteError as error:
            reason = f"it no longer knows the task of this call: {error.message}"
            raise errors.Interrupted(reason) from None

    async def _ended(self, status: RawResult) -> RawResult | None:
        """The call's result if the task has ended; raises if it failed."""
        match status.get("status"), self.handle["extension"]:
            case "completed", True:
                result = status.get("result")
                if not isinstance(result, dict):
                    raise errors.InvalidResult("the task has ended without a result")
                return cast("RawResult", result)
            case "failed", True:
                raise failure(status.get("error"))
            # In the older form the server asks while we wait for the result.
            case "completed" | "failed" | "input_required", False:
                return await self.ask("tasks/result", {"taskId": self.handle["id"]})
            case "cancelled", _:
                words = status.get("statusMessage") or "the server cancelled it"
                raise errors.RemoteError(_CANCELLED, f"the call was cancelled: {words}")
            case "working" | "input_required", _:
                return None
            case _:
                raise errors.InvalidResult("the task has a status that MCP does not have")

    async def _answer(self, status: RawResult, answered: set[str]) -> None:
        requests = json_object(status.get("inputRequests"))
        fresh = {key: one for key, one in requests.items() if key not in answered}
        if fresh:
            responses = await self.answers({"resultType": "input_required", "inputRequests": fresh})
            answered.update(fresh)
            params = {"taskId": self.handle["id"], "inputResponses": responses}
            await self.ask("tasks/update", params)

    async def _cancel(self) -> None:
        with anyio.move_on_after(_CANCEL_WITHIN, shield=True), suppress(errors.CallFailed):
            await self.ask("tasks/cancel", {"taskId": self.handle["id"]})
