"""The hub: in a gateway, and for one client of `openclaw mcp-hub`.

While a gateway runs, `openclaw mcp-hub` passes everything on to it, so that all clients share its
servers. Otherwise this process runs the servers, and goes on doing so even if a gateway is started.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from openclaw.agent.port import named_agent
from openclaw.config.load import require_file, stamp
from openclaw.config.merge import EffectiveAgent, default_agent_id, effective_agents
from openclaw.core.errors import OpenClawError, describe
from openclaw.core.tools import ToolSource
from openclaw.gateway.lock import GatewayInfo, request_headers, running_gateway
from openclaw.mcp.server import Call, Offer
from openclaw.mcp_client.errors import Unavailable
from openclaw.mcp_client.lifecycle.manager import McpManager
from openclaw.mcp_hub.offer import OFFER
from openclaw.mcp_hub.relay import Relay
from openclaw.mcp_hub.service import HubBackend, HubService
from openclaw.mcp_server.conversation import Peer
from openclaw.mcp_server.stdio import Tell
from openclaw.runtime.access import open_configured_store
from openclaw.runtime.host import Host, hub_path_of, open_servers, servers_of
from openclaw.runtime.lazy_resource import LazyResource
from openclaw.runtime.settings import HostProcess, register_known_secrets
from openclaw.sessions.store import SessionStore
from openclaw.sessions.task_groups import helper_tasks

logger = logging.getLogger(__name__)


async def _stays_as_it_is() -> None:
    """A gateway watches its configuration by itself."""


def hub_backend(
    host: Callable[[], Host],
    manager: McpManager,
    store: Callable[[], Awaitable[SessionStore]],
    refresh: Callable[[], Awaitable[None]] = _stays_as_it_is,
) -> HubBackend:
    """`host` has the configuration as it is now, once `refresh` has looked for changes."""

    def agent(wanted: str | None) -> EffectiveAgent:
        config = host().config
        return named_agent(effective_agents(config), wanted or default_agent_id(config))

    def permitted(source: ToolSource, agent_id: str) -> ToolSource:
        return hub_path_of(host(), agent(agent_id), source)

    return HubBackend(
        manager=manager,
        agent=lambda wanted: agent(wanted).id,
        settings=lambda: host().config.hub,
        rules=lambda: host().loaded,
        permitted=permitted,
        store=store,
        question_ms=lambda: host().config.questions.expire_ms,
        redactor=host().redactor,
        clock=host().clock,
        finder=host().shared.search,
        refresh=refresh,
    )


@asynccontextmanager
async def open_hub(
    process: HostProcess, agent_id: str | None, tell: Tell, *, local: bool
) -> AsyncGenerator["ClientHub"]:
    """The hub for the one client of this process; `local` if no gateway is to be used."""
    async with helper_tasks() as tasks:
        here = LazyResource("the hub", lambda: _open_here(process, agent_id, tell))
        relays = _Relays(process, agent_id, tasks, tell)
        try:
            tasks.start_soon(here.run, name="hub")
            if local or relays.gateway() is None:
                here.request_open()
            yield ClientHub(here, None if local else relays, agent_id)
        finally:
            here.close()


@dataclass(frozen=True, slots=True)
class ClientHub:
    here: LazyResource[HubService]
    relays: "_Relays | None"
    agent_id: str | None

    @property
    def offer(self) -> Offer:
        return OFFER

    async def carry_out(self, call: Call, peer: Peer) -> dict[str, Any]:
        source = peer.source._replace(agent_id=self.agent_id)
        if self.relays is not None and self.here.opened is None:
            relay = await self.relays.relay(call)
            if relay is not None:
                try:
                    return await relay.carry_out(call, peer)
                except Unavailable as gone:  # nothing was sent
                    logger.info(
                        "the gateway went away (%s); starting the servers here", gone.reason
                    )
        return await (await self.here.get()).carry_out(call, peer._replace(source=source))


class _Relays:
    """The connection to the gateway's hub, made again if it was lost or another gateway runs."""

    def __init__(
        self, process: HostProcess, agent_id: str | None, tasks: TaskGroup, tell: Tell
    ) -> None:
        self._process, self._agent_id, self._tasks, self._tell = process, agent_id, tasks, tell
        self._opened: tuple[GatewayInfo, Relay] | None = None
        self._opening = anyio.Lock()

    def gateway(self) -> GatewayInfo | None:
        info = running_gateway(self._process.paths.gateway_lock)
        if info is None or not info.url:
            return None
        return info if Path(info.config) == self._process.config_file.absolute() else None

    async def relay(self, call: Call) -> Relay | None:
        """None without a gateway, or if it does not answer."""
        async with self._opening:
            info = self.gateway()
            if info is None:
                return None
            if self._opened is not None:
                known, relay = self._opened
                if known == info and not relay.is_lost:
                    return relay
            headers = request_headers(self._process.paths.root, info.url)
            if headers is None:
                return None
            redactor = self._process.redactor
            relay = Relay(info.url, headers, self._agent_id, call.client, redactor, self._tell)
            try:
                await self._tasks.start(relay.run, name="connection to the gateway's hub")
            except OpenClawError as error:
                logger.warning("the gateway's hub cannot be used: %s", describe(error))
                return None
            self._opened = info, relay
            return relay


@asynccontextmanager
async def _open_here(
    process: HostProcess, agent_id: str | None, tell: Tell
) -> AsyncGenerator[HubService]:
    seen = stamp(process.config_file)  # before it is read
    loaded = process.load_config()
    agents = effective_agents(loaded.config)
    chosen = named_agent(agents, agent_id or default_agent_id(loaded.config)).id
    async with (
        open_servers(
            loaded, process.environ, process.redactor, {chosen: agents[chosen]}
        ) as servers,
        helper_tasks() as tasks,
    ):
        host, following = servers.host, anyio.Lock()
        store = LazyResource("the session store", lambda: open_configured_store(process))
        tasks.start_soon(store.run, name="session store")

        async def follow_config() -> None:
            """Apply configuration changes when they are made, as a gateway does."""
            nonlocal seen, host
            async with following:
                current, now = host.loaded, stamp(host.loaded.path)
                if now == seen:
                    return
                seen = now
                try:
                    changed = process.load_config()
                    require_file(changed, current)
                    agent = named_agent(effective_agents(changed.config), chosen)
                except OpenClawError as error:
                    reason = process.redactor.redact(describe(error))
                    process.warn(f"The configuration was not reloaded, the old one stays: {reason}")
                    return
                register_known_secrets(changed, process.environ, process.redactor)
                host = replace(host, loaded=changed)
                servers.manager.apply({chosen: servers_of(host, agent)})

        backend = hub_backend(lambda: host, servers.manager, store.get, follow_config)
        service = HubService(backend, tasks)
        tasks.start_soon(service.watch, tell, name="changes of the hub")
        try:
            yield service
        finally:
            store.close()
