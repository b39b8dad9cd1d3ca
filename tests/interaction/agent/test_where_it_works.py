"""In which directory the agent works, and what it is told of its surroundings."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from openclaw.config.merge import effective_agents
from openclaw.config.schema import Config
from openclaw.runtime.settings import time_zone
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

RULES = [
    Step(when="write", role="user", calls=(("write", {"path": "a.txt", "content": "b"}),)),
    Step(role="tool", text="It is there."),
]


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    # What is piped in counts as outside content, so writing has to be what the user wants.
    wanted = {"native/write": ()}
    async with scripted_model(rules=RULES, default=Step(text="Hello."), intent=wanted) as running:
        yield running


@pytest.fixture
def state(home: Path, model: ScriptedModel) -> Path:
    path = home / ".openclaw"
    path.mkdir(mode=0o700)
    provider = {"baseUrl": f"{model.url}/v1", "apiKey": "k-0123456789", "models": [{"id": "m"}]}
    config = {
        "models": {"providers": {"acme": provider}},
        "agents": {"defaults": {"userTimezone": "Europe/Berlin"}},
    }
    (path / "openclaw.json").write_text(json.dumps(config))
    (path / "openclaw.json").chmod(0o600)
    return path


async def openclaw(
    *arguments: str, cwd: Path, stdin: str = ""
) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "openclaw", *arguments]
    return await anyio.run_process(command, input=stdin.encode(), check=False, cwd=cwd)


def told(model: ScriptedModel) -> str:
    return json.dumps(model.requests[0].body, ensure_ascii=False)


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("way", [["agent", "write it"], ["chat"]])
async def test_it_works_in_the_directory_that_the_person_stands_in(
    tmp_path: Path, model: ScriptedModel, way: list[str]
) -> None:
    here = tmp_path / "project"
    here.mkdir()
    (here / "CLAUDE.md").write_text("Use tabs.")
    done = await openclaw(*way, cwd=here, stdin="write it\n")
    assert done.returncode == 0, done.stderr
    assert (here / "a.txt").read_text() == "b"
    for words in (str(here), "Use tabs.", "(time zone Europe/Berlin)", "Nobody can be asked"):
        assert words in told(model)


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize("option", ["-C", "--workspace"])
async def test_another_directory_can_be_named(tmp_path: Path, option: str) -> None:
    there = tmp_path / "there"
    there.mkdir()
    done = await openclaw("agent", option, "there", "write it", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (there / "a.txt").read_text() == "b"


@pytest.mark.usefixtures("state")
async def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    done = await openclaw("agent", "-C", "nowhere", "hi", cwd=tmp_path)
    assert (done.returncode, b"is not a directory" in done.stderr) == (2, True)


@pytest.mark.parametrize("place", [".", "..", ".openclaw"])
async def test_who_stands_at_home_or_above_it_works_in_the_configured_directory(
    home: Path, state: Path, place: str
) -> None:
    done = await openclaw("agent", "write it", cwd=home / place)
    assert done.returncode == 0, done.stderr
    assert (state / "workspace" / "a.txt").read_text() == "b"


@pytest.mark.parametrize(
    ("zone", "environ", "expected"),
    [
        ("Asia/Tokyo", {"TZ": "Europe/Paris"}, "Asia/Tokyo"),
        (None, {"TZ": ":Europe/Paris"}, "Europe/Paris"),
    ],
)
def test_the_time_zone_is_the_configured_one_or_the_machines(
    zone: str | None, environ: dict[str, str], expected: str
) -> None:
    defaults: dict[str, Any] = {"userTimezone": zone} if zone else {}
    config = Config.model_validate({"agents": {"defaults": defaults}})
    assert time_zone(effective_agents(config)["main"], environ) == expected


def test_a_time_zone_that_says_nothing_is_passed_over() -> None:
    from zoneinfo import ZoneInfo

    agent = effective_agents(Config())["main"]
    assert ZoneInfo(time_zone(agent, {"TZ": "CET-1CEST"}))


@pytest.mark.usefixtures("state")
async def test_what_a_turn_changed_is_undone_by_a_message(tmp_path: Path) -> None:
    here = tmp_path / "project"
    here.mkdir()
    (here / "a.txt").write_text("before")
    await openclaw("agent", "write it", cwd=here)
    assert (here / "a.txt").read_text() == "b"
    done = await openclaw("agent", "-c", "/undo", cwd=here)
    assert "- a.txt: restored" in done.stdout.decode()
    assert (here / "a.txt").read_text() == "before"
    done = await openclaw("agent", "-c", "/redo", cwd=here)
    assert "- a.txt: restored" in done.stdout.decode()
    assert (here / "a.txt").read_text() == "b"


@pytest.mark.usefixtures("state")
async def test_a_chat_continues_only_chats_of_its_directory(
    tmp_path: Path, model: ScriptedModel
) -> None:
    here, there = tmp_path / "project", tmp_path / "other"
    here.mkdir()
    there.mkdir()
    (here / "a.txt").write_text("before")
    await openclaw("chat", cwd=here, stdin="write it\n")
    for command in (("chat",), ("agent", "-c")):
        done = await openclaw(*command, cwd=there, stdin="/undo\n")
        assert b"There is nothing to undo" in done.stdout
    assert (here / "a.txt").read_text() == "b"
    await openclaw("agent", "one shot", cwd=here)
    done = await openclaw("chat", cwd=here, stdin="/diff\n/undo\nhello\n")
    assert b"changed a.txt" in done.stderr
    assert b"- before\n+ b" in done.stderr
    assert b"- a.txt: restored" in done.stdout
    assert (here / "a.txt").read_text() == "before"
    said = str(model.requests[-1].body["messages"])
    assert "write it" in said
    assert "one shot" not in said
    await openclaw("agent", "-c", "which one?", cwd=here)
    assert "hello" in str(model.requests[-1].body["messages"])


async def test_skills_are_chosen_as_openclaw_has_it(home: Path) -> None:
    for name in ("one", "two", "three"):
        folder = home / "more" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Skill {name}.\n---\n")
    state, project = home / ".openclaw", home / "project"
    state.mkdir(mode=0o700)
    project.mkdir()
    async with scripted_model(default=Step(text="Done.")) as model:
        provider = {"baseUrl": f"{model.url}/v1", "apiKey": "k", "models": [{"id": "m"}]}
        config = {
            "models": {"providers": {"acme": provider}},
            "skills": {
                "load": {"extraDirs": ["~/more"], "watch": True},
                "entries": {"two": {"enabled": False, "apiKey": "x"}},
            },
            "agents": {"defaults": {"skills": ["one", "two"], "thinkingDefault": "low"}},
        }
        (state / "openclaw.json").write_text(json.dumps(config))
        (state / "openclaw.json").chmod(0o600)
        done = await openclaw("agent", "go", cwd=project)
        prompt = json.dumps(model.requests[0].body["messages"])
    assert "- one: Skill one." in prompt, done.stderr
    assert "Skill two" not in prompt
    assert "Skill three" not in prompt
    assert b"thinkingDefault" not in done.stderr
