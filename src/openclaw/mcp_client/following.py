"""Keeping up with what a server says has changed: coalesced, so that a flood costs one refresh."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

import anyio

from openclaw.mcp_client.era import Era
from openclaw.mcp_client.failures import CallFailed
from openclaw.mcp_client.link import Link
from openclaw.mcp_client.listing import KINDS

if TYPE_CHECKING:
    from mcp_types import ServerCapabilities

logger = logging.getLogger(__name__)

COALESCE = 0.2
"""Seconds after a refresh in which further changes are gathered for the next one."""

MAX_UPDATES = 1000
"""Updated resources that are remembered between two refreshes; more are one and the same to us."""

SUBSCRIBE_TIMEOUT = 10.0

_FIRST_PAUSE, _LAST_PAUSE = 1.0, 30.0


class Following:
    """Gathers what changed, and tells it from a task of its own."""

    def __init__(
        self,
        refresh: Callable[[Link, str], Awaitable[None]],
        updated: Callable[[str], None],
    ) -> None:
        self._refresh, self._updated = refresh, updated
        self._stale: set[str] = set()
        self._touched: set[str] = set()
        self._wanted: tuple[str, ...] = ()
        self._subscribed: set[str] = set()
        self._wake = anyio.Event()
        self._listening: anyio.CancelScope | None = None

    def list_changed(self, kind: str) -> None:
        """A catalogue is not what it was."""
        self._stale.add(kind)
        self._wake.set()

    def resource_updated(self, uri: str) -> None:
        """The contents of a resource changed."""
        if len(self._touched) < MAX_UPDATES:
            self._touched.add(uri)
            self._wake.set()

    def want_updates(self, uris: Sequence[str]) -> None:
        """Be told of updates of these resources from now on."""
        self._wanted = tuple(uris)
        if self._listening is not None:
            self._listening.cancel()
        self._wake.set()

    async def run(self, link: Link) -> None:
        """Follow until cancelled."""
        async with anyio.create_task_group() as group:
            if link.era is Era.MODERN:
                group.start_soon(self._listen, link, name="subscriptions/listen")
            while True:
                await self._wake.wait()
                self._wake = anyio.Event()
                await self._catch_up(link)
                await anyio.sleep(COALESCE)

    async def _catch_up(self, link: Link) -> None:
        stale, self._stale = self._stale, set()
        touched, self._touched = self._touched, set()
        try:
            for kind in sorted(stale):
                await self._refresh(link, kind)
            if link.era is Era.LEGACY:
                await self._subscribe(link)
        except CallFailed as failure:
            logger.debug("a change could not be followed: %s", failure)
        for uri in sorted(touched):
            self._updated(uri)

    async def _subscribe(self, link: Link) -> None:
        capabilities = link.session.server_capabilities
        resources = None if capabilities is None else capabilities.resources
        if resources is None or not resources.subscribe:
            return
        for uri in self._wanted:
            if uri not in self._subscribed:
                self._subscribed.add(uri)
                await link.request("resources/subscribe", {"uri": uri}, timeout=SUBSCRIBE_TIMEOUT)

    async def _listen(self, link: Link) -> None:
        """Hold the modern era's one stream of changes open; the events come as notifications."""
        from mcp.client.subscriptions import SubscriptionLost
        from mcp.shared.exceptions import MCPError

        pause = _FIRST_PAUSE
        while True:
            try:
                with anyio.CancelScope() as self._listening:
                    await self._listen_once(link)
                if not self._listening.cancelled_caught:  # the server closed it in peace
                    return
            except SubscriptionLost:
                self._stale.update(KINDS)
                self._wake.set()
                await anyio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
            except MCPError as error:
                logger.debug("the server does not tell of changes: %s", error)
                return

    async def _listen_once(self, link: Link) -> None:
        from mcp.client.subscriptions import listen

        tools, resources, prompts = _tells_of(link.session.server_capabilities)
        if not (tools or resources or prompts or self._wanted):
            await anyio.sleep_forever()  # until there is something to ask for
        async with listen(
            link.session,
            tools_list_changed=tools,
            resources_list_changed=resources,
            prompts_list_changed=prompts,
            resource_subscriptions=self._wanted,
        ) as subscription:
            async for _ in subscription:
                pass


def _tells_of(capabilities: "ServerCapabilities | None") -> tuple[bool, bool, bool]:
    """Whether the server tells of changes of its tools, resources and prompts."""
    if capabilities is None:
        return False, False, False
    parts = (capabilities.tools, capabilities.resources, capabilities.prompts)
    tools, resources, prompts = (bool(part and part.list_changed) for part in parts)
    return tools, resources, prompts
