"""Commands of `exec` that try what a hostile server tries: the same attacks, through the tool."""

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.hostile.test_confinement import ATTACKER, HERE, Sockets, both, needs_bubblewrap, refused

from openclaw.agent.tools.exec import Shells
from openclaw.agent.tools.native_tools import native_tools
from openclaw.config.agent_schema import ExecToolConfig
from openclaw.core.content import text_of
from openclaw.core.tools import CallContext
from openclaw.mcp_client.sandbox.confinement import Sandbox
from openclaw.mcp_client.sandbox.support import SandboxSupport

pytestmark = [
    pytest.mark.subprocess,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]
PYTHON = [sys.prefix, sys.base_prefix]


class Shell:
    """A model that runs commands in `home/work`."""

    def __init__(self, home: Path, means: SandboxSupport, **sandbox: Any) -> None:
        self.work = home / "work"
        self.work.mkdir(exist_ok=True)
        state = home / ".openclaw"
        state.mkdir(exist_ok=True)
        (state / "openclaw.json").write_text("{}")
        environ = {"PATH": os.environ["PATH"], "HOME": str(home), "ACME_KEY": "hunter2-0123456"}
        confine = Sandbox(environ, state, means=means).confine
        settings = ExecToolConfig.model_validate({"sandbox": {"read": PYTHON, **sandbox}})
        self._tools = native_tools(
            "main", self.work, shells=Shells(environ, confine), shell=settings, plugins=False
        )

    async def run(self, command: str) -> str:
        context = CallContext("main", "s", "c")
        with anyio.fail_after(60):
            return text_of((await self._tools.call("exec", {"command": command}, context)).blocks)

    async def attack(self, **asked: Any) -> dict[str, Any]:
        words = [sys.executable, "-I", "-c", ATTACKER, json.dumps(asked)]
        said = await self.run(shlex.join(words))
        assert said.startswith("{"), said
        return json.loads(said)


@pytest.fixture
def sockets(tmp_path: Path) -> Any:
    from contextlib import ExitStack

    with ExitStack() as stack:
        yield Sockets(tmp_path, stack)


@both
async def test_a_command_writes_the_workspace_and_sees_nothing_else_of_the_person(
    home: Path, means: SandboxSupport
) -> None:
    shell = Shell(home, means)
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_rsa").write_text("a key")
    (home / "notes.txt").write_text("a note")
    found = await shell.attack(
        read=[
            str(home / ".ssh" / "id_rsa"),
            str(home / "notes.txt"),
            str(home / ".openclaw/openclaw.json"),
        ],
        write=[str(shell.work / "mine"), "/etc/x", "/usr/bin/x"],
    )
    assert refused(found["read"]), found
    assert found["write"][0] == "reached"
    assert refused(found["write"][1:])
    assert (shell.work / "mine").exists()


@both
async def test_what_a_command_says_of_its_directory_opens_nothing(
    home: Path, means: SandboxSupport
) -> None:
    shell = Shell(home, means)
    (home / "notes.txt").write_text("a note")
    look = f"cat {home}/notes.txt {home}/.openclaw/openclaw.json; touch {home}/written"
    forged = f"{shell.work}/../.openclaw"
    everywhere = "for n in $(ls /proc/$$/fd); do [ $n -gt 2 ] && [ $n -lt 255 ] && {} >&$n; done 2>/dev/null; true"
    for words in (
        f"echo {forged}",
        f"printf '%4096s' {forged}",
        f"printf '%065000d\\n%s' 0 {forged}",
    ):
        await shell.run("trap - EXIT; " + everywhere.format(words))
        said = await shell.run(f"pwd; {look}")
        assert said.startswith(str(shell.work)), said
        assert "a note" not in said
    await shell.run("mkdir -p sub && cd sub")
    await shell.run(f"cd .. && rmdir sub && ln -s {home} sub; trap - EXIT")
    said = await shell.run(look)
    assert "a note" not in said
    assert not (home / "written").exists()


@both
async def test_a_command_reaches_no_socket_of_other_programs(
    home: Path, means: SandboxSupport, sockets: Sockets
) -> None:
    found = await Shell(home, means).attack(
        stream=[str(sockets.stream)], datagram=[str(sockets.datagram)]
    )
    assert refused([*found["stream"], *found["datagram"], *found["pair"]]), found
    assert found["own"] == "x"


@needs_bubblewrap
async def test_the_network_is_as_configured(home: Path, sockets: Sockets) -> None:
    assert refused((await Shell(home, HERE, network=False).attack(tcp=[sockets.port]))["tcp"])
    assert (await Shell(home, HERE).attack(tcp=[sockets.port]))["tcp"] == ["reached"]


@both
async def test_no_environment_holds_a_secret_of_ours(home: Path, means: SandboxSupport) -> None:
    shell = Shell(home, means)
    said = await shell.run("env; cat /proc/self/environ /proc/1/environ /proc/$PPID/environ")
    assert "hunter2" not in said


@both
async def test_a_command_that_is_a_path_opens_nothing(home: Path, means: SandboxSupport) -> None:
    (home / "tool").write_text("#!/bin/sh\ncat notes.txt\n")
    (home / "tool").chmod(0o755)
    said = await Shell(home, means).run(str(home / "tool"))
    assert "o such file" in said or "ermission denied" in said


@both
async def test_the_directory_is_kept_and_cannot_be_led_astray(
    home: Path, means: SandboxSupport
) -> None:
    shell = Shell(home, means)
    await shell.run("mkdir -p sub && cd sub")
    assert (await shell.run("pwd")).strip() == str(shell.work / "sub")
    await shell.run("ln -s /etc out; cd out")
    assert (await shell.run("pwd")).strip() == str(shell.work / "sub")


@both
async def test_what_a_command_leaves_behind_is_gone(home: Path, means: SandboxSupport) -> None:
    shell = Shell(home, means)
    await shell.run("(setsid sh -c 'while :; do date +%N > tick; sleep 0.05; done' &) ; sleep 0.3")
    (shell.work / "tick").unlink()
    await shell.run("sleep 0.5")
    assert not (shell.work / "tick").exists()


async def test_strict_runs_nothing_that_cannot_be_confined(home: Path) -> None:
    shell = Shell(home, SandboxSupport(None, "nothing is here", 0), mode="strict")
    assert "no sandbox is available here" in await shell.run("touch x")
    assert not (shell.work / "x").exists()
