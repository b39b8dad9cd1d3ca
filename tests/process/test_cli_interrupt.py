"""Ctrl-C at a terminal, while real servers start or do not answer."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.support.fake_server import server_entry
from tests.support.mcp_server_kit import fake_tool
from tests.support.terminal import on_terminal

STUBBORN = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "open(sys.argv[1], 'w').write(str(os.getpid()))\n"
    "time.sleep(600)\n"
)


@pytest.fixture
def pid_file(home: Path, tmp_path: Path) -> Path:
    """A server that answers nothing and does not leave when it is asked to."""
    script, pid_file = tmp_path / "stubborn.py", tmp_path / "pid"
    script.write_text(STUBBORN)
    entry = {"command": sys.executable, "args": [str(script), str(pid_file)]}
    config = home / ".openclaw" / "openclaw.json"
    config.parent.mkdir(mode=0o700)
    config.write_text(json.dumps({"mcp": {"servers": {"stubborn": entry}}}))
    return pid_file


def started(pid_file: Path) -> psutil.Process:
    while not pid_file.exists() or not pid_file.read_text():
        time.sleep(0.01)
    return psutil.Process(int(pid_file.read_text()))


@pytest.mark.subprocess
def test_the_first_interrupt_is_answered_at_once_and_nothing_is_left(pid_file: Path) -> None:
    command = [sys.executable, "-m", "openclaw", "mcp", "probe"]
    with on_terminal(command, dict(os.environ)) as terminal:
        server = started(pid_file)
        terminal.until("0 of 1 answered; starting stubborn")
        terminal.type("\x03")
        terminal.until("Stopping…")
        assert terminal.ended() == 130
    server.wait(60)
    assert b"Traceback" not in terminal.everything


@pytest.mark.subprocess
def test_the_second_interrupt_leaves_without_waiting_and_nothing_is_left(pid_file: Path) -> None:
    command = [sys.executable, "-m", "openclaw", "mcp", "probe"]
    with on_terminal(command, dict(os.environ)) as terminal:
        server = started(pid_file)
        terminal.until("starting stubborn")
        terminal.type("\x03")
        terminal.until("Stopping…")
        terminal.type("\x03")
        assert terminal.ended() == -signal.SIGINT
    server.wait(60)


@pytest.mark.subprocess
def test_a_servers_words_go_to_the_log_and_are_shown_only_when_it_fails(home: Path) -> None:
    noisy = server_entry({"tools": [fake_tool("echo")], "faults": {"stderrFlood": 3}})
    failing = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no such thing')"]}
    config = home / ".openclaw" / "openclaw.json"
    config.parent.mkdir(mode=0o700)
    config.write_text(json.dumps({"mcp": {"servers": {"noisy": noisy, "failing": failing}}}))
    command = [sys.executable, "-m", "openclaw", "mcp", "probe"]
    with on_terminal(command, dict(os.environ)) as terminal:
        assert terminal.ended() == 1
        shown = terminal.everything.decode()
    assert "WARNING" not in shown
    assert "stderr line" not in shown
    assert "    | no such thing" in shown
    log = home / ".openclaw" / "logs" / "servers.log"
    assert "stderr line 1" in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


@pytest.mark.subprocess
def test_an_interrupted_turn_is_stored_as_stopped_and_nothing_is_complained_about(
    home: Path, tmp_path: Path
) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"default": {"hang": True}}))
    program = [sys.executable, "-m", "openclaw.testing.scripted_model", "--script", str(script)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as model:
        assert model.stdout is not None
        url = model.stdout.readline().strip()
        acme = {"baseUrl": f"{url}/v1", "apiKey": "x", "models": [{"id": "m"}]}
        config = home / ".openclaw" / "openclaw.json"
        config.parent.mkdir(mode=0o700)
        agents = {"defaults": {"model": "acme/m"}}
        config.write_text(json.dumps({"models": {"providers": {"acme": acme}}, "agents": agents}))
        command = [sys.executable, "-m", "openclaw", "agent", "--local", "--session-key", "k", "hi"]
        with on_terminal(command, dict(os.environ)) as terminal:
            terminal.until("thinking…")
            stored = [sys.executable, "-m", "openclaw", "sessions", "show", "k", "--json"]
            while b"user_message" not in subprocess.run(stored, capture_output=True).stdout:
                time.sleep(0.01)
            terminal.type("\x03")
            assert terminal.ended() == 130
        model.terminate()
    assert b"Warning" not in terminal.everything
    assert b"Traceback" not in terminal.everything
    shown = json.loads(subprocess.run(stored, capture_output=True, check=True).stdout)
    assert [one["kind"] for one in shown["entries"]][-1] == "turn_cancelled"
    assert not shown["unfinishedTurns"]
