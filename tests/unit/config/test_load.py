"""From the file to a typed configuration."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.json5 import MAX_CHARACTERS
from openclaw.config.load import LoadedConfig, load_config, parse_config
from openclaw.config.schema import Config
from openclaw.core.errors import InvalidConfig, Problem


def read(text: str, **environ: str) -> LoadedConfig:
    return parse_config(text, environ, source=Path("openclaw.json"))


def server(text: str, **environ: str) -> McpServerConfig:
    return read(f"{{ mcp: {{ servers: {{ x: {text} }} }} }}", **environ).config.mcp.servers["x"]


def refused(path: Path) -> list[Problem]:
    with pytest.raises(InvalidConfig) as raised:
        load_config(path, {})
    assert raised.value.source == str(path)
    return list(raised.value.problems)


DESIGN = """{
  models: { providers: {
    // api: openai-completions | openai-responses | anthropic-messages | google-generative-ai
    acme: { baseUrl: "http://127.0.0.1:9999/v1", apiKey: "secret://env/ACME_KEY", api: "openai-completions",
            models: [{ id: "scripted", contextWindow: 128000, maxTokens: 8192, input: ["text", "image"] }] } } },
  agents: {
    defaults: {
      model: { primary: "acme/scripted", fallbacks: [] },
      workspace: "~/work",
      tools: { allow: [], deny: ["exec"] },
      mcp: { servers: {
        time: { command: "uvx", args: ["mcp-server-time"] },
        docs: { url: "https://docs.example/mcp", transport: "http", headers: { Authorization: "Bearer secret://env/DOCS_TOKEN" } } } },
    },
    list: [ { id: "research", mcp: { servers: { time: { enabled: false } } }, tools: { allow: ["mcp_docs_*"] } } ],
  },
  gateway: { port: 18789, bind: "loopback", auth: { token: "secret://env/OPENCLAW_GATEWAY_TOKEN" }, tools: { allow: [], deny: [] } },
  sessions: { store: "file" },
  media: { transcription: { provider: "auto" } },
  mcpServer: { audio: "auto", toolResults: "addressed" },
}"""


@pytest.mark.requirement("US-1.1")
def test_the_documented_example_is_valid_and_says_nothing_unexpected() -> None:
    loaded = read(DESIGN)
    assert loaded.warnings == ()
    assert loaded.plaintext == ()
    assert loaded.config.models.providers["acme"].models[0].context_window == 128_000


@pytest.mark.requirement("FR-1.2")
def test_a_server_has_the_documented_defaults() -> None:
    x = server('{ command: "x" }')
    assert (x.enabled, x.transport, x.kind, x.args, x.env, x.cwd) == (
        True,
        None,
        "stdio",
        (),
        {},
        None,
    )
    assert (x.timeout, x.tool_timeout) == (30_000, 60_000)
    assert (x.restart_on_crash, x.max_restarts, x.tool_prefix, x.lazy) == (True, 5, None, False)
    assert (x.resources, x.resource_filter, x.resource_refresh_ms) == (True, (), 300_000)
    assert (x.prompts, x.inherit_env, x.sandbox.mode, x.pin) == (True, False, "off", "warn")
    assert (x.sampling.enabled, x.framing, x.on_suspicious) == (False, "frame", "log")
    assert (x.max_message_bytes, x.max_result_chars) == (64 * 1024 * 1024, 200_000)


def test_the_rest_has_the_documented_defaults() -> None:
    config = Config()
    assert (config.gateway.port, config.gateway.bind, config.gateway.auth.token) == (
        18_789,
        "loopback",
        None,
    )
    assert (config.sessions.store, config.media.transcription.provider) == ("file", "auto")
    assert (config.mcp_server.audio, config.mcp_server.tool_results) == ("auto", "addressed")
    assert config.agents.defaults.tool_context_percent == 3
    assert config.agents.defaults.tool_search_limit is None
    assert (config.audit.enabled, config.audit.bodies, config.logging.json_) == (True, False, False)


@pytest.mark.requirement("FR-1.6")
@pytest.mark.parametrize(
    ("text", "kind", "falls_back"),
    [
        ('{ command: "x" }', "stdio", False),
        ('{ url: "http://a/mcp" }', "http", True),
        ('{ url: "http://a/mcp", transport: "http" }', "http", False),
        ('{ url: "http://a/mcp", transport: "streamable-http" }', "http", False),
        ('{ url: "http://a/mcp", transport: "sse" }', "sse", False),
        ('{ command: "x", url: "http://a/mcp" }', "stdio", False),
        ('{ url: "secret://env/URL" }', "http", True),
    ],
)
def test_the_transport_is_as_given_or_follows_from_what_is_there(
    text: str, kind: str, falls_back: bool
) -> None:
    x = server(text)
    assert x.kind == kind
    assert x.may_fall_back_to_sse is falls_back


def test_short_forms_mean_their_long_ones() -> None:
    x = server(
        '{ url: "http://a", auth: "oauth", sandbox: "strict", pin: true, sampling: true, inheritEnv: ["A"],'
        " env: { N: 5, F: 1.5, T: true, E: false } }"
    )
    assert x.auth is not None
    assert (x.auth.type, x.sandbox.mode, x.pin, x.sampling.enabled) == (
        "oauth",
        "strict",
        "warn",
        True,
    )
    assert x.inherit_env == ("A",)
    assert x.env == {"N": "5", "F": "1.5", "T": "true", "E": "false"}
    y = server(
        '{ url: "http://a", auth: { scopes: ["s"] }, pin: false, inheritEnv: true, sampling: { tokenBudget: 5 } }'
    )
    assert y.auth is not None
    assert (y.auth.scopes, y.pin, y.inherit_env, y.sampling.token_budget) == (
        ("s",),
        "off",
        True,
        5,
    )
    assert read('{ gateway: { reload: { mode: "hybrid" } } }').config.gateway.reload.mode == "hot"


@pytest.mark.requirement("FR-1.1")
def test_servers_that_mean_the_same_are_equal_however_they_were_written() -> None:
    assert server('{ command: "x" }') == server(
        '{ command: "x", timeout: 30000, args: [], sandbox: { mode: "off" }, enabled: true }'
    )
    assert server('{ command: "x" }') != server('{ command: "x", timeout: 30001 }')


def test_credentials_are_not_in_its_printed_form() -> None:
    loaded = read(
        "{ gateway: { auth: { token: 'hunter2' } }, models: { providers: { openai: { apiKey: 'hunter2',"
        " headers: { X: 'hunter2' } } } }, mcp: { servers: { x: { url: 'http://x', headers: { X: 'hunter2' },"
        " env: { X: 'hunter2' }, auth: { clientSecret: 'hunter2' } } } },"
        " secrets: { vault: { token: 'hunter2', appRole: { roleId: 'r', secretId: 'hunter2' } } } }"
    )
    assert "hunter2" not in repr(loaded)


def test_it_is_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Config().gateway.port = 5


def test_variables_are_put_in_everywhere_and_a_doubled_sign_is_itself() -> None:
    loaded = read(
        '{ mcp: { servers: { "${A}": { command: "${A}/bin", args: ["$${A}", "$A", "${B}${B}"], '
        'env: { "${A}": "x${A}y" } } } }, agents: { defaults: { workspace: "${A}" } } }',
        A="a",
        B="${A}",
    )
    x = loaded.config.mcp.servers["${A}"]
    assert (x.command, x.args, x.env) == ("a/bin", ("${A}", "$A", "${A}${A}"), {"${A}": "xay"})
    assert loaded.config.agents.defaults.workspace == "a"


def test_a_variable_that_is_set_and_empty_is_set() -> None:
    assert server('{ command: "x", cwd: "/a${E}" }', E="").cwd == "/a"


def test_values_of_variables_with_credential_names_are_told_to_whoever_redacts() -> None:
    loaded = read(
        '{ mcp: { servers: { x: { command: "x", env: { A: "${MY_API_KEY}", B: "${PLACE}" } } } } }',
        MY_API_KEY="k-123456",
        PLACE="here",
    )
    assert loaded.credentials == {"k-123456"}


def test_values_that_references_name_are_known_before_anybody_resolves_them() -> None:
    loaded = read(
        '{ mcp: { servers: { x: { url: "https://a.example/?k=<secret://env/ODD>",'
        ' headers: { X: "Bearer secret://env/OTHER", Y: "secret://env/UNSET" } } } } }',
        ODD="value-1",
        OTHER="value-2",
    )
    assert loaded.credentials == {"value-1", "value-2"}


def test_settings_of_features_that_are_not_here_are_kept_and_warned_about_once() -> None:
    loaded = read(
        '{\n  channels: { telegram: { botToken: "${NOT_SET}" } },\n'
        '  agents: { defaults: { heartbeat: {} }, list: [{ id: "a", identity: {} }] },\n'
        '  gateway: { mode: "local" },\n  logging: { consoleStyle: "pretty" },\n  routing: {},\n}'
    )
    assert loaded.warnings == (
        (
            "not supported, and ignored: channels (line 2), "
            "agents.defaults.heartbeat (line 3), agents.list[0].identity (line 3), "
            "gateway.mode (line 4), logging.consoleStyle (line 5), routing (line 6)"
        ),
    )


def test_a_file_made_for_all_of_openclaw_keeps_working() -> None:
    loaded = read("""{
      meta: { lastTouchedVersion: "2026.3.1" },
      auth: { profiles: { "anthropic:default": { provider: "anthropic", mode: "token" } } },
      agents: { defaults: {
        model: { primary: "anthropic/claude-opus" }, models: { "anthropic/claude-opus": { alias: "opus" } },
        workspace: "~/.openclaw/workspace", compaction: { mode: "safeguard" }, maxConcurrent: 4,
        subagents: { maxConcurrent: 8 },
      } },
      tools: { web: { search: { enabled: true } }, exec: { security: "full" }, deny: ["exec"] },
      messages: { ackReactionScope: "all" },
      gateway: {
        port: 18790, mode: "local", bind: "lan", auth: { mode: "token", token: "secret://env/T" },
        tailscale: { mode: "off" }, reload: { mode: "hybrid", deferralTimeoutMs: 5 },
      },
      models: { mode: "merge", providers: { x: { baseUrl: "http://x/v1", auth: "api-key", models: [
        { id: "m", name: "M", reasoning: false, input: ["text"], contextWindow: 8192, maxTokens: 100,
          cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, compat: {} },
      ] } } },
      skills: {}, plugins: {}, cron: {}, hooks: {}, session: {}, browser: {}, env: { vars: {} },
    }""")
    assert loaded.config.gateway.port == 18_790
    assert loaded.config.tools.deny == ("exec",)
    assert loaded.plaintext == ()
    assert len(loaded.warnings) == 1


def test_a_prompt_may_speak_of_references() -> None:
    read('{ agents: { defaults: { systemPrompt: "Never print secret://what/ever." } } }')


def test_a_file_that_is_not_there_means_the_defaults(tmp_path: Path) -> None:
    loaded = load_config(None, {"HOME": str(tmp_path)})
    assert loaded == LoadedConfig(Config(), tmp_path / ".openclaw/openclaw.json", exists=False)


def test_the_file_is_found_by_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "my.json5"
    path.write_text("{ gateway: { port: 5 } }")
    loaded = load_config(None, {"OPENCLAW_CONFIG_PATH": str(path)})
    assert (loaded.config.gateway.port, loaded.path, loaded.exists) == (5, path, True)


def test_a_file_that_the_environment_names_and_that_is_not_there_is_warned_about(
    tmp_path: Path,
) -> None:
    named = str(tmp_path / "typo.json")
    loaded = load_config(None, {"OPENCLAW_CONFIG_PATH": named, "HOME": str(tmp_path)})
    [warning] = loaded.warnings
    assert warning.startswith(f"{named} does not exist")
    assert load_config(tmp_path / "typo.json", {"HOME": str(tmp_path)}).warnings == ()


def test_what_cannot_be_read_says_why(tmp_path: Path) -> None:
    assert refused(tmp_path) == [Problem("", "is a directory, not a file")]
    binary = tmp_path / "binary"
    binary.write_bytes(b"{\n  a: '\xff'\n}")
    assert refused(binary) == [Problem("", "is not UTF-8 text: the first wrong byte is in line 2")]
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(4 * MAX_CHARACTERS + 1)
    assert refused(large) == [Problem("", f"is larger than {MAX_CHARACTERS} characters")]
    assert refused(Path("/dev/zero")) == [Problem("", "is not a regular file")]
    assert refused(binary / "x") == [Problem("", "cannot be read: Not a directory")]


def test_a_pipe_is_refused_rather_than_waited_for_and_a_link_is_followed(tmp_path: Path) -> None:
    pipe, file, link = tmp_path / "pipe", tmp_path / "file", tmp_path / "link"
    os.mkfifo(pipe)
    assert refused(pipe) == [Problem("", "is not a regular file")]
    file.write_text("{ gateway: { port: 5 } }")
    link.symlink_to(file)
    assert load_config(link, {}).config.gateway.port == 5


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}")
    path.chmod(0)
    assert refused(path) == [Problem("", "cannot be read: Permission denied")]


def test_a_syntax_error_names_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{ a: }")
    assert refused(path) == [Problem("a", "expected a value, not '}'", 1, 6)]


@pytest.mark.parametrize(
    ("mode", "text", "warned"),
    [
        (0o644, '{ gateway: { auth: { token: "abc" } } }', True),
        (0o640, '{ mcp: { servers: { x: { command: "x", args: ["--api-key", "abc"] } } } }', True),
        (0o600, '{ gateway: { auth: { token: "abc" } } }', False),
        (0o644, '{ gateway: { auth: { token: "secret://env/T" } } }', False),
        (0o644, "{ gateway: { port: 5 } }", False),
    ],
)
def test_plaintext_credentials_in_a_file_that_others_can_read_are_warned_about(
    tmp_path: Path, mode: int, text: str, warned: bool
) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text(text)
    path.chmod(mode)
    loaded = load_config(path, {})
    where = f"{path} contains credentials and other users of this machine can read it; run: chmod 600 {path}"
    assert (where in loaded.warnings) is warned
    assert "abc" not in "".join(loaded.warnings)


@pytest.mark.requirement("US-6.4", "FR-5.8")
def test_each_server_with_a_plaintext_credential_is_warned_about_once() -> None:
    loaded = read(
        "{ mcp: { servers: { a: { command: 'x', env: { X_TOKEN: 'plain-1', Y_TOKEN: 'plain-2' } },"
        " b: { url: 'http://b', headers: { Authorization: 'Bearer ${T}' } },"
        " c: { command: 'x', env: { X_TOKEN: 'secret://env/X' } } } },"
        " agents: { list: [{ id: 'me', mcp: { servers: { d: { url: 'http://u:plain-3@d' } } } }] } }",
        T="from-outside",
    )
    assert loaded.warnings == tuple(
        f"MCP server '{name}' has plaintext credentials in config — consider using secret:// references"
        for name in "ad"
    )
    assert loaded.plaintext == (
        "mcp.servers.a.env.X_TOKEN",
        "mcp.servers.a.env.Y_TOKEN",
        "agents.list[0].mcp.servers.d.url",
    )
    assert loaded.credentials == {
        "plain-1", "plain-2", "plain-3", "from-outside", "Bearer from-outside",
    }  # fmt: skip


KEYS = [
    "agents", "defaults", "list", "mcp", "servers", "command", "url", "transport", "args", "env",
    "model", "primary", "models", "providers", "gateway", "tools", "allow", "id", "sandbox", "x",
]  # fmt: skip
TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["", "a/b", "http", "${A}", "stdio"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=30,
)


@given(st.dictionaries(st.sampled_from(KEYS), TREES))
def test_any_tree_is_accepted_or_refused_with_problems_in_their_places(
    tree: dict[str, Any],
) -> None:
    text = json.dumps(tree, indent=1)
    found: tuple[Problem, ...] = ()
    try:
        read(text)
    except InvalidConfig as error:
        found = error.problems
        assert found
    places = [(problem.line, problem.column) for problem in found]
    assert places == sorted(places)
    assert len({problem.path for problem in found}) == len(found)
    assert all(problem.message and "Input should" not in problem.message for problem in found)
