"""Which store a setting or a `--store` names."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from openclaw.core.clock import Clock, SystemClock
from openclaw.core.errors import InvalidRequest
from openclaw.sessions.errors import StoreUnavailable
from openclaw.sessions.store import LEASE_SECONDS, SessionStore

FILE = "file"
_SERVER_SCHEMES = ("postgresql", "postgres")


class StatePlaces(Protocol):
    """Where the state directory keeps its database."""

    @property
    def database(self) -> Path:
        """The file of the `file` store."""
        ...


def store_path(spec: str, paths: StatePlaces) -> Path:
    """The database file that `spec` means: `file` for the one of the state directory, or a path."""
    if not spec.strip():
        raise InvalidRequest("the session store is empty", field="sessions.store")
    scheme, separator, _ = spec.partition("://")
    if separator and scheme.lower() in _SERVER_SCHEMES:
        # The address may hold a password and is not repeated.
        raise StoreUnavailable(
            "this version keeps sessions in a file and cannot use a PostgreSQL server",
            hint='set sessions.store to "file" or to a path',
        )
    if separator:
        raise InvalidRequest(f"unknown kind of store '{scheme}://'", field="sessions.store")
    return paths.database if spec == FILE else Path(spec).expanduser()


def open_store(
    spec: str,
    paths: StatePlaces,
    clock: Clock | None = None,
    *,
    lease_seconds: float = LEASE_SECONDS,
) -> AbstractAsyncContextManager[SessionStore]:
    """The store that `spec` names, for as long as the context lasts.

    `lease_seconds` is how long a process that froze keeps its sessions from others.
    """
    from openclaw.sessions.file.store import open_file_store

    path = store_path(spec, paths)
    return open_file_store(path, clock or SystemClock(), lease=lease_seconds)
