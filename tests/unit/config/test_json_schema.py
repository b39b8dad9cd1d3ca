"""The JSON Schema: it accepts what we accept, and describes everything."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest

from openclaw.config.json5 import parse
from openclaw.config.load import parse_config
from openclaw.config.show import json_schema
from openclaw.core.errors import InvalidConfig

VALIDATOR: Any = jsonschema.Draft202012Validator(json_schema())

VALID = [
    "{}",
    "{ $schema: 'https://example/schema.json' }",
    (
        "{ agents: { defaults: { model: 'openai/x' }, list: [{ id: 'a', model: { fallbacks: [] }, default: true }] }, "
        "  channels: { telegram: {} }, gateway: { mode: 'local', reload: { mode: 'hybrid' } } }"
    ),
    (
        "{ mcp: { servers: { x: { command: 'x', args: ['a'], env: { A: 1, B: true, C: 'c' }, sandbox: 'auto', pin: true,"
        "  sampling: true, inheritEnv: ['A'], transport: null, cwd: null } } } }"
    ),
    (
        "{ mcp: { servers: { x: { url: 'http://a', transport: 'streamable-http', auth: 'oauth', sandbox: { mode: 'strict' },"
        "  sampling: { tokenBudget: 5 }, inheritEnv: true, pin: 'strict' } } } }"
    ),
    (
        "{ models: { providers: { acme: { baseUrl: 'http://a', api: 'openai-responses', models: [{ id: 'm', input: ['text'],"
        "  cost: { input: 1, output: 2.5 } }] } } } }"
    ),
    (
        "{ secrets: { timeoutMs: 5, vault: { address: 'http://v', kvVersion: 2, appRole: { roleId: 'a', secretId: 'b' } },"
        "  exec: { x: { command: 'y' } } } }"
    ),
    "{ logging: { level: 'debug', json: true, consoleStyle: 'pretty' }, audit: { keep: 0 }, tools: { profile: 'full' } }",
]
INVALID = [
    "{ agent: {} }",
    "{ gateway: { port: 'x' } }",
    "{ gateway: { port: 0 } }",
    "{ mcp: { servers: { x: { comand: 'x' } } } }",
    "{ mcp: { servers: { x: { command: 'x', transport: 'tcp' } } } }",
    "{ mcp: { servers: { x: { command: 'x', args: 'a' } } } }",
    "{ mcp: { servers: { x: { command: 'x', sandbox: 'on' } } } }",
    "{ mcp: { servers: { x: { command: '' } } } }",
    "{ agents: { list: [{ name: 'a' }] } }",
    "{ agents: { defaults: { model: 5 } } }",
    "{ models: { providers: { acme: { baseUrl: 'http://a', api: 'soap' } } } }",
    "{ secrets: { exec: { x: {} } } }",
    "{ logging: { level: 'loud' } }",
    "[]",
]


def test_the_schema_is_a_schema() -> None:
    schema = json_schema()
    VALIDATOR.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("text", VALID)
def test_what_we_accept_it_accepts(text: str) -> None:
    parse_config(text, {}, source=Path("x"))
    assert list(VALIDATOR.iter_errors(parse(text).root.plain())) == []


@pytest.mark.requirement("US-1.3")
@pytest.mark.parametrize("text", INVALID)
def test_what_it_can_refuse_it_refuses_as_we_do(text: str) -> None:
    with pytest.raises(InvalidConfig):
        parse_config(text, {}, source=Path("x"))
    assert not VALIDATOR.is_valid(parse(text).root.plain())


def properties(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, definition in [("", schema), *schema["$defs"].items()]:
        for key, value in definition.get("properties", {}).items():
            yield f"{name}.{key}", value


def test_every_setting_is_described_and_has_its_default() -> None:
    schema = json_schema()
    required = {
        f"{name}.{key}"
        for name, definition in schema["$defs"].items()
        for key in definition.get("required", [])
    }
    for place, value in properties(schema):
        described = value.get("description")
        assert described, f"{place} has no description"
        is_map = value.get("type") == "object"
        foreign = cast("str", described).startswith("Belongs to a feature")
        assert "default" in value or place in required or is_map or foreign, f"{place}: no default"
