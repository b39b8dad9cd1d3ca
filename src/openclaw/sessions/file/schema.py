"""The database file: how it is opened, and how its schema came to be what it is."""

import os
import random
import sqlite3
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from openclaw.config.osflags import CLOEXEC
from openclaw.sessions.errors import StoreCorrupt, StoreTooNew, StoreUnavailable
from openclaw.sessions.file.failures import translated

APPLICATION_ID = 0x4F43_4C57
"""Says in the file's header whose database it is."""

WRITE_WAIT_SECONDS = 30.0
"""Longest wait for other processes' transactions, which take milliseconds each."""

READ_WAIT_SECONDS = 5.0
"""A reader waits only while a crashed process's log is recovered."""

_RETRY_SECONDS = (0.0005, 0.008)
"""Between two tries to begin: about the length of a commit, and random so that nobody starves."""

_READ_CACHE_KIB = 16 * 1024
"""A listing reads rows all over the table; taken only as far as it is used."""

_WAL_LIMIT_BYTES = 64 * 1024 * 1024

# One script for each version, applied in order; a script that was released never changes.
MIGRATIONS = (
    """
    CREATE TABLE sessions (
      row INTEGER PRIMARY KEY AUTOINCREMENT,
      id TEXT NOT NULL UNIQUE,
      agent TEXT NOT NULL,
      key TEXT NOT NULL,
      title TEXT,
      created_ms INTEGER NOT NULL,
      updated_ms INTEGER NOT NULL,
      messages INTEGER NOT NULL DEFAULT 0,
      seq INTEGER NOT NULL DEFAULT 0,
      input_tokens INTEGER NOT NULL DEFAULT 0,
      output_tokens INTEGER NOT NULL DEFAULT 0,
      cache_read_tokens INTEGER NOT NULL DEFAULT 0,
      cache_write_tokens INTEGER NOT NULL DEFAULT 0,
      requests INTEGER NOT NULL DEFAULT 0,
      tool_calls INTEGER NOT NULL DEFAULT 0,
      epoch INTEGER NOT NULL DEFAULT 0,
      summary_seq INTEGER NOT NULL DEFAULT 0,
      summarised INTEGER NOT NULL DEFAULT 0,
      UNIQUE (agent, key)
    );
    CREATE INDEX sessions_by_use ON sessions (updated_ms, row);
    CREATE INDEX sessions_by_agent_and_use ON sessions (agent, updated_ms, row);
    CREATE INDEX sessions_by_key ON sessions (key);
    CREATE TABLE entries (
      row INTEGER PRIMARY KEY,
      session INTEGER NOT NULL REFERENCES sessions (row),
      seq INTEGER NOT NULL,
      turn TEXT,
      kind TEXT NOT NULL,
      at_ms INTEGER NOT NULL,
      call_id TEXT,
      text TEXT NOT NULL,
      data BLOB NOT NULL,
      details BLOB
    );
    CREATE UNIQUE INDEX entries_in_order ON entries (session, seq);
    CREATE VIRTUAL TABLE words USING fts5 (
      text, content = 'entries', content_rowid = 'row', tokenize = "unicode61 remove_diacritics 2"
    );
    CREATE TABLE turns (
      session INTEGER NOT NULL REFERENCES sessions (row),
      id TEXT NOT NULL,
      state TEXT NOT NULL,
      started_ms INTEGER NOT NULL,
      finished_ms INTEGER,
      first_seq INTEGER NOT NULL,
      PRIMARY KEY (session, id)
    ) WITHOUT ROWID;
    CREATE INDEX turns_unfinished ON turns (session, first_seq) WHERE state IN ('running', 'lost');
    CREATE TABLE tickets (
      id INTEGER PRIMARY KEY AUTOINCREMENT,
      session INTEGER NOT NULL REFERENCES sessions (row),
      owner TEXT NOT NULL,
      expires REAL NOT NULL
    );
    CREATE INDEX tickets_in_order ON tickets (session, id);
    """,
)


def prepare(path: Path) -> None:
    """Create the database where there is none and bring it to this program's schema."""
    with translated(path):
        _create_private(path)
        connection = _connect(path, READ_WAIT_SECONDS)
        try:
            _enter_wal(connection, path)
            _migrate(connection, path)
        finally:
            connection.close()


def open_writer(path: Path) -> sqlite3.Connection:
    """A connection for the one thread that writes. It waits for its turn by `begin` alone."""
    with translated(path):
        connection = _connect(path, 0.0)
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
        connection.execute("PRAGMA secure_delete = ON")  # what was deleted is overwritten
        return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write."""
    with translated(path):
        connection = _connect(path, READ_WAIT_SECONDS)
        connection.execute("PRAGMA query_only = ON")
        connection.execute(f"PRAGMA cache_size = -{_READ_CACHE_KIB}")
        return connection


def begin(connection: sqlite3.Connection, wait: float = WRITE_WAIT_SECONDS) -> None:
    """Start a transaction that may write, after those of other processes."""
    deadline = time.monotonic() + wait
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
            time.sleep(random.uniform(*_RETRY_SECONDS))  # noqa: S311 - spreads load, no secret
        else:
            return


def is_busy(error: sqlite3.Error) -> bool:
    """True where another process holds what this one wants."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _connect(path: Path, wait: float) -> sqlite3.Connection:
    return sqlite3.connect(
        path, timeout=wait, isolation_level=None, check_same_thread=False, cached_statements=256
    )


def _create_private(path: Path) -> None:
    """SQLite gives its log files the mode of the database itself, so this one decides for all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | CLOEXEC, 0o600)
    try:
        if sys.platform != "win32" and os.fstat(file).st_mode & 0o077:
            with suppress(PermissionError):  # not ours, and `doctor` says so
                os.fchmod(file, 0o600)  # it may be there already, from before
    finally:
        os.close(file)


def _enter_wal(connection: sqlite3.Connection, path: Path) -> None:
    if _pragma(connection, "journal_mode") == "wal":
        return
    deadline = time.monotonic() + WRITE_WAIT_SECONDS
    while True:
        try:
            mode = _pragma(connection, "journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
            time.sleep(random.uniform(*_RETRY_SECONDS))  # noqa: S311 - spreads load, no secret
            continue
        if mode != "wal":
            raise StoreUnavailable(
                f"the file system of {path} cannot share a database between processes",
                hint="keep the state directory on a local disk, not on a network share",
            )
        return


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _checked_version(connection, path) == len(MIGRATIONS):
        return
    begin(connection)
    try:
        for number in range(_checked_version(connection, path), len(MIGRATIONS)):
            for statement in _statements(MIGRATIONS[number]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number + 1}")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _checked_version(connection: sqlite3.Connection, path: Path) -> int:
    version: int = _pragma(connection, "user_version")
    owner = _pragma(connection, "application_id")
    if owner != APPLICATION_ID and (version, owner) != (0, 0):
        raise StoreCorrupt(f"{path} is a database of another program")
    if owner == 0 and _has_tables(connection):
        raise StoreCorrupt(f"{path} is a database of another program")
    if version > len(MIGRATIONS):
        raise StoreTooNew(
            f"{path} was written by a newer version of this program "
            f"(schema {version}; this one knows {len(MIGRATIONS)})",
            hint="update openclaw-runtime, or set OPENCLAW_STATE_DIR to another directory",
        )
    return version


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone() is not None


def _pragma(connection: sqlite3.Connection, text: str) -> Any:
    return connection.execute(f"PRAGMA {text}").fetchone()[0]


def _statements(script: str) -> list[str]:
    return [part for part in script.split(";") if part.strip()]
