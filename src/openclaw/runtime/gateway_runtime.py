"""What a gateway runs: the runtime, with a cluster if its sessions are in PostgreSQL."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from openclaw.agent.port import NO_LISTENER, MessageContext, Reply, TurnListener
from openclaw.cluster.node import ClusterNode
from openclaw.config.load import LoadedConfig
from openclaw.core.clock import SystemClock
from openclaw.core.events import Emit, discard
from openclaw.gateway.gateway import GatewayBackend
from openclaw.mcp_client.lifecycle.manager import McpManager
from openclaw.runtime.generation import Generations, LocalBuilder
from openclaw.runtime.hub import hub_backend
from openclaw.runtime.runtime import Runtime, open_parts
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.postgres.pool import Database
from openclaw.sessions.postgres.store import PostgresStore


class ClusteredRuntime(Runtime):
    """The same for sessions in PostgreSQL: any gateway of the cluster may run their turns."""

    def __init__(
        self,
        generations: Generations,
        manager: McpManager,
        local: LocalBuilder,
        database: Database,
        url: str,
    ) -> None:
        super().__init__(generations, manager, local)
        self.node = self.cluster = ClusterNode(
            database,
            self.host.config.gateway.cluster,
            url=url,
            agent=self,
            answer=self.answer_here,
            agents=lambda: tuple(self.generation.agents),
            servers=manager,
            clock=self.host.clock,
            load=self._load_models,
        )

    async def reply(self, context: MessageContext, listener: TurnListener = NO_LISTENER) -> Reply:
        return await self.node.reply(context, listener)

    def _load_models(self) -> None:
        from openclaw.runtime.answering import load_models

        load_models(self.host.config.models.providers.values())


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
        store = parts.generations.current.store
        if not isinstance(store, PostgresStore):
            yield Runtime(parts.generations, parts.manager, parts.local)
            return
        runtime = ClusteredRuntime(
            parts.generations, parts.manager, parts.local, store.database, url
        )
        async with runtime.node.joined(loaded.config.gateway.shutdown_grace_ms / 1000):
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
