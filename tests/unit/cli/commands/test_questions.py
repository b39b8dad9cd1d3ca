"""`openclaw questions` reads and answers what any process on the store was asked."""

import json
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from tests.unit.sessions.test_waiting_questions import new

from openclaw.cli.main import run
from openclaw.config.paths import StatePaths
from openclaw.core.clock import SystemClock
from openclaw.sessions.open import open_store
from openclaw.sessions.waiting_questions import EXPIRE_MS, add_question


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path))
    monkeypatch.delenv("OPENCLAW_CONFIG_PATH", raising=False)
    return tmp_path


def asked(state: Path) -> str:
    async def written() -> str:
        now = SystemClock().now_ms()
        async with open_store("file", StatePaths(state)) as store:
            question = replace(new(now), expires_ms=now + EXPIRE_MS)
            return (await add_question(store, question)).id

    return anyio.run(written)


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert run("openclaw", ["questions", *words]) == code
    out, err = capsys.readouterr()
    return out if code == 0 else err


def test_open_questions_are_listed_and_shown_whole(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys) == "No question waits for you.\n"
    id = asked(state)
    listed = said(capsys)
    assert listed.startswith(f"{id}  Send mail to bob@x.com? to: bob@x.com\n")
    assert "session s" in listed
    assert "to: bob@x.com" in said(capsys, "show", id)
    (row,) = json.loads(said(capsys, "list", "--json"))["questions"]
    assert (row["id"], row["state"], row["sessionKey"]) == (id, "open", "s")
    assert row["calls"][0]["arguments"] == {"to": "bob@x.com"}


@pytest.mark.parametrize(
    ("words", "outcome", "state_then"),
    [
        (["yes"], "Allowed 1 call, once.", "allowed"),
        (["no", "--reason", "Ask Ann."], "Refused 1 call.", "refused"),
    ],
)
def test_an_answer_says_what_follows(
    state: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    outcome: str,
    state_then: str,
) -> None:
    id = asked(state)
    answered = said(capsys, "answer", id, *words)
    assert answered.startswith(outcome)
    assert "openclaw agent --session-key s 'Go on.'" in answered
    assert said(capsys) == "No question waits for you.\n"
    assert f"{state_then}, asked" in said(capsys, "list", "--all")
    assert "already been answered" in said(capsys, "answer", id, "yes", code=1)


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (["nothere", "yes"], 1, "There is no question 'nothere'"),
        (["{id}"], 2, "yes or no, is missing"),
        (["{id}", "yes", "--reason", "x"], 2, "--reason: is only for the answer no"),
    ],
)
def test_what_is_no_answer_is_refused(
    state: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: int, problem: str
) -> None:
    id = asked(state)
    words = [word.replace("{id}", id) for word in words]
    assert problem in said(capsys, "answer", *words, code=code)
    assert id in said(capsys)


def test_ids_are_completed(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    id = asked(state)
    line = "\x1f".join(("questions", "answer", ""))
    assert run("openclaw", ["completion", "bash", "--after", line]) == 0
    assert capsys.readouterr().out == f"{id}\n"
