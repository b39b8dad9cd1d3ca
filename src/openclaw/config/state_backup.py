"""Backups of the state, and the migrations and restores that rest on them.

Files change in one transaction. The new ones are written beside the old ones, a rename commits, and
then they are moved into place: after a crash, whoever comes next finishes the moving.
"""

import json
import os
import shutil
import sqlite3
import sys
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from openclaw.config import state_version
from openclaw.config.paths import (
    CONFIG_NAME,
    PRIVATE_FILE,
    StatePaths,
    locked,
    private_directory,
    write_atomically,
)
from openclaw.config.state_version import BACKUPS, COMMITTED, FILES, read_version
from openclaw.core.errors import OperatorFacing
from openclaw.core.installed import Command

KEPT = 3
DATABASE = "sessions.db"  # its name in a backup
_ABOUT = "backup.json"
_UNFINISHED = ".unfinished"
_LOCK_SECONDS = 120.0  # a backup copies everything


@dataclass(frozen=True, slots=True)
class Backup:
    """`program` had written the state; `database` and `config` are where they were, if they existed.

    `reinstall` are the commands that bring that program back, if it was replaced by an upgrade.
    """

    path: Path
    program: str
    database: Path | None
    config: Path | None
    reinstall: tuple[Command, ...] = ()


def migrate(root: Path, now_ms: int) -> str | None:
    """Bring the files up to date; returns what to tell the user. Raises `NewerState`."""
    if not state_version.is_outdated(root):
        return None
    with _exclusive(root):
        if not state_version.is_outdated(root):  # interrupted, or another process was faster
            return None
        found, newest = read_version(root)[0], state_version.newest()
        database = StatePaths(root).database
        backup = _back_up(root, now_ms, database, root / CONFIG_NAME)
        with _replacing(root, backup) as files:
            for step in state_version.MIGRATIONS[found - 1 :]:
                step(files)
            state_version.write_version(files)
    return f"{root} was migrated from version {found} to {newest}; a backup is in {backup}"


def back_up(
    root: Path,
    now_ms: int,
    database: Path | None,
    config: Path | None = None,
    reinstall: Sequence[Command] = (),
) -> Path:
    """Copy the state and the configuration to `backups/`, where the last three are kept."""
    with _exclusive(root):
        return _back_up(root, now_ms, database, config or root / CONFIG_NAME, reinstall)


def backups(root: Path) -> list[Backup]:
    """The complete backups, the newest first."""
    found: list[Backup] = []
    for path in sorted((root / BACKUPS).glob("[0-9]*"), reverse=True):
        try:
            about: dict[str, Any] = json.loads((path / _ABOUT).read_bytes())
        except (OSError, ValueError):  # not ours
            continue
        database, config = (about.get(name) for name in ("database", "config"))
        found.append(
            Backup(
                path,
                str(about.get("program", "")),
                database and Path(database),
                config and Path(config),
                tuple(tuple(map(str, words)) for words in about.get("reinstall", ())),
            )
        )
    return found


def restore(root: Path, backup: Backup, now_ms: int) -> Path:
    """Put the state back as it was; what it replaces becomes a backup itself, which is returned."""
    with _exclusive(root):
        replaced = _back_up(root, now_ms, backup.database, backup.config, spare=backup.path)
        if backup.database is not None:
            _copy_database(backup.path / DATABASE, backup.database)
        if backup.config is not None:
            write_atomically(backup.config, (backup.path / CONFIG_NAME).read_text("utf-8"))
        with _replacing(root, backup.path):
            pass
    return replaced


@contextmanager
def _exclusive(root: Path) -> Generator[None]:
    private_directory(root / BACKUPS)
    with locked(root / state_version.VERSION_FILE, _LOCK_SECONDS):
        _move_into_place(root)
        yield


def _back_up(
    root: Path,
    now_ms: int,
    database: Path | None,
    config: Path | None,
    reinstall: Sequence[Command] = (),
    spare: Path | None = None,
) -> Path:
    unfinished = _emptied(root / BACKUPS / _UNFINISHED)
    for name in FILES:
        _copy(root / name, unfinished / name)
    about: dict[str, object] = {"program": read_version(root)[1], "reinstall": reinstall}
    if database is not None and database.is_file():
        _copy_database(database, unfinished / DATABASE)
        about["database"] = str(database)
    if config is not None and config.is_file():
        _copy(config, unfinished / CONFIG_NAME)
        about["config"] = str(config)
    write_atomically(unfinished / _ABOUT, json.dumps(about))
    _sync(unfinished)
    target = unfinished.rename(_free_name(root / BACKUPS, now_ms))
    for old in [one.path for one in backups(root) if one.path != spare][KEPT:]:
        shutil.rmtree(old)
    return target


def _free_name(directory: Path, now_ms: int) -> Path:
    time = datetime.fromtimestamp(now_ms // 1000, UTC)
    path = directory / f"{time:%Y%m%dT%H%M%S}.{now_ms % 1000:03}Z"
    return _free_name(directory, now_ms + 1) if path.exists() else path


@contextmanager
def _replacing(root: Path, source: Path) -> Generator[Path]:
    """A copy of the files in `source`, which then takes the place of the state's."""
    staged = _emptied(root / BACKUPS / _UNFINISHED)
    for name in FILES:
        _copy(source / name, staged / name)
    yield staged
    names = [name for name in FILES if (staged / name).exists()]
    write_atomically(staged / _ABOUT, json.dumps(names))
    _sync(staged)
    staged.rename(root / BACKUPS / COMMITTED)
    _sync_directory(root / BACKUPS)
    _move_into_place(root)


def _move_into_place(root: Path) -> None:
    """Finish what was committed, if anything was; a file that is gone from there was moved before."""
    committed = root / BACKUPS / COMMITTED
    about = committed / _ABOUT
    if about.exists():
        names: list[str] = json.loads(about.read_bytes())
        for name in FILES:
            if (committed / name).exists():
                _remove(root / name)
                (committed / name).rename(root / name)
            elif name not in names:
                _remove(root / name)
        _sync_directory(root)
        about.unlink()
    if committed.exists():
        shutil.rmtree(committed)


def _emptied(directory: Path) -> Path:
    _remove(directory)
    return private_directory(directory)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    try:
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(".*.lock"))
        elif source.exists():
            shutil.copy2(source, target)
            target.chmod(PRIVATE_FILE)
    except OSError as error:  # copytree's holds a list instead of a reason
        reason = error.strerror or error
        raise OperatorFacing(f"cannot copy {source} to {target}: {reason}") from error


def _copy_database(source: Path, target: Path) -> None:
    """Copy a database, which may be in use, in one transaction of the target."""
    try:
        target.touch(PRIVATE_FILE)
        with (
            closing(sqlite3.connect(f"{source.as_uri()}?mode=ro", uri=True)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
    except (sqlite3.Error, OSError) as error:
        raise OperatorFacing(f"cannot copy {source} to {target}: {error}") from error


def _sync(directory: Path) -> None:
    """Have everything on disk before the rename that makes it count."""
    for path in directory.rglob("*"):
        if path.is_file() and not path.is_symlink():
            with path.open("rb+") as file:
                os.fsync(file.fileno())
    _sync_directory(directory)


def _sync_directory(directory: Path) -> None:
    if sys.platform != "win32":
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
