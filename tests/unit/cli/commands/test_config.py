"""`openclaw config`, through the program's own entry point."""

import json
import shlex
import sys
from pathlib import Path

import anyio.to_thread
import pytest

from openclaw.cli.environment import Environment
from openclaw.cli.main import run
from openclaw.testing.scripted_model import scripted_model

Captured = pytest.CaptureFixture[str]

WRONG = """{
  mcp: { servers: { time: { comand: "uvx" } } },
  gateway: { port: "1" },
}"""


@pytest.fixture
def config(home: Path) -> Path:
    path = home / ".openclaw" / "openclaw.json"
    path.parent.mkdir(mode=0o700)
    path.write_text('{ gateway: { auth: { token: "hunter2-hunter2" } }, channels: {} }')
    path.chmod(0o600)
    return path


def test_path_says_where_the_file_is(home: Path, capsys: Captured) -> None:
    assert run("openclaw", ["config", "path"]) == 0
    assert capsys.readouterr().out == f"{home}/.openclaw/openclaw.json\n"
    assert run("openclaw", ["config", "path", "--json", "--config", "/x/y.json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"path": "/x/y.json", "exists": False}


def test_show_prints_the_effective_configuration_without_secrets(
    config: Path, capsys: Captured
) -> None:
    assert run("openclaw", ["config", "show", "--json"]) == 0
    captured = capsys.readouterr()
    tree = json.loads(captured.out)
    assert tree["gateway"]["auth"]["token"] == "[REDACTED]"
    assert tree["gateway"]["port"] == 18_789
    assert tree["agents"]["list"][0]["id"] == "main"
    assert "hunter2" not in captured.out + captured.err
    assert "channels" in captured.err


def test_every_command_that_reads_the_file_tells_the_redactor_its_credentials(config: Path) -> None:
    config.write_text(
        '{ gateway: { auth: { token: "gateway-token-1" } }, mcp: { servers: { x: { command: "x",'
        ' env: { A: "${MY_SECRET}", B_TOKEN: "secret://env/B", C_TOKEN: "plain-token-3" } } } } }'
    )
    env = Environment(environ={"HOME": str(config.parent.parent), "MY_SECRET": "variable-secret-2"})
    env.load_config()
    line = env.redactor.redact("gateway-token-1 variable-secret-2 plain-token-3 secret://env/B")
    assert line == "[REDACTED] [REDACTED] [REDACTED] secret://env/B"


def test_show_keeps_keys_that_are_also_someones_password(config: Path, capsys: Captured) -> None:
    config.write_text(
        '{ mcp: { servers: { x: { command: "x", env: { A_TOKEN: "true", PASSWORD: "servers" } } } } }'
    )
    assert run("openclaw", ["config", "show"]) == 0
    servers = json.loads(capsys.readouterr().out)["agents"]["list"][0]["mcp"]["servers"]
    assert servers["x"]["env"] == {"A_TOKEN": "[REDACTED]", "PASSWORD": "[REDACTED]"}


def test_validate_says_that_a_file_is_valid_and_what_is_not_used(
    config: Path, capsys: Captured
) -> None:
    assert run("openclaw", ["config", "validate"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{config}: valid\n"
    assert captured.err == ("Warning: not supported, and ignored: channels (line 1)\n")
    assert run("openclaw", ["config", "validate", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["valid"], facts["exists"], len(facts["warnings"])) == (True, True, 1)


def test_a_file_that_was_emptied_is_not_taken_for_none(config: Path, capsys: Captured) -> None:
    config.write_text("\n")
    assert run("openclaw", ["config", "get", "gateway.port"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "18789\n"
    assert f"{config} is empty, so the defaults are used" in captured.err


def test_validate_without_a_file_says_that_the_defaults_apply(home: Path, capsys: Captured) -> None:
    assert run("openclaw", ["config", "validate"]) == 0
    assert capsys.readouterr().out == (
        f"{home}/.openclaw/openclaw.json: does not exist; the defaults apply\n"
    )


def test_validate_lists_every_problem_with_its_place(config: Path, capsys: Captured) -> None:
    config.write_text(WRONG)
    assert run("openclaw", ["config", "validate"]) == 2
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        'mcp.servers.time.comand: unknown key; did you mean "command"? (line 2, column 29)',
        "gateway.port: must be a whole number, not text (line 3, column 20)",
    ]
    assert captured.err == f"openclaw: 2 problems in {config}\n"


def test_validate_as_json_is_nothing_but_json(config: Path, capsys: Captured) -> None:
    config.write_text(WRONG)
    assert run("openclaw", ["config", "validate", "--json"]) == 2
    captured = capsys.readouterr()
    facts = json.loads(captured.out)
    assert (facts["valid"], facts["path"]) == (False, str(config))
    assert facts["problems"][1] == {
        "path": "gateway.port",
        "message": "must be a whole number, not text",
        "line": 3,
        "column": 20,
    }
    assert captured.err == ""


def test_validate_refuses_a_named_file_that_is_not_there(tmp_path: Path, capsys: Captured) -> None:
    missing = tmp_path / "missing.json"
    assert run("openclaw", ["config", "validate", "--config", str(missing)]) == 2
    assert capsys.readouterr().out == "(file): there is no such file\n"


def test_show_of_a_wrong_file_fails_with_every_problem(config: Path, capsys: Captured) -> None:
    config.write_text(WRONG)
    assert run("openclaw", ["config", "show"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "gateway.port: must be a whole number, not text (line 3, column 20)" in captured.err


def test_schema_prints_a_json_schema(capsys: Captured) -> None:
    assert run("openclaw", ["config", "schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert "REDACTED" not in json.dumps(schema)


def test_config_alone_is_a_usage_error(capsys: Captured) -> None:
    assert run("openclaw", ["config"]) == 2
    assert "An action is missing" in capsys.readouterr().err


def test_a_key_is_read_set_and_taken_out_and_the_rest_stays_as_written(
    config: Path, capsys: Captured
) -> None:
    config.write_text("{\n  // mine\n  gateway: { port: 9000 },\n}\n")
    assert run("openclaw", ["config", "set", "tools.ask", "['exec', 'write',]"]) == 0
    told = capsys.readouterr().out
    assert '["exec", "write"]' in told
    assert told.endswith(f"\nSaved in {config}.\n")
    assert run("openclaw", ["config", "set", "gateway.port", "9001"]) == 0
    assert "// mine" in config.read_text()
    capsys.readouterr()
    assert run("openclaw", ["config", "get", "tools.ask[1]"]) == 0
    assert json.loads(capsys.readouterr().out) == "write"
    assert run("openclaw", ["config", "unset", "tools.ask", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["path"] == str(config)
    assert run("openclaw", ["config", "get", "tools.ask"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run("openclaw", ["config", "unset", "tools.ask"]) == 0
    assert "Nothing was changed." in capsys.readouterr().out


def test_a_value_that_is_no_json5_is_a_text_and_a_secret_is_not_printed(
    config: Path, capsys: Captured
) -> None:
    assert run("openclaw", ["config", "set", "agents.defaults.model", "anthropic/some-model"]) == 0
    assert run("openclaw", ["config", "get", "agents.defaults.model"]) == 0
    assert '"anthropic/some-model"' in capsys.readouterr().out
    assert run("openclaw", ["config", "get", "gateway.auth.token"]) == 0
    assert "hunter2" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["set", "gateway.prot", "1"], 2, 'did you mean "port"'),
        (["set", "nosuch.key", "1"], 2, "List the keys with: openclaw config explain\n"),
        (["set", "gateway.zzzz", "1"], 2, "List the keys with: openclaw config explain gateway\n"),
        (["get", "gateway.prot"], 1, "Did you mean 'port'"),
        (["get", "..x"], 2, "is not a key"),
        (["explain", "gateway.prot"], 1, "Did you mean 'port'"),
    ],
)
def test_a_wrong_key_is_refused_with_the_one_that_was_meant(
    config: Path, capsys: Captured, arguments: list[str], code: int, said: str
) -> None:
    before = config.read_text()
    assert run("openclaw", ["config", *arguments]) == code
    assert said in capsys.readouterr().err
    assert config.read_text() == before


def test_a_refused_change_says_that_nothing_was_written_and_how_a_list_is(
    config: Path, capsys: Captured
) -> None:
    assert run("openclaw", ["config", "set", "tools.deny", "write"]) == 2
    assert capsys.readouterr().err == (
        "openclaw: Nothing was written: tools.deny: must be a list, not text\n"
        "  Write a list like this: openclaw config set tools.deny '[\"write\"]'\n"
    )
    assert run("openclaw", ["config", "unset", "gateway.auth"]) == 0
    config.write_text(WRONG)
    capsys.readouterr()
    assert run("openclaw", ["config", "set", "tools.deny", "write"]) == 2
    assert f"problems in {config}" in capsys.readouterr().err  # it is the file that is broken


def test_blanks_around_a_text_are_left_out(config: Path, capsys: Captured) -> None:
    assert run("openclaw", ["config", "set", "agents.defaults.model", "anthropic/some-model "]) == 0
    assert '"anthropic/some-model"' in config.read_text()


def test_a_key_is_explained(home: Path, capsys: Captured) -> None:
    assert run("openclaw", ["config", "explain", "gateway.port"]) == 0
    assert "default 18789" in capsys.readouterr().out
    assert run("openclaw", ["config", "explain", "mcp.servers.any"]) == 0
    assert "The program to start" in capsys.readouterr().out
    assert run("openclaw", ["config", "explain", "models"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]] == ["providers"]
    assert run("openclaw", ["config", "explain", "models.mode"]) == 0
    assert "not supported; ignored" in capsys.readouterr().out
    assert run("openclaw", ["config", "explain", "models.providers"]) == 0
    assert "  *.apiKey                 The key" in capsys.readouterr().out
    assert run("openclaw", ["config", "explain", "gateway.allowedHosts"]) == 0
    assert capsys.readouterr().out.endswith("  *                        string\n")
    assert run("openclaw", ["config", "explain", "--json"]) == 0
    assert "gateway" in json.loads(capsys.readouterr().out)["keys"]


def editor(home: Path, monkeypatch: pytest.MonkeyPatch, *texts: str) -> None:
    """An editor that writes these, one each time that it is opened."""
    drafts = home / "drafts"
    drafts.mkdir()
    for number, text in enumerate(texts):
        (drafts / str(number)).write_text(text)
    program = "import pathlib, sys; d = sorted(pathlib.Path(sys.argv[1]).iterdir())[0]; "
    program += "pathlib.Path(sys.argv[2]).write_text(d.read_text()); d.unlink()"
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", shlex.join([sys.executable, "-c", program, str(drafts)]))


def test_the_file_is_edited_in_the_persons_editor(
    home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor(home, monkeypatch, "{ gateway: { port: 1234 } }", "{ gatewai: {} }")
    assert run("openclaw", ["config", "edit"]) == 0
    path = home / ".openclaw" / "openclaw.json"
    assert path.read_text() == "{ gateway: { port: 1234 } }\n"
    assert "port: 1234" in capsys.readouterr().out
    assert run("openclaw", ["config", "edit"]) == 2
    assert "The file was not saved." in capsys.readouterr().err
    assert "1234" in path.read_text()


def test_an_editor_that_fails_or_is_not_there_changes_nothing(
    home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", "false")
    assert run("openclaw", ["config", "edit"]) == 1
    monkeypatch.setenv("VISUAL", "no-such-editor-anywhere")
    assert run("openclaw", ["config", "edit"]) == 1
    told = capsys.readouterr().err
    assert "The editor 'no-such-editor-anywhere' cannot be started" in told
    assert "Set EDITOR" in told
    monkeypatch.delenv("VISUAL")
    monkeypatch.delenv("EDITOR", raising=False)
    assert run("openclaw", ["config", "edit"]) == 2  # an editor would wait for ever
    assert "Try: openclaw config set" in capsys.readouterr().err
    assert not (home / ".openclaw/openclaw.json").exists()


@pytest.mark.parametrize(
    ("does", "code", "told"),
    [
        ("unlink()", 1, "The editor removed the file; nothing was saved"),
        (r"write_bytes(b'\xff')", 2, "is not UTF-8 text"),
    ],
)
def test_an_editor_that_leaves_no_text_changes_nothing(
    does: str, code: int, told: str, home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"import pathlib, sys; pathlib.Path(sys.argv[1]).{does}"
    monkeypatch.setenv("VISUAL", shlex.join([sys.executable, "-c", program]))
    assert run("openclaw", ["config", "edit"]) == code
    assert told in capsys.readouterr().err
    assert not (home / ".openclaw/openclaw.json").exists()


def test_an_editor_that_changes_nothing_keeps_the_line_ends(
    home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home / ".openclaw" / "openclaw.json"
    path.parent.mkdir(mode=0o700)
    path.write_bytes(b"{\r\n}\r\n")
    monkeypatch.setenv("VISUAL", "true")
    assert run("openclaw", ["config", "edit"]) == 0
    assert capsys.readouterr().out == "Nothing was changed.\n"
    assert path.read_bytes() == b"{\r\n}\r\n"


def test_the_last_line_of_the_file_ends_when_a_key_is_taken_out(home: Path) -> None:
    path = home / ".openclaw" / "openclaw.json"
    path.parent.mkdir(mode=0o700)
    path.write_text("{ gateway: { port: 1 } }")
    assert run("openclaw", ["config", "unset", "gateway.port"]) == 0
    assert path.read_text().endswith("}\n")


@pytest.mark.anyio
async def test_set_warns_of_a_model_that_the_provider_does_not_list(
    home: Path, capsys: Captured
) -> None:
    async with scripted_model() as model:
        path = home / ".openclaw" / "openclaw.json"
        path.parent.mkdir(mode=0o700)
        provider = {"baseUrl": f"{model.url}/v1", "api": "openai-completions"}
        path.write_text(json.dumps({"models": {"providers": {"acme": provider}}}))
        for value, told in (
            ("acme/scriptd", "there is no model 'scriptd' at acme; did you mean acme/scripted?"),
            ('{"primary": "acme/scripted", "fallbacks": ["acme/zzz"]}', "it has scripted"),
            ("acme/scripted", ""),
        ):
            words = ["config", "set", "agents.defaults.model", value]
            assert await anyio.to_thread.run_sync(run, "openclaw", words) == 0
            warned = capsys.readouterr().err
            assert told in warned
            assert ("Warning:" in warned) == bool(told)
