"""A credential that stands in the configuration is told of where it helps, not with every command."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw.config.paths import StatePaths
from openclaw.gateway.lock import gateway_lock

REMINDER = "MCP server 'hub' has plaintext credentials in config"


@pytest.fixture
def state(home: Path) -> Path:
    path = home / ".openclaw"
    path.mkdir(mode=0o700)
    server = {"command": "true", "env": {"HUB_TOKEN": "abcdef123456"}, "lazy": True}
    config = path / "openclaw.json"
    config.write_text(json.dumps({"mcp": {"servers": {"hub": server}}}))
    config.chmod(0o600)
    return path


def told(*arguments: str, typed: str = "") -> int:
    """How often the command tells of it."""
    command = [sys.executable, "-m", "openclaw", *arguments]
    done = subprocess.run(
        command, input=typed, capture_output=True, text=True, check=False, timeout=60
    )
    assert "abcdef123456" not in done.stdout + done.stderr
    return done.stderr.count(REMINDER)


@pytest.mark.parametrize(
    "command",
    [
        ["status"],
        ["sessions", "list"],
        ["models", "list"],
        ["mcp", "list"],
        ["secrets", "check"],
        ["agent", "-m", "hello", "--agent", "nobody"],
        ["gateway", "stop"],
    ],
)
@pytest.mark.usefixtures("state")
def test_what_is_run_many_times_a_day_does_not_tell(command: list[str]) -> None:
    assert told(*command) == 0


@pytest.mark.usefixtures("state")
def test_a_chat_tells_once() -> None:
    assert told("chat", typed="/model\n/session other\n/model\n") == 1


def test_the_gateway_tells_once(state: Path) -> None:
    with gateway_lock(StatePaths(state).gateway_lock):  # so that it ends by itself
        assert told("gateway", "run") == 1


@pytest.mark.usefixtures("state")
def test_an_editor_s_agent_tells_once() -> None:
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": 1}},
        {"id": 2, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
    ]
    command = [sys.executable, "-m", "openclaw", "acp"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as editor:
        assert editor.stdin is not None
        assert editor.stdout is not None
        for one in asked:
            editor.stdin.write(json.dumps({"jsonrpc": "2.0", **one}) + "\n")
            editor.stdin.flush()
            assert "result" in editor.stdout.readline()
        assert editor.communicate(timeout=60)[1].count(REMINDER) == 1


@pytest.mark.usefixtures("state")
def test_a_check_of_the_configuration_tells() -> None:
    assert told("config", "validate") == 1
