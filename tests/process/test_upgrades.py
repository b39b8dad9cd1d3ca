"""States that earlier commits wrote, and newer ones, in the hands of this program's commands."""

import json
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from tests.support.gateway_kit import Installation

from openclaw.cli.parser import COMMANDS
from openclaw.config.state_backup import backups
from openclaw.core.clock import SystemClock
from openclaw.mcp_client.catalog.pin_store import PinStore
from openclaw.sessions.sqlite import schema
from openclaw.sessions.sqlite.store import open_sqlite_store

# Each was written by the commit in its name: two conversations, a pinned server and, where commands for
# them existed, a schedule, a secret and a token.
STATES = sorted((Path(__file__).parents[1] / "support" / "states").glob("*.tar.xz"))
FIRST_SCHEMA = ("0.1.0-1c749af2", "0.1.0-62ec13d7")

pytestmark = [pytest.mark.subprocess, pytest.mark.warm_start]
PROGRAM = Path(sys.executable).with_name("openclaw")


def unpacked(archive: Path, home: Path) -> Path:
    state = home / ".openclaw"
    with tarfile.open(archive) as files:
        files.extractall(state, filter="data")
    state.chmod(0o700)
    return state


def run(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [PROGRAM, *words],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        cwd=home,
        check=False,
    )


def facts(home: Path, *words: str) -> object:
    done = run(home, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def digest(state: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(state)): path.read_bytes()
        for path in sorted(state.rglob("*"))
        if path.is_file()
    }


def test_there_is_a_state_of_five_commits() -> None:
    assert len(STATES) >= 5


@pytest.mark.parametrize("archive", STATES, ids=lambda path: path.name.partition(".tar")[0])
def test_the_state_of_an_earlier_commit_is_opened_whole(archive: Path, tmp_path: Path) -> None:
    state = unpacked(archive, tmp_path)
    listed = run(tmp_path, "sessions", "list")
    assert listed.returncode == 0, listed.stderr
    assert "When does the harbour open? The ferry Amarante waits." in listed.stdout
    found = run(tmp_path, "sessions", "show", "harbour")
    assert "the harbour opens at nine" in found.stdout
    assert [pin.name for pin in PinStore(state / "pins.json").load().values()] == ["time"]
    assert run(tmp_path, "config", "validate").returncode == 0
    if (state / "cron").exists():
        assert "Say good morning" in run(tmp_path, "cron", "list").stdout
        assert run(tmp_path, "secrets", "list").stdout == "door\n"
        assert "phone  orders" in run(tmp_path, "gateway", "token", "list").stdout
    if archive.name.startswith(FIRST_SCHEMA):
        (backup,) = backups(state)
        version = f"from version 1 to {schema.newest()}; a backup is in {backup.path}"
        assert listed.stderr == f"Warning: {state / 'sessions.db'} was migrated {version}\n"
        with closing(sqlite3.connect(backup.path / "sessions.db")) as old:
            assert old.execute("PRAGMA user_version").fetchone() == (1,)
    else:
        assert (listed.stderr, backups(state)) == ("", [])
    stored = json.loads((state / "version.json").read_text())
    assert stored["version"] == 1


REFUSING = {
    "acp": (),
    "agent": ("Hi",),
    "chat": (),
    "config": ("get", "gateway.port"),
    "cron": ("add", "weekdays 8:00", "Hi"),
    "gateway": ("run",),
    "init": ("--yes",),
    "logs": (),
    "mcp": ("list",),
    "memory": (),
    "models": ("list",),
    "page": ("--print",),
    "questions": (),
    "secrets": ("list",),
    "sessions": ("list",),
    "skills": (),
    "status": (),
    "tasks": (),
    "uninstall": ("--yes", "--delete-data"),
    "usage": (),
}
SERVING = ("mcp-hub", "mcp-server")  # they answer a handshake first
REPORTING = ("completion", "doctor", "upgrade")  # they don't use the state, or say what is wrong


def make_newer(state: Path, what: str) -> str:
    """Have this part of the state look as if a newer version had written it."""
    if what == "version.json":
        (state / what).write_text('{"version": 2, "program": "0.9.0"}')
        return f"{state} was written by a newer version of this program (0.9.0)"
    with closing(sqlite3.connect(state / what)) as database:
        database.execute(f"PRAGMA user_version = {schema.newest() + 1}")
    return f"{state / what} was written by a newer version of this program"


def test_every_command_has_its_place_here() -> None:
    assert {*REFUSING, *SERVING, *REPORTING} == set(COMMANDS)


@pytest.mark.parametrize("command", REFUSING)
@pytest.mark.parametrize("what", ["version.json", "sessions.db"])
def test_every_command_refuses_a_newer_state_before_it_writes(
    command: str, what: str, tmp_path: Path
) -> None:
    state = unpacked(STATES[-1], tmp_path)
    refusal = make_newer(state, what)
    before = digest(state)
    done = run(tmp_path, command, *REFUSING[command])
    assert done.returncode != 0
    assert refusal in done.stderr
    assert "pdate openclaw-runtime" in done.stderr
    assert digest(state) == before


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}


@pytest.mark.parametrize("command", SERVING)
async def test_a_server_refuses_a_newer_state_once_the_handshake_is_answered(
    command: str, tmp_path: Path
) -> None:
    state = unpacked(STATES[-1], tmp_path)
    refusal = make_newer(state, "version.json")
    before = digest(state)
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    async with await anyio.open_process([PROGRAM, command], env=environ) as server:
        assert server.stdin is not None
        assert server.stderr is not None
        await server.stdin.send(json.dumps(INITIALIZE).encode() + b"\n")
        said = b"".join([chunk async for chunk in server.stderr]).decode()
        assert await server.wait() == 1
    assert refusal in said
    assert digest(state) == before


@pytest.mark.parametrize("command", REPORTING)
def test_the_others_touch_nothing(command: str, tmp_path: Path) -> None:
    state = unpacked(STATES[-1], tmp_path)
    refusal = make_newer(state, "version.json")
    before = digest(state)
    done = run(tmp_path, command, *(("bash",) if command == "completion" else ()))
    assert (refusal in done.stdout) == (command == "doctor")
    assert done.returncode == (command == "doctor")
    assert digest(state) == before


def test_an_upgrade_to_a_version_that_is_itself_too_old_changes_nothing(tmp_path: Path) -> None:
    state = unpacked(STATES[-1], tmp_path)
    refusal = make_newer(state, "version.json")
    before = digest(state)
    done = run(tmp_path, "upgrade", "--yes")
    assert done.returncode == 1
    assert refusal in done.stderr
    assert digest(state) == before


def test_a_configuration_of_a_newer_version_is_refused_for_that_alone(tmp_path: Path) -> None:
    state = tmp_path / ".openclaw"
    state.mkdir(mode=0o700)
    (state / "openclaw.json").write_text("{\n  version: 2, agents: { fleet: {} },\n}")
    done = run(tmp_path, "config", "validate")
    assert done.returncode == 2
    assert "version: 2 is newer than this program" in done.stderr + done.stdout
    assert "fleet" not in done.stderr + done.stdout


SLOW = """
CREATE TABLE numbers AS WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 1000000000)
SELECT x FROM n
"""
MIGRATE = """
import sys
from pathlib import Path
import anyio
from openclaw.core.clock import SystemClock
from openclaw.sessions.sqlite import schema
from openclaw.sessions.sqlite.store import open_sqlite_store
schema.SQL = Path(sys.argv[2])

async def main():
    async with open_sqlite_store(Path(sys.argv[1]), SystemClock()):
        pass
anyio.run(main)
"""


async def test_a_kill_during_a_migration_of_the_store_loses_nothing(tmp_path: Path) -> None:
    state = unpacked(STATES[0], tmp_path)
    scripts = tmp_path / "sql"
    scripts.mkdir()
    for script in schema.SQL.glob("*.sql"):
        (scripts / script.name).write_bytes(script.read_bytes())
    (scripts / "999_slow.sql").write_text(SLOW)
    database = state / "sessions.db"
    command = [sys.executable, "-c", MIGRATE, str(database), str(scripts)]
    async with await anyio.open_process(command) as process:
        while not backups(state):  # which is made before the first statement
            assert process.returncode is None
            await anyio.sleep(0.05)
        process.kill()
        assert await process.wait() != 0
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    async with open_sqlite_store(database, SystemClock()) as store:
        page = await store.list_sessions()
    assert sorted(one.ref.key for one in page.sessions) == ["cats", "harbour"]


async def test_a_gateway_of_an_older_version_is_to_be_restarted_before_its_state_is_migrated(
    tmp_path: Path,
) -> None:
    newer = (
        "import sys\n"
        "from openclaw.config import state_version\n"
        "from openclaw.cli.main import run\n"
        "state_version.MIGRATIONS = (lambda files: None,)\n"
        "sys.exit(run('openclaw', sys.argv[1:]))"
    )
    installation = Installation(tmp_path)
    installation.configure("http://127.0.0.1:9")
    (installation.state / "pins.json").write_text('{"format": 1, "servers": {}}')

    async def run_newer(*words: str) -> "subprocess.CompletedProcess[bytes]":
        command = [sys.executable, "-c", newer, *words]
        return await anyio.run_process(command, env=installation.environ(), check=False)

    async with installation.here():
        refused = await run_newer("cron", "list")
        assert refused.returncode == 1
        assert b"the running gateway is of an older version" in refused.stderr.lower()
        assert (await run_newer("gateway", "status")).returncode == 0
        assert not backups(installation.state)
    migrated = await run_newer("cron", "list")
    assert migrated.returncode == 0
    assert b"was migrated from version 1 to 2; a backup is in" in migrated.stderr
