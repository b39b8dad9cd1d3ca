"""`openclaw logs`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.cli.main import run

Captured = pytest.CaptureFixture[str]


def line(number: int) -> str:
    return json.dumps({"time": "T", "level": "info", "message": f"line {number}"}) + "\n"


@pytest.fixture
def log(home: Path) -> Path:
    path = home / ".openclaw" / "logs" / "gateway.log"
    path.parent.mkdir(mode=0o700, parents=True)
    return path


def test_the_last_lines_are_printed_for_a_person(log: Path, capsys: Captured) -> None:
    assert run("openclaw", ["logs"]) == 1
    assert "gateway start" in capsys.readouterr().err
    log.write_text("".join(map(line, range(5))) + "not JSON \x1b[31m\n")
    assert run("openclaw", ["logs", "-n", "2"]) == 0
    assert capsys.readouterr().out == "T info    line 4\nnot JSON \\x1b[31m\n"


def test_the_log_is_shown_although_the_configuration_is_broken(log: Path, capsys: Captured) -> None:
    config = log.parents[1] / "openclaw.json"
    config.write_text("{")
    assert run("openclaw", ["logs"]) == 2
    log.write_text(line(1))
    capsys.readouterr()
    assert run("openclaw", ["logs"]) == 0
    told = capsys.readouterr()
    assert told.out == "T info    line 1\n"
    assert told.err == f"openclaw: Warning: 1 problem in {config}; showing {log} anyway\n"


def test_new_lines_are_followed_also_into_a_new_file(log: Path) -> None:
    log.write_text(line(1) + line(2))
    command = [sys.executable, "-m", "openclaw", "logs", "-f"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as following:
        assert following.stdout is not None
        try:
            assert [following.stdout.readline() for _ in "12"][-1] == "T info    line 2\n"
            with log.open("a") as file:
                file.write(line(3))
            assert following.stdout.readline() == "T info    line 3\n"
            log.unlink()
            log.write_text(line(4))
            assert following.stdout.readline() == "T info    line 4\n"
        finally:
            following.terminate()
