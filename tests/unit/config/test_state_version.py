"""The state's version: older states are migrated after a backup, newer ones refused, both undone."""

import json
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from openclaw.config import state_backup, state_version
from openclaw.config.state_backup import KEPT, Backup, back_up, backups, migrate, restore
from openclaw.config.state_version import NewerState, is_outdated, record_version
from openclaw.core.errors import OperatorFacing
from openclaw.version import __version__

NOW = 1_800_000_000_000


def files_of(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "backups" not in path.parts and not path.name.startswith(".")
    }


@pytest.fixture
def root(tmp_path: Path) -> Path:
    state = tmp_path / "state"
    (state / "cron").mkdir(parents=True, mode=0o700)
    (state / "cron" / "jobs.json").write_text('{"jobs": []}')
    (state / "pins.json").write_text('{"format": 1, "servers": {}}')
    (state / "openclaw.json").write_text("{ /* mine */ }")
    with sqlite3.connect(state / "sessions.db") as connection:
        connection.execute("CREATE TABLE t AS SELECT 'kept' AS x")
    connection.close()
    return state


def join_pins_and_jobs(files: Path) -> None:
    """A migration that adds, changes and removes."""
    jobs = json.loads((files / "cron" / "jobs.json").read_text())["jobs"]
    (files / "pins.json").write_text('{"format": 2, "servers": {}}')
    (files / "memory").mkdir()
    (files / "memory" / "jobs.json").write_text(json.dumps(jobs))
    (files / "cron" / "jobs.json").unlink()
    (files / "cron").rmdir()


MIGRATED = {
    "memory/jobs.json": "[]",
    "openclaw.json": "{ /* mine */ }",
    "pins.json": '{"format": 2, "servers": {}}',
    "version.json": json.dumps({"version": 2, "program": __version__}) + "\n",
}


@pytest.fixture
def newer_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_version, "MIGRATIONS", (join_pins_and_jobs,))


def without_database(root: Path) -> dict[str, str]:
    (root / "sessions.db").rename(root.parent / "sessions.db")
    try:
        return files_of(root)
    finally:
        (root.parent / "sessions.db").rename(root / "sessions.db")


def test_a_state_without_a_version_is_the_first_and_is_given_one(root: Path) -> None:
    assert not is_outdated(root)
    record_version(root)
    stored = json.loads((root / "version.json").read_text())
    assert stored == {"version": 1, "program": __version__}
    assert stat.S_IMODE((root / "version.json").stat().st_mode) == 0o600


def test_looking_at_a_state_that_does_not_exist_creates_nothing(tmp_path: Path) -> None:
    record_version(tmp_path / "none")
    assert migrate(tmp_path / "none", NOW) is None
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("newer_program")
def test_an_older_state_is_backed_up_and_migrated(root: Path) -> None:
    said = migrate(root, NOW)
    (backup,) = backups(root)
    assert said == f"{root} was migrated from version 1 to 2; a backup is in {backup.path}"
    assert without_database(root) == MIGRATED
    assert (backup.path / "cron" / "jobs.json").read_text() == '{"jobs": []}'
    assert (backup.database, backup.config) == (root / "sessions.db", root / "openclaw.json")
    assert migrate(root, NOW) is None


@pytest.mark.usefixtures("newer_program")
def test_a_new_state_begins_with_the_newest_version(tmp_path: Path) -> None:
    (tmp_path / "openclaw.json").write_text("{}")
    assert migrate(tmp_path, NOW) is None
    record_version(tmp_path)
    assert json.loads((tmp_path / "version.json").read_text())["version"] == 2


def test_a_newer_state_is_refused_and_left_alone(root: Path) -> None:
    (root / "version.json").write_text('{"version": 2, "program": "0.9.0"}')
    before = without_database(root)
    uses: list[Callable[[], object]] = [
        lambda: is_outdated(root),
        lambda: record_version(root),
        lambda: migrate(root, NOW),
    ]
    for use in uses:
        with pytest.raises(NewerState, match=r"newer version of this program \(0\.9\.0\)"):
            use()
    assert without_database(root) == before


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": "x"}'])
def test_a_version_that_cannot_be_read_is_reported(root: Path, text: str) -> None:
    (root / "version.json").write_text(text)
    with pytest.raises(OperatorFacing, match="cannot be read"):
        is_outdated(root)


@pytest.mark.usefixtures("newer_program")
def test_a_migration_that_fails_changes_nothing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(files: Path) -> None:
        join_pins_and_jobs(files)
        raise OSError("no space left")

    monkeypatch.setattr(state_version, "MIGRATIONS", (fail,))
    before = without_database(root)
    with pytest.raises(OSError, match="no space"):
        migrate(root, NOW)
    assert without_database(root) == before
    monkeypatch.setattr(state_version, "MIGRATIONS", (join_pins_and_jobs,))
    migrate(root, NOW + 1)
    assert without_database(root) == MIGRATED


def test_the_last_three_backups_are_kept(root: Path) -> None:
    made = [back_up(root, NOW + day * 86_400_000, root / "sessions.db") for day in range(5)]
    assert [one.path for one in backups(root)] == made[:1:-1]
    assert KEPT == 3


def newest_backup(root: Path) -> Backup:
    return backups(root)[0]


@pytest.mark.usefixtures("newer_program")
def test_a_restore_brings_everything_back_and_keeps_what_it_replaced(root: Path) -> None:
    before = without_database(root)
    migrate(root, NOW)
    backup = newest_backup(root)
    with sqlite3.connect(root / "sessions.db") as connection:
        connection.execute("UPDATE t SET x = 'newer'")
    connection.close()
    (root / "openclaw.json").write_text("{ /* newer */ }")
    replaced = restore(root, backup, NOW + 1)
    assert without_database(root) == before
    for path, value in ((root, "kept"), (replaced, "newer")):
        connection = sqlite3.connect(path / "sessions.db")
        assert connection.execute("SELECT x FROM t").fetchone() == (value,)
        connection.close()
    assert (replaced / "openclaw.json").read_text() == "{ /* newer */ }"
    assert newest_backup(root).path == replaced


def test_a_backup_contains_what_other_programs_are_just_writing(root: Path) -> None:
    database = root / "sessions.db"
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("UPDATE t SET x = 'only in the log'")
    connection.commit()
    copy = sqlite3.connect(back_up(root, NOW, database) / state_backup.DATABASE)
    assert copy.execute("SELECT x FROM t").fetchone() == ("only in the log",)
    copy.close()
    connection.close()


KILLED_EVERYWHERE = """
import os, shutil, signal, sys
from itertools import count
from pathlib import Path
from tests.unit.config.test_state_version import MIGRATED, NOW, join_pins_and_jobs, without_database
from openclaw.config import state_version
from openclaw.config.state_backup import backups, migrate, restore

state_version.MIGRATIONS = (join_pins_and_jobs,)
source, undo, step = Path(sys.argv[1]), sys.argv[2] == "undo", int(sys.argv[3])
for fatal in count(1, step):
    root = source.with_name(f"state-{fatal}")
    shutil.copytree(source, root)
    before = without_database(root)
    if undo:
        migrate(root, NOW)

    def work():
        if undo:
            restore(root, backups(root)[-1], NOW + 1)
        else:
            migrate(root, NOW)

    if (child := os.fork()) == 0:
        left = fatal

        def die(event, arguments):
            global left
            if event.startswith(("os.", "open", "shutil.", "sqlite3.")):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(die)
        work()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    work()
    assert without_database(root) == (before if undo else MIGRATED), fatal
    shutil.rmtree(root)
    if status == 0:
        break
    assert os.WTERMSIG(status) == signal.SIGKILL
print(fatal)
"""


@pytest.mark.subprocess
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("what", ["migrate", "undo"])
def test_a_kill_at_any_moment_loses_nothing(root: Path, what: str, soaking: bool) -> None:
    step = "1" if soaking else "3"
    command = [sys.executable, "-c", KILLED_EVERYWHERE, str(root), what, step]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30  # the number of moments
