import json
from pathlib import Path
from typing import Any

import pytest

from openclaw.config.json5 import format_path
from openclaw.config.load import LoadedConfig, parse_config
from openclaw.config.sensitive import client_server, plain_credentials
from openclaw.core.errors import InvalidRequest

OPENAI = "sk-proj-Ab3dEf6hIj9kLm2nOp5q"
MADE = "q7Zr2LkX9vTb4NwPd8Yh1MsJ"
HEX = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"


def load(servers: dict[str, Any]) -> LoadedConfig:
    config = {"agents": {"defaults": {"mcp": {"servers": servers}}}}
    return parse_config(json.dumps(config), {"A": "abcdef-12345"}, source=Path("openclaw.json"))


@pytest.mark.parametrize(
    ("server", "place", "value"),
    [
        ({"command": "x", "env": {"FOO": OPENAI}}, "env.FOO", OPENAI),
        ({"command": "x", "env": {"FOO": MADE}}, "env.FOO", MADE),
        ({"command": "x", "args": ["run", MADE]}, "args[1]", MADE),
        ({"command": "x", "args": [f"--foo={HEX}"]}, "args[0]", HEX),
        ({"command": "x", "args": ["--api-key", "abc123"]}, "args[1]", "abc123"),
        ({"url": "https://h.example", "headers": {"X-Odd": OPENAI}}, "headers.X-Odd", OPENAI),
        ({"url": "https://h.example", "headers": {"X-Odd": "Bearer a1b2"}}, "headers.X-Odd", "a1b2"),
        ({"url": "https://me:pass-word@h.example/"}, "url", "pass-word"),
        ({"url": "https://h.example/?token=abc123"}, "url", "abc123"),
        ({"url": f"https://h.example/s/{MADE}/mcp"}, "url", MADE),
    ],
)  # fmt: skip
def test_a_credential_is_known_by_its_looks_wherever_it_stands(
    server: dict[str, Any], place: str, value: str
) -> None:
    loaded = load({"hub": server})
    assert loaded.plaintext == (f"agents.defaults.mcp.servers.hub.{place}",)
    assert value in loaded.credentials
    assert [one for one in loaded.warnings if "plaintext" in one] == [
        "MCP server 'hub' has plaintext credentials in config — consider using secret:// references"
    ]
    assert all(value not in one for one in loaded.warnings)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("A_TOKEN", "secret://env/A"),
        ("A_TOKEN", "${A}"),
        ("USE_TOKEN", "true"),
        ("GOOGLE_APPLICATION_CREDENTIALS", "/home/me/.config/gcloud/key-2024.json"),
        ("SSH_KEY", "~/.ssh/id_ed25519"),
        ("SSH_AUTH_SOCK", "/run/user/1000/keyring/ssh"),
        ("CLIENT_KEY", "C:\\Users\\me\\client.pem"),
        ("TOKEN_CACHE_KEY", "./tokens/cache.db"),
        ("MCP_AUTH", "oauth"),
        ("TOKENS_PER_MINUTE", "60000"),
        ("API_KEY_HEADER", "X-Service-Header"),
        ("MODE", "production"),
        ("MODEL", "claude-3-5-sonnet-20241022"),
        ("FOO", "anthropic/claude-sonnet-4-5-20250929"),
        ("PROJECT", "550e8400-e29b-41d4-a716-446655440000"),
        ("FOO", "550e8400-e29b-41d4-a716-446655440000"),
        ("GCP_PROJECT", "my-project-284719-a1"),
        ("LINEAR_PROJECT", HEX),
    ],
)
def test_what_is_no_credential_is_not_reported(key: str, value: str) -> None:
    assert load({"hub": {"command": "x", "env": {key: value}}}).plaintext == ()


@pytest.mark.parametrize(
    "args",
    [
        ["--project", HEX],
        ["--auth", "oauth"],
        ["--key", "/etc/ssl/private/server.key"],
        ["--header", "Authorization: Bearer secret://env/A"],
        ["https://h.example/mcp?token=<secret://env/A>"],
        ["ghcr.io/org/app@sha256:" + HEX],
    ],
)
def test_arguments_that_are_no_credential_are_not_reported(args: list[str]) -> None:
    assert load({"hub": {"command": "x", "args": args}}).plaintext == ()


@pytest.mark.parametrize("value", ["/" + MADE, "/" + MADE + "/Ab3+==", "/x9"])
def test_a_key_that_begins_like_a_path_is_a_credential(value: str) -> None:
    found = [path for path, _ in plain_credentials({"env": {"API_KEY": value}})]
    assert [format_path(path) for path in found] == ["env.API_KEY"]


def test_words_outside_of_the_places_where_credentials_stand_are_judged_by_name_alone() -> None:
    tree = {"agents": {"list": [{"prompt": f"Say {MADE} or Bearer {OPENAI}", "model": MADE}]}}
    assert list(plain_credentials(tree)) == []


@pytest.mark.parametrize("text", ["secret://env/KEY", "\nsecret://env/KEY", "a\tsecret://env/KEY"])
@pytest.mark.parametrize("field", ["env", "headers"])
def test_a_client_may_not_use_references_anywhere_in_a_text(field: str, text: str) -> None:
    with pytest.raises(InvalidRequest, match="may not use secret references"):
        client_server({"command": "tool", field: {"A": text}})
    with pytest.raises(InvalidRequest, match="may not use secret references"):
        client_server({"command": "tool", "args": ["-x", text]})
