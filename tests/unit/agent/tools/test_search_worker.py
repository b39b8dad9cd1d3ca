"""The searching process, from inside."""

import io
import json
import os
from pathlib import Path

import pytest

from openclaw.agent.tools import search_worker
from openclaw.agent.tools.search_worker import main, search
from openclaw.core.errors import ToolFailure


def ask(workspace: Path, pattern: str, **more: object) -> str:
    request = {
        "root": str(workspace),
        "path": ".",
        "pattern": pattern,
        "glob": "",
        "literal": False,
        "ignore_case": False,
        "most": 5,
    }
    return "\n".join(filter(None, search({**request, **more})))


def test_it_looks_into_text_files_alone(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_worker, "MAX_FILE_BYTES", 10)
    (workspace / "d").mkdir()
    (workspace / "d" / "a.txt").write_text("x\n")
    (workspace / "b.py").write_text("x\n")
    (workspace / "big").write_text("x" * 11)
    (workspace / "binary").write_bytes(b"x\0")
    (workspace / "node_modules").mkdir()
    (workspace / "node_modules" / "c").write_text("x")
    (workspace / "link").symlink_to("/etc/passwd")
    os.mkfifo(workspace / "pipe")
    assert ask(workspace, "x") == "b.py:1: x\nd/a.txt:1: x"
    assert ask(workspace, "X", ignore_case=True, glob="*.py") == "b.py:1: x"
    assert ask(workspace, "x", path="d") == "d/a.txt:1: x"
    assert ask(workspace, "x", path="big") == "(no line matches)"


def test_it_stops_at_its_bounds(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (workspace / name).write_text("x\nx\nx\n")
    assert ask(workspace, "x").endswith("b:2: x\n[there are more; narrow the search]")
    assert ask(workspace, "x", most=9).endswith("c:3: x")
    monkeypatch.setattr(search_worker, "MAX_FILES", 2)
    assert "stopped after 2 files" in ask(workspace, "y")


def test_a_directory_that_cannot_be_read_is_passed_over(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "locked").mkdir()
    (workspace / "open").write_text("x")
    listdir = os.listdir

    def guarded(directory: int) -> list[str]:
        names = listdir(directory)
        if not names:
            raise PermissionError
        return names

    monkeypatch.setattr(search_worker.os, "listdir", guarded)
    assert ask(workspace, "x") == "open:1: x"


@pytest.mark.parametrize("pattern", ["(", "[", "*", "(?P<x"])
def test_what_is_no_pattern_is_explained(workspace: Path, pattern: str) -> None:
    with pytest.raises(ToolFailure, match="not a regular expression"):
        ask(workspace, pattern)
    assert ask(workspace, pattern, literal=True) == "(no line matches)"


@pytest.mark.parametrize(("path", "key"), [(".", "text"), ("..", "error")])
def test_a_request_is_answered_in_json(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, path: str, key: str
) -> None:
    request = {"root": str(workspace), "path": path, "pattern": "x", "glob": "", "most": 1}
    request |= {"literal": False, "ignore_case": False}
    answer = io.StringIO()

    def unlimited() -> None:
        """The test's own process keeps its memory."""

    monkeypatch.setattr(search_worker, "_limit_memory", unlimited)
    monkeypatch.setattr(search_worker.sys, "stdin", io.StringIO(json.dumps(request)))
    monkeypatch.setattr(search_worker.sys, "stdout", answer)
    main()
    assert key in json.loads(answer.getvalue())
