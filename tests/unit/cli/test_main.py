import json
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.cli.build_version import version_text
from openclaw.cli.main import run


@pytest.mark.requirement("O-9")
def test_the_version_is_printed_under_the_name_that_was_called(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("openclaw", ["--version"]) == 0
    assert run("clawdbot", ["-V"]) == 0
    assert capsys.readouterr().out == f"openclaw {version_text()}\nclawdbot {version_text()}\n"


def test_the_version_loads_neither_pydantic_nor_the_sdk_nor_argparse() -> None:
    program = (
        "import sys; from openclaw.cli.main import run; run('openclaw', ['--version']);"
        "print(sorted({'pydantic', 'mcp', 'argparse', 'asyncio', 'anyio'} & set(sys.modules)))"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert out.splitlines()[1] == "[]"


def test_help_lists_every_command_within_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    from openclaw.cli.parser import COMMANDS

    assert run("openclaw", ["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {command} " in out for command in COMMANDS)
    assert max(map(len, out.splitlines())) <= 80


def test_no_command_is_a_usage_error_that_shows_the_help(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("openclaw", []) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: openclaw COMMAND" in captured.err


def test_a_mistyped_command_is_answered_with_the_nearest_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("openclaw", ["conifg"]) == 2
    assert capsys.readouterr().err == (
        "openclaw: Unknown command 'conifg'. Did you mean 'config'? See 'openclaw --help'.\n"
    )


@pytest.mark.requirement("O-9")
def test_every_command_explains_itself_within_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from openclaw.cli.parser import COMMANDS

    monkeypatch.setenv("COLUMNS", "80")
    for command in COMMANDS:
        assert run("openclaw", [command, "--help"]) == 0, command
        out = capsys.readouterr().out
        assert out.startswith(f"usage: openclaw {command}")
        assert "--config PATH" in out
        assert max(map(len, out.splitlines())) <= 80, command


def test_an_unknown_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("openclaw", ["config", "path", "--frobnicate"]) == 2
    assert "--frobnicate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["mcp"], "openclaw mcp: An action is missing. Actions:\n  list "),
        (
            ["config", "sett"],
            "openclaw config: Unknown action 'sett'. Did you mean 'set'? Actions",
        ),
        (["mcp", "lst"], "openclaw mcp: Unknown action 'lst'. Did you mean 'list'? Actions"),
        (["config", "fetch"], "openclaw config: Unknown action 'fetch'. Actions:\n  "),
    ],
)
def test_a_missing_or_wrong_action_is_answered_with_those_that_there_are(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("openclaw", words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(says)


_RULE = "must be a tool, a glob, or a command such as 'exec(make test)'; "


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["bogus"], "Unknown command 'bogus'. See"),
        (["--bogus"], "Unknown option '--bogus'. See"),
        (["completion", "tcsh"], "Invalid choice 'tcsh'; choose from bash, zsh, fish\n"),
        (["logs", "-n", "-5"], "must be a whole number from 1 to 100000, not '-5'"),
        (["logs", "-n", "0"], "must be a whole number from 1 to 100000, not '0'"),
        *(
            (["agent", "--yes-to", rule], _RULE)
            for rule in ("exec(", "exec( )", "a)", " ", "exec(make *)")
        ),
    ],
)
def test_wrong_words_are_refused_without_a_wild_guess(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("openclaw", words) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("command", ["cron add", "mcp add"])
def test_what_lacks_an_argument_is_answered_with_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("openclaw", command.split()) == 2
    assert f"examples:\n  openclaw {command} " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("gateway run --port 99999", "must be a whole number from 0 to 65535, not '99999'"),
        ("gateway run --port=-1", "must be a whole number from 0 to 65535, not '-1'"),
        ("sessions list --limit 99999999999999999999", "from 1 to 1000000"),
        (f"sessions search x --limit {'9' * 5000}", "from 1 to 1000000"),
        ("sessions show x --limit 0", "from 1 to 1000000"),
        ("agent hello --session-key=", "must be 1 to 512 characters long, not 0"),
        (f"chat --session-key {'x' * 513}", "must be 1 to 512 characters long, not 513"),
    ],
)
def test_a_value_that_an_option_cannot_have_is_wrong_usage(
    command: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("openclaw", command.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err


def test_wrong_usage_is_told_in_json_to_whoever_asked_for_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("openclaw", ["agent", "--frob", "--json"]) == 2
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "error": {"type": "InvalidRequest", "message": "unknown option '--frob'"}
    }
    assert "Unknown option '--frob'" in captured.err


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
def test_neither_we_nor_our_children_make_files_that_everybody_can_change() -> None:
    code = (
        "import os, sys; from openclaw.cli.main import main; sys.argv = ['openclaw', '--version']\n"
        "main(); print(oct(os.umask(0)))"
    )
    for given, held in ((0o000, "0o2"), (0o027, "0o27")):
        told = subprocess.run(
            [sys.executable, "-c", code], umask=given, capture_output=True, text=True, check=True
        )
        assert told.stdout.split()[-1] == held


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device")
def test_output_that_cannot_be_written_is_reported_on_exit() -> None:
    script = "import sys; from openclaw.cli.main import main; sys.argv[1:] = ['--version']; sys.exit(main())"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-E", "-c", script], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr == b"openclaw: Cannot write the output: No space left on device.\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no shell")
def test_the_exit_code_needs_no_standard_output() -> None:
    script = (
        "import sys; from openclaw.cli.main import main; sys.argv[1:] = ['frob']; sys.exit(main())"
    )
    command = ["/bin/sh", "-c", f'exec "{sys.executable}" -c "{script}" >&-']
    assert subprocess.run(command, check=False).returncode == 2
