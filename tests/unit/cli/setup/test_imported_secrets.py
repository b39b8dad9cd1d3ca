from typing import Any, cast

import pytest

from openclaw.cli.setup.import_servers import ImportedServer, Reference, plain_values, protect
from openclaw.config.agent_schema import McpServerConfig
from openclaw.secrets.refs import Secret


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
        "env": {"GH_TOKEN": "secret://store/GH_TOKEN", "MODE": "x"},
        "headers": {
            "Authorization": "Bearer secret://store/MY_HUB_AUTHORIZATION",
            "X-Api-Key": "secret://store/MY_HUB_X_API_KEY",
        },
    }
    assert references[0] == Reference(
        "GH_TOKEN", "my-hub", "env.GH_TOKEN", Secret("ghp_abc123"), stored=True
    )
    assert all("s3cr3t" not in str(one) and "ghp_" not in str(one) for one in references)
    assert plain_values([server]) == ("ghp_abc123", "s3cr3t-value", "k3y-value")


def test_references_and_variables_stay_as_they_are() -> None:
    headers = {"Authorization": "Bearer secret://env/C"}
    entry = {"env": {"A_TOKEN": "secret://env/A", "B_TOKEN": "${B}"}, "headers": headers}
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
            "https://h.example/mcp?api_key=<secret://store/HUB_TOKEN>&x=1",
            "HUB_TOKEN",
        ),
        (
            "https://me:pass-word@h.example/mcp",
            "https://me:<secret://store/HUB_TOKEN>@h.example/mcp",
            "HUB_TOKEN",
        ),
        (
            "https://t0k3n-value@h.example/mcp",
            "https://<secret://store/HUB_TOKEN>@h.example/mcp",
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
        (["--api-key", "k3y-value"], ["--api-key", "secret://store/HUB_TOKEN"], "HUB_TOKEN"),
        (["--token=t0k3n"], ["--token=<secret://store/HUB_TOKEN>"], "HUB_TOKEN"),
        (
            ["--header", "Authorization: Bearer t0k3n-value"],
            ["--header", "Authorization: Bearer secret://store/HUB_TOKEN"],
            "HUB_TOKEN",
        ),
        (
            ["postgres://me:pass-word@db/app"],
            ["postgres://me:<secret://store/HUB_TOKEN>@db/app"],
            "HUB_TOKEN",
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
            "env": {"DATABASE_URL": "postgres://me:<secret://store/DATABASE_URL>@db/app"},
        },
        ["DATABASE_URL"],
    )


def test_a_value_that_the_environment_has_is_read_from_there() -> None:
    entry = {"command": "x", "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_abc123"}}
    found, variables = protected(entry, GH_TOKEN="ghp_abc123")
    assert found["env"] == {"GITHUB_PERSONAL_ACCESS_TOKEN": "secret://env/GH_TOKEN"}
    assert variables == ["GH_TOKEN"]


def test_an_address_that_is_nothing_but_a_credential_becomes_a_reference() -> None:
    entry, variables = protected({"url": "sk-live-abcdefghijkl12345"})
    assert (entry["url"], len(variables)) == (f"secret://store/{variables[0]}", 1)


def test_the_original_entry_is_left_alone() -> None:
    entry: dict[str, Any] = {"command": "x", "env": {"A_TOKEN": "value-1"}, "args": ["--key=abcd"]}
    protected(entry)
    assert entry["env"] == {"A_TOKEN": "value-1"}
    assert entry["args"] == ["--key=abcd"]


def test_a_third_value_for_the_same_names_gets_a_number() -> None:
    servers = [ImportedServer("a", {"env": {"TOKEN": f"value-{n}"}}) for n in range(4)]
    _, references = protect(servers)
    assert [one.variable for one in references] == ["TOKEN", "A_TOKEN", "A_TOKEN_2", "A_TOKEN_3"]


OPENAI = "sk-proj-Ab3dEf6hIj9kLm2nOp5q"
GITHUB = "ghp_" + "a1B2c3D4e5" * 4
SLACK = "xoxb-1234567890-abcdefghij"
AMAZON = "AKIAIOSFODNN7EXAMPLE"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"
MADE = "q7Zr2LkX9vTb4NwPd8Yh1MsJ"
HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"


@pytest.mark.parametrize("value", [OPENAI, GITHUB, SLACK, AMAZON, JWT, MADE, HEX])
def test_a_credential_under_an_odd_name_is_known_by_its_looks(value: str) -> None:
    entry = {"command": "x", "env": {"FOO": value, "MODE": "fast"}, "args": ["run", value]}
    assert protected(entry) == (
        {
            "command": "x",
            "env": {"FOO": "secret://store/FOO", "MODE": "fast"},
            "args": ["run", "secret://store/HUB_TOKEN"],
        },
        ["FOO", "HUB_TOKEN"],
    )
    assert set(plain_values([ImportedServer("hub", entry)])) == {value}


@pytest.mark.parametrize(
    ("place", "written"),
    [
        ({"headers": {"X-Odd": "Bearer abc123"}}, "Bearer secret://store/HUB_X_ODD"),
        ({"headers": {"X-Odd": OPENAI}}, "secret://store/HUB_X_ODD"),
        ({"args": ["-H", "X-Odd: Bearer abcdef123456"]}, "X-Odd: Bearer secret://store/HUB_TOKEN"),
        (
            {"args": ["--header=Authorization: Bearer abc123"]},
            "--header=Authorization: Bearer secret://store/HUB_TOKEN",
        ),
        (
            {"args": ["-c", "curl -H 'Authorization: Bearer abc123' https://h.example"]},
            "curl -H 'Authorization: Bearer <secret://store/HUB_TOKEN>' https://h.example",
        ),
        ({"args": ["--api-key=abc123"]}, "--api-key=<secret://store/HUB_TOKEN>"),
        ({"args": [f"--foo={MADE}"]}, "--foo=<secret://store/HUB_TOKEN>"),
        ({"args": ["--env=API_KEY=abc123"]}, "--env=API_KEY=<secret://store/HUB_TOKEN>"),
        (
            {"args": ["--url=https://me:pass-word@h.example/"]},
            "--url=https://me:<secret://store/HUB_TOKEN>@h.example/",
        ),
        (
            {"args": ["--url=https://h.example/?key=abc123"]},
            "--url=https://h.example/?key=<secret://store/HUB_TOKEN>",
        ),
        (
            {"url": f"https://h.example/s/{MADE}/mcp"},
            "https://h.example/s/<secret://store/HUB_TOKEN>/mcp",
        ),
        (
            {"url": f"https://h.example/mcp?x={MADE}"},
            "https://h.example/mcp?x=<secret://store/HUB_TOKEN>",
        ),
        ({"env": {"FOO": f"Bearer {OPENAI}"}}, "Bearer secret://store/FOO"),
    ],
)
def test_a_credential_is_found_wherever_it_stands(place: dict[str, Any], written: str) -> None:
    entry = place if "url" in place else {"command": "x", **place}
    if "headers" in place:
        entry = {"url": "https://h.example/", **place}
    found, _ = protected(entry)
    assert written in strings(found)


def strings(value: Any) -> list[str]:
    """Every text of an entry, whole."""
    if isinstance(value, str):
        return [value]
    parts = cast("dict[str, Any]", value).values() if isinstance(value, dict) else value
    return [text for part in parts for text in strings(part)]


def test_a_private_key_under_any_name_is_one_credential() -> None:
    pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEF\n-----END PRIVATE KEY-----\n"
    found, variables = protected({"command": "x", "env": {"FOO": pem}})
    assert (found["env"], variables) == ({"FOO": "secret://store/FOO"}, ["FOO"])


@pytest.mark.parametrize(
    "value",
    [
        "claude-3-5-sonnet-20241022", "@modelcontextprotocol/server-github@2025.4.8", "Europe/Berlin",
        "/usr/local/lib/python3.11/site-packages", "550e8400-e29b-41d4-a716-446655440000",
        "x86_64-unknown-linux-gnu-2024.10.01", "http://127.0.0.1:8080/some/path?limit=100",
        "node_modules/.bin/my-long-server-name-v2", "1234567890123456789012345678",
        "https://docs.example/2025/11/16/how-to-use-the-server", "git+https://github.com/a/b@v1.2.3",
        "mcp-server-filesystem==2025.11.25rc1", "theQuickBrownFoxJumpsOverTheLazyDog2",
        "<your key>", "C:\\Users\\me\\AppData\\Roaming\\npm", "--max-old-space-size=4096",
    ],
)  # fmt: skip
def test_what_is_none_is_left_as_it_is(value: str) -> None:
    entry = {"command": "x", "env": {"FOO": value}, "args": [value, f"--foo={value}"]}
    assert protected(entry) == (entry, [])


def test_what_identifies_something_may_look_like_a_key() -> None:
    env = {"FOLDER_ID": MADE, "COMMIT": HEX}
    args = [f"--file-id={MADE}", "--project", HEX]
    entry = {"command": "x", "env": env, "args": args}
    assert protected(entry) == (entry, [])
