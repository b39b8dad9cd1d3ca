"""`openclaw mcp import` where other programs' files are broken, odd, or hold more than they should."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from openclaw.cli.commands import mcp
from openclaw.cli.environment import Environment
from openclaw.cli.parser import CommandParser, parse
from openclaw.cli.run_command import run_command
from openclaw.core.errors import NotFound

KEY = "sk-proj-Ab3dEf6hIj9kLm2nOp5q"  # not a real one
GOOD = {"mcpServers": {"good": {"command": "good", "env": {"FOO": KEY}}}}


def run(home: Path, *words: str, **more: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    environ = {"PATH": "/usr/bin", "HOME": str(home), **more}
    env = Environment(environ=environ, stdin=io.StringIO(), stdout=out, stderr=err)
    parser = CommandParser(prog="openclaw mcp")
    mcp.register(parser)
    code = run_command("mcp", parse(parser, ["import", *words]), env)
    return code, out.getvalue(), err.getvalue()


def put(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def imported(home: Path) -> dict[str, Any]:
    written = (home / ".openclaw/openclaw.json").read_text()
    return json.loads(written)["agents"]["defaults"]["mcp"]["servers"]


def test_a_credential_under_an_odd_name_is_neither_written_nor_shown(home: Path) -> None:
    put(home / ".cursor/mcp.json", GOOD)
    code, out, err = run(home, "--yes", "--no-sandbox")
    assert code == 0
    assert imported(home) == {"good": {"command": "good", "env": {"FOO": "secret://store/FOO"}}}
    assert "env.FOO is now secret://store/FOO" in out
    for path in (home / ".openclaw").rglob("*"):
        kept = path.name == "secrets.json"  # readable by its owner alone
        assert not path.is_file() or kept or KEY not in path.read_text()
    assert KEY not in out + err


@pytest.mark.parametrize(
    "broken",
    ["{", "[]", '"x"', b"\xff\xfe", "{" * 100_000, '{"mcpServers": {"a": {"command": 1e999}}}'],
    ids=["cut", "list", "text", "bytes", "deep", "wrong"],
)
def test_a_broken_file_costs_itself_alone_and_the_exit_code_says_so(
    home: Path, broken: str | bytes
) -> None:
    bad = put(home / ".claude.json", broken)
    put(home / ".cursor/mcp.json", GOOD)
    put(home / ".codex/config.toml", '[mcp_servers.also]\ncommand = ["also", "-y"]\n')
    code, out, _ = run(home, "--yes", "--no-sandbox")
    assert code == 1
    assert set(imported(home)) == {"good", "also"}
    assert imported(home)["also"] == {"command": "also", "args": ["-y"]}
    assert str(bad) in out or "MCP server 'a' is left out" in out


def test_a_directory_in_the_place_of_a_file_and_a_link_to_nowhere_are_passed_over(
    home: Path,
) -> None:
    (home / ".claude.json").mkdir()
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").symlink_to(home / "gone")
    put(home / ".gemini/settings.json", GOOD)
    assert run(home, "--yes")[0] == 0
    assert set(imported(home)) == {"good"}


def test_a_server_that_would_not_hold_is_left_out_with_its_reason(home: Path) -> None:
    servers: dict[str, Any] = {
        "none": {},
        "text": "x",
        "wrong": {"command": {}},
        **GOOD["mcpServers"],
    }
    put(home / ".cursor/mcp.json", {"mcpServers": servers})
    code, out, _ = run(home, "--yes")
    assert code == 1
    assert set(imported(home)) == {"good"}
    left_out = [line.split("'")[1] for line in out.splitlines() if "is left out" in line]
    assert left_out == ["none", "text", "wrong"]


def test_where_nothing_holds_nothing_is_written(home: Path) -> None:
    put(home / ".cursor/mcp.json", {"mcpServers": {"none": {}}})
    code, out, _ = run(home, "--yes")
    assert code == 1
    assert "MCP server 'none' is left out" in out
    assert "There is nothing to change." in out
    assert not (home / ".openclaw/openclaw.json").exists()


def test_where_no_file_can_be_read_every_reason_is_said(home: Path) -> None:
    put(home / ".claude.json", "{")
    put(home / ".cursor/mcp.json", "[")
    with pytest.raises(NotFound) as caught:
        run(home, "--yes")
    assert ".claude.json" in caught.value.message
    assert ".cursor" in caught.value.message
