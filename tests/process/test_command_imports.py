"""A command that runs no turn itself imports none of the large libraries that a turn needs."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.anyio

LARGE = {"anthropic", "genai_prices", "numpy", "openai", "prompt_toolkit", "pydantic_ai"}
SERVES = {"uvicorn"}
IMPORTED = """
import sys
from openclaw.cli.main import run
code = run("openclaw", sys.argv[1:])
print("\\n", code, *{name.partition(".")[0] for name in sys.modules})
"""


def imported_by(directory: Path, environ: Mapping[str, str], *words: str) -> tuple[int, set[str]]:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED, *words],
        env=dict(environ),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    code, *packages = done.stdout.splitlines()[-1].split()
    return int(code), set(packages)


@pytest.mark.parametrize(
    "command",
    ["--version", "config path", "config show", "mcp list", "sessions", "status --json", "usage"],
)
async def test_a_command_that_runs_no_turn_imports_nothing_large(
    command: str, tmp_path: Path
) -> None:
    installation = Installation(tmp_path)
    installation.configure("http://127.0.0.1:9")
    code, packages = imported_by(tmp_path, installation.environ(), *command.split())
    assert (code, packages & (LARGE | SERVES)) == (0, set())


async def test_an_order_through_a_gateway_imports_nothing_large(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    async with scripted_model(default=Step(text="Hello.")) as model:
        installation.configure(model.url)
        async with installation.here():
            code, packages = await anyio.to_thread.run_sync(
                imported_by, tmp_path, installation.environ(), "agent", "Hi"
            )
    assert (code, packages & (LARGE | SERVES)) == (0, set())
