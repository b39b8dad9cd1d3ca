"""Commands that a model runs through `openclaw agent`, in the sandbox of the machine."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from tests.support.terminal import on_terminal

from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

RULES = [
    Step(when="make it", role="user", calls=(("exec", {"command": "echo made > a.txt; pwd"}),)),
    Step(
        when="in the background",
        role="user",
        calls=(("exec", {"command": "echo said; sleep 0.1", "background": True}),),
    ),
    Step(when="Job 1 is running", role="tool", calls=(("jobs", {"action": "wait", "job": "1"}),)),
    Step(role="tool", text="It said: {last}"),
]


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model(rules=RULES, default=Step(text="Hello.")) as running:
        yield running


def configure(home: Path, model: ScriptedModel, tools: dict[str, Any]) -> Path:
    state = home / ".openclaw"
    state.mkdir(mode=0o700)
    provider = {"baseUrl": f"{model.url}/v1", "apiKey": "k-0123456789", "models": [{"id": "m"}]}
    config = {"models": {"providers": {"acme": provider}}, "tools": tools}
    (state / "openclaw.json").write_text(json.dumps(config))
    (state / "openclaw.json").chmod(0o600)
    project = home / "project"
    project.mkdir()
    return project


async def openclaw(text: str, cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "openclaw", "agent", "-m", text]
    return await anyio.run_process(command, check=False, cwd=cwd)


def offered(model: ScriptedModel) -> list[str]:
    tools: list[dict[str, Any]] = model.requests[0].body.get("tools", [])
    return [tool["function"]["name"] for tool in tools]


async def test_an_allowed_command_works_where_the_person_stands(
    home: Path, model: ScriptedModel
) -> None:
    project = configure(home, model, {"exec": "allow"})
    done = await openclaw("make it", project)
    assert (project / "a.txt").read_text() == "made\n"
    assert str(project) in done.stdout.decode()
    assert {"exec", "jobs", "read", "write"} <= set(offered(model))


async def test_a_command_in_the_background_is_waited_for(home: Path, model: ScriptedModel) -> None:
    project = configure(home, model, {"exec": "allow"})
    done = await openclaw("do it in the background", project)
    assert "said" in done.stdout.decode()
    assert "exit code 0" in done.stdout.decode()


@pytest.mark.parametrize("tools", [{}, {"exec": "ask"}, {"exec": "off"}])
async def test_where_nobody_can_be_asked_no_command_runs(
    home: Path, model: ScriptedModel, tools: dict[str, Any]
) -> None:
    project = configure(home, model, tools)
    await openclaw("make it", project)
    assert ("exec" in offered(model)) is (tools.get("exec") != "off")
    assert not (project / "a.txt").exists()


@pytest.mark.parametrize(("answer", "made"), [("y", True), ("n", False)])
async def test_a_person_at_a_terminal_is_asked_by_default(
    home: Path, model: ScriptedModel, answer: str, made: bool
) -> None:
    project = configure(home, model, {})
    environ = {"HOME": str(home), "PATH": os.environ["PATH"], "TERM": "xterm-256color"}
    if "PYTHONPATH" in os.environ:
        environ["PYTHONPATH"] = os.environ["PYTHONPATH"]

    def at_terminal() -> None:
        command = [sys.executable, "-m", "openclaw", "agent", "-C", str(project), "-m", "make it"]
        with on_terminal(command, environ) as terminal:
            terminal.until("$ echo made > a.txt; pwd")
            terminal.until("Allow it?")
            terminal.send(answer)
            terminal.ended()

    await anyio.to_thread.run_sync(at_terminal)
    assert (project / "a.txt").exists() is made
