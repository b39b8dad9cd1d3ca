"""Every command's help, and what is made from it: completion and the manual."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from scripts.manpage import all_parsers, man_page
from tests.support.terminal import on_terminal

from openclaw.cli.main import run
from openclaw.cli.parser import command_parser, examples
from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.paths import StatePaths
from openclaw.core.clock import SystemClock
from openclaw.mcp_client.catalog.pin_store import PinStore, pin_key
from openclaw.mcp_client.catalog.pins import INSTRUCTIONS, Declaration
from openclaw.sessions.sqlite.store import open_sqlite_store

ROOT = Path(__file__).parents[3]
PARSERS = dict(all_parsers("openclaw"))


@pytest.mark.parametrize("words", PARSERS)
def test_help_reads_well_on_80_columns(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = PARSERS[words].format_help()
    assert max(map(len, text.splitlines())) <= 80
    assert PARSERS[words].description, "it says what it does"
    assert "examples:\n  openclaw " in text or " " in words, "add one to examples.txt"


def test_every_example_is_of_a_command() -> None:
    assert set(examples()) <= set(PARSERS)


@pytest.mark.parametrize("line", sorted({line for lines in examples().values() for line in lines}))
def test_every_example_parses(line: str) -> None:
    words = shlex.split(line, comments=True)
    end = next((at for at, word in enumerate(words) if word in (">", "<", "|")), len(words))
    command_parser("openclaw", words[0]).parse_args(words[1:end])


@pytest.mark.parametrize("variable", ["NO_COLOR", "FORCE_COLOR"])
def test_help_has_no_colour(
    variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, "1")
    assert run("openclaw", ["mcp", "add", "--help"]) == 0
    if variable == "NO_COLOR":
        assert "\x1b" not in capsys.readouterr().out


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="argparse words its usage otherwise there")
def test_the_manual_is_current(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    written = (ROOT / "man" / "openclaw.1").read_text()
    assert written == man_page(), "run scripts/manpage"


def test_the_manual_has_every_command_and_no_broken_line() -> None:
    page = man_page("clawdbot")
    assert all(f'.SH "CLAWDBOT {words.upper()}"' in page for words in PARSERS)
    requests = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert requests == {".TH", ".SH", ".B", ".I", ".TP", ".PP", ".nf", ".fi", ".RS", ".RE"}


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not here")
def test_the_manual_is_set_without_a_warning() -> None:
    command = ["groff", "-man", "-Tutf8", "-ww", "-rLL=78n"]
    done = subprocess.run(command, input=man_page(), capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "openclaw mcp add time -- uvx mcp-server-time" in done.stdout


def test_completion_without_a_shell_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("openclaw", ["completion"]) == 2
    assert "{bash,zsh,fish}" in capsys.readouterr().err


COMPLETIONS = {
    "openclaw mc": {"mcp", "mcp-hub", "mcp-server"},
    "openclaw mcp re": {"remove", "restart"},
    "openclaw --config x mcp re": {"remove", "restart"},
    "openclaw mcp add --tr": {"--transport"},
    "openclaw mcp add --transport s": {"stdio", "streamable-http", "sse"},
    "openclaw agent --agent ": {"main", "research"},
    "openclaw mcp call ti": {"time"},
    "openclaw mcp call time ": {"convert_time", "get_current_time"},
    "openclaw mcp call --agent main time get": {"get_current_time"},
    "openclaw --config x mcp call time get": {"get_current_time"},
    "openclaw mcp call --json time get": {"get_current_time"},
    "openclaw mcp call time get_current_time t": set[str](),
    "openclaw mcp call nothing-like-it c": set[str](),
    "openclaw mcp pins show t": {"time"},
    "openclaw mcp probe other ti": {"time"},
    "openclaw sessions show t": {"trip"},
    "openclaw sessions delete --yes t": {"trip"},
    "openclaw agent --session-key t": {"trip"},
    "openclaw config --co": {"--config"},
    "openclaw completion ": {"bash", "zsh", "fish"},
    "openclaw agent --image pic": {"picture.png"},
    "openclaw mcp add x -- open": set[str](),
    "openclaw agent -m mcp --js": {"--json"},
}


@pytest.fixture
def typed_at(home: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of a shell in a directory with a picture, where agents and a server are known."""
    config = home / ".openclaw" / "openclaw.json"
    config.parent.mkdir(mode=0o700)
    config.write_text(
        '{ mcp: { servers: { time: { command: "x" } } },'
        ' agents: { list: [{ id: "main" }, { id: "research" }] } }'
    )
    anyio.run(_remembered, home / ".openclaw", tmp_path / "stranger")
    (tmp_path / "picture.png").touch()
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "openclaw").symlink_to(Path(sys.executable).with_name("openclaw"))
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}


async def _remembered(state: Path, owned: Path) -> None:
    """A server that ran before, and conversations, whose names a stranger may have chosen."""
    command = f"$(touch {owned})"
    server = McpServerConfig.model_validate({"command": "x"})
    names = ("get_current_time", "convert_time", f"x{command}", INSTRUCTIONS)
    declared = {name: Declaration(name, name) for name in names}
    PinStore(StatePaths(state).pins).observe(pin_key(server), "time", "x", declared)
    async with open_sqlite_store(state / "sessions.db", SystemClock()) as store:
        for key in ("trip", f"t{command}", "two words"):
            await store.open_session("main", key)


def _offered(command: list[str], environ: dict[str, str], place: Path) -> list[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, env=environ, cwd=place, check=True
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_bash_completes_what_may_follow(typed_at: dict[str, str], tmp_path: Path) -> None:
    asked = "\n".join(
        f"COMP_WORDS=({_bash_words(line)}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); COMPREPLY=();"
        f' _openclaw_complete; echo "${{COMPREPLY[*]}}"'
        for line in COMPLETIONS
    )
    command = ["bash", "--norc", "-c", f'eval "$(openclaw completion bash)"\n{asked}']
    offered = [set(line.split()) for line in _offered(command, typed_at, tmp_path)]
    completed = dict(zip(COMPLETIONS, offered, strict=True))
    expected = dict(COMPLETIONS)
    for line in ("openclaw agent --agent ", "openclaw completion ", "openclaw mcp call time "):
        assert expected.pop(line) <= completed.pop(line)
    assert completed == expected
    assert not (tmp_path / "stranger").exists()


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not here")
def test_fish_completes_what_may_follow(typed_at: dict[str, str], tmp_path: Path) -> None:
    asked = "; ".join(f"echo '> {line}'; complete -C '{line}'" for line in COMPLETIONS)
    command = ["fish", "--no-config", "-c", f"openclaw completion fish | source; {asked}"]
    completed: dict[str, set[str]] = {}
    for line in _offered(command, typed_at, tmp_path):
        if line.startswith("> "):
            completed[line[2:]] = set()
        else:
            completed[next(reversed(completed))].add(line.partition("\t")[0])
    # What follows "--" is another program's, whose names and files fish offers by itself.
    del completed["openclaw mcp add x -- open"]
    assert completed == {line: COMPLETIONS[line] for line in completed}
    assert len(completed) == len(COMPLETIONS) - 1
    assert not (tmp_path / "stranger").exists()


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not here")
def test_zsh_completes_at_the_first_press_of_the_key(
    typed_at: dict[str, str], tmp_path: Path
) -> None:
    functions = tmp_path / "functions"
    functions.mkdir()
    script = _offered(["openclaw", "completion", "zsh"], typed_at, tmp_path)
    (functions / "_openclaw").write_text("\n".join(script) + "\n")
    (tmp_path / ".zshrc").write_text(
        f"fpath=({functions} $fpath); autoload -Uz compinit; compinit -u; PS1='here: '\n"
    )
    with on_terminal(["zsh", "-i"], {**typed_at, "ZDOTDIR": str(tmp_path)}) as terminal:
        terminal.until("here: ")
        terminal.type("openclaw gateway rel\t")
        terminal.until("gateway reload")
        terminal.type("\x15openclaw mcp call ti\t")
        terminal.until("mcp call time")
        terminal.type(" conv\t")
        terminal.until("convert_time")
        terminal.type("\x15exit\r")
        assert terminal.ended() == 0


def _bash_words(line: str) -> str:
    return " ".join(f"'{word}'" for word in line.split(" "))


@pytest.mark.parametrize(
    ("shell", "place"),
    [
        ("bash", ".local/share/bash-completion/completions/openclaw"),
        ("zsh", ".zfunc/_openclaw"),
        ("fish", ".config/fish/completions/openclaw.fish"),
    ],
)
def test_a_completion_script_can_be_installed(
    shell: str,
    place: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert run("openclaw", ["completion", shell]) == 0
    script = capsys.readouterr().out
    assert run("openclaw", ["completion", shell, "--install"]) == 0
    assert (tmp_path / place).read_text() == script
    assert str(tmp_path / place) in capsys.readouterr().out


def test_nothing_is_offered_for_an_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("openclaw", ["completion", "bash", "--after=nothing\x1fx"]) == 0
    assert capsys.readouterr() == ("", "")


def test_options_are_offered_before_any_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("openclaw", ["completion", "bash", "--after=--"]) == 0
    assert "--version" in capsys.readouterr().out.splitlines()


def test_names_are_none_where_the_configuration_is_wrong(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = home / ".openclaw" / "openclaw.json"
    config.parent.mkdir(mode=0o700)
    config.write_text("{")
    assert run("openclaw", ["completion", "bash", "--after=mcp\x1fprobe\x1f"]) == 0
    assert capsys.readouterr() == ("", "")
