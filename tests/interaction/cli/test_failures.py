"""Whatever keeps a command from its work is told in words, with the exit code that stands for it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_server import server_entry


@pytest.fixture
def state(home: Path) -> Path:
    path = home / ".openclaw"
    path.mkdir(mode=0o700)
    return path


def write(state: Path, config: dict[str, Any]) -> None:
    path = state / "openclaw.json"
    path.write_text(json.dumps(config))
    path.chmod(0o600)


def openclaw(*arguments: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "openclaw", *arguments]
    done = subprocess.run(command, input="hello\n", capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


COMMANDS = [["agent", "-m", "hello"], ["chat"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_secret_that_is_not_there(state: Path, command: list[str]) -> None:
    provider = {
        "baseUrl": "http://127.0.0.1:9/v1",
        "apiKey": "secret://env/NOT_SET",
        "models": [{"id": "m"}],
    }
    write(state, {"models": {"providers": {"acme": provider}}})
    code, said = openclaw(*command)
    assert (code, said.count("NOT_SET is not set")) == (1, 1)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_damaged_store(state: Path, command: list[str]) -> None:
    write(state, {})
    (state / "sessions.db").write_bytes(b"not a database" * 500)
    code, said = openclaw(*command)
    assert (code, said.count("is damaged")) == (1, 1)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_store_that_cannot_be_opened(state: Path, command: list[str]) -> None:
    write(state, {})
    (state / "sessions.db").mkdir()
    code, said = openclaw(*command)
    assert (code, said.count("unable to open")) == (1, 1)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_agent_that_is_not_there(state: Path, command: list[str]) -> None:
    write(state, {})
    code, said = openclaw(*command, "--agent", "nobody")
    assert code == 1
    assert "There is no agent 'nobody'\n  Available: main" in said


@pytest.mark.parametrize("command", COMMANDS)
def test_a_configuration_that_is_refused(state: Path, command: list[str]) -> None:
    write(state, {"agents": {"defaults": {"workspaze": "x"}}})
    code, said = openclaw(*command)
    assert (code, said.count("agents.defaults.workspaze")) == (2, 1)


def test_a_file_that_cannot_be_sent(state: Path) -> None:
    write(state, {})
    code, said = openclaw("agent", "-m", "look", "--image", "missing.png")
    assert (code, said.count("missing.png")) == (2, 1)


def test_a_state_directory_that_is_a_file(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(state, {})
    monkeypatch.setenv("OPENCLAW_CONFIG_PATH", str(state / "openclaw.json"))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path / "file"))
    code, said = openclaw("agent", "-m", "hello")
    assert code == 1
    assert said.startswith(f"openclaw: {tmp_path}/file is a file, not a directory\n  Move")


WITHOUT_EXTRAS = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("xllamacpp", "google"):
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Absent())
from openclaw.cli.main import main
sys.argv[0] = "openclaw"
sys.exit(main())
"""


def without_extras(*arguments: str, **environ: str) -> tuple[int, str]:
    command = [sys.executable, "-c", WITHOUT_EXTRAS, *arguments]
    variables = {**os.environ, "OLLAMA_HOST": "127.0.0.1:9", **environ}
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=variables,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.usefixtures("state")
def test_without_any_model_the_person_is_told_how_to_get_one() -> None:
    code, said = without_extras("agent", "hi")
    assert code == 1
    assert "Run openclaw init" in said
    assert "MissingExtra" not in said
    assert '[local]"' in said


@pytest.mark.usefixtures("state")
def test_a_provider_whose_library_is_missing_is_not_ready() -> None:
    code, said = without_extras("models", "status", GEMINI_API_KEY="k-0123456789")
    assert code == 1
    assert "google/" in said
    assert "not installed: " in said
    assert '[google]"' in said
    code, said = without_extras(
        "models", "status", GEMINI_API_KEY="k-0123456789", OPENROUTER_API_KEY="k-9876543210"
    )
    assert code == 0
    assert "openrouter/" in said


FULL = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0));"
"""Nothing can be written any more, as on a full disk."""


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gateway", "run", "--port", "0"], "Cannot write to the disk: "),
        (["config", "set", "gateway.port", "1"], "Cannot write "),
        (["doctor"], "MCP server 'fake' starts"),
    ],
)
def test_a_full_disk_is_told_in_words(home: Path, words: list[str], told: str) -> None:
    state = home / ".openclaw"
    state.mkdir(mode=0o700)
    (state / "logs").mkdir(mode=0o700)
    config = state / "openclaw.json"
    config.write_text(json.dumps({"mcp": {"servers": {"fake": server_entry({})}}}))
    config.chmod(0o600)
    code = f"{FULL} from openclaw.cli.main import run; sys.exit(run('openclaw', {words!r}))"
    # What measures coverage has no room either.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert told in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
