"""What SQLite's failures mean to whoever runs the program."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from openclaw.sessions.errors import (
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_READ_ONLY = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM)


def explain(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    """The error of ours that says what happened to the store at `path` and what mends it."""
    if isinstance(error, OSError):
        return StoreUnavailable(f"the session store {path} cannot be opened: {error.strerror}")
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _CORRUPT:
        return StoreCorrupt(
            f"the session store {path} is damaged: {error}",
            hint="move the file and its -wal and -shm files away, or restore them from a backup",
        )
    if code in _READ_ONLY:
        return StoreReadOnly(
            f"the session store {path} cannot be written: {error}",
            hint="check the owner and the mode of the file and of its directory",
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(
            f"no space is left for the session store {path}", hint="free some space and try again"
        )
    if code in _BUSY:
        return StoreUnavailable(
            f"another process keeps the session store {path} locked",
            hint="look for a process that is stopped while it holds the file",
        )
    return StoreUnavailable(f"the session store {path} does not work: {error}")


@contextmanager
def translated(path: Path) -> Generator[None]:
    """Whatever SQLite or the file system raises inside comes out as an error of ours."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise explain(error, path) from error
