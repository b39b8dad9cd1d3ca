from typing import Any

import pytest

from openclaw.cli.setup.import_servers import guess_source, parse_toml, read_servers
from openclaw.cli.setup.plan import CLIENTS
from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.errors import InvalidRequest

GITHUB: dict[str, Any] = {"command": "npx", "args": ["-y", "gh"], "env": {"GH_TOKEN": "ghp_abc123"}}


def entries(source: str, content: dict[str, Any], **options: Any) -> dict[str, dict[str, Any]]:
    found = {server.name: server.entry for server in read_servers(source, content, **options)}
    for entry in found.values():
        McpServerConfig.model_validate(entry)
    return found


@pytest.mark.parametrize("source", ["claude-desktop", "claude-code", "cursor"])
def test_servers_are_read_from_a_file_with_mcp_servers(source: str) -> None:
    assert entries(source, {"mcpServers": {"github": GITHUB}}) == {"github": GITHUB}


def test_a_projects_servers_are_read_for_that_project_alone() -> None:
    content = {"mcpServers": {}, "projects": {"/w": {"mcpServers": {"github": GITHUB}}}}
    assert entries("claude-code", content, project="/w") == {"github": GITHUB}
    assert entries("claude-code", content, project="/x") == {}


def test_remote_servers_keep_their_transport_and_headers() -> None:
    content = {
        "mcpServers": {
            "a": {"type": "http", "url": "https://a.example/mcp", "headers": {"X": "1"}},
            "b": {"type": "sse", "url": "https://b.example/sse"},
            "c": {"url": "https://c.example", "disabled": True},
        }
    }
    assert entries("cursor", content) == {
        "a": {"url": "https://a.example/mcp", "headers": {"X": "1"}, "transport": "http"},
        "b": {"url": "https://b.example/sse", "transport": "sse"},
        "c": {"url": "https://c.example", "enabled": False},
    }


@pytest.mark.parametrize("inside", [True, False])
def test_vs_codes_servers_and_variables_are_read(*, inside: bool) -> None:
    server = {
        "type": "stdio",
        "command": "${env:TOOLS}/run",
        "args": ["--n", "${N:-5}"],
        "env": {"API_KEY": "${input:api-key}", "MODE": "a${b"},
    }
    content = {"servers": {"s": server}}
    (found,) = read_servers("vscode", {"mcp": content} if inside else content)
    assert found.entry == {
        "command": "${TOOLS}/run",
        "args": ["--n", "${N}"],
        "env": {"API_KEY": "<secret://env/API_KEY>", "MODE": "a$${b"},
    }
    assert any("asked for at every start" in note for note in found.notes)


def test_codex_servers_are_read_from_toml() -> None:
    text = """
    [mcp_servers.docs]
    command = "docs"
    args = ["--fast"]
    env = { MODE = "x" }
    env_vars = ["HOME2"]
    startup_timeout_sec = 20
    tool_timeout_sec = 1.5
    enabled = false

    [mcp_servers.remote]
    url = "https://r.example/mcp"
    bearer_token_env_var = "R_TOKEN"
    http_headers = { "X-Team" = "a" }
    env_http_headers = { "X-Key" = "R_KEY" }
    disabled_tools = ["rm"]
    """
    assert entries("codex", dict(parse_toml(text))) == {
        "docs": {
            "command": "docs",
            "args": ["--fast"],
            "env": {"MODE": "x"},
            "inheritEnv": ["HOME2"],
            "timeout": 20_000,
            "toolTimeout": 1500,
            "enabled": False,
        },
        "remote": {
            "url": "https://r.example/mcp",
            "headers": {
                "X-Team": "a",
                "X-Key": "secret://env/R_KEY",
                "Authorization": "Bearer secret://env/R_TOKEN",
            },
        },
    }
    (_, remote) = read_servers("codex", parse_toml(text))
    assert remote.notes == ("'disabled_tools' is not supported here and is left out",)


def test_geminis_addresses_say_which_transport_they_are() -> None:
    content = {
        "mcpServers": {
            "new": {"httpUrl": "https://a.example/mcp", "trust": True},
            "old": {"url": "https://b.example/sse"},
        }
    }
    assert entries("gemini", content) == {
        "new": {"url": "https://a.example/mcp", "transport": "http"},
        "old": {"url": "https://b.example/sse", "transport": "sse"},
    }


def test_windsurfs_server_address_is_read() -> None:
    content = {"mcpServers": {"a": {"serverUrl": "https://a.example/mcp"}}}
    assert entries("windsurf", content) == {"a": {"url": "https://a.example/mcp"}}


def test_zeds_context_servers_are_read_in_both_shapes() -> None:
    content: dict[str, Any] = {
        "theme": "One",
        "context_servers": {
            "new": {"source": "custom", "command": "x", "args": ["1"], "env": {}},
            "old": {"command": {"path": "y", "args": ["2"], "env": {"A": "b"}}, "settings": {}},
        },
    }
    assert entries("zed", content) == {
        "new": {"command": "x", "args": ["1"]},
        "old": {"command": "y", "args": ["2"], "env": {"A": "b"}},
    }


def test_what_has_no_counterpart_is_said() -> None:
    (found,) = read_servers("cursor", {"mcpServers": {"s": {"command": "x", "envFile": ".env"}}})
    assert found.notes == ("'envFile' is not supported here and is left out",)


NO_SERVERS: list[dict[str, Any]] = [{}, {"mcpServers": []}, {"mcpServers": "x"}]


@pytest.mark.parametrize("content", NO_SERVERS)
def test_a_file_without_servers_has_none(content: dict[str, Any]) -> None:
    assert read_servers("cursor", content) == ()


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("config.toml", "codex"),
        ("claude_desktop_config.json", "claude-desktop"),
        ("mcp_config.json", "windsurf"),
        ("mcp.json", "claude-code"),
    ],
)
def test_a_files_name_says_whose_it_is(name: str, source: str) -> None:
    assert guess_source(name) == source


def test_every_source_has_a_place_to_look() -> None:
    assert all(CLIENTS[source].files for source in CLIENTS)


def test_broken_toml_is_said_to_be_broken() -> None:
    with pytest.raises(InvalidRequest, match="not TOML"):
        parse_toml("[")


@pytest.mark.parametrize("source", ["claude-code", "codex"])
def test_a_command_that_is_a_list_is_taken_apart(source: str) -> None:
    given = {"command": ["npx", "-y", "gh"], "args": ["--fast"]}
    place = "mcp_servers" if source == "codex" else "mcpServers"
    found = entries(source, {place: {"a": given, "b": {"command": ["run"]}}})
    assert found["a"] == {"command": "npx", "args": ["-y", "gh", "--fast"]}
    assert found["b"]["command"] == "run"


def test_arguments_in_one_line_are_taken_apart() -> None:
    given = {"a": {"command": "x", "args": "-y 'a b'"}, "b": {"command": "x", "args": "it's"}}
    found = entries("cursor", {"mcpServers": given})
    assert [found[name]["args"] for name in "ab"] == [["-y", "a b"], ["it's"]]


def test_switches_and_numbers_are_written_as_others_mean_them() -> None:
    given = {"command": "x", "env": {"A": True, "B": 5, "C": None, "D": "d"}}
    (found,) = read_servers("cursor", {"mcpServers": {"s": given}})
    assert found.entry["env"] == {"A": "true", "B": "5", "D": "d"}
    assert found.notes == ("'env' is invalid and is left out, as far as it is",)


WRONG: list[Any] = [None, 5, -0.0, True, "x", [], ["x", {}], {"a": {"b": []}}, [[1]], float("inf")]


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize(
    "key",
    ["command", "args", "env", "cwd", "url", "headers", "type", "disabled", "http_headers",
     "env_http_headers", "bearer_token_env_var", "env_vars", "startup_timeout_sec", "httpUrl"],
)  # fmt: skip
def test_no_value_of_a_wrong_kind_breaks_the_reading(key: str, wrong: Any) -> None:
    for source in CLIENTS:
        place = "mcp_servers" if source == "codex" else "mcpServers"
        content = {place: {"bad": {"command": "x", key: wrong}, "none": wrong, "good": GITHUB}}
        found = {one.name: one.entry for one in read_servers(source, content)}
        assert found["good"] == GITHUB
        assert isinstance(found["bad"].get("args", []), list)
        assert all(isinstance(one, str) for one in found["bad"].get("env", {}).values())
