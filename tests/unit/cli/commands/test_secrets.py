import io
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backend import KeyringBackend as Library
from keyring.errors import PasswordDeleteError
from tests.support.fake_vault import FakeVault

from openclaw.cli.commands import secrets
from openclaw.cli.environment import Environment
from openclaw.cli.parser import CommandParser, parse
from openclaw.cli.run_command import run_command
from openclaw.config.paths import state_dir
from openclaw.config.schema import Config
from openclaw.config.secret_store import SecretStore
from openclaw.core.errors import OpenClawError, describe, exit_code
from openclaw.runtime.open_secrets import open_secrets
from openclaw.secrets.backends.local import StoreBackend
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import parse as parse_ref
from openclaw.secrets.resolver import BackendFailure

VALUES = {"ACME_KEY": "acme-key-value", "DOCS_TOKEN": "docs-token-value"}


@dataclass(frozen=True)
class Done:
    stdout: str
    stderr: str
    returncode: int


def run(*arguments: str, environ: dict[str, str]) -> Done:
    """The command as the program runs it, but for the process."""
    parser = CommandParser(prog="openclaw secrets")
    secrets.register(parser)
    args = parse(parser, list(arguments))
    out, err = io.StringIO(), io.StringIO()
    env = Environment(environ=environ, stdout=out, stderr=err)
    try:
        code = run_command("secrets", args, env)
    except OpenClawError as error:
        err.write(describe(error))
        code = exit_code(error)
    return Done(out.getvalue(), err.getvalue(), code)


def run_process(*arguments: str, environ: dict[str, str]) -> Done:
    done = subprocess.run(
        [sys.executable, "-m", "openclaw", "secrets", *arguments],
        env={"PATH": "/usr/bin:/bin", **environ},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Done(done.stdout, done.stderr, done.returncode)


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    (home / ".openclaw").mkdir(mode=0o700)
    return {"HOME": str(home), **VALUES}


def configure(environ: dict[str, str], **more: object) -> None:
    provider: dict[str, Any] = {
        "baseUrl": "http://127.0.0.1:9/v1",
        "apiKey": "secret://env/ACME_KEY",
        "api": "openai-completions",
        "models": [],
    }
    server = {
        "url": "https://docs.example/mcp",
        "headers": {"Authorization": "Bearer secret://env/DOCS_TOKEN"},
    }
    config: dict[str, Any] = {
        "models": {"providers": {"acme": provider}},
        "agents": {"defaults": {"mcp": {"servers": {"docs": server}}}},
        **more,
    }
    file = Path(environ["HOME"]) / ".openclaw" / "openclaw.json"
    file.write_text(json.dumps(config))
    file.chmod(0o600)


def test_every_reference_of_the_configuration_is_checked(environ: dict[str, str]) -> None:
    configure(environ)
    done = run("check", environ=environ)
    assert done.stdout.splitlines() == [
        "ok      secret://env/ACME_KEY  (models.providers.acme.apiKey)",
        "ok      secret://env/DOCS_TOKEN  (agents.defaults.mcp.servers.docs.headers.Authorization)",
    ]
    assert done.returncode == 0
    assert not [value for value in VALUES.values() if value in done.stdout + done.stderr]


def test_one_that_fails_is_exit_code_1_and_the_others_are_still_checked(
    environ: dict[str, str],
) -> None:
    configure(environ)
    del environ["ACME_KEY"]
    done = run("check", "--json", environ=environ)
    assert json.loads(done.stdout) == {
        "secrets": [
            {
                "reference": "secret://env/ACME_KEY",
                "ok": False,
                "usedBy": ["models.providers.acme.apiKey"],
                "reason": "the environment variable ACME_KEY is not set",
                "hint": "set ACME_KEY, or change what refers to it",
            },
            {
                "reference": "secret://env/DOCS_TOKEN",
                "ok": True,
                "usedBy": ["agents.defaults.mcp.servers.docs.headers.Authorization"],
            },
        ]
    }
    assert done.returncode == 1
    text = run("check", environ=environ)
    assert (
        "failed  secret://env/ACME_KEY: the environment variable ACME_KEY is not set" in text.stdout
    )


def test_one_reference_alone(environ: dict[str, str]) -> None:
    done = run("check", "secret://env/ACME_KEY", environ=environ)
    assert (done.stdout, done.returncode) == ("ok      secret://env/ACME_KEY\n", 0)
    wrong = run("check", "secret://evn/ACME_KEY", environ=environ)
    assert wrong.returncode == 1
    assert "did you mean secret://env/…?" in wrong.stderr


def test_a_configuration_without_references(environ: dict[str, str]) -> None:
    done = run("check", environ=environ)
    assert (done.stdout, done.returncode) == ("The configuration has no secret references.\n", 0)


def test_a_reference_in_a_list_is_reported_with_its_place(environ: dict[str, str]) -> None:
    servers = {"time": {"command": "x", "args": ["--key", "secret://env/NOPE"]}}
    configure(environ, mcp={"servers": servers})
    done = run("check", environ=environ)
    assert done.returncode == 1
    assert "servers.time.args[1]" in done.stdout


@pytest.mark.subprocess
def test_a_secret_of_a_real_store_is_checked_and_not_shown(environ: dict[str, str]) -> None:
    with FakeVault(token="vault-token-value") as vault:
        vault.mount("secret", 2)
        vault.put("secret", "app", {"token": "stored-value", "other": "x"})
        environ |= {"VAULT_ADDR": vault.url, "VAULT_TOKEN": "vault-token-value"}
        fine = run_process("check", "secret://vault/app#token", "-v", environ=environ)
        assert (fine.stdout, fine.returncode) == ("ok      secret://vault/app#token\n", 0)
        vague = run_process("check", "secret://vault/app", "--json", environ=environ)
        assert (
            json.loads(vague.stdout)["secrets"][0]["hint"] == "name one: secret://vault/app#FIELD"
        )
        for done in (fine, vague):
            assert "stored-value" not in done.stdout + done.stderr
            assert "vault-token-value" not in done.stdout + done.stderr


def stored(environ: dict[str, str], name: str, value: str, *options: str) -> Done:
    """`secrets set` with the value on a pipe."""
    done = subprocess.run(
        [sys.executable, "-m", "openclaw", "secrets", "set", name, *options],
        env={"PATH": "/usr/bin:/bin", **environ},
        input=value,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Done(done.stdout, done.stderr, done.returncode)


def test_a_secret_is_stored_resolved_listed_and_forgotten(environ: dict[str, str]) -> None:
    done = stored(environ, "DOCS", "stored-value-1\n", "--in-file")
    assert (done.returncode, done.stderr) == (0, "")
    assert "secret://store/DOCS" in done.stdout
    assert "stored-value-1" not in done.stdout
    file = Path(environ["HOME"]) / ".openclaw" / "secrets.json"
    assert json.loads(file.read_text()) == {"DOCS": "stored-value-1"}
    assert file.stat().st_mode & 0o777 == 0o600
    assert run("check", "secret://store/DOCS", environ=environ).stdout.startswith("ok")
    assert json.loads(run("list", "--json", environ=environ).stdout) == {"secrets": ["DOCS"]}
    assert run("remove", "DOCS", environ=environ).returncode == 0
    gone = run("check", "secret://store/DOCS", environ=environ)
    assert gone.returncode == 1
    assert "nothing is stored as DOCS" in gone.stdout
    assert "openclaw secrets set DOCS" in gone.stdout
    assert run("remove", "DOCS", environ=environ).returncode == 1
    assert "No secrets are stored" in run("list", environ=environ).stdout


@pytest.mark.parametrize("text", ['{"A": "b', "[]"])
def test_a_damaged_store_is_told_with_what_to_do_and_stays(
    environ: dict[str, str], text: str
) -> None:
    path = SecretStore(environ).path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    for words in (["list"], ["remove", "A"]):
        done = run(*words, environ=environ)
        assert done.returncode == 1
        assert f"{path} is damaged" in done.stderr
        assert "move it away" in done.stderr
    with pytest.raises(OpenClawError, match="is damaged"):
        SecretStore(environ).set("A", "b", keyring=False)
    assert path.read_text() == text


@pytest.mark.parametrize(("name", "value"), [("bad name", "x"), ("../up", "x"), ("EMPTY", "\n")])
def test_what_cannot_be_stored_is_refused_with_the_reason(
    environ: dict[str, str], name: str, value: str
) -> None:
    done = stored(environ, name, value)
    assert done.returncode == 2 or done.returncode == 1
    assert "must be letters" in done.stderr or "No value was given" in done.stderr


async def test_a_keyring_that_works_has_the_value_and_the_file_the_name(
    environ: dict[str, str], memory_keyring: dict[tuple[str, str], str]
) -> None:
    store = SecretStore(environ)
    assert store.set("DOCS", "stored-value-1") == "the system's keyring"
    assert json.loads(store.path.read_text()) == {"DOCS": None}
    assert memory_keyring == {("openclaw-store", "DOCS"): "stored-value-1"}
    backend = StoreBackend(state_dir(environ))
    assert await backend.read(parse_ref("secret://store/DOCS")) == "stored-value-1"
    memory_keyring.clear()
    with pytest.raises(BackendFailure, match="no longer has it"):
        await backend.read(parse_ref("secret://store/DOCS"))
    store.remove("DOCS")
    assert store.names() == []


async def test_a_state_directory_with_a_tilde_is_read_where_it_was_written(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": "~/elsewhere"}
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    SecretStore(environ).set("DOCS", "stored-value-1", keyring=False)
    found = await open_secrets(Config(), environ, Redactor()).resolve_text("secret://store/DOCS")
    assert found.reveal() == "stored-value-1"


@pytest.fixture
def memory_keyring() -> Iterator[dict[tuple[str, str], str]]:
    entries: dict[tuple[str, str], str] = {}

    class Memory(Library):
        priority = 1  # pyright: ignore[reportAssignmentType] - as its documentation says

        def get_password(self, service: str, username: str) -> str | None:
            return entries.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            entries[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            if entries.pop((service, username), None) is None:
                raise PasswordDeleteError(username)

    before = keyring.get_keyring()
    keyring.set_keyring(Memory())
    yield entries
    keyring.set_keyring(before)
