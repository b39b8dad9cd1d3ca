"""`openclaw init --hub` moves another program's servers behind the hub, and `--undo-hub` back."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.interaction.cli.test_init import Installation

from openclaw.config.load import load_config
from openclaw.config.merge import effective_agents

TIME = {"command": "python3", "args": ["-V"]}
GITHUB = {"command": "python3", "args": ["-V"], "env": {"GITHUB_TOKEN": "ghp_verysecret1"}}
CODEX = """\
model = "o9" # mine

[mcp_servers.time]
command = "python3"
args = ["-V"]

[mcp_servers.github]
command = "python3"
args = ["-V"]

[mcp_servers.github.env]
GITHUB_TOKEN = "ghp_verysecret1"

[profiles.fast]
model = "o9-mini"
"""


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


def servers(installation: Installation) -> dict[str, Any]:
    loaded = load_config(installation.config, {"HOME": str(installation.home)})
    return dict(effective_agents(loaded.config)["main"].servers)


def test_a_clients_servers_move_with_their_credentials_and_it_keeps_one_entry(
    installation: Installation,
) -> None:
    order = {"command": "openclaw", "args": ["mcp-server"]}
    content = {"theme": "dark", "mcpServers": {"time": TIME, "github": GITHUB, "openclaw": order}}
    path = installation.write(".claude.json", content)
    assert installation.run("--yes", "--hub", "claude-code") == 0
    after = json.loads(path.read_text())
    assert after["theme"] == "dark"
    assert set(after["mcpServers"]) == {"openclaw", "openclaw-hub"}
    assert after["mcpServers"]["openclaw-hub"]["args"][-1] == "mcp-hub"
    assert set(servers(installation)) == {"time", "github"}
    assert "ghp_verysecret1" not in installation.config.read_text()
    assert "ghp_verysecret1" not in installation.out

    assert installation.run("--yes", "--undo-hub", "claude-code") == 0
    assert json.loads(path.read_text()) == content
    assert set(servers(installation)) == {"time", "github"}


def test_what_was_added_since_stays_if_the_hub_is_undone(installation: Installation) -> None:
    path = installation.write(".cursor/mcp.json", {"mcpServers": {"time": TIME}})
    installation.run("--yes", "--hub", "cursor")
    after = json.loads(path.read_text())
    after["mcpServers"]["new"] = {"command": "new"}
    path.write_text(json.dumps(after))
    installation.run("--yes", "--undo-hub", "cursor")
    assert json.loads(path.read_text())["mcpServers"] == {"time": TIME, "new": {"command": "new"}}


def test_codex_keeps_the_rest_of_its_file(installation: Installation) -> None:
    path = installation.write(".codex/config.toml", CODEX)
    assert installation.run("--yes", "--hub", "codex") == 0
    after = tomllib.loads(path.read_text())
    assert set(after["mcp_servers"]) == {"openclaw-hub"}
    assert after["profiles"] == {"fast": {"model": "o9-mini"}}
    assert "# mine" in path.read_text()
    assert installation.run("--yes", "--undo-hub", "codex") == 0
    assert tomllib.loads(path.read_text()) == tomllib.loads(CODEX)


def test_several_programs_move_at_once_and_a_server_that_differs_stays(
    installation: Installation,
) -> None:
    other = {"command": "python3", "args": ["--other"]}
    first = installation.write(".claude.json", {"mcpServers": {"time": TIME, "github": GITHUB}})
    second = installation.write(".cursor/mcp.json", {"mcpServers": {"time": other, "git": TIME}})
    assert installation.run("--yes", "--hub", "claude-code,cursor") == 0
    assert set(json.loads(first.read_text())["mcpServers"]) == {"openclaw-hub"}
    assert json.loads(second.read_text())["mcpServers"].keys() == {"time", "openclaw-hub"}
    assert set(servers(installation)) == {"time", "github", "git"}


def test_nothing_is_written_without_agreement(installation: Installation) -> None:
    path = installation.write(".claude.json", {"mcpServers": {"github": GITHUB}})
    before = path.read_text()
    assert installation.run("--dry-run", "--hub", "claude-code") == 0
    assert (path.read_text(), installation.config.exists()) == (before, False)
    assert "- mcpServers.github" in installation.out
    assert "+ mcpServers.openclaw-hub" in installation.out
