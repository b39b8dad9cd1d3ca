"""Which store a setting or a `--store` names."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.config.paths import StatePaths
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.errors import InvalidRequest
from openclaw.sessions.postgres.pool import Resolve, is_address

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


def open_store(
    spec: str,
    paths: StatePaths,
    clock: Clock | None = None,
    *,
    lease_seconds: float | None = None,
    resolve: Resolve | None = None,
    create: bool = True,
) -> "AbstractAsyncContextManager[SessionStore]":
    """The store that `spec` names.

    `lease_seconds` is how long a frozen process keeps its sessions. Without `create`, a database
    server that has no store yet is refused and left as it is.
    """
    from openclaw.sessions.lanes import LEASE_SECONDS

    lease = lease_seconds or LEASE_SECONDS
    if is_address(spec):
        return _open_server(spec, lease, resolve, create)
    from openclaw.sessions.sqlite.store import open_file_store

    path = store_path(spec, paths)
    return open_file_store(path, clock or SystemClock(), lease=lease)


@asynccontextmanager
async def _open_server(
    spec: str, lease: float, resolve: Resolve | None, create: bool
) -> "AsyncGenerator[SessionStore]":
    from openclaw.sessions.postgres.pool import resolved
    from openclaw.sessions.postgres.store import open_postgres_store

    address = await resolved(spec, resolve)
    async with open_postgres_store(address, lease=lease, create=create) as store:
        yield store
