"""`openclaw tasks` reads the store, whoever runs the tasks."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from openclaw.cli.main import run
from openclaw.config.paths import StatePaths
from openclaw.core.clock import SystemClock
from openclaw.sessions.open import open_store
from openclaw.sessions.task_records import Task, read_inboxes, say_alive, write_task

NOW = SystemClock().now_ms()
WORKING = Task(
    "task-working",
    "owner",
    "here",
    "main",
    "s",
    "t1",
    "Paint\x1b[31m it.",
    "k",
    NOW,
    NOW,
    message="painting",
)
ASKING = replace(
    WORKING,
    id="task-asking",
    status="input_required",
    requests={"q": {"method": "elicitation/create", "params": {"message": "May I?"}}},
)
DONE = replace(
    WORKING,
    id="task-done",
    status="completed",
    result={"content": [{"type": "text", "text": "Painted."}, {"type": "image"}]},
)
LOST = replace(WORKING, id="task-lost", runner="nobody")


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("OPENCLAW_CONFIG_PATH", raising=False)
    return tmp_path


def store(state: Path, *tasks: Task) -> None:
    async def written() -> None:
        async with open_store("file", StatePaths(state)) as opened:
            await say_alive(opened, "here", NOW)
            for task in tasks:
                assert await write_task(opened, task) is not None

    anyio.run(written)


def inboxes(state: Path) -> dict[str, Any]:
    async def read() -> dict[str, Any]:
        async with open_store("file", StatePaths(state)) as opened:
            return dict(await read_inboxes(opened, [WORKING.id]))

    return anyio.run(read)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run("openclaw", list(words)) == 0
    return capsys.readouterr().out


def test_without_tasks_it_says_so(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "tasks") == "There are no tasks.\n"
    assert json.loads(said(capsys, "tasks", "list", "--json")) == {"tasks": []}


def test_tasks_are_listed_with_how_they_are(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(state, WORKING, ASKING, DONE, LOST)
    listed = json.loads(said(capsys, "tasks", "list", "--json"))["tasks"]
    assert {one["id"]: one["status"] for one in listed} == {
        "task-working": "working",
        "task-asking": "input_required",
        "task-done": "completed",
        "task-lost": "failed",  # its process is gone
    }
    assert "\x1b" not in said(capsys, "tasks")
    status = json.loads(said(capsys, "status", "--json"))
    assert status["sessions"]["tasks"] == {"working": 1, "input_required": 1}
    assert "1 working, 1 waiting for an answer" in said(capsys, "status")


def test_a_task_is_shown_with_its_question_and_its_answer(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(state, WORKING, ASKING, DONE)
    assert "It asks: May I?" in said(capsys, "tasks", "show", "task-a")
    assert "\nPainted.\n\n[image]\n" in said(capsys, "tasks", "show", "task-done")
    assert json.loads(said(capsys, "tasks", "show", "task-w", "--json"))["turn"] == "t1"


def test_a_task_is_told_to_stop(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(state, WORKING, DONE)
    assert said(capsys, "tasks", "cancel", "task-w") == "Asked the task to stop.\n"
    assert inboxes(state)["task-working"]["cancel"] is True
    assert said(capsys, "tasks", "cancel", "task-d") == "The task has already ended: completed.\n"
    assert json.loads(said(capsys, "tasks", "cancel", "task-w", "--json"))["cancelled"] is True


def test_a_name_has_to_mean_one_task(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store(state, WORKING, DONE)
    assert run("openclaw", ["tasks", "show", "task-"]) == 1
    assert "2 tasks begin with 'task-'" in capsys.readouterr().err
    assert run("openclaw", ["tasks", "show", "x"]) == 1
    assert "There is no task 'x'" in capsys.readouterr().err
