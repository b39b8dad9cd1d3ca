"""`openclaw mcp …`, run as a person runs it."""

import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_server import command, server_entry
from tests.support.mcp_server_kit import fake_tool
from tests.support.terminal import on_terminal

from openclaw.cli.commands import mcp
from openclaw.cli.environment import Environment
from openclaw.cli.parser import CommandParser, parse, subparsers
from openclaw.cli.run_command import run_command
from openclaw.config.secret_store import SecretStore
from openclaw.core.errors import InvalidConfig, InvalidRequest, NotFound, ServerUnavailable
from openclaw.mcp_client.sandbox.confinement import own_home
from openclaw.mcp_client.sandbox.support import detect_support

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)

SANDBOX = {"sandbox": "auto"} if detect_support(os.environ["PATH"]).best else {}
"""What an added server gets on this machine."""

SPEC: dict[str, Any] = {
    "tools": [
        {**fake_tool("echo"), "description": "Says it again."},
        fake_tool("fail", errorText="no"),
        fake_tool(
            "image",
            result={
                "content": [
                    {"type": "image", "data": PNG, "mimeType": "image/png"},
                    {"type": "resource_link", "uri": "a://1", "name": "one"},
                ]
            },
        ),
        fake_tool("ansi", text="\x1b[31mred"),
    ],
    "prompts": [
        {
            "name": "greet",
            "description": "A greeting.",
            "arguments": [{"name": "who", "required": True}, {"name": "how"}],
            "messages": [{"role": "user", "content": {"type": "text", "text": "Hello {who}"}}],
        }
    ],
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@dataclass
class Shell:
    """A state directory of its own, and the command line on it."""

    state: Path
    home: Path
    out: io.StringIO = field(default_factory=io.StringIO)
    err: io.StringIO = field(default_factory=io.StringIO)
    terminal: bool = False
    environ: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def config(self) -> Path:
        return self.state / "openclaw.json"

    def run(self, *words: str, stdin: str | None = None) -> int:
        self.out, self.err = Terminal() if self.terminal else io.StringIO(), io.StringIO()
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "OPENCLAW_STATE_DIR": str(self.state),
            **self.environ,
        }
        env = Environment(
            environ=environ,
            stdin=io.StringIO() if stdin is None else Terminal(stdin),
            stdout=self.out,
            stderr=self.err,
        )
        parser = CommandParser(prog="openclaw mcp")
        mcp.register(parser)
        return run_command("mcp", parse(parser, list(words)), env)

    def json(self, *words: str) -> Any:
        self.run(*words, "--json")
        return json.loads(self.out.getvalue())

    def servers(self) -> dict[str, Any]:
        return json.loads(self.config.read_text())["agents"]["defaults"]["mcp"]["servers"]

    def add_fake(self, name: str = "fake", spec: dict[str, Any] | None = None) -> None:
        program, arguments = command(SPEC if spec is None else spec)
        self.run("add", name, "--", program, *arguments)


@pytest.fixture
def shell(tmp_path: Path, home: Path) -> Shell:
    return Shell(tmp_path / "state", home)


def test_a_server_is_added_with_everything_that_was_said(shell: Shell) -> None:
    shell.run(
        "add", "docs", "--env", "A=1=2", "--env", "B=secret://env/B", "--cwd", "/tmp",
        "--tool-prefix", "d", "--lazy", "--", "npx", "-y", "docs", "--", "--env", "x",
    )  # fmt: skip
    assert shell.servers() == {
        "docs": {
            "command": "npx",
            "args": ["-y", "docs", "--", "--env", "x"],
            "env": {"A": "1=2", "B": "secret://env/B"},
            "cwd": "/tmp",
            "toolPrefix": "d",
            "lazy": True,
            **SANDBOX,
        }
    }
    assert "Added MCP server 'docs'" in shell.out.getvalue()


@pytest.mark.skipif(not SANDBOX, reason="nothing can confine here")
def test_a_server_that_is_added_is_confined_unless_the_person_says_otherwise(
    shell: Shell,
) -> None:
    shell.run("add", "a", "--", "npx", "-y", "a")
    assert "It runs in a sandbox" in shell.out.getvalue()
    shell.run("add", "b", "--no-sandbox", "--", "npx", "-y", "b")
    assert "sandbox" not in shell.out.getvalue()
    shell.run("add", "c", "--read", "~/.kube", "--network", "internet", "--", "npx", "c")
    shell.run("add", "d", "--", "docker", "run", "-i", "mcp/d")
    shell.run("add", "e", "--url", "https://e.example/mcp")
    assert {name: entry.get("sandbox") for name, entry in shell.servers().items()} == {
        "a": "auto",
        "b": None,
        "c": {"mode": "auto", "read": ["~/.kube"], "network": "internet"},
        "d": None,
        "e": None,
    }
    with pytest.raises(InvalidRequest, match="in a sandbox"):
        shell.run("add", "f", "--no-sandbox", "--read", "/x", "--", "npx", "f")


@pytest.mark.subprocess
@pytest.mark.skipif(not SANDBOX, reason="nothing can confine here")
def test_a_server_that_was_added_cannot_read_what_it_was_not_given(shell: Shell) -> None:
    (shell.home / "private.txt").write_text("a diary")
    thief = "import sys; sys.exit(open(sys.argv[1]).read())"
    shell.run("add", "thief", "--", sys.executable, "-I", "-c", thief, "~/private.txt")
    shell.run(
        "add",
        "bold",
        "--",
        sys.executable,
        "-I",
        "-c",
        thief.replace("sys.argv[1]", repr(str(shell.home / "private.txt"))),
    )
    shell.run("probe")
    assert "a diary" not in shell.out.getvalue()
    assert "No such file" in shell.out.getvalue() or "denied" in shell.out.getvalue()


def test_a_credential_in_plain_text_is_warned_about(shell: Shell) -> None:
    shell.run("add", "s", "--env", "API_TOKEN=abcdef123456", "--", "x")
    assert "plaintext credentials" in shell.err.getvalue()
    assert "abcdef123456" not in shell.err.getvalue()


def test_a_server_may_inherit_some_of_our_variables(shell: Shell) -> None:
    shell.run("add", "web", "--inherit-env", "A", "--inherit-env", "B", "--", "uvx", "web")
    assert shell.servers()["web"]["inheritEnv"] == ["A", "B"]


def test_a_wrong_option_is_told_with_the_usage_of_its_action(
    shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        shell.run("add", "web", "--nope")
    assert "usage: openclaw mcp add NAME" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["tools", "fakee"],
        ["probe", "fakee"],
        ["call", "fakee/echo"],
        ["call", "fake/ecko"],
        ["prompt", "fakee:greet"],
        ["restart", "fakee"],
        ["remove", "fakee"],
        ["login", "fakee"],
    ],
)
def test_a_name_with_a_slip_in_it_gets_the_nearest(shell: Shell, words: list[str]) -> None:
    shell.add_fake()
    with pytest.raises(NotFound) as caught:
        shell.run(*words)
    assert caught.value.hint in ("did you mean 'fake'?", "did you mean 'fake/echo'?")


def test_import_names_every_program_that_it_reads() -> None:
    from openclaw.cli.setup.plan import CLIENTS

    parser = CommandParser(prog="openclaw mcp")
    mcp.register(parser)
    take = subparsers(parser)["import"].format_help()
    assert all(source in take for source in CLIENTS)


def test_a_remote_server_is_added_by_its_address(shell: Shell) -> None:
    shell.run(
        "add", "far", "--url", "https://x.example/mcp", "--transport", "http",
        "--header", "Authorization: Bearer secret://env/T",
    )  # fmt: skip
    assert shell.servers()["far"] == {
        "url": "https://x.example/mcp",
        "transport": "http",
        "headers": {"Authorization": "Bearer secret://env/T"},
    }


@pytest.mark.parametrize(
    "words",
    [
        ["add", "s"],
        ["add", "s", "--url", "https://x.example", "--", "cmd"],
        ["add", "s", "--env", "novalue", "--", "cmd"],
        ["add", "s", "--header", ": x", "--url", "https://x.example"],
    ],
)
def test_a_server_that_is_told_wrongly_is_not_added(shell: Shell, words: list[str]) -> None:
    with pytest.raises(InvalidRequest):
        shell.run(*words)
    assert not shell.config.exists()


def test_a_server_that_would_make_the_configuration_invalid_is_not_added(shell: Shell) -> None:
    with pytest.raises(InvalidConfig):
        shell.run("add", "s", "--url", "https://")
    with pytest.raises(InvalidRequest, match="--url: 'not an address' is not an address"):
        shell.run("add", "s", "--url", "not an address")
    with pytest.raises(InvalidRequest, match="'bad name!' is not a name"):
        shell.run("add", "bad name!", "--", "cmd")
    assert not shell.config.exists()


def test_a_call_blames_the_right_server(shell: Shell) -> None:
    shell.run("add", "broken", "--", "false")
    with pytest.raises(InvalidRequest, match="name the tool of MCP server 'broken'"):
        shell.run("call", "broken")
    with pytest.raises(NotFound, match="there is no tool 'other'"):
        shell.run("call", "other")


def test_an_existing_server_is_replaced_only_by_force(shell: Shell) -> None:
    shell.run("add", "s", "--", "one")
    with pytest.raises(InvalidRequest, match="--force"):
        shell.run("add", "s", "--", "two")
    shell.run("add", "s", "--force", "--", "two")
    assert shell.servers()["s"] == {"command": "two", **SANDBOX}


def test_comments_survive_adding_and_removing(shell: Shell) -> None:
    shell.state.mkdir()
    shell.config.write_text(
        '{\n  // mine\n  mcp: { servers: { a: { command: "a" } } }, // too\n}\n'
    )
    before = shell.config.read_text()
    shell.run("add", "b", "--", "b")
    assert "b" in shell.config.read_text()
    shell.run("remove", "b")
    assert shell.config.read_text() == before


def test_a_server_can_be_for_one_agent_alone(shell: Shell) -> None:
    shell.state.mkdir()
    shell.config.write_text('{"agents": {"list": [{"id": "main"}, {"id": "two"}]}}')
    shell.run("add", "s", "--agent", "two", "--", "x")
    assert shell.json("list", "--agent", "main")["servers"] == []
    assert [row["name"] for row in shell.json("list", "--agent", "two")["servers"]] == ["s"]
    shell.run("add", "t", "--agent", "main", "--", "y")
    shell.run("list")
    assert shell.out.getvalue() == "main: t  stdio  y\ntwo: s  stdio  x\n"
    shell.run("remove", "t", "--agent", "main")
    shell.run("remove", "s", "--agent", "two")
    assert shell.json("list")["servers"] == []
    for words in (["list", "--agent", "no"], ["add", "s", "--agent", "no", "--", "x"]):
        with pytest.raises(NotFound):
            shell.run(*words)


def test_a_server_that_is_not_there_cannot_be_removed(shell: Shell) -> None:
    with pytest.raises(NotFound):
        shell.run("remove", "nobody")


def test_adding_and_removing_say_json_when_asked(shell: Shell) -> None:
    shell.run("add", "s", "--json", "--", "x")
    assert json.loads(shell.out.getvalue()) == {
        "added": "s",
        "sandbox": SANDBOX.get("sandbox", "off"),
    }
    removed = shell.json("remove", "s")
    assert removed == {"removed": "s", "directories": [], "unusedSecrets": []}


def test_certificates_and_proxies_are_recorded_but_no_password(shell: Shell) -> None:
    """A client that starts us with an empty environment gets a server that reaches its network."""
    shell.environ = {
        "SSL_CERT_FILE": "/etc/own.pem",
        "HTTP_PROXY": "http://proxy.example:3128",
        "HTTPS_PROXY": "http://me:secret@proxy.example:3128",
    }
    shell.run("add", "s", "--env", "HTTP_PROXY=http://other.example", "--", "x")
    assert shell.servers()["s"]["env"] == {
        "SSL_CERT_FILE": "/etc/own.pem",
        "HTTP_PROXY": "http://other.example",
    }
    assert "SSL_CERT_FILE" in shell.out.getvalue()
    shell.run("add", "far", "--url", "https://a.example/mcp")
    assert "env" not in shell.servers()["far"]


def test_removing_a_server_takes_its_directory_and_offers_its_secrets(shell: Shell) -> None:
    """Not those of another server of the same name, and no secret that something else uses."""
    own, others = (own_home(shell.state, "s", command) for command in ("x", "y"))
    for home in (own, others):
        home.mkdir(parents=True)
    store = SecretStore({"OPENCLAW_STATE_DIR": str(shell.state)})
    for name in ("ONE", "BOTH"):
        store.set(name, "value", keyring=False)
    used = ("--env", "A=secret://store/ONE", "--env", "B=secret://store/BOTH")
    shell.run("add", "s", *used, "--", "x")
    shell.run("add", "t", "--env", "B=secret://store/BOTH", "--", "x")
    shell.run("remove", "s")
    assert "Nothing uses the secret ONE now: " in shell.out.getvalue()
    assert (own.exists(), others.exists(), store.names()) == (False, True, ["BOTH", "ONE"])
    shell.run("remove", "t", "--secrets")
    assert store.names() == ["ONE"]


def test_listing_shows_each_server_and_how_it_is_reached(shell: Shell) -> None:
    shell.run("list")
    assert "No MCP servers" in shell.out.getvalue()
    shell.run("add", "s", "--lazy", "--", "prog", "arg")
    shell.run("list")
    assert shell.out.getvalue() == "s  stdio  prog arg  (lazy)\n"
    (row,) = shell.json("list")["servers"]
    assert (row["agent"], row["transport"], row["enabled"]) == ("main", "stdio", True)


def test_tools_are_listed_from_running_servers(shell: Shell) -> None:
    shell.add_fake()
    assert shell.run("tools") == 0
    assert "mcp_fake_echo\n    [MCP server: fake] Says it again." in shell.out.getvalue()
    tools = {tool["tool"]: tool for tool in shell.json("tools", "fake")["tools"]}
    assert tools["echo"]["name"] == "mcp_fake_echo"
    with pytest.raises(NotFound):
        shell.run("tools", "nobody")
    shell.add_fake("long", {"tools": [{**fake_tool("say"), "description": "several words " * 20}]})
    assert shell.run("tools", "long") == 0
    assert shell.out.getvalue().endswith((" several…\n", " words…\n"))


def test_a_server_that_does_not_start_is_said_and_fails_the_command(shell: Shell) -> None:
    shell.add_fake("good")
    shell.add_fake("bad", {"faults": {"exitAtStart": 3}})
    assert shell.run("tools") == 1
    assert "mcp_good_echo" in shell.out.getvalue()
    assert "'bad'" in shell.err.getvalue()
    assert [one["name"] for one in shell.json("tools")["unavailable"]] == ["bad"]


def test_a_call_of_a_server_that_does_not_start_says_so(shell: Shell) -> None:
    shell.add_fake("bad", {"faults": {"exitAtStart": 3}})
    with pytest.raises(ServerUnavailable, match="'bad'"):
        shell.run("call", "bad/echo")
    assert "exited with code 3" in shell.err.getvalue()


def test_that_there_are_no_prompts_is_said(shell: Shell) -> None:
    shell.add_fake("plain", {"tools": []})
    assert shell.run("prompt") == 0
    assert shell.out.getvalue() == "No MCP server offers prompts.\n"
    assert shell.json("prompt") == {"prompts": []}


@pytest.mark.parametrize("tool", ["mcp_fake_echo", "fake/echo"])
def test_a_tool_is_called_by_either_name(shell: Shell, tool: str) -> None:
    shell.add_fake()
    assert shell.run("call", tool, "n=1", "s=word", "--args", '{"x": null}') == 0
    assert json.loads(shell.out.getvalue()) == {"x": None, "n": 1, "s": "word"}


def test_a_word_stays_text_if_the_tool_expects_text(shell: Shell) -> None:
    properties = {"s": {"type": "string"}, "n": {"type": "integer"}, "q": {"type": "string"}}
    schema = {"type": "object", "properties": properties}
    shell.add_fake("fake", {"tools": [{**fake_tool("echo"), "inputSchema": schema}]})
    assert shell.run("call", "fake/echo", "s=12", "n=12", 'q="quoted"') == 0
    assert json.loads(shell.out.getvalue()) == {"s": "12", "n": 12, "q": "quoted"}


def test_a_server_with_a_read_resource_of_its_own_is_still_asked_for_a_resource(
    shell: Shell,
) -> None:
    pages = {"uriTemplate": "a://{page}", "name": "page"}
    shell.add_fake("fake", {"tools": [fake_tool("read_resource")], "resourceTemplates": [pages]})
    assert shell.run("call", "fake/read_resource", "uri=a://1") == 0
    assert "content of a://1" in shell.out.getvalue()


def test_no_terminal_obeys_what_a_server_gives(shell: Shell) -> None:
    evil = "a\x1b]0;owned\x07\x1b[2J\x9b31m\rb\tc\nd"
    link = {"type": "resource_link", "uri": "file:///x", "name": evil}
    text = {"type": "text", "text": evil}
    shell.add_fake("fake", {"tools": [fake_tool("say", result={"content": [text, link]})]})
    shell.terminal = True
    for options in ([], ["--json"]):
        assert shell.run("call", "fake/say", *options) == 0
        shown = shell.out.getvalue()
        assert "file:///x" in shown
        assert not set("\x1b\x07\x9b\r") & set(shown)
    assert len(json.loads(shown)["content"]) == 2


def test_a_call_only_starts_the_server_it_needs(shell: Shell, tmp_path: Path) -> None:
    log = tmp_path / "pids"
    shell.add_fake("other", {"faults": {"pidFile": str(log)}})
    shell.add_fake()
    shell.run("call", "fake/echo")
    shell.run("call", "mcp_fake_echo")
    assert not log.exists()


def test_a_failed_call_fails_the_command(shell: Shell) -> None:
    shell.add_fake()
    assert shell.run("call", "fake/fail") == 1
    assert shell.json("call", "fake/fail")["isError"] is True


def test_a_person_reads_an_error_without_the_frame_for_models(shell: Shell) -> None:
    shell.add_fake("fake", {"tools": [fake_tool("say")], "faults": {"crashOn": ["tools/call"]}})
    assert shell.run("call", "fake/say") == 1
    shown = shell.out.getvalue()
    assert "fake" in shown
    assert "UNTRUSTED" not in shown


def test_media_and_links_are_described(shell: Shell) -> None:
    shell.add_fake()
    shell.run("call", "fake/image")
    assert shell.out.getvalue() == "[image/png, 70 bytes]\n[one: a://1]\n"
    kinds = [block["type"] for block in shell.json("call", "fake/image")["content"]]
    assert kinds == ["image", "resource_link"]


def test_a_server_cannot_write_control_sequences_to_the_terminal(shell: Shell) -> None:
    shell.add_fake()
    shell.run("call", "fake/ansi")
    assert "\x1b" not in shell.out.getvalue()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["call", "fake/none"], NotFound),
        (["call", "nobody/none"], NotFound),
        (["call", "fake/echo", "--args", "{"], InvalidRequest),
        (["call", "fake/echo", "--args", "[]"], InvalidRequest),
        (["call", "fake/echo", "--agent", "nobody"], NotFound),
        (["prompt", "greet"], InvalidRequest),
        (["prompt", "fake:none"], NotFound),
        (["prompt", "fake:greet"], InvalidRequest),
        (["restart", "fake"], NotFound),
    ],
)
def test_what_cannot_be_done_is_said(shell: Shell, words: list[str], error: type) -> None:
    shell.add_fake()
    with pytest.raises(error):
        shell.run(*words)


def test_an_argument_without_a_value_points_to_arguments_as_json(shell: Shell) -> None:
    shell.add_fake()
    with pytest.raises(InvalidRequest, match="must have the form K=V") as caught:
        shell.run("call", "fake/echo", '{"text": "hi"}')
    assert caught.value.hint == "pass all arguments as JSON with --args"


def test_a_probe_reports_time_revision_counts_and_errors(shell: Shell) -> None:
    shell.add_fake()
    shell.add_fake("bad", {"faults": {"exitAtStart": 3}})
    shell.add_fake("odd", {"tools": [{"name": "x", "inputSchema": {"type": "string"}}]})
    assert shell.run("probe") == 1
    report = shell.out.getvalue()
    assert "fake: ready in " in report
    assert "2025-11-25, 4 tools, 0 resources, 1 prompt (fake 1.0.0)" in report
    assert "bad: failed: " in report
    assert "'x' is left out" in report
    assert shell.run("probe", "fake") == 0
    rows = {row["name"]: row for row in shell.json("probe")["servers"]}
    assert rows["fake"]["ms"] > 0
    assert rows["bad"]["state"] == "failed"


def test_a_probe_of_a_server_that_never_answers_says_what_to_look_at(shell: Shell) -> None:
    shell.add_fake("mute", {"faults": {"hang": ["initialize", "server/discover"]}})
    written = json.loads(shell.config.read_text())
    written["agents"]["defaults"]["mcp"]["servers"]["mute"]["timeout"] = 300
    shell.config.write_text(json.dumps(written))
    assert shell.run("probe") == 1
    assert "no handshake within 0.3 s\n    Check its command" in shell.out.getvalue()
    assert "`timeout`" in shell.out.getvalue()


def test_prompts_are_listed_and_fetched(shell: Shell) -> None:
    shell.add_fake()
    shell.run("prompt")
    assert shell.out.getvalue() == "/fake:greet who=… [how=…]\n    A greeting.\n"
    assert shell.json("prompt")["prompts"][0]["arguments"][0]["required"] is True
    shell.run("prompt", "/fake:greet", "who=Ann Lee")
    assert "Hello Ann Lee" in shell.out.getvalue()
    (message,) = shell.json("prompt", "fake:greet", "who=Ann")["messages"]
    assert "Hello Ann" in message["content"][0]["text"]


DESKTOP = {
    "mcpServers": {
        "hub": {"command": "npx", "args": ["hub"], "env": {"HUB_TOKEN": "tok-12345678"}},
        "odd": {"command": "odd", "envFile": ".env"},
    }
}


@pytest.fixture
def desktop(home: Path) -> Path:
    path = home / ".config/Claude/claude_desktop_config.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(DESKTOP))
    return path


@pytest.mark.usefixtures("desktop")
def test_an_import_is_shown_and_written_when_the_person_agrees(shell: Shell) -> None:
    shell.terminal = True
    shell.run("import", "claude-desktop", stdin="y\n")
    assert "+" in shell.out.getvalue()
    assert "Write this? [Y/n]" in shell.out.getvalue()
    assert shell.servers()["hub"]["env"] == {"HUB_TOKEN": "secret://store/HUB_TOKEN"}
    assert "secret://store/HUB_TOKEN" in shell.out.getvalue()
    assert "envFile" in shell.out.getvalue()
    everything = shell.out.getvalue() + shell.err.getvalue() + shell.config.read_text()
    assert "tok-12345678" not in everything


@pytest.mark.usefixtures("desktop")
def test_an_import_that_is_declined_writes_nothing(shell: Shell) -> None:
    shell.terminal = True
    shell.run("import", "claude-desktop", stdin="n\n")
    assert "Nothing was written." in shell.out.getvalue()
    assert not shell.config.exists()


@pytest.mark.usefixtures("desktop")
def test_a_dry_run_shows_and_writes_nothing(shell: Shell) -> None:
    shell.run("import", "claude-desktop", "--dry-run")
    assert '"hub": {' in shell.out.getvalue()
    assert not shell.config.exists()


@pytest.mark.usefixtures("desktop")
def test_an_import_where_nobody_can_be_asked_needs_a_yes(shell: Shell) -> None:
    for words in ([], ["--json"]):
        with pytest.raises(InvalidRequest, match="--yes"):
            shell.run("import", "claude-desktop", *words)
    assert shell.json("import", "claude-desktop", "hub", "--dry-run")["changes"]
    told = shell.json("import", "claude-desktop", "hub", "--yes")
    assert (told["servers"], told["secrets"]) == (["hub"], ["HUB_TOKEN"])
    assert told["written"] == [{"path": str(shell.config), "backup": None}]
    assert list(shell.servers()) == ["hub"]


@pytest.mark.usefixtures("desktop")
def test_an_import_replaces_only_by_force(shell: Shell) -> None:
    shell.run("add", "hub", "--", "mine")
    assert shell.run("import", "claude-desktop", "--yes") == 1
    told = "hub is already configured and left unchanged; use --force to replace it"
    assert told in shell.out.getvalue()
    assert {name: one["command"] for name, one in shell.servers().items()} == {
        "hub": "mine",
        "odd": "odd",
    }
    assert shell.run("import", "claude-desktop", "--yes", "--force") == 0
    assert shell.servers()["hub"]["command"] == "npx"


def test_codex_and_commented_files_can_be_imported(shell: Shell, tmp_path: Path) -> None:
    toml = tmp_path / "config.toml"
    toml.write_text('[mcp_servers.one]\ncommand = "one"\n')
    jsonc = tmp_path / "mcp.json"
    jsonc.write_text('{ // VS Code\n "servers": {"two": {"command": "two"},}, }')
    shell.run("import", str(toml), "--yes")
    shell.run("import", str(jsonc), "--yes")
    assert shell.servers() == {
        "one": {"command": "one", **SANDBOX},
        "two": {"command": "two", **SANDBOX},
    }


@pytest.mark.parametrize(
    ("name", "text"), [("a.json", "{"), ("a.json", "[]"), ("a.json", "{}"), ("a.toml", "[")]
)
def test_a_file_that_cannot_be_imported_is_said(
    shell: Shell, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(NotFound, match=name):
        shell.run("import", str(tmp_path / name), "--yes")


@pytest.mark.parametrize("source", ["claude-desktop", "/no/such/file"])
def test_a_source_that_is_not_there_is_said(shell: Shell, source: str) -> None:
    with pytest.raises(NotFound):
        shell.run("import", source)


@pytest.mark.usefixtures("desktop")
def test_a_name_that_is_not_in_the_file_is_said(shell: Shell) -> None:
    with pytest.raises(NotFound, match="nobody"):
        shell.run("import", "claude-desktop", "nobody", "--yes")


def test_references_in_arguments_are_resolved_when_the_server_starts(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "spec").write_text(json.dumps(SPEC))
    shell.config.parent.mkdir(parents=True, exist_ok=True)
    entry = {
        "command": sys.executable,
        "args": ["-m", "tests.support.fake_server", f"secret://file{tmp_path}/spec"],
    }
    shell.config.write_text(json.dumps({"mcp": {"servers": {"fake": entry}}}))
    assert shell.run("probe") == 0
    assert "fake: ready" in shell.out.getvalue()


EFFECTS: dict[str, Any] = {
    "tools": [
        {**fake_tool("frobnicate"), "inputSchema": {"type": "object"}},
        {**fake_tool("get_page"), "inputSchema": {"properties": {"url": {"type": "string"}}}},
        {**fake_tool("list_files"), "inputSchema": {"type": "object"}},
    ]
}


def test_effects_are_shown_with_their_reason_and_set(shell: Shell) -> None:
    shell.add_fake(spec=EFFECTS)
    assert shell.run("effects", "fake") == 0
    assert shell.out.getvalue().splitlines() == [
        "frobnicate: reaches others (nothing shows that it is harmless)",
        "get_page: opens an address (takes an address, so it can send data there)",
        "list_files: reads (its name says that it reads)",
    ]
    shell.run("effects", "fake", "frobnicate=read", "list_files=destroy")
    assert shell.servers()["fake"]["effects"] == {"frobnicate": "read", "list_files": "destroy"}
    shown = {one["tool"]: one for one in shell.json("effects", "fake")["tools"]}
    assert shown["frobnicate"]["why"] == "classified as a read"
    assert shown["list_files"]["final"]
    shell.run("effects", "fake", "list_files=auto")
    assert shell.servers()["fake"]["effects"] == {"frobnicate": "read"}


def test_an_effect_that_does_not_exist_and_a_server_that_does_not_are_refused(
    shell: Shell,
) -> None:
    shell.add_fake(spec=EFFECTS)
    with pytest.raises(InvalidConfig):
        shell.run("effects", "fake", "frobnicate=harmless")
    with pytest.raises(NotFound, match="other"):
        shell.run("effects", "other", "frobnicate=read")


QUESTION = {
    "message": "Which colour?",
    "requestedSchema": {
        "type": "object",
        "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
        "required": ["colour"],
    },
}
ADDRESS = {"mode": "url", "message": "Log in", "url": "https://l.example/in", "elicitationId": "1"}
ASKING: dict[str, Any] = {
    "tools": [
        fake_tool("ask", elicit=QUESTION),
        fake_tool("visit", elicit=ADDRESS),
        fake_tool("complete", sampling={}),
    ]
}


def _asking(home: Path) -> dict[str, str]:
    state = home / ".openclaw"
    state.mkdir(mode=0o700)
    servers = {"asking": {**server_entry(ASKING), "sampling": {"enabled": True}}}
    (state / "openclaw.json").write_text(json.dumps({"mcp": {"servers": servers}}))
    (state / "openclaw.json").chmod(0o600)
    return {"HOME": str(home), "PATH": os.environ["PATH"]}


def test_a_servers_question_is_put_to_whoever_calls_its_tool(home: Path) -> None:
    environ = _asking(home)
    words = [sys.executable, "-m", "openclaw", "mcp", "call"]
    with on_terminal([*words, "asking/ask"], environ) as terminal:
        terminal.until("MCP server 'asking' asks: Which colour?")
        terminal.until("Answer it? [y/n]")
        terminal.send("y")
        terminal.until("2. blue")
        terminal.send("2")
        terminal.until("accept")
        terminal.until('"blue"')
        assert terminal.ended() == 0
    with on_terminal([*words, "asking/visit"], environ) as terminal:
        terminal.until("It asks you to open https://l.example/in")
        terminal.until("Have you done that? [y/n]")
        terminal.send("n")
        terminal.until("decline")
        terminal.ended()


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_without_a_terminal_a_question_is_declined_with_a_sentence(
    home: Path, more: list[str]
) -> None:
    command = [sys.executable, "-m", "openclaw", "mcp", "call", "asking/ask", *more]
    done = subprocess.run(
        command, env=_asking(home), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    why = "--json asks nobody" if more else "there is no terminal"
    assert f"asks: Which colour? The question was declined, because {why}." in done.stderr
    assert "decline" in done.stdout


def test_a_server_that_wants_the_model_is_told_of_plainly(home: Path) -> None:
    command = [sys.executable, "-m", "openclaw", "mcp", "call", "asking/complete"]
    done = subprocess.run(
        command, env=_asking(home), stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert "MCP server 'asking' asked for the model, which only the agent runs" in done.stderr
    assert "the host refused" in done.stdout
