"""The configuration, fit to be shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw.config.load import parse_config
from openclaw.config.sensitive import credentials_in_address
from openclaw.config.show import REDACTED, redacted, show
from openclaw.secrets.redactor import Redactor


def shown(text: str, **environ: str) -> dict[str, Any]:
    return show(parse_config(text, environ, source=Path("openclaw.json")))


def server(text: str, **environ: str) -> dict[str, Any]:
    tree = shown(f"{{ mcp: {{ servers: {{ x: {text} }} }} }}", **environ)
    return tree["agents"]["list"][0]["mcp"]["servers"]["x"]


def test_it_shows_each_agent_as_it_runs_with_all_defaults() -> None:
    tree = shown(
        "{ agents: { defaults: { mcp: { servers: { a: { command: 'x' }, b: { url: 'http://y' } } } },"
        " list: [{ id: 'one' }, { id: 'two', default: true, model: 'local/x',"
        " mcp: { servers: { a: { enabled: false }, b: { toolTimeout: 5 } } } }] } }"
    )
    one, two = tree["agents"]["list"]
    assert tree["agents"]["default"] == "two"
    assert sorted(one["mcp"]["servers"]) == ["a", "b"]
    assert one["mcp"]["servers"]["a"]["timeout"] == 30_000
    assert list(two["mcp"]["servers"]) == ["b"]
    assert two["mcp"]["servers"]["b"]["toolTimeout"] == 5
    assert two["mcp"]["servers"]["b"]["transport"] == "http"
    assert two["model"] == {"primary": "local/x", "fallbacks": []}
    assert one["limits"]["maxSteps"] == 500
    assert tree["gateway"]["port"] == 18_789
    json.dumps(tree, allow_nan=False)


def test_what_is_not_set_is_left_out() -> None:
    tree = shown("{ mcp: { servers: { a: { command: 'x' } } } }")
    assert "null" not in json.dumps(tree)
    assert "workspace" not in tree["agents"]["list"][0]


@pytest.mark.requirement("FR-5.9")
@pytest.mark.parametrize(
    ("text", "environ", "expected"),
    [
        ("{ command: 'x', env: { API_KEY: 'hunter2' } }", {}, {"env": {"API_KEY": REDACTED}}),
        ("{ command: 'x', env: { Q: '${MY_TOKEN}!' } }", {"MY_TOKEN": "hunter2"}, {"env": {"Q": f"{REDACTED}!"}}),
        ("{ command: 'x', env: { PLACE: 'here', DB_PASSWORD: 'secret://gcp/db' } }", {}, {"env": {"PLACE": "here", "DB_PASSWORD": "secret://gcp/db"}}),
        ("{ command: 'x', env: { DATABASE_URL: 'postgres://me:hunter2@db/app' } }", {}, {"env": {"DATABASE_URL": f"postgres://me:{REDACTED}@db/app"}}),
        ("{ command: 'x', env: { DB: 'host=db password=hunter2 user=me' } }", {}, {"env": {"DB": f"host=db password={REDACTED} user=me"}}),
        ("{ url: 'http://a', headers: { authorization: 'Bearer hunter2' } }", {}, {"headers": {"authorization": REDACTED}}),
        ("{ url: 'http://a', headers: { Authorization: 'Bearer secret://env/T' } }", {}, {"headers": {"Authorization": "Bearer secret://env/T"}}),
        ("{ url: 'http://a', headers: { 'X-Api-Key': 'hunter2', Cookie: 'hunter2', Accept: '*/*' } }", {}, {"headers": {"X-Api-Key": REDACTED, "Cookie": REDACTED, "Accept": "*/*"}}),
        ("{ url: 'https://hunter2@a/mcp' }", {}, {"url": f"https://{REDACTED}@a/mcp"}),
        ("{ url: 'https://me:hunter2@a/mcp?x=1' }", {}, {"url": f"https://me:{REDACTED}@a/mcp?x=1"}),
        ("{ url: 'https://a/mcp?api_key=hunter2&x=1' }", {}, {"url": f"https://a/mcp?api_key={REDACTED}&x=1"}),
        ("{ command: 'x', args: ['--token', 'hunter2', '-v', '--max-tokens', '5'] }", {}, {"args": ["--token", REDACTED, "-v", "--max-tokens", "5"]}),
        ("{ command: 'x', args: ['--password=hunter2', '--api-key', '--verbose', 'API_KEY=hunter2'] }", {}, {"args": [f"--password={REDACTED}", "--api-key", "--verbose", f"API_KEY={REDACTED}"]}),
        ("{ command: 'x', args: ['--db', 'mysql://u:hunter2@h'] }", {}, {"args": ["--db", f"mysql://u:{REDACTED}@h"]}),
        ("{ url: 'http://a', auth: { clientId: 'me', clientSecret: 'hunter2' } }", {}, {"auth": {"type": "oauth", "grant": "login", "clientId": "me", "clientSecret": REDACTED, "dpop": "auto", "scopes": [], "store": "file"}}),
        ("{ url: 'http://a', auth: { privateKey: 'hunter2', assertion: 'hunter2', identityProvider: { clientId: 'c', clientSecret: 'hunter2', idToken: 'hunter2' } } }", {}, {}),
        ("{ command: 'x', sampling: { maxTokens: 5, tokenBudget: 7 } }", {}, {"sampling": {"enabled": True, "maxTokens": 5, "tokenBudget": 7}}),
    ],
)  # fmt: skip
def test_credentials_are_hidden_and_nothing_else_is(
    text: str, environ: dict[str, str], expected: dict[str, Any]
) -> None:
    entry = server(text, **environ)
    assert {key: entry[key] for key in expected} == expected
    assert "hunter2" not in json.dumps(entry)


def test_credentials_outside_of_servers_are_hidden_too() -> None:
    tree = shown(
        "{ models: { providers: { acme: { baseUrl: 'http://a', apiKey: 'hunter2', headers: { 'x-api-key': 'hunter2' } } } },"
        " gateway: { auth: { token: 'hunter2' } }, sessions: { store: 'postgresql://u:hunter2@h/db' },"
        " media: { transcription: { apiKey: 'hunter2' } },"
        " secrets: { vault: { token: 'hunter2', appRole: { roleId: 'r', secretId: 'hunter2' } } } }"
    )
    assert "hunter2" not in json.dumps(tree)
    assert tree["secrets"]["vault"]["appRole"]["roleId"] == "r"
    assert tree["sessions"]["store"] == f"postgresql://u:{REDACTED}@h/db"


def test_what_a_redactor_knows_is_hidden_wherever_it_stands() -> None:
    redactor = Redactor()
    redactor.register("correct horse battery")
    assert redacted({"a": ["say correct horse battery"]}, redactor=redactor) == {
        "a": ["say [REDACTED]"]
    }


def test_text_around_a_reference_in_a_credential_is_hidden_when_it_could_be_one() -> None:
    tree = redacted({"password": "a-long-hidden-prefix secret://env/X"})
    assert tree == {"password": f"{REDACTED}secret://env/X"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("http://[broken", []),
        ("ssh://git@host/x", []),
        ("https://host/x#access_token=abc", ["abc"]),
        ("https://host/?sig=abc&code=d", ["abc", "d"]),
        ("no address at all", []),
        ("Server=x;Pwd=abc;", ["abc"]),
        ("secret://env/X?key=abc", []),
    ],
)
def test_credentials_in_addresses(text: str, found: list[str]) -> None:
    assert credentials_in_address(text) == found
