"""The status, without a gateway: what is configured, and how it is shown."""

import io
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len
from tests.support.fake_server import server_entry

from openclaw.cli.commands import gateway, status
from openclaw.cli.commands.status import duration, rendered
from openclaw.cli.environment import Environment
from openclaw.cli.run_command import run_command
from openclaw.cli.terminal import print_unpadded


def environment(tmp_path: Path, config: Any = None) -> Environment:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    if config is not None:
        text = config if isinstance(config, str) else json.dumps(config)
        (state / "openclaw.json").write_text(text)
    environ = {"OPENCLAW_STATE_DIR": str(state), "HOME": str(tmp_path), "OPENAI_API_KEY": "sk-1"}
    return Environment(environ=environ, stdout=io.StringIO(), stderr=io.StringIO())


def options(**given: bool) -> Namespace:
    return Namespace(**{"json": False, "probe": False, "watch": False, "local": False, **given})


def said(env: Environment) -> str:
    assert isinstance(env.stdout, io.StringIO)
    return env.stdout.getvalue()


SHARED = {
    "mcp": {"servers": {"time": {"command": "mcp-server-time"}, "far": {"url": "https://x/mcp"}}},
    "agents": {"list": [{"id": "a"}, {"id": "b", "mcp": {"servers": {"far": {"enabled": False}}}}]},
}


def test_what_would_run_is_listed_once_for_all_agents_that_share_it(tmp_path: Path) -> None:
    env = environment(tmp_path, SHARED)
    assert status.run(options(json=True), env) == 0
    facts = json.loads(said(env))
    rows = [(r["name"], r["agents"], r["transport"], r["state"]) for r in facts["servers"]]
    assert rows == [
        ("far", ["a"], "http", "not running"),
        ("time", ["a", "b"], "stdio", "not running"),
    ]
    assert facts["gateway"] == {"running": False}
    assert facts["sessions"] == {"count": 0, "lastAt": None, "tasks": {}, "questions": 0}
    assert facts["config"]["valid"] is True
    assert [entry["agent"] for entry in facts["models"]] == ["a", "b"]
    assert not (tmp_path / "state" / "sessions.db").exists()


def test_an_invalid_configuration_is_said_to_be_with_its_problems(tmp_path: Path) -> None:
    env = environment(tmp_path, '{"agents": 3}')
    assert status.run(options(), env) == 2
    assert "invalid" in said(env)
    assert "agents: must be an object" in said(env)


@pytest.mark.requirement("FR-7.4")
def test_a_probe_starts_each_server_once_and_says_how_it_is(tmp_path: Path) -> None:
    tool = {"name": "echo", "inputSchema": {"type": "object"}}
    good = server_entry({"tools": [tool]}, lazy=True)
    servers = {"good": good, "bad": {"command": "/no/such/program"}}
    env = environment(tmp_path, {"mcp": {"servers": servers}})
    assert status.run(options(json=True, probe=True), env) == 1
    rows = {row["name"]: row for row in json.loads(said(env))["servers"]}
    assert (rows["good"]["state"], rows["good"]["tools"]) == ("ready", 1)
    assert rows["bad"]["state"] == "failed"
    assert "/no/such/program" in rows["bad"]["lastError"]


def test_what_a_server_says_cannot_steer_the_terminal(tmp_path: Path) -> None:
    env = environment(tmp_path, SHARED)
    facts = status.gather(env, probe=False)
    facts["servers"][0] |= {"lastError": "\x1b[2Jgone", "state": "error", "nextRetryIn": 3.2}
    facts["gateway"] = {"running": True, "pid": 7, "url": None, "uptimeMs": 61_000}
    facts["sessions"] = {"count": 2, "lastAt": 1_700_000_000_000}
    print_unpadded(env.stdout, env.environ, rendered(facts, env.redactor.redact))
    assert "\x1b" not in said(env)
    assert "\\x1b[2Jgone" in said(env)
    assert "pid 7, up 1 min 1 s, starting" in said(env)
    assert "3 s" in said(env)
    assert "2, last used 2023-11-1" in said(env)


LONG_NAME = "a-server-whose-owner-likes-names-that-are-as-long-as-they-may-be"
LONG_ERROR = "it exited: " + "/usr/lib/python3/site-packages/server.py " * 6 + "x" * 250


def shown_at(tmp_path: Path, columns: int, rows: list[dict[str, Any]]) -> list[str]:
    env = environment(tmp_path, SHARED)
    env = Environment(environ={**env.environ, "COLUMNS": str(columns)}, stdout=io.StringIO())
    facts = status.gather(env, probe=False)
    example = facts["servers"][0]
    facts["servers"] = [{**example, **row} for row in rows]
    print_unpadded(env.stdout, env.environ, rendered(facts, env.redactor.redact))
    return said(env).splitlines()


READY = {
    "state": "ready",
    "tools": 12,
    "resources": 1,
    "prompts": 0,
    "protocol": "2025-11-25",
    "pid": 1234,
    "uptimeMs": 61_000,
    "pin": "accepted",
}
FAILED = {"name": LONG_NAME, "state": "error", "lastError": LONG_ERROR, "nextRetryIn": 16.0}


@pytest.mark.parametrize("columns", [20, 60, 80, 120, 200])
@pytest.mark.parametrize("count", [0, 1, 5, 20])
def test_no_line_is_wider_than_the_terminal_or_ends_in_blanks(
    tmp_path: Path, columns: int, count: int
) -> None:
    rows: list[dict[str, Any]] = [{**READY, "name": f"server-{n}"} for n in range(count)]
    if count > 1:
        rows[1] |= FAILED
        rows[2] |= {"name": "日本語サーバー", "state": "needs_login"}
    lines = shown_at(tmp_path, columns, rows)
    assert all(cell_len(line) <= columns and line == line.rstrip() for line in lines)
    whole = "".join(line.strip() for line in lines).replace(" ", "")
    assert all(row["name"] in whole for row in rows if cell_len(row["name"]) < columns * 0.3)
    if count > 1:
        assert "x" * 200 in whole or columns == 20


def test_a_server_has_a_row_with_all_that_is_known_beside_its_name(tmp_path: Path) -> None:
    rows = [{**READY, "name": "time", "restarts": 2}, {**FAILED, "name": "broken"}]
    rows[1]["lastError"] = "it\nexited"
    lines = [" ".join(line.split()) for line in shown_at(tmp_path, 160, rows)]
    assert lines[-4:] == [
        (
            "time ready · agent a · http · 12 tools · 1 resource · 0 prompts · revision 2025-11-25"
            " · pid 1234 · pin accepted · up 1 min 1 s · 2 restarts"
        ),
        "broken error · agent a · http · retry in 16 s",
        "it",
        "exited",
    ]


def test_servers_that_bear_each_others_names_are_said_to_beside_the_row(tmp_path: Path) -> None:
    crossing = "evil's add speaks of mail's send_mail"
    lines = shown_at(tmp_path, 120, [{**READY, "name": "evil", "crossings": [crossing]}])
    assert lines[-1].strip() == crossing


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0, "0 s"),
        (61_000, "1 min 1 s"),
        (3_700_000, "1 h 1 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_a_span_of_time_has_two_units(milliseconds: int, shown: str) -> None:
    assert duration(milliseconds) == shown


@pytest.mark.parametrize("kind", ["systemd", "launchd"])
def test_a_unit_is_printed(tmp_path: Path, kind: str) -> None:
    env = environment(tmp_path)
    shown = Namespace(action=gateway._install, kind=kind, print_only=True)
    assert run_command("gateway", shown, env) == 0
    assert "gateway" in said(env)
    assert not [path for path in tmp_path.rglob("*gateway*") if path.is_file()]
