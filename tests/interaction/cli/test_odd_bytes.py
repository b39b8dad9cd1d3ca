"""Bytes that are not UTF-8, on the command line and on stdin, are refused in words."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from openclaw.core.clock import SystemClock
from openclaw.sessions.sqlite.store import open_sqlite_store

ODD = b"caf\xe9"


def openclaw(*arguments: bytes, given: bytes = b"") -> tuple[int, str, str]:
    command = [os.fsencode(sys.executable), b"-m", b"openclaw", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    said = done.stderr.decode()
    assert "Traceback" not in said
    assert "could not be written" not in said
    return done.returncode, done.stdout.decode(), said


@pytest.mark.parametrize(
    "arguments",
    [
        b"agent --local -m",
        b"chat --session-key",
        b"mcp call time/now zone",
        b"mcp-server --agent",
        b"sessions show",
    ],
)
def test_an_argument_that_is_not_text_is_named(home: Path, arguments: bytes) -> None:
    code, out, said = openclaw(*arguments.split(), ODD)
    assert (code, out) == (2, "")
    assert said.count("is not UTF-8 text") == 1
    assert r"caf\xe9" in said


@pytest.mark.parametrize("option", [b"--file", b"--image", b"--config"])
def test_a_file_of_such_a_name_is_refused(home: Path, option: bytes) -> None:
    path = os.fsencode(home) + b"/" + ODD
    Path(os.fsdecode(path)).write_text("{}")
    code, _, said = openclaw(b"agent", b"--local", b"hello", option, path)
    assert code == 2
    assert "is not UTF-8 text" in said


def test_an_option_is_named_with_its_own_value(home: Path) -> None:
    code, _, said = openclaw(b"agent", b"--json", b"--file=" + ODD)
    assert (code, "--file=" in said) == (2, True)
    assert said.endswith("' is not UTF-8 text\n")


def test_a_program_that_asked_for_json_is_told_in_json(home: Path) -> None:
    code, out, _ = openclaw(b"agent", b"--json", ODD)
    assert code == 2
    assert "is not UTF-8 text" in json.loads(out)["error"]["message"]


@pytest.mark.parametrize("command", [b"agent --local -", b"chat --local"])
def test_stdin_that_is_not_text_is_refused(home: Path, command: bytes) -> None:
    code, _, said = openclaw(*command.split(), given=ODD + b"\n")
    assert (code, said.count("stdin: is not UTF-8 text")) == (2, 1)


def test_a_file_on_stdin_that_is_not_text_is_refused(home: Path) -> None:
    path = home / "latin1.txt"
    path.write_bytes(ODD + b"\n")
    with path.open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "openclaw", "chat", "--local"],
            stdin=file,
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr.count("stdin: is not UTF-8 text")) == (2, 1)
    assert "Traceback" not in done.stderr


def test_the_name_of_a_file_that_is_not_text_is_still_json(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENCLAW_CONFIG_PATH", str(home / "caf\udce9"))
    code, out, _ = openclaw(b"config", b"path", b"--json")
    assert (code, Path(json.loads(out)["path"]).name) == (0, "caf\udce9")


LETTERS = "Zoë 日本 😀"


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "utf-8"},
    ],
)
@pytest.mark.parametrize("command", ["config show", "sessions list --json", "sessions export trip"])
def test_json_is_json_in_any_locale(home: Path, locale: dict[str, str], command: str) -> None:
    state = home / ".openclaw"
    state.mkdir(mode=0o700)
    (state / "openclaw.json").write_text(
        json.dumps({"agents": {"list": [{"id": "main", "name": LETTERS}]}})
    )
    anyio.run(_titled, state / "sessions.db")
    environ = {**os.environ, "PYTHONUTF8": "0", **locale}
    done = subprocess.run(
        [sys.executable, "-m", "openclaw", *command.split()],
        capture_output=True,
        check=False,
        env=environ,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(locale.get("PYTHONIOENCODING", "ascii"))
    documents = text.splitlines() if "export" in command else [text]
    assert LETTERS in json.dumps([json.loads(one) for one in documents], ensure_ascii=False)


async def _titled(path: Path) -> None:
    async with open_sqlite_store(path, SystemClock()) as store:
        await store.set_title(await store.open_session("main", "trip"), LETTERS)
