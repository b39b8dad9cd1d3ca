"""acpx, a client of another maker, against the agent."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.gateway_kit import knows

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

ZURICH = {"timezone": "Europe/Zurich"}


@dataclass
class Acpx:
    """acpx with a home of its own, and the agent as what it starts."""

    script: tuple[str, str]
    programs: Path
    root: Path

    def configure(self, model_url: str, **more: Any) -> None:
        config: dict[str, Any] = {
            "dataflow": {"mode": "off"},
            "models": {
                "providers": {
                    "acme": {
                        "baseUrl": f"{model_url}/v1",
                        "apiKey": "acme-key-0123456789",
                        "api": "openai-completions",
                        "models": [{"id": "scripted"}],
                    }
                }
            },
            "agents": {"defaults": {"model": "acme/scripted"}},
        } | more
        (self.root / "state" / "openclaw.json").write_text(json.dumps(config))

    def servers(self, *entries: dict[str, Any]) -> str:
        path = self.root / "mcp.json"
        path.write_text(json.dumps({"mcpServers": list(entries)}))
        return str(path)

    @property
    def environ(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k == "PATH" or k[:3] == "COV"}
        state = str(self.root / "state")
        return {**kept, "HOME": str(self.root), "OPENCLAW_STATE_DIR": state}

    def command(self, *words: str) -> list[str]:
        agent = f"{self.programs / 'openclaw'} acp"
        place = str(self.root / "project")
        return [*self.script, "--agent", agent, "--cwd", place, "--ttl", "5", *words]

    async def run(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        with anyio.fail_after(180):
            return await anyio.run_process(self.command(*words), env=self.environ, check=False)


@pytest.fixture
def acpx(node_packages: Any, programs: Path, tmp_path: Path) -> Acpx:
    for name in ("state", "project"):
        (tmp_path / name).mkdir(mode=0o700)
    return Acpx(node_packages.script("acpx/dist/cli.js"), programs, tmp_path)


def messages(ran: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    assert ran.returncode == 0, (ran.stdout + ran.stderr).decode()
    return [json.loads(line) for line in ran.stdout.splitlines() if line.startswith(b"{")]


def updates(said: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    found = [one["params"]["update"] for one in said if one.get("method") == "session/update"]
    return [one for one in found if one["sessionUpdate"] == kind]


def text(said: list[dict[str, Any]]) -> str:
    return "".join(one["content"]["text"] for one in updates(said, "agent_message_chunk"))


async def test_a_tool_of_the_clients_server_is_called_and_a_dead_one_is_no_matter(
    acpx: Acpx,
) -> None:
    servers = acpx.servers(
        {"name": "time", "command": str(acpx.programs / "mcp-server-time"), "args": [], "env": []},
        {"name": "dead", "command": "/bin/false", "args": [], "env": []},
    )
    steps = [
        Step(text="Looking.", calls=(("mcp_time_get_current_time", ZURICH),)),
        Step(text="It is noon."),
    ]
    async with scripted_model(steps) as model:
        acpx.configure(model.url)
        time_server, project = acpx.programs / "mcp-server-time", acpx.root / "project"
        knows(acpx.root / "state", time_server, cwd=project)
        ran = await acpx.run(
            "--approve-all", "--format", "json", "--mcp-config", servers, "exec", "What time?"
        )
    said = messages(ran)
    assert text(said) == "Looking.It is noon."
    (done,) = updates(said, "tool_call_update")
    assert done["status"] == "completed"
    assert "Europe/Zurich" in done["content"][0]["content"]["text"]
    assert said[-1]["result"]["stopReason"] == "end_turn"
    assert "EXTERNAL_UNTRUSTED_CONTENT" in model.requests[1].last_text


@pytest.mark.parametrize(
    ("option", "status"), [("--approve-all", "completed"), ("--deny-all", "failed")]
)
async def test_the_client_answers_for_the_person(acpx: Acpx, option: str, status: str) -> None:
    (acpx.root / "project" / "notes.txt").write_text("buy milk")
    steps = [Step(calls=(("read", {"path": "notes.txt"}),)), Step(text="So be it.")]
    async with scripted_model(steps) as model:
        acpx.configure(model.url, tools={"ask": ["read"]})
        ran = await acpx.run(option, "--format", "json", "exec", "Notes?")
    said = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith(b"{")]
    asked = [one for one in said if one.get("method") == "session/request_permission"]
    assert len(asked) == 1
    assert updates(said, "tool_call_update")[-1]["status"] == status
    assert ("buy milk" in model.requests[1].last_text) is (status == "completed")


async def test_a_session_goes_on_from_prompt_to_prompt(acpx: Acpx) -> None:
    async with scripted_model([Step(text="Hello, Ann."), Step(text="You are Ann.")]) as model:
        acpx.configure(model.url)
        created = await acpx.run("sessions", "new")
        assert created.returncode == 0, created.stderr
        await acpx.run("--approve-all", "I am Ann.")
        second = await acpx.run("--approve-all", "--format", "quiet", "Who am I?")
        closed = await acpx.run("sessions", "close")
    assert b"You are Ann." in second.stdout
    assert "I am Ann." in json.dumps(model.requests[1].body)
    assert closed.returncode == 0, closed.stderr


async def test_cancelling_ends_the_prompt(acpx: Acpx) -> None:
    async with scripted_model([Step(text="First."), Step(hang=True)]) as model:
        acpx.configure(model.url)
        await acpx.run("sessions", "new")
        await acpx.run("--approve-all", "Hi.")
        stopped: list[subprocess.CompletedProcess[bytes]] = []
        told: list[subprocess.CompletedProcess[bytes]] = []

        async def ask() -> None:
            stopped.append(await acpx.run("--approve-all", "--format", "json", "Wait."))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            with anyio.fail_after(120):
                while len(model.requests) < 2:  # noqa: ASYNC110 - another process asks the model
                    await anyio.sleep(0.05)
            told.append(await acpx.run("cancel"))
        await acpx.run("sessions", "close")
    assert told[0].returncode == 0, told[0].stderr
    assert b'"stopReason":"cancelled"' in stopped[0].stdout
