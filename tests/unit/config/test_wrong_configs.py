"""Wrong configurations, each with the exact path, message, line and column that it gets."""

from pathlib import Path

import pytest

from openclaw.config.load import parse_config
from openclaw.core.errors import InvalidConfig, Problem

WRONG: dict[str, tuple[str, list[tuple[str, str, int, int]]]] = {
    "a stdio server without command": (
        '{\n  agents: { defaults: { mcp: { servers: {\n    time: { args: ["mcp-server-time"] },\n  } } } },\n}',
        [
            (
                "agents.defaults.mcp.servers.time.command",
                'is required, or "url" for a remote server',
                3,
                11,
            )
        ],
    ),
    "an explicit stdio server without command": (
        '{ mcp: { servers: {\n  x: { transport: "stdio", url: "http://a/b" },\n} } }',
        [("mcp.servers.x.command", 'is required if transport is "stdio"', 2, 6)],
    ),
    "an http server without url": (
        '{ mcp: { servers: {\n  x: { transport: "http", command: "x" },\n} } }',
        [("mcp.servers.x.url", 'is required if transport is "http"', 2, 6)],
    ),
    "an sse server without url": (
        '{ mcp: { servers: {\n  x: { transport: "sse" },\n} } }',
        [("mcp.servers.x.url", 'is required if transport is "sse"', 2, 6)],
    ),
    "a streamable-http server without url": (
        '{ mcp: { servers: {\n  x: { transport: "streamable-http" },\n} } }',
        [("mcp.servers.x.url", 'is required if transport is "http"', 2, 6)],
    ),
    "a url that is not http": (
        '{ mcp: { servers: {\n  x: { url: "ws://example/mcp" },\n} } }',
        [("mcp.servers.x.url", 'must start with "http://" or "https://"', 2, 13)],
    ),
    "a url without a host": (
        '{ mcp: { servers: {\n  x: { url: "http:///mcp" },\n} } }',
        [("mcp.servers.x.url", "does not name a valid host and port", 2, 13)],
    ),
    "a url with a broken port": (
        '{ mcp: { servers: {\n  x: { url: "http://a:99999/" },\n} } }',
        [("mcp.servers.x.url", "does not name a valid host and port", 2, 13)],
    ),
    "an unknown transport": (
        '{ mcp: { servers: {\n  x: { command: "x", transport: "htp" },\n} } }',
        [
            (
                "mcp.servers.x.transport",
                "must be 'stdio', 'sse' or 'http'",
                2,
                33,
            )
        ],
    ),
    "an unknown transport that is like none": (
        '{ mcp: { servers: {\n  x: { command: "x", transport: "carrier pigeon" },\n} } }',
        [("mcp.servers.x.transport", "must be 'stdio', 'sse' or 'http'", 2, 33)],
    ),
    "a command of the wrong type": (
        '{ mcp: { servers: {\n  x: { command: ["uvx"] },\n} } }',
        [("mcp.servers.x.command", "must be text, not a list", 2, 17)],
    ),
    "an argument of the wrong type": (
        '{ mcp: { servers: {\n  x: { command: "x", args: ["a", 5] },\n} } }',
        [("mcp.servers.x.args[1]", "must be text, not a number", 2, 34)],
    ),
    "arguments that are no list": (
        '{ mcp: { servers: {\n  x: { command: "x", args: "a b" },\n} } }',
        [("mcp.servers.x.args", "must be a list, not text", 2, 28)],
    ),
    "an environment that is no object": (
        '{ mcp: { servers: {\n  x: { command: "x", env: ["A=b"] },\n} } }',
        [("mcp.servers.x.env", "must be an object, not a list", 2, 27)],
    ),
    "an environment variable that is null": (
        '{ mcp: { servers: {\n  x: { command: "x", env: { A: null } },\n} } }',
        [("mcp.servers.x.env.A", "must be text, not null", 2, 32)],
    ),
    "an environment variable with an impossible name": (
        '{ mcp: { servers: {\n  x: { command: "x", env: { "A=B": "1" } },\n} } }',
        [
            (
                'mcp.servers.x.env["A=B"]',
                "is not a valid name for an environment variable",
                2,
                29,
            )
        ],
    ),
    "a header with an impossible name": (
        '{ mcp: { servers: {\n  x: { url: "http://a", headers: { "a b": "1" } },\n} } }',
        [('mcp.servers.x.headers["a b"]', "is not a valid name for an HTTP header", 2, 36)],
    ),
    "a header with a line break": (
        '{ mcp: { servers: {\n  x: { url: "http://a", headers: { X: "a\\nb" } },\n} } }',
        [("mcp.servers.x.headers.X", "must not contain a line break", 2, 39)],
    ),
    "an empty command": (
        '{ mcp: { servers: {\n  x: { command: "" },\n} } }',
        [("mcp.servers.x.command", "must not be empty", 2, 17)],
    ),
    "a timeout of zero": (
        '{ mcp: { servers: {\n  x: { command: "x", timeout: 0, toolTimeout: -1 },\n} } }',
        [
            ("mcp.servers.x.timeout", "must be greater than 0", 2, 31),
            ("mcp.servers.x.toolTimeout", "must be greater than 0", 2, 47),
        ],
    ),
    "a timeout that is too long": (
        '{ mcp: { servers: {\n  x: { command: "x", timeout: 86400001 },\n} } }',
        [("mcp.servers.x.timeout", "must be at most 86400000", 2, 31)],
    ),
    "a fraction where a whole number is meant": (
        '{ mcp: { servers: {\n  x: { command: "x", maxRestarts: 1.5 },\n} } }',
        [("mcp.servers.x.maxRestarts", "must be a whole number", 2, 35)],
    ),
    "a quoted number": (
        '{ mcp: { servers: {\n  x: { command: "x", timeout: "30000" },\n} } }',
        [("mcp.servers.x.timeout", "must be a whole number, not text", 2, 31)],
    ),
    "a quoted flag": (
        '{ mcp: { servers: {\n  x: { command: "x", lazy: "true" },\n} } }',
        [("mcp.servers.x.lazy", "must be true or false, not text", 2, 28)],
    ),
    "a negative count": (
        '{ mcp: { servers: {\n  x: { command: "x", maxRestarts: -1 },\n} } }',
        [("mcp.servers.x.maxRestarts", "must be at least 0", 2, 35)],
    ),
    "oauth on a stdio server": (
        '{ mcp: { servers: {\n  x: { command: "x", auth: "oauth" },\n} } }',
        [("mcp.servers.x.auth", "is only for servers with a url", 2, 28)],
    ),
    "an unknown kind of login": (
        '{ mcp: { servers: {\n  x: { url: "http://a", auth: "basic" },\n} } }',
        [("mcp.servers.x.auth", 'must be "oauth" or an object', 2, 31)],
    ),
    "an unknown sandbox": (
        '{ mcp: { servers: {\n  x: { command: "x", sandbox: "on" },\n} } }',
        [("mcp.servers.x.sandbox", 'must be "off", "auto", "strict" or an object', 2, 31)],
    ),
    "an unknown key in a sandbox": (
        '{ mcp: { servers: {\n  x: { command: "x", sandbox: { mode: "auto", reed: ["/"] } },\n} } }',
        [("mcp.servers.x.sandbox.reed", 'unknown key; did you mean "read"?', 2, 47)],
    ),
    "an unknown pin": (
        '{ mcp: { servers: {\n  x: { command: "x", pin: "always" },\n} } }',
        [("mcp.servers.x.pin", 'must be "off", "warn", "strict", true or false', 2, 27)],
    ),
    "a sampling of the wrong shape": (
        '{ mcp: { servers: {\n  x: { command: "x", sampling: "yes" },\n} } }',
        [("mcp.servers.x.sampling", "must be true, false or an object", 2, 32)],
    ),
    "a list of names of the wrong shape": (
        '{ mcp: { servers: {\n  x: { command: "x", inheritEnv: [1] },\n} } }',
        [("mcp.servers.x.inheritEnv", "must be true, false or a list of variable names", 2, 34)],
    ),
    "a server that is no object": (
        '{ mcp: { servers: { x: "uvx" } } }',
        [("mcp.servers.x", "must be an object, not text", 1, 24)],
    ),
    "servers in a list": (
        "{ mcp: { servers: [] } }",
        [("mcp.servers", "must be an object, not a list", 1, 19)],
    ),
    "a server with an empty name": (
        '{ mcp: { servers: {\n  "": { command: "x" },\n} } }',
        [
            (
                'mcp.servers[""]',
                "a server's name has 1 to 64 characters, and no control characters",
                2,
                3,
            )
        ],
    ),
    "a server with a very long name": (
        '{ mcp: { servers: { nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn: { command: "x" } } } }',
        [
            (
                "mcp.servers.nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn",
                "a server's name has 1 to 64 characters, and no control characters",
                1,
                21,
            )
        ],
    ),
    "a server with a control character in its name": (
        '{ mcp: { servers: { "a\\tb": { command: "x" } } } }',
        [
            (
                'mcp.servers["a\\tb"]',
                "a server's name has 1 to 64 characters, and no control characters",
                1,
                21,
            )
        ],
    ),
    "a mistyped key": (
        '{ mcp: { servers: {\n  x: { comand: "uvx" },\n} } }',
        [("mcp.servers.x.comand", 'unknown key; did you mean "command"?', 2, 8)],
    ),
    "a key as others call it": (
        '{ mcp: { servers: {\n  x: { command: "x", workingDirectory: "/tmp", type: "stdio" },\n} } }',
        [
            ("mcp.servers.x.workingDirectory", 'unknown key; did you mean "cwd"?', 2, 22),
            ("mcp.servers.x.type", 'unknown key; did you mean "transport"?', 2, 48),
        ],
    ),
    "a key in snake case": (
        '{ mcp: { servers: {\n  x: { command: "x", tool_timeout: 5 },\n} } }',
        [("mcp.servers.x.tool_timeout", 'unknown key; did you mean "toolTimeout"?', 2, 22)],
    ),
    "a key that is like none": (
        '{ mcp: { servers: {\n  x: { command: "x", zzz: 5 },\n} } }',
        [("mcp.servers.x.zzz", "unknown key", 2, 22)],
    ),
    "a mistyped section": (
        "{\n  gatway: { port: 1 },\n}",
        [("gatway", 'unknown key; did you mean "gateway"?', 2, 3)],
    ),
    "a mistyped section of another feature": (
        "{ chanels: {} }",
        [("chanels", 'unknown key; did you mean "channels"?', 1, 3)],
    ),
    "a duplicate agent id": (
        '{ agents: { list: [\n  { id: "a" },\n  { id: "b" },\n  { id: "A" },\n] } }',
        [("agents.list[2].id", 'the id "A" is already used by agents.list[0]', 4, 9)],
    ),
    "an agent without an id": (
        '{ agents: { list: [ { id: "a" }, { name: "B" } ] } }',
        [("agents.list[1].id", "is required", 1, 34)],
    ),
    "an agent with an impossible id": (
        '{ agents: { list: [ { id: "../x" } ] } }',
        [("agents.list[0].id", 'must be letters, digits, "-" and "_" only, 64 at most', 1, 27)],
    ),
    "two default agents": (
        '{ agents: { list: [ { id: "a", default: true }, { id: "b", default: true } ] } }',
        [
            (
                "agents.list[1].default",
                "only one agent can be the default, and agents.list[0] already is",
                1,
                69,
            )
        ],
    ),
    "agents that are no list": (
        "{ agents: { list: { a: {} } } }",
        [("agents.list", "must be a list, not an object", 1, 19)],
    ),
    "a model without a provider": (
        '{ agents: { defaults: { model: "gpt-5" } } }',
        [("agents.defaults.model", 'must look like "provider/model"', 1, 32)],
    ),
    "a model of a mistyped provider": (
        '{ agents: { defaults: { model: "antropic/claude" } } }',
        [
            (
                "agents.defaults.model",
                'there is no provider "antropic"; did you mean "anthropic"?',
                1,
                32,
            )
        ],
    ),
    "a model of an unknown provider": (
        '{ agents: { defaults: { model: { primary: "zzz/m", fallbacks: ["acme/m", "local/x"] } } },\n  models: { providers: { acme: { baseUrl: "http://a" } } } }',
        [
            (
                "agents.defaults.model.primary",
                'there is no provider "zzz"; add it to models.providers',
                1,
                43,
            )
        ],
    ),
    "a model of the wrong type": (
        "{ agents: { defaults: { model: 5 } } }",
        [
            (
                "agents.defaults.model",
                'must be a model such as "anthropic/claude-sonnet-5-5" or an object',
                1,
                32,
            )
        ],
    ),
    "a provider without an address": (
        '{ models: { providers: { acme: { api: "openai-completions" } } } }',
        [
            (
                "models.providers.acme.baseUrl",
                "is required for a provider that is not built in",
                1,
                32,
            )
        ],
    ),
    "a provider with an unknown api": (
        '{ models: { providers: { acme: { baseUrl: "http://a", api: "openai" } } } }',
        [
            (
                "models.providers.acme.api",
                "must be 'openai-completions', 'openai-responses', 'anthropic-messages' or 'google-generative-ai'",
                1,
                60,
            )
        ],
    ),
    "a provider with a slash in its name": (
        '{ models: { providers: { "a/b": { baseUrl: "http://a" } } } }',
        [('models.providers["a/b"]', 'a provider\'s name must not contain "/"', 1, 26)],
    ),
    "a provider with a problem is still a provider": (
        '{ agents: { defaults: { model: "acme/m" } }, models: { providers: { acme: 5 } } }',
        [("models.providers.acme", "must be an object, not a number", 1, 75)],
    ),
    "a model listed twice": (
        '{ models: { providers: { acme: { baseUrl: "http://a", models: [{ id: "m" }, { id: "m" }] } } } }',
        [("models.providers.acme.models[1].id", '"m" is listed twice', 1, 83)],
    ),
    "a model entry without an id": (
        '{ models: { providers: { openai: { models: [{ name: "m" }] } } } }',
        [("models.providers.openai.models[0].id", "is required", 1, 45)],
    ),
    "an unknown kind of input": (
        '{ models: { providers: { openai: { models: [{ id: "m", input: ["text", "smell"] }] } } } }',
        [
            (
                "models.providers.openai.models[0].input[1]",
                "must be 'text', 'image' or 'audio'",
                1,
                72,
            )
        ],
    ),
    "an override that breaks the merged server": (
        '{ agents: {\n  defaults: { mcp: { servers: { docs: { url: "https://a/mcp" } } } },\n  list: [ { id: "a", mcp: { servers: { docs: { transport: "stdio" } } } } ],\n} }',
        [
            (
                "agents.list[0].mcp.servers.docs.command",
                'is required if transport is "stdio"',
                3,
                46,
            )
        ],
    ),
    "an override of a server that is not there": (
        '{ agents: { list: [ { id: "a", mcp: { servers: { time: { toolTimeout: 5 } } } } ] } }',
        [
            (
                "agents.list[0].mcp.servers.time.command",
                'is required, or "url" for a remote server',
                1,
                56,
            )
        ],
    ),
    "switching on a server that was never described": (
        '{ agents: {\n  defaults: { mcp: { servers: { x: { enabled: false } } } },\n  list: [ { id: "a", mcp: { servers: { x: { enabled: true } } } } ],\n} }',
        [
            (
                "agents.list[0].mcp.servers.x.command",
                'is required, or "url" for a remote server',
                3,
                43,
            )
        ],
    ),
    "a default's problem is named once": (
        '{ agents: {\n  defaults: { mcp: { servers: { x: { url: "ftp://a" } } } },\n  list: [ { id: "a", mcp: { servers: { x: { lazy: true } } } } ],\n} }',
        [("agents.defaults.mcp.servers.x.url", 'must start with "http://" or "https://"', 2, 43)],
    ),
    "a missing variable": (
        '{ mcp: { servers: { x: { command: "x", env: { A: "${SET} ${NOT_SET}" } } } } }',
        [("mcp.servers.x.env.A", "the environment variable NOT_SET is not set", 1, 50)],
    ),
    "a broken variable": (
        '{ mcp: { servers: { x: { command: "x", args: ["${SET", "${A-B}"] } } } }',
        [
            (
                "mcp.servers.x.args[0]",
                "'${' is not followed by a variable's name and '}'; write '$${' for the characters themselves",
                1,
                47,
            ),
            (
                "mcp.servers.x.args[1]",
                "'${' is not followed by a variable's name and '}'; write '$${' for the characters themselves",
                1,
                56,
            ),
        ],
    ),
    "an unknown secret scheme": (
        '{ mcp: { servers: {\n  x: { command: "x", env: { A: "secret://gpc/name" } },\n} } }',
        [
            (
                "mcp.servers.x.env.A",
                "secret://gpc/name: unknown scheme 'gpc'; did you mean secret://gcp/…?",
                2,
                32,
            )
        ],
    ),
    "a reference that names nothing": (
        '{ gateway: { auth: { token: "secret://env/" } } }',
        [("gateway.auth.token", "secret://env/: nothing is named; write secret://env/VAR", 1, 29)],
    ),
    "a NUL character": (
        '{ mcp: { servers: {\n  x: { command: "a\\u0000b" },\n} } }',
        [("mcp.servers.x.command", "contains a NUL character", 2, 17)],
    ),
    "a port that is out of range": (
        "{ gateway: { port: 70000 } }",
        [("gateway.port", "must be at most 65535", 1, 20)],
    ),
    "a bind that is no address": (
        '{ gateway: { bind: "0.0.0" } }',
        [("gateway.bind", 'must be "loopback", "lan" or an IP address', 1, 20)],
    ),
    "an unknown store": (
        '{ sessions: { store: "mysql://db" } }',
        [("sessions.store", 'must be "file", a path or an address with "postgresql://"', 1, 22)],
    ),
    "a vault without http": (
        '{ secrets: { vault: { address: "vault:8200", kvVersion: 3 } } }',
        [
            ("secrets.vault.address", 'must start with "http://" or "https://"', 1, 32),
            ("secrets.vault.kvVersion", "must be 1 or 2", 1, 57),
        ],
    ),
    "an exec secret without a command": (
        '{ secrets: { exec: { pass: { args: ["x"] } } } }',
        [("secrets.exec.pass.command", "is required", 1, 28)],
    ),
    "an unknown key in an object that may be left out": (
        '{ secrets: { vault: { appRole: { roleId: "a", secretid: "b" } } } }',
        [("secrets.vault.appRole.secretid", 'unknown key; did you mean "secretId"?', 1, 47)],
    ),
    "an unknown key in a login": (
        '{ mcp: { servers: {\n  x: { url: "http://a", auth: { clientid: "x" } },\n} } }',
        [("mcp.servers.x.auth.clientid", 'unknown key; did you mean "clientId"?', 2, 33)],
    ),
    "a price of the wrong type": (
        '{ models: { providers: { openai: { models: [{ id: "m", cost: { input: "1", outptu: 2 } }] } } } }',
        [
            ("models.providers.openai.models[0].cost.input", "must be a number, not text", 1, 71),
            (
                "models.providers.openai.models[0].cost.outptu",
                'unknown key; did you mean "output"?',
                1,
                76,
            ),
        ],
    ),
    "an included file": (
        '{ $include: "./other.json5" }',
        [("$include", "other files cannot be included", 1, 3)],
    ),
    "a number beyond all use": (
        '{ mcp: { servers: {\n  x: { command: "x", maxMessageBytes: 9007199254740992 },\n} } }',
        [("mcp.servers.x.maxMessageBytes", "must be at most 9007199254740991", 2, 39)],
    ),
    "a share above one": (
        "{ sessions: { compactAt: 1.5 } }",
        [("sessions.compactAt", "must be at most 1", 1, 26)],
    ),
    "a number that is text": (
        '{ sessions: { compactAt: "0.5" } }',
        [("sessions.compactAt", "must be a number, not text", 1, 26)],
    ),
    "a section that is no object": (
        "{ gateway: 5, agents: [], audit: null }",
        [
            ("gateway", "must be an object, not a number", 1, 12),
            ("agents", "must be an object, not a list", 1, 23),
            ("audit", "must be an object, not null", 1, 34),
        ],
    ),
    "a file that is no object": (
        "[]",
        [("", "must be an object, as in { agents: {} }", 1, 1)],
    ),
    "a file that is text": (
        '"hello"',
        [("", "must be an object, as in { agents: {} }", 1, 1)],
    ),
    "fallbacks without a model": (
        '{ agents: { list: [ { id: "a", model: { fallbacks: ["openai/x"] } } ] } }',
        [("agents.list[0].model.primary", "is required if there are fallbacks", 1, 39)],
    ),
    "a setting name in an empty key": (
        '{ "": 1 }',
        [('[""]', "unknown key", 1, 3)],
    ),
    "an empty header name": (
        '{ mcp: { servers: {\n  x: { url: "http://a", headers: { "": "1" } },\n} } }',
        [('mcp.servers.x.headers[""]', "a name must not be empty", 2, 36)],
    ),
    "bad JSON5": (
        '{\n  agents: {\n    defaults: { model: "local/x" }\n    list: []\n  },\n  agents: {},\n  gateway: { port: }\n}',
        [
            ("agents", "expected ',' after this", 3, 35),
            ("agents", "this key is given twice; the first is at line 2, column 3", 6, 3),
            ("gateway.port", "expected a value, not '}'", 7, 20),
        ],
    ),
    "many problems at once": (
        '{\n  agents: { list: [\n    { id: "a", modle: "x" },\n    7,\n    { id: "a", mcp: { servers: { s: {} } } },\n  ] },\n  gateway: { port: "1", bind: "x" },\n  logging: { level: "loud" },\n}',
        [
            ("agents.list[0].modle", 'unknown key; did you mean "model"?', 3, 16),
            ("agents.list[1]", "must be an object, not a number", 4, 5),
            ("agents.list[2].id", 'the id "a" is already used by agents.list[0]', 5, 11),
            (
                "agents.list[2].mcp.servers.s.command",
                'is required, or "url" for a remote server',
                5,
                37,
            ),
            ("gateway.port", "must be a whole number, not text", 7, 20),
            ("gateway.bind", 'must be "loopback", "lan" or an IP address', 7, 31),
            (
                "logging.level",
                "must be 'silent', 'fatal', 'error', 'warn', 'info', 'debug' or 'trace'",
                8,
                21,
            ),
        ],
    ),
}


def problems(text: str) -> list[Problem]:
    with pytest.raises(InvalidConfig) as raised:
        parse_config(text, {"SET": "value", "NUL": "a"}, source=Path("openclaw.json"))
    assert raised.value.source == "openclaw.json"
    return list(raised.value.problems)


@pytest.mark.requirement("US-1.2", "FR-1.3")
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_config_is_refused_with_every_problem_in_its_place(name: str) -> None:
    text, expected = WRONG[name]
    assert problems(text) == [Problem(*each) for each in expected]


def test_there_are_wrong_configs_enough() -> None:
    assert len(WRONG) >= 30
