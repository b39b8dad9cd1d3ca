"""A directory that somebody else filled: nothing in it decides which programs we run."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from openclaw.config.agent_schema import McpServerConfig
from openclaw.mcp_client.sandbox.confinement import Sandbox
from openclaw.mcp_client.sandbox.support import SandboxSupport, detect_support
from openclaw.mcp_client.transport.child_process import Program, popen
from openclaw.media.documents import output_of
from openclaw.secrets.backends.local import output_of as output_of_command

HERE = detect_support(os.environ["PATH"])
NONE = SandboxSupport(None, "left out", 0)
LANDLOCK = SandboxSupport(None, "left out", HERE.landlock)
PROOF = "proof"

pytestmark = pytest.mark.subprocess


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, in which every name that we might use leaves a file behind."""
    there = tmp_path / "project"
    (there / "node_modules" / ".bin").mkdir(parents=True)
    (there / "openclaw" / "media").mkdir(parents=True)
    proof = there / PROOF
    python = f"open({str(proof)!r}, 'w').close()\n"
    for name in ("a_server", "pip", "openclaw/__init__", "openclaw/media/__init__"):
        (there / f"{name}.py").write_text(python)
    program = there / "node_modules" / ".bin" / "a-server"
    program.write_text(f"#!/bin/sh\n: > {proof}\n")
    program.chmod(0o755)
    (there / "package.json").write_text('{"name": "x", "bin": {"a-server": "./a_server.sh"}}')
    monkeypatch.chdir(there)
    return there


@pytest.mark.parametrize("mode", ["off", "auto"])
@pytest.mark.parametrize("means", [NONE, LANDLOCK, HERE], ids=["none", "landlock", "bubblewrap"])
@pytest.mark.parametrize(
    "command", [[sys.executable, "-m", "a_server"], ["npx", "--no-install", "a-server"]]
)
def test_a_server_is_not_what_the_current_directory_says(
    hostile: Path, home: Path, means: SandboxSupport, mode: str, command: list[str]
) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"there is no {command[0]}")
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    (home / ".openclaw").mkdir()
    config = McpServerConfig.model_validate({"command": command[0], "sandbox": {"mode": mode}})
    inside = Sandbox(environ, home / ".openclaw", means=means)
    program = inside.confine(config, Program(command[0], command[1:], environ), "a", (hostile,))
    with popen(program) as process:
        process.communicate(timeout=120)
    assert process.returncode != 0
    assert not (hostile / PROOF).exists()


def test_a_server_with_a_directory_starts_there(hostile: Path, home: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    config = McpServerConfig.model_validate({"command": sys.executable, "sandbox": "off"})
    program = Program(sys.executable, ["-m", "a_server"], environ, hostile)
    with popen(Sandbox(environ, home / ".openclaw").confine(config, program, "a")) as process:
        process.communicate(timeout=60)
    assert (hostile / PROOF).exists()


async def test_our_own_programs_are_ours(hostile: Path, tmp_path: Path) -> None:
    document = tmp_path / "a.pdf"
    document.write_bytes(b"%PDF-1.4")
    limits = {"memory_bytes": 1 << 30, "cpu_seconds": 30}
    async with output_of("document", [str(document), "1000", "10"], **limits) as output:
        async for _ in output:
            pass
    home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = [sys.executable, "-c", "import os; print(os.getcwd())"]
    assert (await output_of_command(command, home, "it")).strip() == str(tmp_path)
    assert not (hostile / PROOF).exists()
