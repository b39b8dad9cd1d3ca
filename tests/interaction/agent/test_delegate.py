"""Tasks that an agent gives to copies of itself, and to others under the rules of both."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model


def giving(*tasks: str, **more: Any) -> tuple[tuple[str, dict[str, Any]], ...]:
    return (("delegate", {"tasks": list(tasks), **more}),)


RULES = [
    Step(when="split it", role="user", calls=giving("Count the apples.", "Fail, please.")),
    Step(when="ask the other", role="user", calls=giving("Count the apples.", agent="other")),
    Step(when="too many", role="user", calls=giving(*["x"] * 9)),
    Step(when="apples", role="user", calls=(("list", {}),)),
    Step(when="Fail", role="user", status=401, message="bad key"),
    Step(when="apples.txt", role="tool", text="There are 7 apples."),
    Step(role="tool", text="They said: {last}"),
]


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model(rules=RULES, default=Step(text="Hello.")) as running:
        yield running


def configure(home: Path, model: ScriptedModel, agents: dict[str, Any], *models: str) -> Path:
    state = home / ".openclaw"
    state.mkdir(mode=0o700)
    provider = {
        "baseUrl": f"{model.url}/v1",
        "apiKey": "k-0123456789",
        "models": [{"id": name} for name in models or ["m"]],
    }
    config = {"models": {"providers": {"acme": provider}}, "agents": agents}
    (state / "openclaw.json").write_text(json.dumps(config))
    (state / "openclaw.json").chmod(0o600)
    project = home / "project"
    project.mkdir()
    (project / "apples.txt").write_text("7")
    return project


async def openclaw(*words: str, cwd: Path) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "openclaw", *words]
    return await anyio.run_process(command, check=False, cwd=cwd)


def offered(model: ScriptedModel, text: str) -> set[str]:
    """The tools of the request whose last message is this."""
    for request in model.requests:
        if request.body["messages"][-1].get("content") == text:
            return {tool["function"]["name"] for tool in request.body["tools"]}
    raise AssertionError(text)


async def test_tasks_run_in_conversations_of_their_own_and_their_answers_come_back(
    home: Path, model: ScriptedModel
) -> None:
    project = configure(home, model, {})
    done = await openclaw("agent", "split it", "--session-key", "main", cwd=project)
    said = done.stdout.decode()
    assert "There are 7 apples." in said, done.stderr
    assert "It failed:" in said
    assert "Source: Subagent" in said  # the model read it framed
    assert "apples.txt" not in said  # and nothing of what they did
    parent, child = offered(model, "split it"), offered(model, "Count the apples.")
    assert "delegate" in parent
    assert not {"delegate", "cron", "remember", "update_plan"} & child
    assert {"read", "list", "write"} <= child
    rows = json.loads((await openclaw("sessions", "list", "--json", cwd=project)).stdout)
    keys = sorted(row["key"] for row in rows["sessions"])
    assert keys[0] == "main"
    assert [key.rsplit("-", 1)[1] for key in keys[1:]] == ["1", "2"]
    assert all(key.startswith("main/") for key in keys[1:])


@pytest.mark.parametrize("allowed", [True, False])
async def test_another_agent_works_under_the_rules_of_both(
    home: Path, model: ScriptedModel, allowed: bool
) -> None:
    main: dict[str, Any] = {
        "id": "main",
        "tools": {"deny": ["write"]},
        "subagents": {"allowAgents": ["other"] if allowed else []},
    }
    other = {"id": "other", "tools": {"exec": "allow", "deny": ["search"]}}
    project = configure(home, model, {"list": [main, other]})
    done = await openclaw("agent", "ask the other", cwd=project)
    if not allowed:
        assert b"You may not give tasks to 'other'" in done.stdout
        return
    assert b"There are 7 apples." in done.stdout
    child = offered(model, "Count the apples.")
    # Neither what its own rules deny, nor what those of the giver deny.
    assert not {"write", "search"} & child
    assert "read" in child


async def test_a_list_that_is_too_long_is_refused(home: Path, model: ScriptedModel) -> None:
    done = await openclaw("agent", "too many", cwd=configure(home, model, {}))
    assert b"Give `tasks` as a list of 1 to 8 texts." in done.stdout


async def test_a_model_is_chosen_for_a_turn_or_for_a_chat(home: Path, model: ScriptedModel) -> None:
    project = configure(home, model, {}, "m", "third")
    await openclaw("agent", "--model", "acme/second", "hi", cwd=project)
    command = [sys.executable, "-m", "openclaw", "chat"]
    typed = b"/model acme/third\nhi\n/model default\nhi\n/model\n"
    done = await anyio.run_process(command, input=typed, check=False, cwd=project)
    assert b"Also configured: acme/m" in done.stdout + done.stderr
    asked = [request.body["model"] for request in model.requests]
    assert asked == ["second", "third", "m"]


async def test_tasks_may_go_to_another_model(home: Path, model: ScriptedModel) -> None:
    subagents = {"model": "acme/small", "thinking": "low", "maxConcurrent": 1}
    project = configure(home, model, {"defaults": {"subagents": subagents}})
    await openclaw("agent", "split it", cwd=project)
    asked = {str(r.body["messages"][-1].get("content")): r.model for r in model.requests}
    assert asked["split it"] == "m"
    assert asked["Count the apples."] == "small"
