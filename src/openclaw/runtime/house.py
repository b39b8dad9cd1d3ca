"""The agent as a gateway runs it: by itself, or as one of many that share a database."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from openclaw.config.load import LoadedConfig
from openclaw.runtime.living import Runtime, open_runtime
from openclaw.secrets.redactor import Redactor


@asynccontextmanager
async def open_house(
    loaded: LoadedConfig, environ: Mapping[str, str], redactor: Redactor, **options: Any
) -> AsyncGenerator[Runtime]:
    """Everything built and running; see `open_runtime` for the options.

    Where the sessions are in PostgreSQL, turns go through its queue, and any gateway may run them.
    """
    async with open_runtime(loaded, environ, redactor, **options) as runtime:
        database = getattr(runtime.store, "database", None)
        if database is None:
            yield runtime
            return
        from openclaw.runtime.cluster.member import Member

        gateway = loaded.config.gateway
        member = Member(runtime, database, gateway.cluster)
        async with member.joined(gateway.shutdown_grace_ms / 1000):
            runtime.member = member
            yield runtime
