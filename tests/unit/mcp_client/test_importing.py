from typing import Any

import pytest

from openclaw.config.schema import McpServerConfig
from openclaw.core.errors import InvalidRequest
from openclaw.mcp_client.importing import (
    SOURCES,
    ImportedServer,
    Reference,
    guess_source,
    locations,
    parse_toml,
    plain_values,
    protect,
    read_servers,
)

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
    assert any("asked for at start" in note for note in found.notes)


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
    assert remote.notes == ("'disabled_tools' has no counterpart here and is left out",)


def test_what_has_no_counterpart_is_said() -> None:
    (found,) = read_servers("cursor", {"mcpServers": {"s": {"command": "x", "envFile": ".env"}}})
    assert found.notes == ("'envFile' has no counterpart here and is left out",)


@pytest.mark.parametrize("args", [["--api-key", "abc"], ["--token=abc"]])
def test_a_credential_among_the_arguments_is_pointed_out(args: list[str]) -> None:
    (found,) = read_servers("cursor", {"mcpServers": {"s": {"command": "x", "args": args}}})
    assert "looks like a credential" in found.notes[0]


@pytest.mark.parametrize("args", [["--fast", "--token"], ["key=value"], ["--port", "1"]])
def test_ordinary_arguments_are_not_pointed_out(args: list[str]) -> None:
    (found,) = read_servers("cursor", {"mcpServers": {"s": {"command": "x", "args": args}}})
    assert found.notes == ()


NO_SERVERS: list[dict[str, Any]] = [{}, {"mcpServers": []}, {"mcpServers": {"s": "x"}}]


@pytest.mark.parametrize("content", NO_SERVERS)
def test_a_file_without_servers_has_none(content: dict[str, Any]) -> None:
    assert read_servers("cursor", content) == ()


def test_plain_credentials_become_references() -> None:
    server = ImportedServer(
        "my-hub",
        {
            "env": {"GH_TOKEN": "ghp_abc123", "MODE": "x"},
            "headers": {"Authorization": "Bearer s3cr3t-value", "X-Api-Key": "k3y-value"},
        },
    )
    (protected,), references = protect([server])
    assert protected.entry == {
        "env": {"GH_TOKEN": "secret://env/GH_TOKEN", "MODE": "x"},
        "headers": {
            "Authorization": "Bearer secret://env/MY_HUB_TOKEN",
            "X-Api-Key": "secret://env/MY_HUB_X_API_KEY",
        },
    }
    assert references[0] == Reference("GH_TOKEN", "my-hub", "env.GH_TOKEN")
    assert all("s3cr3t" not in str(one) and "ghp_" not in str(one) for one in references)
    assert plain_values([server]) == ("ghp_abc123", "Bearer s3cr3t-value", "k3y-value")


def test_references_and_variables_stay_as_they_are() -> None:
    entry = {"env": {"A_TOKEN": "secret://env/A", "B_TOKEN": "${B}"}}
    (protected,), references = protect([ImportedServer("s", entry)])
    assert (protected.entry, references) == (entry, ())


def test_two_servers_with_different_values_under_one_name_get_two_variables() -> None:
    servers = [ImportedServer(name, {"env": {"TOKEN": f"value-{name}"}}) for name in ("a", "b")]
    _, references = protect(servers)
    assert [one.variable for one in references] == ["TOKEN", "B_TOKEN"]


def test_the_same_value_under_one_name_is_one_variable() -> None:
    servers = [ImportedServer(name, {"env": {"TOKEN": "same-value"}}) for name in ("a", "b")]
    _, references = protect(servers)
    assert {one.variable for one in references} == {"TOKEN"}


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("config.toml", "codex"),
        ("claude_desktop_config.json", "claude-desktop"),
        ("mcp.json", "claude-code"),
    ],
)
def test_a_files_name_says_whose_it_is(name: str, source: str) -> None:
    assert guess_source(name) == source


def test_every_source_has_a_place_to_look() -> None:
    assert all(locations(source) for source in SOURCES)


def test_broken_toml_is_said_to_be_broken() -> None:
    with pytest.raises(InvalidRequest, match="not TOML"):
        parse_toml("[")
