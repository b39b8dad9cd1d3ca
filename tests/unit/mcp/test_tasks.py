"""Tasks as both revisions write them, and as a client reads them."""

from typing import Any

import pytest

from openclaw.mcp.jsonrpc import ErrorData
from openclaw.mcp.revisions import REVISIONS
from openclaw.mcp.tasks import (
    CORE_TASKS,
    EXTENSION_TASKS,
    InvalidTask,
    Task,
    TaskForm,
    TaskStatus,
    task_form,
)

FORMS = pytest.mark.parametrize("form", [CORE_TASKS, EXTENSION_TASKS], ids=["core", "extension"])
TASKS = [
    Task(
        "a",
        TaskStatus.WORKING,
        "2026-01-01T00:00:00Z",
        "2026-01-01T00:00:01Z",
        60_000,
        500,
        "on it",
    ),
    Task("b", TaskStatus.COMPLETED, ttl_ms=None, result={"content": []}),
    Task("c", TaskStatus.FAILED, error=ErrorData(-32603, "broken")),
    Task("d", TaskStatus.INPUT_REQUIRED, requests={"q": {"method": "elicitation/create"}}),
    Task("e", TaskStatus.CANCELLED),
]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.status)
def test_the_extension_carries_everything_about_a_task(task: Task):
    assert EXTENSION_TASKS.parse(EXTENSION_TASKS.view(task)) == task


@FORMS
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.status)
def test_a_call_returns_a_handle_that_its_client_knows(form: TaskForm, task: Task):
    handle = form.handle_in(form.created(task))
    assert handle is not None
    assert (handle.id, handle.status, handle.ttl_ms, handle.poll_ms, handle.message) == (
        task.id, task.status, task.ttl_ms, task.poll_ms, task.message,
    )  # fmt: skip


@FORMS
def test_an_ordinary_result_is_no_task(form: TaskForm):
    assert form.handle_in({"content": [], "task": {"taskId": "no"}}) is None


@FORMS
@pytest.mark.parametrize("id", [None, "", 7, "x" * 2000, "line\nbreak"])
def test_a_task_without_a_usable_id_is_refused(form: TaskForm, id: Any):
    with pytest.raises(InvalidTask):
        form.parse({"taskId": id, "status": "working"})


@FORMS
def test_odd_details_do_not_cost_the_task(form: TaskForm):
    task = form.parse(
        {"taskId": "a", "status": "working", form.ttl_key: "x", form.poll_key: -1, "createdAt": 7}
    )
    assert task == Task("a", TaskStatus.WORKING)


def test_the_result_of_an_earlier_task_names_it():
    result = CORE_TASKS.result(TASKS[1])
    assert result["_meta"] == {"io.modelcontextprotocol/related-task": {"taskId": "b"}}


def test_only_the_two_last_revisions_have_tasks():
    forms = [task_form(revision) for revision in REVISIONS.values()]
    assert forms == [None, None, None, CORE_TASKS, EXTENSION_TASKS]
