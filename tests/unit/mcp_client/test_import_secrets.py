from typing import Any

import pytest

from openclaw.config.schema import McpServerConfig
from openclaw.mcp_client.import_secrets import Reference, plain_values, protect
from openclaw.mcp_client.importing import ImportedServer


def protected(entry: dict[str, Any], **environ: str) -> tuple[dict[str, Any], list[str]]:
    (server,), references = protect([ImportedServer("hub", entry)], environ)
    McpServerConfig.model_validate(server.entry)
    return server.entry, [reference.variable for reference in references]


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
    assert plain_values([server]) == ("ghp_abc123", "s3cr3t-value", "k3y-value")


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
    ("url", "written", "variable"),
    [
        (
            "https://h.example/mcp?api_key=k3y-value&x=1",
            "https://h.example/mcp?api_key=<secret://env/HUB_API_KEY>&x=1",
            "HUB_API_KEY",
        ),
        (
            "https://me:pass-word@h.example/mcp",
            "https://me:<secret://env/HUB_PASSWORD>@h.example/mcp",
            "HUB_PASSWORD",
        ),
        (
            "https://t0k3n-value@h.example/mcp",
            "https://<secret://env/HUB_TOKEN>@h.example/mcp",
            "HUB_TOKEN",
        ),
    ],
)
def test_a_credential_in_an_address_becomes_a_reference(
    url: str, written: str, variable: str
) -> None:
    assert protected({"url": url}) == ({"url": written}, [variable])


@pytest.mark.parametrize(
    ("args", "written", "variable"),
    [
        (["--api-key", "k3y-value"], ["--api-key", "secret://env/HUB_API_KEY"], "HUB_API_KEY"),
        (["--token=t0k3n"], ["--token=<secret://env/HUB_TOKEN>"], "HUB_TOKEN"),
        (
            ["--header", "Authorization: Bearer t0k3n-value"],
            ["--header", "Authorization: Bearer secret://env/HUB_AUTHORIZATION"],
            "HUB_AUTHORIZATION",
        ),
        (
            ["postgres://me:pass-word@db/app"],
            ["postgres://me:<secret://env/HUB_PASSWORD>@db/app"],
            "HUB_PASSWORD",
        ),
    ],
)
def test_a_credential_among_the_arguments_becomes_a_reference_and_is_pointed_out(
    args: list[str], written: list[str], variable: str
) -> None:
    (server,), (reference,) = protect([ImportedServer("hub", {"command": "x", "args": args})])
    assert (server.entry["args"], reference.variable) == (written, variable)
    assert "other users of this machine can see" in server.notes[0]


@pytest.mark.parametrize("args", [["--fast", "--token"], ["--port", "1"], ["https://h.example/a"]])
def test_ordinary_arguments_stay_as_they_are(args: list[str]) -> None:
    assert protected({"command": "x", "args": args}) == ({"command": "x", "args": args}, [])


def test_a_password_inside_a_variables_value_becomes_a_reference() -> None:
    entry = {"command": "x", "env": {"DATABASE_URL": "postgres://me:pass-word@db/app"}}
    assert protected(entry) == (
        {
            "command": "x",
            "env": {
                "DATABASE_URL": "postgres://me:<secret://env/HUB_DATABASE_URL_PASSWORD>@db/app"
            },
        },
        ["HUB_DATABASE_URL_PASSWORD"],
    )


def test_a_value_that_the_environment_has_is_read_from_there() -> None:
    entry = {"command": "x", "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_abc123"}}
    found, variables = protected(entry, GH_TOKEN="ghp_abc123")
    assert found["env"] == {"GITHUB_PERSONAL_ACCESS_TOKEN": "secret://env/GH_TOKEN"}
    assert variables == ["GH_TOKEN"]


def test_the_original_entry_is_left_alone() -> None:
    entry: dict[str, Any] = {"command": "x", "env": {"A_TOKEN": "value-1"}, "args": ["--key=abcd"]}
    protected(entry)
    assert entry["env"] == {"A_TOKEN": "value-1"}
    assert entry["args"] == ["--key=abcd"]


def test_a_third_value_for_the_same_names_gets_a_number() -> None:
    servers = [ImportedServer("a", {"env": {"TOKEN": f"value-{n}"}}) for n in range(4)]
    _, references = protect(servers)
    assert [one.variable for one in references] == ["TOKEN", "A_TOKEN", "A_TOKEN_2", "A_TOKEN_3"]
