"""Starting a server's program: what it sees, and what is said where it cannot start."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection_bench import Bench, until

from openclaw.core.errors import SecretUnavailable
from openclaw.mcp_client.lifecycle.server_state import ServerState
from openclaw.mcp_client.transport.child_process import describe_exit

pytestmark = pytest.mark.subprocess


async def environment(bench: Bench, **settings: Any) -> dict[str, str]:
    tools = [{"name": "env", "does": {"env": True}}]
    async with bench.serve({"tools": tools}, **settings) as server:
        return json.loads((await server.call_tool("env", {}))["content"][0]["text"])


@pytest.mark.requirement("NFR-3.3")
async def test_a_server_does_not_see_the_hosts_secrets(bench: Bench):
    seen = await environment(bench, env={"TOKEN": "secret://t0ken"})
    assert seen["TOKEN"] == "t0ken"
    assert "HOST_SECRET" not in seen
    assert "PATH" in seen


@pytest.mark.requirement("FR-1.5")
async def test_a_server_sees_what_it_is_meant_to_inherit(bench: Bench):
    seen = await environment(bench, inheritEnv=["HOST_SECRET"])
    assert seen["HOST_SECRET"] == "not for children"


@pytest.mark.requirement("FR-1.13")
async def test_a_server_runs_where_it_is_told_to(bench: Bench, tmp_path: Path):
    script = tmp_path / "here.py"
    script.write_text("import os, sys; sys.stderr.write(os.getcwd())")
    entry = {"command": sys.executable, "args": ["here.py"], "cwd": str(tmp_path), "maxRestarts": 0}
    async with bench.run(bench.to(entry), ready=False) as server:
        await until(lambda: server.snapshot.state is ServerState.FAILED)
        assert server.snapshot.stderr == (str(tmp_path),)
        assert server.snapshot.last_error == "exited with code 0"


async def refused(bench: Bench, entry: dict[str, Any]) -> str:
    async with bench.run(bench.to(entry), ready=False) as server:
        await until(lambda: server.snapshot.state is ServerState.FAILED)
        assert server.snapshot.restarts == 0
        return server.snapshot.last_error or ""


async def test_a_missing_command_is_named_with_a_hint(bench: Bench):
    words = await refused(bench, {"command": "no-such-program"})
    assert words.startswith("command not found: 'no-such-program' (give the full path")
    bare = {"command": "npx", "env": {"PATH": "/nowhere"}}
    assert "install Node.js" in await refused(bench, bare)


async def test_a_missing_directory_is_named(bench: Bench):
    words = await refused(bench, {"command": "sh", "cwd": "/no/such/place"})
    assert words == "the working directory /no/such/place does not exist (correct `cwd`)"


async def test_a_file_that_is_not_executable_is_named(bench: Bench, tmp_path: Path):
    script = tmp_path / "server"
    script.write_text("#!/bin/sh\n")
    assert "is not executable (try: chmod +x" in await refused(bench, {"command": str(script)})


async def test_a_script_without_a_first_line_is_explained(bench: Bench, tmp_path: Path):
    script = tmp_path / "server"
    script.write_text("print(1)\n")
    script.chmod(0o755)
    assert "a script needs a first line" in await refused(bench, {"command": str(script)})


async def test_a_relative_command_is_found_in_its_directory(bench: Bench, tmp_path: Path):
    script = tmp_path / "server"
    script.write_text("#!/bin/sh\nexit 4\n")
    script.chmod(0o755)
    entry = {"command": "./server", "cwd": str(tmp_path), "maxRestarts": 0}
    async with bench.run(bench.to(entry), ready=False) as server:
        await until(lambda: server.snapshot.state is ServerState.FAILED)
        assert server.snapshot.last_error == "exited with code 4"


@pytest.mark.requirement("FR-1.4")
async def test_what_no_program_can_be_given_is_refused(bench: Bench):
    assert "null byte" in await refused(bench, {"command": "sh", "args": ["a\0b"]})


@pytest.mark.requirement("US-6.2")
async def test_a_secret_that_cannot_be_had_now_is_tried_again(bench: Bench):
    async def locked(values: Any) -> Any:
        raise SecretUnavailable("secret://vault/x", "the vault is sealed")

    connection = bench.connection({}, deps={"resolve_secrets": locked})
    async with bench.run(connection, ready=False) as server:
        await until(lambda: server.snapshot.state is ServerState.ERROR)
        assert server.snapshot.last_error == "secret://vault/x: the vault is sealed"
        assert (server.snapshot.restarts, server.snapshot.next_retry_in is None) == (0, False)


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exited with code 0"), (-9, "killed by SIGKILL"), (-250, "killed by signal 250")],
)
def test_an_exit_is_put_into_words(code: int, words: str):
    assert describe_exit(code) == words
