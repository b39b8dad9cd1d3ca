"""Opens the store that a setting or `--store` names."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.config.paths import StatePaths
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.errors import InvalidRequest, MissingExtra
from openclaw.sessions.lanes import LEASE_SECONDS
from openclaw.sessions.postgres.address import Resolve, is_address, resolved
from openclaw.sessions.sqlite.store import open_sqlite_store

if TYPE_CHECKING:
    from openclaw.sessions.store import SessionStore

FILE = "file"


def store_path(spec: str, paths: StatePaths) -> Path:
    """The database file: `file` means the one in the state directory."""
    if not spec.strip():
        raise InvalidRequest("the session store is empty", field="sessions.store")
    scheme, separator, _ = spec.partition("://")
    if is_address(spec):  # the address may hold a password and is not repeated
        raise InvalidRequest("is an address, where a file is meant", field="sessions.store")
    if separator:
        raise InvalidRequest(f"unknown kind of store '{scheme}://'", field="sessions.store")
    return paths.database if spec == FILE else Path(spec).expanduser()


@asynccontextmanager
async def open_store(
    spec: str,
    paths: StatePaths,
    clock: Clock | None = None,
    *,
    lease_seconds: float | None = None,
    resolve: Resolve | None = None,
    create: bool = True,
) -> "AsyncGenerator[SessionStore]":
    """The store that `spec` names.

    `lease_seconds` is how long a frozen process keeps its sessions. Without `create`, a database
    server that has no store yet is refused and left as it is.
    """
    lease = lease_seconds or LEASE_SECONDS
    if is_address(spec):
        try:
            from openclaw.sessions.postgres.store import open_postgres_store
        except ImportError as error:
            raise MissingExtra("a session store on PostgreSQL", "postgres") from error
        opened = open_postgres_store(await resolved(spec, resolve), lease=lease, create=create)
    else:
        path = store_path(spec, paths)
        opened = open_sqlite_store(path, clock or SystemClock(), lease=lease, state=paths.root)
    async with opened as store:
        yield store
