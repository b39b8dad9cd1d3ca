"""`openclaw init`, with real files in a home of its own, by options and on a terminal."""

import io
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_http import QuietHandler, serving
from tests.support.terminal import on_terminal

from openclaw.cli.commands import init
from openclaw.cli.environment import Environment
from openclaw.cli.parser import CommandParser, parse
from openclaw.config import json5
from openclaw.config.load import load_config
from openclaw.core.errors import InvalidConfig, InvalidRequest, OperatorFacing
from openclaw.mcp_client.sandbox.support import detect_support

GITHUB = {"command": sys.executable, "args": ["-V"], "env": {"GITHUB_TOKEN": "ghp_verysecret1"}}
REMOTE = {"type": "http", "url": "https://h.example/mcp?api_key=k3yk3yk3y"}


@dataclass
class Installation:
    """A home with other programs in it, and the command on it."""

    home: Path
    environ: dict[str, str] = field(default_factory=dict[str, str])
    out: str = ""

    @property
    def config(self) -> Path:
        return self.home / ".openclaw/openclaw.json"

    def write(self, place: str, content: object) -> Path:
        path = self.home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=4))
        return path

    def run(self, *words: str) -> int:
        parser = CommandParser(prog="openclaw init")
        init.register(parser)
        out = io.StringIO()
        env = Environment(
            environ={"HOME": str(self.home), "PATH": os.environ["PATH"], **self.environ},
            stdin=io.StringIO(),
            stdout=out,
        )
        try:
            return init.run(parse(parser, list(words)), env)
        finally:
            self.out = out.getvalue()

    def loaded(self) -> Any:
        environ = {"HOME": str(self.home), **self.environ}
        return load_config(None, environ).config.agents.defaults

    def everything(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in self.home.rglob("*")
            if path.is_file() and not path.name.endswith(".lock")
        }


@pytest.fixture
def installation(home: Path) -> Installation:
    return Installation(home)


@pytest.fixture
def full(installation: Installation) -> Installation:
    """With Claude Code, Cursor and Codex, some of whose servers have credentials."""
    (installation.home / ".claude").mkdir()
    installation.write(".claude.json", {"numStartups": 3, "mcpServers": {"github": GITHUB}})
    installation.write(".cursor/mcp.json", {"mcpServers": {"remote": REMOTE, "github": GITHUB}})
    installation.write(
        ".codex/config.toml", 'model = "gpt-5"\n\n[mcp_servers.clock]\ncommand = "date"\n'
    )
    installation.environ["ANTHROPIC_API_KEY"] = "sk-ant-verysecret2"
    return installation


def test_an_empty_home_gets_a_commented_file_that_leaves_the_model_open(
    installation: Installation,
) -> None:
    installation.environ["PWD"] = "/somewhere"
    assert installation.run("--yes") == 0
    text = installation.config.read_text()
    assert text.count("//") > 10
    assert installation.loaded().model is None  # so that a key that comes later is used
    assert "models pull" in installation.out
    assert installation.config.stat().st_mode & 0o777 == 0o600
    assert "openclaw agent" in installation.out


def test_a_key_chooses_the_model_and_is_named_and_never_shown(full: Installation) -> None:
    assert full.run("--yes") == 0
    assert full.loaded().model.primary.startswith("anthropic/")
    text = full.config.read_text()
    assert 'apiKey: "secret://env/ANTHROPIC_API_KEY"' in text
    for secret in ("verysecret", "k3yk3yk3y"):
        assert secret not in text
        assert secret not in full.out


def test_other_programs_servers_are_taken_over_with_references(full: Installation) -> None:
    full.run("--yes")
    servers = full.loaded().mcp.servers
    assert set(servers) == {"github", "remote", "clock"}
    assert servers["github"].env == {"GITHUB_TOKEN": "secret://store/GITHUB_TOKEN"}
    assert servers["remote"].url == "https://h.example/mcp?api_key=<secret://store/REMOTE_TOKEN>"
    kept = json.loads((full.config.parent / "secrets.json").read_text())
    assert set(kept) == {"GITHUB_TOKEN", "REMOTE_TOKEN"}  # so that they can be used at once
    assert "Stored the credentials in" in full.out


@pytest.mark.parametrize("word", ["--yes", "--no-sandbox"])
def test_servers_that_are_taken_over_are_confined_unless_the_person_says_otherwise(
    full: Installation, word: str
) -> None:
    assert full.run("--yes", word) == 0
    can = detect_support(os.environ["PATH"]).best is not None
    wanted = "auto" if can and word == "--yes" else "off"
    assert full.loaded().mcp.servers["clock"].sandbox.mode == wanted
    assert full.loaded().mcp.servers["remote"].sandbox.mode == "off"


def test_only_the_named_servers_are_taken_over(full: Installation) -> None:
    full.run("--yes", "--import", "clock")
    assert set(full.loaded().mcp.servers) == {"clock"}
    full.run("--yes", "--import", "none", "--replace")
    assert full.loaded().mcp.servers == {}


def test_a_model_can_be_named_or_left_open(full: Installation) -> None:
    full.run("--yes", "--model", "anthropic/claude-opus-9", "--import", "none")
    assert full.loaded().model.primary == "anthropic/claude-opus-9"
    assert "secret://env/ANTHROPIC_API_KEY" in full.config.read_text()
    full.run("--yes", "--model", "auto", "--import", "none", "--replace")
    assert full.loaded().model is None


def test_a_dry_run_shows_the_file_and_changes_nothing(full: Installation) -> None:
    before = full.everything()
    assert full.run("--dry-run", "--register", "all") == 0
    assert full.everything() == before
    assert "+// OpenClaw's configuration" in full.out
    assert "+ mcpServers.openclaw: " in full.out
    assert "verysecret" not in full.out


def test_an_existing_file_is_added_to_and_kept(full: Installation) -> None:
    old = '{\n  // mine\n  agents: { defaults: { model: "openai/gpt-5" } },\n}\n'
    full.write(".openclaw/openclaw.json", old)
    full.run("--yes", "--import", "clock")
    assert "// mine" in full.config.read_text()
    assert full.loaded().model.primary == "openai/gpt-5"
    assert set(full.loaded().mcp.servers) == {"clock"}
    (backup,) = full.config.parent.glob("openclaw.json.*.bak")
    assert backup.read_text() == old


def test_a_model_that_was_asked_for_replaces_the_one_that_is_there(full: Installation) -> None:
    full.write(
        ".openclaw/openclaw.json",
        {"agents": {"defaults": {"model": {"primary": "openai/a", "fallbacks": ["openai/b"]}}}},
    )
    full.run("--yes", "--model", "openai/c", "--import", "none")
    assert full.loaded().model.primary == "openai/c"
    assert full.loaded().model.fallbacks == ("openai/b",)


def test_a_second_run_changes_nothing(full: Installation) -> None:
    full.run("--yes", "--register", "all")
    before = full.everything()
    assert full.run("--yes", "--register", "all") == 0
    assert full.everything() == before
    assert "nothing to change" in full.out


def test_a_second_run_marks_what_is_imported_and_does_not_bring_back_what_was_removed(
    full: Installation,
) -> None:
    full.run("--yes")
    entry = json5.parse(full.config.read_text()).root.plain()
    del entry["agents"]["defaults"]["mcp"]["servers"]["github"]
    full.write(".openclaw/openclaw.json", entry)
    full.write(".gemini/settings.json", {"mcpServers": {"late": {"command": "date"}}})
    with on_terminal(*_command(full)) as terminal:
        assert "(current)" in terminal.until("[1]:")
        terminal.type("\n")
        shown = " ".join(terminal.until("[late]:").split())
        assert "- you removed it" in shown
        assert shown.count("- already imported") == 2
        terminal.type("\n")
        terminal.until("[none]:")
        terminal.type("\n")
        terminal.until("Write this?")
        terminal.type("\n")
        assert terminal.ended() == 0
    assert set(full.loaded().mcp.servers) == {"remote", "clock", "late"}
    full.run("--yes", "--import", "github")
    assert "github" in full.loaded().mcp.servers


KEY = "sk-ant-a-key-of-mine"


class Vendor(QuietHandler):
    """Lists its models to whoever has a key, as Anthropic's API does."""

    def do_GET(self) -> None:
        known = self.headers.get("Authorization") == f"Bearer {KEY}" and self.path == "/v1/models"
        body = b"{}" if known else b'{"error": {"message": "invalid key"}}'
        self.reply(body, 200 if known else 401)


@pytest.fixture
def vendor() -> Iterator[str]:
    with serving(Vendor) as url:
        yield url


def test_without_a_key_one_is_asked_for_checked_and_stored(
    installation: Installation, vendor: str
) -> None:
    installation.write(
        ".openclaw/openclaw.json", {"models": {"providers": {"anthropic": {"baseUrl": vendor}}}}
    )
    installation.environ["OLLAMA_HOST"] = "127.0.0.1:9"  # nobody is there
    with on_terminal(*_command(installation)) as terminal:
        shown = terminal.until("[1]:")
        assert "paste a key from https://console.anthropic.com" in " ".join(shown.split())
        assert "1. local/" in shown  # it needs nothing that is not here
        assert "it cannot reason" in " ".join(shown.split())
        terminal.type("2\n")
        terminal.until("key (Enter to go back):")
        terminal.type("\n")
        terminal.until("[1]:")
        terminal.type("2\n")
        terminal.until("key (Enter to go back):")
        terminal.type("sk-ant-wrong\n")
        terminal.until("refused this key (HTTP 401: invalid key)")
        terminal.until("key (Enter to go back):")
        terminal.type(f"{KEY}\n")
        terminal.until("The key works.")
        terminal.until("Write this?")
        terminal.type("\n")
        assert terminal.ended() == 0
        assert KEY.encode() not in terminal.everything
    assert installation.loaded().model.primary.startswith("anthropic/")
    assert '"secret://store/ANTHROPIC_API_KEY"' in installation.config.read_text()
    kept = json.loads((installation.config.parent / "secrets.json").read_text())
    assert kept == {"ANTHROPIC_API_KEY": KEY}


def test_a_key_that_cannot_be_checked_is_used_if_the_person_says_so(
    installation: Installation,
) -> None:
    installation.write(
        ".openclaw/openclaw.json",
        {"models": {"providers": {"openai": {"baseUrl": "http://127.0.0.1:9/v1"}}}},
    )
    with on_terminal(*_command(installation)) as terminal:
        terminal.until("[1]:")
        terminal.type("openai/gpt-5\n")
        terminal.until("key (Enter to go back):")
        terminal.type("sk-unseen-by-anyone\n")
        terminal.until("The key could not be checked")
        terminal.until("Use it anyway? [Y/n]")
        terminal.type("y\n")
        terminal.until("Write this?")
        terminal.type("\n")
        assert terminal.ended() == 0
    assert installation.loaded().model.primary == "openai/gpt-5"
    assert '"secret://store/OPENAI_API_KEY"' in installation.config.read_text()


class OwnServer(QuietHandler):
    """Lists its models at /v1/models to whoever has its key, as servers of OpenAI's API do."""

    def do_GET(self) -> None:
        known = self.headers.get("Authorization") == f"Bearer {KEY}" and self.path == "/v1/models"
        body = {"data": [{"id": "big"}, {"id": "llama"}]} if known else {"error": {"message": "no"}}
        self.reply(json.dumps(body).encode(), 200 if known else 401)


def test_a_server_at_an_address_of_ones_own_is_asked_and_stored(installation: Installation) -> None:
    installation.environ["OLLAMA_HOST"] = "127.0.0.1:9"  # nobody is there
    with serving(OwnServer) as address, on_terminal(*_command(installation)) as terminal:
        assert "speaks OpenAI's API" in terminal.until("[1]:")
        terminal.type("address\n")
        for typed, key, answer in (
            ("127.0.0.1", "", "is not the address of a server"),
            (address, "", "That did not work (HTTP 401: no)"),
            (address, KEY, "2. llama"),
        ):
            terminal.until("its address")
            terminal.type(f"{typed}\n")
            terminal.until("its key (Enter if it needs none):")
            terminal.type(f"{key}\n")
            terminal.until(answer)
        terminal.until("[1]:")
        terminal.type("2\n")
        terminal.until("Write this?")
        terminal.type("\n")
        assert terminal.ended() == 0
        assert KEY.encode() not in terminal.everything
    assert installation.loaded().model.primary == "own/llama"
    provider = load_config(installation.config, {}).config.models.providers["own"]
    assert (provider.base_url, provider.api) == (f"{address}/v1", "openai-completions")
    assert provider.api_key == "secret://store/OWN_API_KEY"
    kept = json.loads((installation.config.parent / "secrets.json").read_text())
    assert kept == {"OWN_API_KEY": KEY}


def test_an_address_may_be_typed_at_once_and_enter_goes_back(installation: Installation) -> None:
    installation.environ["OLLAMA_HOST"] = "127.0.0.1:9"
    with on_terminal(*_command(installation)) as terminal:
        terminal.until("[1]:")
        terminal.type("http://127.0.0.1:9/v1\n")
        terminal.until("its key")
        terminal.type("\n")
        terminal.until("That did not work")
        terminal.until("its address")
        terminal.type("\n")
        terminal.until("Which model do you want to use?")
        terminal.type("\x04")
        terminal.until("Nothing was written.")


def test_an_invalid_file_is_not_touched_unless_it_is_to_be_replaced(full: Installation) -> None:
    full.write(".openclaw/openclaw.json", "{ agentz: 1 }")
    with pytest.raises(InvalidConfig) as caught:
        full.run("--yes")
    assert "--replace" in str(caught.value.hint)
    assert full.config.read_text() == "{ agentz: 1 }"
    assert full.run("--yes", "--replace") == 0
    assert len(list(full.config.parent.glob("*.bak"))) == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], InvalidRequest),
        (["--yes", "--import", "nope"], InvalidRequest),
        (["--yes", "--register", "emacs"], InvalidRequest),
        (["--yes", "--model", "nobody/x"], InvalidRequest),
        (["--yes", "--model", "just-a-word"], InvalidRequest),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_written(
    full: Installation, words: list[str], error: type[Exception]
) -> None:
    before = full.everything()
    with pytest.raises(error):
        full.run(*words)
    assert full.everything() == before


def test_a_server_that_would_not_hold_is_left_out_with_its_reason(full: Installation) -> None:
    full.write(".cursor/mcp.json", {"mcpServers": {"odd": {"url": "ftp://x"}, "good": GITHUB}})
    full.run("--yes")
    assert "'odd' is left out" in full.out
    assert "good" in full.loaded().mcp.servers


def test_another_programs_words_are_shown_printable(full: Installation) -> None:
    odd = "odd\x1b[31m\nnote: all is well"
    full.write(".cursor/mcp.json", {"mcpServers": {odd: {"url": "ftp://x"}}})
    full.run("--yes")
    assert "'odd [31m note: all is well'" in full.out
    assert "\x1b" not in full.out


def test_a_file_of_another_program_that_is_broken_costs_only_itself(full: Installation) -> None:
    full.write(".cursor/mcp.json", "{ broken")
    assert full.run("--yes", "--register", "all") == 0
    assert (full.home / ".cursor/mcp.json").read_text() == "{ broken"
    assert "left unchanged" in full.out
    assert (
        "openclaw"
        in json5.parse((full.home / ".claude.json").read_text()).root.plain()["mcpServers"]
    )


REGISTERED = {
    "claude-code": (".claude.json", "mcpServers"),
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers"),
    "cursor": (".cursor/mcp.json", "mcpServers"),
    "vscode": (".config/Code/User/mcp.json", "servers"),
    "gemini": (".gemini/settings.json", "mcpServers"),
    "windsurf": (".codeium/windsurf/mcp_config.json", "mcpServers"),
    "zed": (".config/zed/settings.json", "context_servers"),
}


@pytest.mark.parametrize("name", REGISTERED)
def test_we_are_registered_in_strict_json(installation: Installation, name: str) -> None:
    place, key = REGISTERED[name]
    path = installation.write(place, {"theme": "dark", key: {"other": {"command": "x"}}})
    path.chmod(0o640)
    installation.run("--yes", "--register", name)
    content = json.loads(path.read_text())
    assert content["theme"] == "dark"
    assert content[key]["other"] == {"command": "x"}
    entry = content[key]["openclaw"]
    assert entry["args"][-1] == "mcp-server"
    assert Path(entry["command"]).is_absolute()
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("name", REGISTERED)
def test_a_program_without_a_file_yet_gets_one(installation: Installation, name: str) -> None:
    place, key = REGISTERED[name]
    path = installation.home / place
    path.parent.mkdir(parents=True, exist_ok=True)
    (installation.home / ".claude").mkdir(exist_ok=True)
    installation.run("--yes", "--register", name)
    assert list(json.loads(path.read_text())[key]) == ["openclaw"]


def test_codex_keeps_its_toml_and_its_comments(installation: Installation) -> None:
    text = '# mine\nmodel = "gpt-5"\n\n[mcp_servers.x]\ncommand = "y"\n\n[tui]\na = 1\n'
    path = installation.write(".codex/config.toml", text)
    installation.environ["OPENCLAW_STATE_DIR"] = str(installation.home / "state")
    installation.run("--yes", "--register", "codex")
    content = tomllib.loads(path.read_text())
    assert content["mcp_servers"]["openclaw"]["env"] == {
        "OPENCLAW_STATE_DIR": f"{installation.home}/state"
    }
    assert content["mcp_servers"]["openclaw"]["tool_timeout_sec"] == 600
    assert content["tui"] == {"a": 1}
    assert path.read_text().startswith(text)


def test_toml_that_cannot_be_changed_safely_is_left_alone(installation: Installation) -> None:
    text = 'mcp_servers = { x = { command = "y" } }\n'
    path = installation.write(".codex/config.toml", text)
    installation.run("--yes", "--register", "codex")
    assert path.read_text() == text
    assert "codex mcp add" in installation.out


@pytest.mark.parametrize("servers", ["mcp_servers = 3", "[[mcp_servers]]\ncommand = 'y'"])
def test_codex_servers_that_are_no_table_are_left_alone_with_what_to_do(
    installation: Installation, servers: str
) -> None:
    path = installation.write(".codex/config.toml", f"{servers}\n")
    installation.run("--yes", "--register", "codex")
    assert path.read_text() == f"{servers}\n"
    assert (
        "was left unchanged: its `mcp_servers` is not a table; correct or remove"
        in installation.out
    )


@pytest.mark.parametrize(
    ("client", "file", "text"),
    [
        ("codex", ".codex/config.toml", '[mcp_servers.openclaw]\ncommand = "x"\nargs = 3\n'),
        ("cursor", ".cursor/mcp.json", '{"mcpServers": {"openclaw": {"command": "x", "args": 3}}}'),
    ],
)
def test_an_entry_of_our_name_with_wrong_arguments_is_left_alone(
    installation: Installation, client: str, file: str, text: str
) -> None:
    path = installation.write(file, text)
    installation.run("--yes", "--register", client, "--import", "none")
    assert path.read_text() == text
    assert "already has a different server called 'openclaw'" in installation.out


def test_another_server_of_our_name_is_left_alone(installation: Installation) -> None:
    path = installation.write(
        ".cursor/mcp.json", {"mcpServers": {"openclaw": {"command": "theirs"}}}
    )
    before = path.read_text()
    installation.run("--yes", "--register", "cursor", "--import", "none")
    assert path.read_text() == before
    assert "was left unchanged: Cursor already has a different server" in installation.out


def test_an_entry_of_ours_that_points_elsewhere_is_renewed(installation: Installation) -> None:
    old = {"command": "/old/openclaw", "args": ["mcp-server"], "alwaysAllow": []}
    path = installation.write(".cursor/mcp.json", {"mcpServers": {"openclaw": old}})
    installation.run("--yes", "--register", "cursor")
    assert json.loads(path.read_text())["mcpServers"]["openclaw"]["command"] != "/old/openclaw"


def test_codex_entry_of_ours_is_replaced_and_the_rest_stays(installation: Installation) -> None:
    ours = '[mcp_servers.openclaw]\ncommand = "/old/openclaw"\nargs = ["mcp-server"]\n'
    more = '\n[mcp_servers."openclaw".env] # ours\nA = "b"\n'
    before, after = 'model = "m"\n\n', '\n[mcp_servers.x]\ncommand = "y" # z\n'
    path = installation.write(".codex/config.toml", before + ours + more + after)
    installation.run("--yes", "--register", "codex")
    servers = tomllib.loads(path.read_text())["mcp_servers"]
    assert servers["openclaw"]["command"] != "/old/openclaw"
    assert servers["openclaw"]["tool_timeout_sec"] == 600
    assert "env" not in servers["openclaw"]
    assert path.read_text().startswith((before + after).replace("\n\n\n", "\n\n"))


def test_a_program_that_is_not_here_is_said_not_to_be(installation: Installation) -> None:
    installation.run("--yes", "--register", "zed")
    assert "Zed isn't installed" in installation.out
    assert not (installation.home / ".config").exists()


def test_a_failure_half_way_puts_everything_back(full: Installation) -> None:
    cursor = full.home / ".cursor/mcp.json"
    cursor.unlink(missing_ok=True)
    cursor.symlink_to("/proc/nobody-writes-here.json")
    before = full.everything()
    with pytest.raises(OperatorFacing, match="cannot write"):
        full.run("--yes", "--register", "claude-code,cursor")
    assert full.everything() == {**before, ".openclaw/secrets.json": b"{}\n"}
    assert full.out.endswith("Nothing was written.\n")
    cursor.unlink()
    full.run("--yes", "--register", "claude-code,cursor")
    assert f"Wrote {cursor}" in full.out


def test_what_was_registered_is_taken_out_again(full: Installation) -> None:
    full.run("--yes", "--register", "all", "--import", "none")
    registered = full.everything()
    assert b"mcp-server" in registered[".cursor/mcp.json"]
    assert full.run("--dry-run", "--unregister", "all") == 0
    assert "- mcpServers.openclaw" in full.out
    assert full.everything() == registered
    assert full.run("--yes", "--unregister", "cursor,codex") == 0
    assert "Took OpenClaw out of Cursor, Codex" in full.out
    after = full.everything()
    assert json.loads(after[".cursor/mcp.json"])["mcpServers"] == {
        "remote": REMOTE,
        "github": GITHUB,
    }
    codex = tomllib.loads(after[".codex/config.toml"].decode())
    assert codex == {"model": "gpt-5", "mcp_servers": {"clock": {"command": "date"}}}
    assert after[".claude.json"] == registered[".claude.json"]
    assert full.run("--yes", "--unregister", "cursor,codex") == 0
    assert "nothing to change" in full.out


def test_a_different_server_with_our_name_is_not_taken_out(installation: Installation) -> None:
    other = {"mcpServers": {"openclaw": {"command": "something", "args": ["else"]}}}
    installation.write(".cursor/mcp.json", other)
    assert installation.run("--yes", "--unregister", "all") == 0
    assert json.loads((installation.home / ".cursor/mcp.json").read_text()) == other


@pytest.mark.parametrize("options", [[], ["--delete-data"]])
def test_uninstalling_undoes_what_set_up_did_and_keeps_the_data_unless_told(
    full: Installation, options: list[str]
) -> None:
    full.run("--yes", "--register", "all", "--import", "none")
    program = [sys.executable, "-m", "openclaw"]
    environ = {"HOME": str(full.home), "PATH": os.environ["PATH"]}
    subprocess.run(
        [*program, "secrets", "set", "A", "--stdin"], input=b"b", env=environ, check=False
    )
    refused = subprocess.run([*program, "uninstall", *options], env=environ, capture_output=True)
    assert (refused.returncode, b"--yes" in refused.stderr) == (2, True)
    done = subprocess.run(
        [*program, "uninstall", "--yes", *options], env=environ, capture_output=True, check=True
    )
    assert b"Removed OpenClaw from" in done.stdout
    assert b"To remove the program:" in done.stdout
    assert b"mcp-server" not in (full.home / ".claude.json").read_bytes()
    assert full.config.parent.exists() is not bool(options)


def test_a_state_directory_with_more_in_it_is_never_deleted(installation: Installation) -> None:
    program = [sys.executable, "-m", "openclaw", "uninstall", "--yes", "--delete-data"]
    environ = {"HOME": str(installation.home), "PATH": os.environ["PATH"]}
    environ["OPENCLAW_STATE_DIR"] = str(installation.home)
    done = subprocess.run(program, env=environ, capture_output=True)
    assert done.returncode == 1
    assert b"delete it yourself" in done.stderr
    assert installation.home.exists()


def test_json_tells_what_was_done(full: Installation) -> None:
    full.run("--yes", "--json", "--register", "cursor")
    facts = json.loads(full.out)
    assert facts["registered"] == ["cursor"]
    assert facts["secrets"] == ["GITHUB_TOKEN", "REMOTE_TOKEN"]
    assert [Path(one["path"]).name for one in facts["written"]] == ["openclaw.json", "mcp.json"]


def _command(installation: Installation, *words: str) -> tuple[list[str], dict[str, str]]:
    environ = {"HOME": str(installation.home), "PATH": os.environ["PATH"], **installation.environ}
    return [sys.executable, "-m", "openclaw", "init", *words], environ


def test_on_a_terminal_the_questions_are_asked_and_the_answers_written(full: Installation) -> None:
    with on_terminal(*_command(full)) as terminal:
        terminal.until("Which model do you want to use?")
        assert "ANTHROPIC_API_KEY is set" in " ".join(terminal.until("[1]:").split())
        terminal.type("anthropik/claude\n")
        terminal.until("unknown provider 'anthropik'")
        terminal.until("[1]:")
        terminal.type("2\n")
        terminal.until("[all]:")
        terminal.type("nonsense\n")
        terminal.until("there is no number 'nonsense'")
        terminal.until("[all]:")
        terminal.type("clock\n")
        terminal.until("[none]:")
        terminal.type("2\n")
        terminal.until("Write this? [Y/n]")
        terminal.type("\n")
        terminal.until("Next:")
        assert terminal.ended() == 0
        assert b"verysecret" not in terminal.everything
    assert full.loaded().model.primary.startswith("local/")
    assert set(full.loaded().mcp.servers) == {"clock"}
    cursor = json.loads((full.home / ".cursor/mcp.json").read_text())
    assert "openclaw" in cursor["mcpServers"]


@pytest.mark.parametrize("leaving", ["\x03", "\x04", "\n\n\nn\n"])
def test_whoever_leaves_half_way_leaves_nothing_behind(full: Installation, leaving: str) -> None:
    before = full.everything()
    with on_terminal(*_command(full)) as terminal:
        terminal.until("[1]:")
        terminal.type(leaving)
        terminal.until("Nothing was written.")
        assert terminal.ended() in (0, 130)
    assert full.everything() == before


def test_without_a_terminal_and_options_it_is_a_usage_error() -> None:
    command = [sys.executable, "-m", "openclaw", "init"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_link_to_a_file_that_is_not_there_yet_is_written_through(
    installation: Installation,
) -> None:
    (installation.home / ".openclaw").mkdir(mode=0o755)
    (installation.home / "dots").mkdir()
    installation.config.symlink_to("../dots/openclaw.json")
    assert installation.run("--yes") == 0
    assert installation.config.is_symlink()
    assert "agents" in (installation.home / "dots/openclaw.json").read_text()
    assert installation.config.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("link", [".openclaw", ".openclaw/openclaw.json"])
def test_a_link_into_nothing_is_said_and_nothing_is_made(
    installation: Installation, link: str
) -> None:
    (installation.home / link).parent.mkdir(exist_ok=True)
    (installation.home / link).symlink_to(installation.home / "unmounted/there")
    with pytest.raises(
        OperatorFacing, match=r"is a link to .*unmounted/there, which does not exist"
    ):
        installation.run("--yes")
    assert not (installation.home / "unmounted").exists()


def test_other_programs_are_found_where_their_variables_say(installation: Installation) -> None:
    installation.write("c/claude/.claude.json", {"mcpServers": {"one": {"command": "one"}}})
    installation.write("c/codex/config.toml", '[mcp_servers.two]\ncommand = "two"\n')
    installation.write(
        "c/xdg/zed/settings.json", {"context_servers": {"three": {"command": "three"}}}
    )
    installation.write("c/xdg/Code/User/mcp.json", {"servers": {"four": {"command": "four"}}})
    # Where they would be otherwise there are others.
    installation.write(".claude.json", {"mcpServers": {"old": {"command": "old"}}})
    installation.write(".codex/config.toml", '[mcp_servers.old]\ncommand = "old"\n')
    installation.write(
        ".config/zed/settings.json", {"context_servers": {"old": {"command": "old"}}}
    )
    installation.environ |= {
        "CLAUDE_CONFIG_DIR": str(installation.home / "c/claude"),
        "CODEX_HOME": "~/c/codex",
        "XDG_CONFIG_HOME": str(installation.home / "c/xdg"),
    }
    assert installation.run("--yes", "--register", "claude-code,codex,zed") == 0
    assert set(installation.loaded().mcp.servers) == {"one", "two", "three", "four"}
    assert "openclaw" in (installation.home / "c/claude/.claude.json").read_text()
    assert "openclaw" in (installation.home / "c/codex/config.toml").read_text()
    assert "openclaw" in (installation.home / "c/xdg/zed/settings.json").read_text()
    assert "openclaw" not in (installation.home / ".codex/config.toml").read_text()


def test_a_directory_for_settings_that_is_not_absolute_is_ignored(
    installation: Installation,
) -> None:
    installation.write(
        ".config/zed/settings.json", {"context_servers": {"one": {"command": "one"}}}
    )
    installation.environ["XDG_CONFIG_HOME"] = "elsewhere"
    assert installation.run("--yes") == 0
    assert set(installation.loaded().mcp.servers) == {"one"}


def test_a_program_whose_variable_names_its_directory_gets_its_file_there(
    installation: Installation,
) -> None:
    (installation.home / "c").mkdir()
    installation.environ["CLAUDE_CONFIG_DIR"] = str(installation.home / "c")
    assert installation.run("--yes", "--register", "claude-code") == 0
    assert "openclaw" in (installation.home / "c/.claude.json").read_text()
