"""Jobs of a day in a terminal, done by a real process through our tools, and checked by themselves."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from tests.support.terminal_tasks import TASKS, Task

from openclaw.testing.scripted_model import Step, scripted_model

PROGRAMS = ("bash", "git", "sqlite3", "openssl", "cc", "make", "jq", "perl", "zip", "xz", "patch")

pytestmark = [
    pytest.mark.warm_start,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in PROGRAMS), reason="needs the usual programs"
    ),
]


def shell(command: str, place: Path) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(["bash", "-c", command], cwd=place, capture_output=True, check=False)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
async def test_the_tools_suffice_for(task: Task, home: Path) -> None:
    place = home / "task"
    for name, text in task.files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    place.mkdir(exist_ok=True)
    made = shell(task.setup, place)
    assert made.returncode == 0, made.stderr
    assert shell(task.check, place).returncode != 0, "it is done before anything was done"
    steps = [Step(calls=calls) for calls in task.steps]
    async with scripted_model([*steps, Step(text="Done.")]) as model:
        state = home / ".openclaw"
        state.mkdir(mode=0o700)
        provider = {"baseUrl": f"{model.url}/v1", "apiKey": "k", "models": [{"id": "m"}]}
        # Nobody is there to be asked about what only files say, such as a program's name.
        config = {
            "models": {"providers": {"acme": provider}},
            "tools": {"exec": "allow"},
            "dataflow": {"mode": "log"},
        }
        (state / "openclaw.json").write_text(json.dumps(config))
        (state / "openclaw.json").chmod(0o600)
        command = [sys.executable, "-m", "openclaw", "agent", task.order, "-C", str(place)]
        done = await anyio.run_process(command, check=False)
        told = [str(request.body["messages"][-1]) for request in model.requests]
    assert done.stdout.strip() == b"Done.", done.stdout.decode()
    checked = shell(task.check, place)
    assert checked.returncode == 0, (checked.stdout, checked.stderr, told)
