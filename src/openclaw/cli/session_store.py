"""The session store that a command means, for looking into it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from openclaw.cli.environment import Environment

if TYPE_CHECKING:
    from openclaw.config.load import LoadedConfig
    from openclaw.secrets.refs import Secret
    from openclaw.sessions.store import SessionStore


@asynccontextmanager
async def opened(
    spec: str | None, env: Environment, loaded: "LoadedConfig | None" = None
) -> "AsyncGenerator[SessionStore | None]":
    """The store that `spec` names, or else the configured one.

    None where nothing was ever stored there: looking must not create one. A store that was asked
    for by name and is not there is an error.
    """
    from openclaw.sessions.open import is_server, open_store, store_path
    from openclaw.sessions.store import StoreMissing, StoreUnavailable

    where = spec or (loaded or env.load_config()).config.sessions.store
    if is_server(where):
        try:
            async with open_server(where, env, loaded) as store:
                yield store
        except StoreMissing:
            if spec is not None and loaded is None:
                raise
            yield None
        return
    path = store_path(where, env.paths)
    if path.exists():
        async with open_store(where, env.paths) as store:
            yield store
    elif loaded is None and spec not in (None, "file"):
        raise StoreUnavailable(f"there is no session store at {path}")
    else:
        yield None


@asynccontextmanager
async def open_server(
    spec: str, env: Environment, loaded: "LoadedConfig | None" = None, *, create: bool = False
) -> "AsyncGenerator[SessionStore]":
    """The store on a database server; what is secret in its address stays so."""
    from openclaw.config.sensitive import credentials_in_address
    from openclaw.sessions.open import open_store

    for value in credentials_in_address(spec):
        env.redactor.register(value)

    async def resolve(text: str) -> "Secret":
        from openclaw.runtime.host import open_secrets

        config = (loaded or env.load_config()).config
        return await open_secrets(config, env.environ, env.redactor).resolve_text(text)

    async with open_store(spec, env.paths, resolve=resolve, create=create) as store:
        yield store
