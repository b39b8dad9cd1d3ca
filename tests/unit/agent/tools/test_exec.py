"""`exec`: real commands, ended with everything that they started."""

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from tests.support.loop_time import pass_time_after
from tests.unit.agent.tools.conftest import told

from openclaw.agent.tools import exec
from openclaw.agent.tools.base import NativeTools
from openclaw.agent.tools.exec import MOST_JOBS, Shells
from openclaw.agent.tools.native_tools import native_tools
from openclaw.config.agent_schema import ExecToolConfig
from openclaw.core.tools import CallContext, ToolResult

pytestmark = pytest.mark.subprocess

Words = Callable[..., Awaitable[str]]
Call = Callable[..., Awaitable[ToolResult]]


async def test_a_command_runs_in_the_workspace_and_shows_both_outputs(
    workspace: Path, ok: Words
) -> None:
    words = await ok("exec", command="pwd; echo problem >&2")
    assert words == f"{workspace}\nproblem\n"
    assert await ok("exec", command="true") == "(no output)"


async def test_a_failure_says_its_exit_code(call: Call, refused: Words) -> None:
    assert await refused("exec", command="echo no; exit 3") == "no\n\n[exit code 3]"
    result = await call("exec", command="kill -9 $$")
    assert result.details["exitCode"] == -9
    assert "not found" in await refused("exec", command="no-such-command")


async def test_the_environment_has_no_secret_and_input_is_empty(ok: Words) -> None:
    words = await ok("exec", command="env; cat")
    assert "hunter2" not in words
    assert "PATH=/usr/bin:/bin" in words


@pytest.mark.parametrize("command", ["", "  ", "a\0b"])
async def test_what_is_no_command_is_refused(refused: Words, command: str) -> None:
    assert "Give `command`" in await refused("exec", command=command)


async def test_a_flood_keeps_its_beginning_and_its_end(ok: Words) -> None:
    words = await ok(
        "exec", command="echo first; head -c 3000000 /dev/zero | tr '\\0' x; echo last"
    )
    assert words.startswith("first\n")
    assert words.endswith("last\n")
    assert "bytes left out" in words
    assert len(words) < 48_000 + 100


def alive(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return False
    return fields[0] not in ("Z", "X")


async def gone(pid: int) -> None:
    with anyio.fail_after(60):
        while alive(pid):  # noqa: ASYNC110 - a process of somebody else's
            await anyio.sleep(0.01)


async def test_a_command_that_takes_too_long_is_ended_with_its_children(
    workspace: Path, refused: Words
) -> None:
    command = "sleep 300 & echo $! > pid; echo begun; touch ready; sleep 300"
    async with anyio.create_task_group() as group:
        group.start_soon(pass_time_after, (workspace / "ready").exists, 600)
        assert await refused("exec", command=command, timeout=600) == (
            "begun\n\n[ended after 600 s; set `timeout`, run it in the `background` or do less at once]"
        )
    await gone(int((workspace / "pid").read_text()))


async def test_one_that_ignores_being_asked_is_ended_all_the_same(
    workspace: Path, refused: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec, "_POLITE_SECONDS", 0.2)
    command = "trap '' TERM; echo $$ > pid; touch ready; while true; do sleep 0.1; done"
    async with anyio.create_task_group() as group:
        group.start_soon(pass_time_after, (workspace / "ready").exists, 600)
        await refused("exec", command=command, timeout=600)
    await gone(int((workspace / "pid").read_text()))


@pytest.mark.parametrize("prefix", ["", "setsid "])
async def test_what_a_command_leaves_behind_is_ended_and_not_waited_for(
    workspace: Path, ok: Words, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec, "_DRAIN_SECONDS", 0.2)
    with anyio.fail_after(60):
        words = await ok("exec", command=f"{prefix}sleep 300 & echo $! > pid; echo done")
    assert words == "done\n"
    await gone(int((workspace / "pid").read_text()))


async def test_what_a_command_started_may_write_its_last_words(
    monkeypatch: pytest.MonkeyPatch, ok: Words
) -> None:
    monkeypatch.setattr(exec, "_LINGER_SECONDS", 60.0)
    assert await ok("exec", command="echo said > >(sleep 0.2; cat)") == "said\n"


async def test_cancelling_ends_the_command(workspace: Path, call: Call) -> None:
    async with anyio.create_task_group() as group:

        async def run() -> None:
            await call("exec", command="echo $$ > new; mv new pid; exec sleep 300")

        group.start_soon(run)
        with anyio.fail_after(60):
            while not (workspace / "pid").exists():  # noqa: ASYNC110 - written by the command
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    pid = int((workspace / "pid").read_text())
    await gone(pid)
    with anyio.fail_after(60), suppress(ProcessLookupError):
        while True:  # the dead stay in their group until somebody has asked how they ended
            os.killpg(pid, 0)
            await anyio.sleep(0.01)


async def test_the_next_command_starts_where_the_last_one_ended(
    workspace: Path, ok: Words, refused: Words
) -> None:
    (workspace / "sub").mkdir()
    words = await ok("exec", command="cd sub")
    assert words == f"(no output)\n[the next command starts in {workspace / 'sub'}]"
    assert await ok("exec", command="pwd") == f"{workspace / 'sub'}\n"
    await refused("exec", command="cd ..; exit 4")
    assert await ok("exec", command="pwd") == f"{workspace}\n"
    for elsewhere in ("cd /", "trap 'echo /etc >&$fd' EXIT", "exec true"):
        await ok("exec", command=elsewhere)
        assert await ok("exec", command="pwd") == f"{workspace}\n"
    await ok("exec", command="cd sub")
    (workspace / "sub").rmdir()
    assert await ok("exec", command="pwd") == f"{workspace}\n"


async def test_output_is_heard_of_while_the_command_runs(
    workspace: Path, tools: NativeTools
) -> None:
    heard: list[str] = []

    def progress(message: str) -> None:
        heard.append(message)
        (workspace / "go").touch()

    command = "echo first; until [ -e go ]; do sleep 0.01; done; echo second"
    context = CallContext("main", "s", "c", progress=progress)
    with anyio.fail_after(60):
        result = await tools.call("exec", {"command": command}, context)
    assert not result.is_error
    assert heard == ["first", "second"]


class Background:
    """Tools whose commands may run in the background."""

    def __init__(self, workspace: Path, shells: Shells) -> None:
        settings = ExecToolConfig(max_output_chars=1000)
        self._tools = native_tools("main", workspace, shells=shells, shell=settings, plugins=False)

    async def __call__(self, name: str, session: str = "s", **arguments: object) -> str:
        return told(await self._tools.call(name, arguments, CallContext("main", session, "c")))


async def test_a_job_in_the_background_is_read_waited_for_and_stopped(workspace: Path) -> None:
    async with Shells({"PATH": "/usr/bin:/bin"}).running() as shells:
        call = Background(workspace, shells)
        assert await call("jobs", action="list") == "No commands are running in the background."
        command = "echo begun; until [ -e go ]; do sleep 0.01; done; echo over; exit 2"
        assert (await call("exec", command=command, background=True)).startswith("Job 1 is running")
        await call("exec", command="echo $$ > pid; sleep 300", background=True)
        assert (await call("jobs", action="list")).count(": runs: ") == 2
        assert "no such job" in await call("jobs", session="other", action="read", job="1")
        with anyio.fail_after(60):
            while "begun" not in await call("jobs", action="read", job="1"):  # noqa: ASYNC110 - as a model does
                await anyio.sleep(0.01)
        (workspace / "go").touch()
        words = await call("jobs", action="wait", job="1")
        assert words == "over\n\n[job 1: exit code 2]"
        assert "(nothing new)" in await call("jobs", action="read", job="1")
        assert "was stopped" in await call("jobs", action="stop", job="2")
        assert "runs" in await call("jobs", action="wait", job=await sleeper(call), timeout=1)
        await gone(int((workspace / "pid").read_text()))


async def test_commands_in_the_background_are_named_when_they_end_with_the_program(
    workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Shells({"PATH": "/usr/bin:/bin"}).running() as shells:
        call = Background(workspace, shells)
        await call("exec", command="true", background=True)
        await call("jobs", action="wait", job="1")
        await call("exec", command="sleep 300", background=True)
    assert "end with this program" in caplog.text
    assert caplog.text.strip().endswith(": sleep 300")


async def sleeper(call: Background) -> str:
    words = await call("exec", command="echo $$ > new; mv new last; sleep 300", background=True)
    return words.split()[1]


async def test_jobs_end_with_the_program(workspace: Path) -> None:
    async with Shells({"PATH": "/usr/bin:/bin"}).running() as shells:
        await sleeper(Background(workspace, shells))
        with anyio.fail_after(60):
            while not (workspace / "last").exists():  # noqa: ASYNC110 - written by the command
                await anyio.sleep(0.01)
    await gone(int((workspace / "last").read_text()))


HOST = """
import sys
from pathlib import Path
import anyio
from openclaw.agent.tools.native_tools import native_tools
from openclaw.agent.tools.exec import Shells
from openclaw.core.tools import CallContext

async def main():
    async with Shells({"PATH": "/usr/bin:/bin"}).running() as shells:
        tools = native_tools("main", Path(sys.argv[1]), shells=shells, plugins=False)
        command = "echo $$ > new; mv new last; trap '' TERM; while true; do sleep 1; done"
        await tools.call("exec", {"command": command}, CallContext("main", "s", "c"))

anyio.run(main)
"""


async def test_a_command_does_not_outlive_a_killed_host(workspace: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOST, str(workspace)]) as host:
        with anyio.fail_after(60):
            while not (workspace / "last").exists():  # noqa: ASYNC110 - written by the command
                await anyio.sleep(0.01)
        host.kill()
    await gone(int((workspace / "last").read_text()))


async def test_there_is_a_limit_on_jobs_that_run(workspace: Path) -> None:
    async with Shells({"PATH": "/usr/bin:/bin"}).running() as shells:
        call = Background(workspace, shells)
        await call("exec", command="true", background=True)
        await call("jobs", action="wait", job="1")
        for _ in range(MOST_JOBS):
            await sleeper(call)
        assert "already running" in await call("exec", command="true", background=True)
        assert "1: " not in (await call("jobs", action="list")).splitlines()[0][:3]


async def test_nothing_runs_in_the_background_where_nobody_waits_for_it(refused: Words) -> None:
    assert "in the background" in await refused("exec", command="true", background=True)


async def test_without_bash_commands_run_in_sh(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "sleep").touch()
    tools = native_tools("main", workspace, shells=Shells({"PATH": str(tmp_path)}), plugins=False)
    result = await tools.call("exec", {"command": "pwd"}, CallContext("main", "s", "c"))
    assert told(result) == f"{workspace}\n"
