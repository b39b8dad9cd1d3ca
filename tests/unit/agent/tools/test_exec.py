"""`exec`: real commands, ended with everything that they started."""

import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from openclaw.agent.tools import exec
from openclaw.agent.tools.catalog import native_tools
from openclaw.agent.tools.exec import MAX_OUTPUT_BYTES, allowed_by_name
from openclaw.core.tools import ToolResult

pytestmark = pytest.mark.subprocess

Words = Callable[..., Awaitable[str]]
Call = Callable[..., Awaitable[ToolResult]]


@pytest.mark.parametrize(
    ("rules", "offered"),
    [
        ((), False),
        (("*",), False),
        (("e*",), False),
        (("read",), False),
        (("*", "exec"), True),
        (("EXEC",), True),
    ],
)
def test_it_is_there_only_where_a_rule_names_it(
    workspace: Path, rules: tuple[str, ...], offered: bool
) -> None:
    assert allowed_by_name(rules) is offered
    tools = native_tools("main", workspace, environ={}, allow_rules=rules, plugins=False)
    assert ("exec" in [spec.name for spec in tools.specs()]) is offered


async def test_a_command_runs_in_the_workspace_and_shows_both_outputs(
    workspace: Path, ok: Words
) -> None:
    words = await ok("exec", command="pwd; echo problem >&2")
    assert words == f"{workspace}\nproblem\n"
    assert await ok("exec", command="true") == "(no output)"


async def test_a_failure_says_its_exit_code(call: Call, refused: Words) -> None:
    assert await refused("exec", command="echo no; exit 3") == "no\n\n[exit code 3]"
    result = await call("exec", command="kill -9 $$")
    assert result.details == {"exitCode": -9}
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
    assert len(words) < MAX_OUTPUT_BYTES + 100


def alive(pid: int) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return False
    return fields[0] not in ("Z", "X")


async def gone(pid: int) -> None:
    with anyio.fail_after(5):
        while alive(pid):  # noqa: ASYNC110 - a process of somebody else's
            await anyio.sleep(0.01)


async def test_a_command_that_takes_too_long_is_ended_with_its_children(
    workspace: Path, refused: Words
) -> None:
    command = "sleep 300 & echo $! > pid; echo begun; sleep 300"
    words = await refused("exec", command=command, timeout=1)
    assert words == "begun\n\n[ended after 1 s; set `timeout` or do less at once]"
    await gone(int((workspace / "pid").read_text()))


async def test_one_that_ignores_being_asked_is_ended_all_the_same(
    workspace: Path, refused: Words, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec, "_POLITE_SECONDS", 0.2)
    command = "trap '' TERM; echo $$ > pid; while true; do sleep 0.1; done"
    await refused("exec", command=command, timeout=1)
    await gone(int((workspace / "pid").read_text()))


@pytest.mark.parametrize("prefix", ["", "setsid "])
async def test_what_a_command_leaves_behind_is_ended_and_not_waited_for(
    workspace: Path, ok: Words, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec, "_DRAIN_SECONDS", 0.2)
    with anyio.fail_after(20):
        words = await ok("exec", command=f"{prefix}sleep 300 & echo $! > pid; echo done")
    assert words == "done\n"
    await gone(int((workspace / "pid").read_text()))


async def test_cancelling_ends_the_command(workspace: Path, call: Call) -> None:
    async with anyio.create_task_group() as group:

        async def run() -> None:
            await call("exec", command="echo $$ > new; mv new pid; exec sleep 300")

        group.start_soon(run)
        with anyio.fail_after(10):
            while not (workspace / "pid").exists():  # noqa: ASYNC110 - written by the command
                await anyio.sleep(0.01)
        group.cancel_scope.cancel()
    pid = int((workspace / "pid").read_text())
    await gone(pid)
    with anyio.fail_after(5), suppress(ProcessLookupError):
        while True:  # the dead stay in their group until somebody has asked how they ended
            os.killpg(pid, 0)
            await anyio.sleep(0.01)
