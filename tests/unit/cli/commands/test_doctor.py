import json
import os
import shutil
import socket
import sqlite3
import ssl
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import certifi
import pytest
from tests.support.fake_http import QuietHandler, serving
from tests.support.fake_server import server_entry

from openclaw.cli.main import run
from openclaw.mcp_client.sandbox.support import detect_support


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "state"
    path.mkdir(mode=0o700)
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(path))
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    return path


def configure(state: Path, config: dict[str, Any]) -> Path:
    path = state / "openclaw.json"
    path.write_text(json.dumps(config))
    path.chmod(0o600)
    return path


def findings(capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, list[dict[str, Any]]]:
    code = run("openclaw", ["doctor", "--json", *options])
    return code, json.loads(capsys.readouterr().out)["findings"]


def wrong(found: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    told = [(f["check"], f["level"], f["message"]) for f in found if f["level"] != "ok"]
    # A gateway may be running where the tests are run.
    return [one for one in told if "port 18789" not in one[2]]


def test_a_fresh_set_up_has_nothing_wrong(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = findings(capsys)
    assert code == 0
    assert wrong(found) == []
    assert {f["check"] for f in found} >= {"python", "state", "config", "gateway", "model"}


def test_each_problem_is_named_with_what_to_do(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(
        state,
        {
            "gateway": {"bind": "lan"},
            "agents": {
                "defaults": {
                    "mcp": {
                        "servers": {
                            "gone": {"command": "no-such-command-anywhere"},
                            "lost": {"command": "false", "cwd": str(state / "nowhere")},
                            "here": {"command": "false"},
                            "plain": {"command": "false", "env": {"API_KEY": "abcdef-1234567"}},
                            "ref": {"command": "false", "env": {"K": "secret://env/NOT_SET_X"}},
                        }
                    }
                }
            },
        },
    )
    code, found = findings(capsys)
    assert code == 1
    place = "agents.defaults.mcp.servers.plain.env.API_KEY"
    started = [one for one in wrong(found) if "does not start" in one[2]]
    assert [one[2].split("'")[1] for one in started] == ["here", "plain", "ref"]
    assert [one for one in wrong(found) if one not in started] == [
        ("config", "warning", f"{place} is a credential in plain text"),
        (
            "secrets",
            "error",
            (
                "secret://env/NOT_SET_X: the environment variable NOT_SET_X is not set"
                " (used by agents.defaults.mcp.servers.ref.env.K)"
            ),
        ),
        ("mcp", "error", "MCP server 'gone': the command 'no-such-command-anywhere' was not found"),
        ("mcp", "error", f"MCP server 'lost': its directory {state}/nowhere does not exist"),
        (
            "sandbox",
            "warning",
            "these run with your rights, without a sandbox: gone, here, lost, plain, ref",
        ),
        (
            "gateway",
            "warning",
            (
                "a gateway could not start: gateway.bind is 'lan', but without a token for other "
                "machines the gateway only listens on loopback"
            ),
        ),
    ]
    assert all("hint" in f for f in found if f["level"] != "ok")


def test_files_in_the_place_of_directories_and_damaged_ones_are_named(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("logs", "memory"):
        (state / name).touch(mode=0o600)
    (state / "gateway.token").mkdir(mode=0o755)
    (state / "pins.json").mkdir(mode=0o755)
    (state / "secrets.json").write_text('{"A": "b')
    code, found = findings(capsys)
    assert code == 1
    told = {f["message"]: f["hint"] for f in found if f["level"] == "error"}
    assert told[f"{state}/logs is a file, not a directory"] == f"move {state}/logs away"
    assert f"{state}/memory is a file, not a directory" in told
    assert f"{state}/gateway.token is a directory, not a file" in told
    assert "secrets set NAME" in told[f"{state}/secrets.json is damaged: it is not a JSON object"]
    [pins] = [message for message in told if "pins.json" in message]
    assert "move it away" in told[pins]
    assert not [hint for hint in told.values() if "chmod" in hint]
    for command in ("logs", "memory"):
        assert run("openclaw", [command]) == 1
        said = capsys.readouterr().err
        assert f"{state}/{command} is a file, not a directory" in said
        assert f"Move {state}/{command} away" in said


def test_a_file_in_the_place_of_the_state_directory_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch(mode=0o644)
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path / "file"))
    code, found = findings(capsys)
    assert code == 1
    told = [f["message"] for f in found if f["check"] == "state"]
    assert told == [f"{tmp_path}/file is a file, not a directory"]


def test_damaged_pins_are_named_also_without_servers(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / "pins.json").write_text('{"format":')
    (state / "pins.json").chmod(0o600)
    code, found = findings(capsys)
    assert code == 1
    assert [one[:2] for one in wrong(found)] == [("pins", "error")]


def test_pins_that_are_a_link_to_themselves_are_named_also_without_servers(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (state / "pins.json").symlink_to("pins.json")
    code, found = findings(capsys)
    assert code == 1
    assert [one[:2] for one in wrong(found)] == [("pins", "error")]


def test_a_credential_under_any_name_is_reported_and_never_shown(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {
        "env": "sk-proj-Ab3dEf6hIj9kLm2nOp5q",
        "arg": "q7Zr2LkX9vTb4NwPd8Yh1MsJ",
        "url": "pass-word",
    }
    servers = {
        "one": {"command": "false", "env": {"FOO": values["env"]}, "args": ["-s", values["arg"]]},
        "two": {"url": f"https://me:{values['url']}@h.example/mcp"},
    }
    configure(state, {"agents": {"defaults": {"mcp": {"servers": servers}}}})
    run("openclaw", ["doctor"])
    said = capsys.readouterr()
    for place in ("one.env.FOO", "one.args[1]", "two.url"):
        assert f"agents.defaults.mcp.servers.{place} is a credential in plain text" in said.out
    assert not [value for value in values.values() if value in said.out + said.err]


def test_an_invalid_configuration_is_reported_problem_by_problem(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(state, {"gateway": {"port": "x", "bnid": 1}})
    code, found = findings(capsys)
    assert code == 1
    assert len(wrong(found)) == 2


def test_what_others_can_read_is_fixed_on_request(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.chmod(0o755)
    code, found = findings(capsys)
    assert code == 1
    assert wrong(found) == [("state", "error", f"{state} can be read by others (mode 0755)")]
    assert [finding["check"] for finding in found if finding["fixable"]] == ["state"]
    code, found = findings(capsys, "--fix")
    assert code == 0
    assert not any(finding["fixable"] for finding in found)
    assert state.stat().st_mode & 0o777 == 0o700


def test_a_configuration_that_others_can_change_is_made_private_on_request(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = state / "openclaw.json"
    file.write_text("{}")
    file.chmod(0o666)
    _, found = findings(capsys)
    assert [check for check, _, message in wrong(found) if str(file) in message] == ["state"]
    findings(capsys, "--fix")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_damaged_database_is_an_error(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = state / "sessions.db"
    connection = sqlite3.connect(database)
    connection.execute("create table t (x)")
    connection.commit()
    connection.close()
    database.chmod(0o600)
    _, found = findings(capsys)
    assert wrong(found) == []
    database.write_bytes(database.read_bytes()[:2048] + b"rubbish" * 300)
    code, found = findings(capsys)
    assert code == 1
    assert [check for check, _, _ in wrong(found)] == ["sessions"]


def test_people_get_a_line_for_each_finding_and_a_count(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.chmod(0o755)
    assert run("openclaw", ["doctor"]) == 1
    out = capsys.readouterr().out
    assert f"error    state: {state} can be read by others (mode 0755)" in out
    assert f"         -> chmod 700 {state}" in out
    assert out.endswith("\n1 error, 0 warnings; `openclaw doctor --fix` fixes 1 of them\n")


def test_fixing_says_what_it_did_also_if_there_was_nothing(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("openclaw", ["doctor", "--fix"])
    assert capsys.readouterr().out.endswith("There is nothing to fix.\n")
    state.chmod(0o755)
    run("openclaw", ["doctor", "--fix"])
    assert capsys.readouterr().out.endswith("\n0 errors, 0 warnings\nFixed 1.\n")
    configure(state, {"gateway": {"bind": "lan"}})
    run("openclaw", ["doctor", "--fix"])
    assert "--fix cannot fix any of this" in capsys.readouterr().out


def test_what_cannot_be_fixed_stays_an_error_and_says_why(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    state.chmod(0o755)
    monkeypatch.setattr(Path, "chmod", refuse)
    code, found = findings(capsys, "--fix")
    assert code == 1
    told = f"{state} can be read by others (mode 0755), and --fix failed: Operation not permitted"
    assert wrong(found) == [("state", "error", told)]


def test_a_server_with_a_program_and_an_address_is_pointed_out(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = {"command": "false", "url": "http://127.0.0.1:9/mcp"}
    configure(state, {"mcp": {"servers": {"a": both, "b": {**both, "transport": "http"}}}})
    _, found = findings(capsys)
    said = [message for _, _, message in wrong(found) if "has both" in message]
    assert said == [
        "MCP server 'a' has both `command` and `url`; `command` is used",
        "MCP server 'b' has both `command` and `url`; `url` is used",
    ]
    run("openclaw", ["config", "validate"])
    assert "`command` is used; remove the other" in capsys.readouterr().err
    run("openclaw", ["mcp", "list"])
    out = capsys.readouterr().out
    assert "a  stdio  false\n" in out
    assert "b  http   http://127.0.0.1:9/mcp\n" in out


def test_what_others_can_change_is_said_to_be_so(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.chmod(0o777)
    (state / "sessions.db").touch()
    (state / "sessions.db").chmod(0o622)
    code, found = findings(capsys)
    assert code == 1
    assert wrong(found)[:2] == [
        ("state", "error", f"{state} can be changed by others (mode 0777)"),
        ("state", "error", f"{state / 'sessions.db'} can be changed by others (mode 0622)"),
    ]


def test_a_state_directory_that_others_could_replace_is_an_error(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state.parent.chmod(0o777)
    code, found = findings(capsys)
    told = f"{state} can be replaced by others, since anybody may write to {state.parent}"
    assert (code, wrong(found)) == (1, [("state", "error", told)])
    state.parent.chmod(0o1777)  # as /tmp is
    assert findings(capsys)[0] == 0


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root gives away")
def test_a_state_directory_of_another_user_is_an_error(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    os.chown(state, 65533, 65533)
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    code, found = findings(capsys)
    assert (code, wrong(found)) == (1, [("state", "error", f"{state} belongs to another user")])


def test_each_server_is_started_once(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    broken = "import sys; sys.exit('Error: SELF_SIGNED_CERT_IN_CHAIN')"
    servers = {
        "good": server_entry({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "proxied": {"command": sys.executable, "args": ["-c", broken]},
    }
    configure(state, {"mcp": {"servers": servers}})
    code, found = findings(capsys)
    assert code == 1
    told = {f["message"]: f for f in found if f["check"] == "mcp"}
    assert "MCP server 'good' starts; it has 1 tool" in told
    [failed] = [f for message, f in told.items() if "'proxied' does not start" in message]
    assert "set SSL_CERT_FILE" in failed["hint"]
    monkeypatch.setenv("NODE_EXTRA_CA_CERTS", certifi.where())
    _, found = findings(capsys)
    [failed] = [f for f in found if "'proxied' does not start" in f["message"]]
    assert (
        """config set mcp.servers.proxied.inheritEnv '["NODE_EXTRA_CA_CERTS"]'""" in failed["hint"]
    )


def test_a_gateway_that_does_not_run_is_not_said_to_listen(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, found = findings(capsys)
    [told] = [f["message"] for f in found if f["check"] == "gateway"]
    assert told.startswith("no gateway is running")


def test_certificates_that_cannot_be_read_are_an_error(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(state / "gone.pem"))
    code, found = findings(capsys)
    assert code == 1
    assert any("gone.pem, which cannot be used" in f["message"] for f in found)


def test_one_damaged_certificate_among_many_is_an_error(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third, *rest = Path(certifi.where()).read_text().split(ssl.PEM_HEADER)
    lines = third.split("\n")
    damaged = "\n".join((*lines[:4], *lines[5:]))  # still the alphabet of certificates, and padded
    path = state / "damaged.pem"
    path.write_text(ssl.PEM_HEADER.join((first, second, damaged, *rest)))
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    code, found = findings(capsys)
    assert code == 1
    assert any("damaged.pem, which cannot be used" in f["message"] for f in found)


@contextmanager
def provider(status: int) -> Generator[str]:
    class Answer(QuietHandler):
        def do_GET(self) -> None:
            self.reply(b'{"error": {"message": "so it is"}}', status)

    with serving(Answer) as url:
        yield f"{url}/v1"


@pytest.mark.parametrize(
    ("status", "level", "said"),
    [
        (200, "ok", "uses acme/m"),
        (404, "ok", "uses acme/m"),
        (401, "error", "its provider refuses the key (HTTP 401: so it is)"),
        (503, "warning", "its provider could not be reached (HTTP 503: so it is)"),
    ],
)
def test_the_provider_is_asked_whether_it_takes_the_key(
    state: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    level: str,
    said: str,
) -> None:
    monkeypatch.setenv("ACME_KEY", "acme-key-1234")
    with provider(status) as address:
        acme = {"baseUrl": address, "apiKey": "secret://env/ACME_KEY", "models": [{"id": "m"}]}
        configure(state, {"models": {"providers": {"acme": acme}}})
        _, found = findings(capsys)
    model = next(one for one in found if one["check"] == "model")
    assert model["level"] == level
    assert said in model["message"]
    if level == "error":
        assert model["hint"] == "check models.providers.acme.apiKey (secret://env/ACME_KEY)"


def test_a_model_that_the_provider_does_not_list_is_an_error(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Models(QuietHandler):
        def do_GET(self) -> None:
            self.reply(b'{"data": [{"id": "large"}, {"id": "small"}]}', 200)

    with serving(Models) as url:
        acme = {"baseUrl": f"{url}/v1", "apiKey": "acme-key-1234"}
        for name, level in (("smal", "error"), ("small", "ok")):
            agents = {"defaults": {"model": f"acme/{name}"}}
            configure(state, {"models": {"providers": {"acme": acme}}, "agents": agents})
            _, found = findings(capsys)
            model = next(one for one in found if one["check"] == "model")
            assert model["level"] == level
            assert ("did you mean acme/small?" in model["message"]) == (level == "error")


def test_a_port_that_another_program_has_is_a_warning(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        configure(state, {"gateway": {"port": port}})
        code, found = findings(capsys)
    assert code == 0
    [(check, level, message)] = wrong(found)
    assert (check, level) == ("gateway", "warning")
    assert f"cannot listen on 127.0.0.1 port {port}" in message


def test_a_named_token_lets_the_gateway_listen_for_other_machines(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(state, {"gateway": {"bind": "lan"}})
    run("openclaw", ["gateway", "token", "add", "phone"])
    capsys.readouterr()
    assert wrong(findings(capsys)[1]) == []


def test_a_full_disk_is_found(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2000))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    code, found = findings(capsys)
    assert (code, wrong(found)) == (
        1,
        [("state", "error", f"the disk of {state} is full (2 kB left)")],
    )


@pytest.mark.skipif(sys.platform != "linux", reason="sandboxes are Linux's")
def test_the_programs_that_commands_can_run_here_are_named(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    programs = home / "programs"
    programs.mkdir()
    for name, needs in (("rg", "/etc/passwd"), ("gh", home / "token")):
        (programs / name).write_text(f"#!/bin/sh\ncat {needs}\n")
        (programs / name).chmod(0o755)
    (home / "token").write_text("x")
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    _, found = findings(capsys)
    [shell] = [one for one in found if one["check"] == "shell"]
    support = detect_support(os.environ["PATH"])
    assert "rg" in shell["message"].partition("; these are installed")[0]
    assert shell["message"].endswith("these are installed but don't: gh") == bool(support.best)
    assert shell["level"] == "warning"
    assert ("sandbox.read" in shell["hint"]) == bool(support.best)
