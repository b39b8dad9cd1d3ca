"""Tasks: calls that continue without an open request, in the two forms that MCP has had.

At 2025-11-25 they are part of the protocol and the client asks for one; at 2026-07-28 they are an
extension (SEP-2663), and the server decides.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple, TypeGuard, cast

from openclaw.mcp import names
from openclaw.mcp.jsonrpc import NOTHING, ErrorData, JsonObject, error_data, error_to_json
from openclaw.mcp.revisions import Revision, TaskSupport

_MAX_ID = 1024
_DEFAULT_POLL_MS = 1000


class TaskStatus(StrEnum):
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def has_ended(self) -> bool:
        return self not in (TaskStatus.WORKING, TaskStatus.INPUT_REQUIRED)


class InvalidTask(ValueError):
    """Raised when what a server says about a task is not a task."""


class Task(NamedTuple):
    """`created` and `updated` are RFC 3339; `ttl_ms` is None if the task never expires."""

    id: str
    status: TaskStatus
    created: str = ""
    updated: str = ""
    ttl_ms: int | None = None
    poll_ms: float = _DEFAULT_POLL_MS
    message: str | None = None
    result: JsonObject | None = None
    error: ErrorData | None = None
    requests: Mapping[str, Any] = NOTHING


class TaskForm(ABC):
    """How tasks look at one revision."""

    ttl_key: str
    poll_key: str
    changed: str
    """The notification that a task has changed."""
    methods: frozenset[str]

    # ---- written by a server

    @abstractmethod
    def created(self, task: Task) -> JsonObject:
        """The result of a call that became this task."""

    @abstractmethod
    def view(self, task: Task) -> JsonObject:
        """The result of `tasks/get`."""

    def head(self, task: Task) -> JsonObject:
        fields: JsonObject = {
            "taskId": task.id,
            "status": str(task.status),
            "createdAt": task.created,
            "lastUpdatedAt": task.updated,
            self.ttl_key: task.ttl_ms,
            self.poll_key: task.poll_ms,
        }
        return fields if not task.message else {**fields, "statusMessage": task.message}

    # ---- read by a client

    @abstractmethod
    def handle_in(self, result: JsonObject) -> Task | None:
        """The task that a call returned instead of its result; raises `InvalidTask`."""

    def parse(self, fields: JsonObject) -> Task:
        """What a server says about a task; raises `InvalidTask`."""
        id, status = fields.get("taskId"), fields.get("status")
        if not isinstance(id, str) or not 0 < len(id) <= _MAX_ID or not id.isprintable():
            raise InvalidTask("the server's task has no usable id")
        if status not in TaskStatus.__members__.values():
            raise InvalidTask("the server's task has no known status")
        result, requests = fields.get("result"), fields.get("inputRequests")
        message, ttl = fields.get("statusMessage"), fields.get(self.ttl_key)
        failed = status == TaskStatus.FAILED
        return Task(
            id=id,
            status=TaskStatus(status),
            created=_text(fields.get("createdAt")),
            updated=_text(fields.get("lastUpdatedAt")),
            ttl_ms=int(ttl) if _is_amount(ttl) else None,
            poll_ms=_poll_ms(fields, self.poll_key),
            message=message if isinstance(message, str) else None,
            result=cast("JsonObject", result) if isinstance(result, dict) else None,
            error=error_data(fields.get("error")) if failed else None,
            requests=cast("JsonObject", requests) if isinstance(requests, dict) else {},
        )


class CoreTasks(TaskForm):
    """2025-11-25, section "Tasks": `tasks/result` waits for the result."""

    ttl_key, poll_key, changed = "ttl", "pollInterval", names.TASK_STATUS
    methods = frozenset((names.TASKS_GET, names.TASKS_RESULT, names.TASKS_LIST, names.TASKS_CANCEL))

    def created(self, task: Task) -> JsonObject:
        return {"task": self.head(task)}

    def view(self, task: Task) -> JsonObject:
        return self.head(task)

    def result(self, task: Task) -> JsonObject:
        """The result of `tasks/result` once the task has ended."""
        result = dict(task.result or {})
        related = {names.META_RELATED_TASK: {"taskId": task.id}}
        return {**result, "_meta": {**(result.get("_meta") or {}), **related}}

    def handle_in(self, result: JsonObject) -> Task | None:
        fields = result.get("task")
        if not isinstance(fields, dict) or "content" in result:
            return None
        return self.parse(cast("JsonObject", fields))


class ExtensionTasks(TaskForm):
    """SEP-2663: the result is in the task, and so are the questions."""

    ttl_key, poll_key, changed = "ttlMs", "pollIntervalMs", names.TASK_CHANGED
    methods = frozenset((names.TASKS_GET, names.TASKS_UPDATE, names.TASKS_CANCEL))

    def created(self, task: Task) -> JsonObject:
        return {"resultType": "task", **self.head(task)}

    def view(self, task: Task) -> JsonObject:
        fields = self.head(task)
        match task.status:
            case TaskStatus.INPUT_REQUIRED:
                fields["inputRequests"] = dict(task.requests)
            case TaskStatus.COMPLETED:
                fields["result"] = task.result
            case TaskStatus.FAILED if task.error is not None:
                fields["error"] = error_to_json(task.error)
            case _:
                pass
        return fields

    def handle_in(self, result: JsonObject) -> Task | None:
        return self.parse(result) if result.get("resultType") == "task" else None


CORE_TASKS, EXTENSION_TASKS = CoreTasks(), ExtensionTasks()


def task_form(revision: Revision) -> TaskForm | None:
    match revision.tasks:
        case TaskSupport.CORE:
            return CORE_TASKS
        case TaskSupport.EXTENSION:
            return EXTENSION_TASKS
        case TaskSupport.NONE:
            return None


def server_takes_core_tasks(capabilities: Mapping[str, Any]) -> bool:
    """Whether a server of 2025-11-25 accepts tool calls as tasks."""
    match capabilities:
        case {"tasks": {"requests": {"tools": {"call": _}}}}:
            return True
        case _:
            return False


def declares_extension(capabilities: Mapping[str, Any]) -> bool:
    """Whether a client or a server of 2026-07-28 declares the extension."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and names.TASKS_EXTENSION in extensions


def _poll_ms(fields: JsonObject, key: str) -> float:
    wanted = fields.get(key)
    return wanted if _is_amount(wanted) else _DEFAULT_POLL_MS


def _is_amount(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
