"""What differs on Windows, as far as it can be decided elsewhere."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from openclaw.config.agent_schema import McpServerConfig
from openclaw.mcp_client.session.connect import ConnectionDeps
from openclaw.mcp_client.session.local import child_program
from openclaw.mcp_client.transport.child_process import find_windows_program

ENVIRON = {"Path": r"C:\Windows;C:\node", "PATHEXT": ".EXE;.CMD"}


@pytest.mark.parametrize(
    ("command", "files", "found"),
    [
        ("npx", {r"C:\node\npx.cmd"}, r"C:\node\npx.cmd"),
        ("npx", {r"C:\Windows\npx.exe", r"C:\node\npx.cmd"}, r"C:\Windows\npx.exe"),
        ("npx.cmd", {r"C:\node\npx.cmd"}, r"C:\node\npx.cmd"),
        (r"D:\tools\run", {r"D:\tools\run.exe"}, r"D:\tools\run.exe"),
        ("missing", set[str](), "missing"),
    ],
)
def test_a_command_is_found_as_a_shell_finds_it(command: str, files: set[str], found: str) -> None:
    assert find_windows_program(command, ENVIRON, files.__contains__) == found


async def test_a_child_on_windows_gets_the_variables_that_programs_need_there() -> None:
    async def resolve(values: Any) -> dict[str, Any]:
        return {}

    deps = ConnectionDeps(
        resolve_secrets=resolve, environ={"SystemRoot": r"C:\Windows", "SECRET": "x"}
    )
    config = McpServerConfig.model_validate({"command": "server"})
    opening = SimpleNamespace(name="s", config=config, deps=deps)
    program = await child_program(cast("Any", opening), windows=True)
    assert program.environment == {"SystemRoot": r"C:\Windows"}
