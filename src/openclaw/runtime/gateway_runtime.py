"""What a gateway runs: the runtime, with a cluster if its sessions are in PostgreSQL."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from openclaw.config.load import LoadedConfig
from openclaw.core.clock import SystemClock
from openclaw.core.events import Emit, discard
from openclaw.gateway.gateway import GatewayBackend
from openclaw.runtime.hub import hub_backend
from openclaw.runtime.runtime import Runtime, open_parts
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.postgres.address import is_address


@asynccontextmanager
async def open_gateway_runtime(
    loaded: LoadedConfig,
    environ: Mapping[str, str],
    redactor: Redactor,
    *,
    emit: Emit = discard,
    url: str = "",
) -> AsyncGenerator[Runtime]:
    """The same for a gateway: if sessions are in PostgreSQL, any gateway may run their turns."""
    async with open_parts(loaded, environ, redactor, SystemClock(), emit) as parts:
        if not is_address(loaded.config.sessions.store):
            yield Runtime(parts.generations, parts.manager, parts.local)
            return
        # Only such a store needs the cluster, and the driver, which is an extra.
        from openclaw.runtime.clustered_runtime import open_clustered_runtime

        async with open_clustered_runtime(parts, url) as runtime:
            yield runtime


@asynccontextmanager
async def open_backend(
    loaded: LoadedConfig, environ: Mapping[str, str], redactor: Redactor, emit: Emit, url: str
) -> AsyncGenerator[GatewayBackend]:
    async with open_gateway_runtime(loaded, environ, redactor, emit=emit, url=url) as runtime:
        yield GatewayBackend(
            agent=runtime,
            agents=lambda: runtime.generation.agents,
            tools=runtime.visible_tools,
            servers=runtime.manager,
            store=runtime.sessions,
            redactor=redactor,
            cluster=runtime.cluster,
            apply=runtime.apply,
            approvals=lambda: runtime.host.shared.approvals,
            logins=runtime.logins,
            hub=hub_backend(lambda: runtime.host, runtime.manager, runtime.store),
        )
