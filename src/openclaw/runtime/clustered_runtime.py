"""The runtime of a gateway that shares its sessions, in PostgreSQL, with other gateways."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from openclaw.agent.port import NO_LISTENER, MessageContext, Reply, TurnListener
from openclaw.cluster.node import ClusterNode
from openclaw.mcp_client.lifecycle.manager import McpManager
from openclaw.runtime.generation import Generations, LocalBuilder
from openclaw.runtime.runtime import Parts, Runtime
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
async def open_clustered_runtime(parts: Parts, url: str) -> AsyncGenerator[ClusteredRuntime]:
    """Join the cluster at `url`, this gateway's address, and leave it at the end."""
    store = parts.generations.current.store
    assert isinstance(store, PostgresStore)
    runtime = ClusteredRuntime(parts.generations, parts.manager, parts.local, store.database, url)
    grace = runtime.host.config.gateway.shutdown_grace_ms / 1000
    async with runtime.node.joined(grace):
        yield runtime
