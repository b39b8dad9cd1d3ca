"""Manages all MCP servers of all agents, and runs each only once."""

import logging
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import anyio
import anyio.abc

from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.content import Block
from openclaw.core.errors import NotFound
from openclaw.core.tools import Elicit, ToolSource
from openclaw.mcp_client.bridge import prompts as mcp_prompts
from openclaw.mcp_client.bridge import resources as mcp_resources
from openclaw.mcp_client.bridge.results import Rendering
from openclaw.mcp_client.bridge.tool_source import Bound, McpToolSource, ToolView
from openclaw.mcp_client.catalog.pin_store import CrossingWatch
from openclaw.mcp_client.catalog.pins import Crossing
from openclaw.mcp_client.catalog.tools import CatalogEntry, ServerTools, build_catalog
from openclaw.mcp_client.errors import CallFailed
from openclaw.mcp_client.lifecycle import managed_server
from openclaw.mcp_client.lifecycle.managed_server import ManagedServer, ServerStatus
from openclaw.mcp_client.lifecycle.registry import (
    EVERYWHERE,
    AgentServers,
    ManagerDeps,
    Place,
    ServerRegistry,
)

logger = logging.getLogger(__name__)

_RESOURCES_WAIT = 3.0  # seconds that a first turn waits for resources once the tools are known


@dataclass(slots=True)
class _Views:
    version: int = -1
    view: ToolView = field(default_factory=lambda: ToolView({}, ()))


class McpManager:
    """Owns every server's task. Use it as an async context manager, then `start` it."""

    def __init__(self, agents: Mapping[str, AgentServers], deps: ManagerDeps) -> None:
        self._deps = deps
        self._redact = deps.connection.redactor.redact
        self._places = ServerRegistry(agents, deps, self._start)
        self._views: dict[tuple[str, str], _Views] = {}
        self._crossings = CrossingWatch()
        self._group: anyio.abc.TaskGroup | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        self._group = await self._stack.enter_async_context(anyio.create_task_group())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self._places.close()
        self._group = None
        try:
            return await self._stack.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if group.exceptions == (error,):
                return False  # what the caller raised leaves as the caller raised it
            raise

    def start(self) -> None:
        """Start every server that isn't lazy, all at once, without waiting."""
        self._places.open()

    # What agents use

    def tools(self, agent: str, session: str | None = None) -> ToolSource:
        """The agent's current tools, looked up anew at each use."""
        self._places.agent(agent)
        return McpToolSource(lambda: self._view(agent, session), self._deps.traceparent)

    @contextmanager
    def hold(self, agent: str, session: str | None = None) -> Generator[ToolSource]:
        """The tools for one turn; their servers keep running until it ends, even after a reload."""
        known = self._places.agent(agent)
        places = self._places.of(agent, session)
        generation = self._places.generation
        own = _Views()

        def view() -> ToolView:
            if generation == self._places.generation:
                return self._view(agent, session)
            if own.version != self._places.version:
                own.version, own.view = self._places.version, self._build_view(known, places)
            return own.view

        with self._places.held(places):
            yield McpToolSource(view, self._deps.traceparent)

    async def settle(
        self,
        agent: str,
        session: str | None = None,
        *,
        servers: Collection[str] | None = None,
        timeout: float = 30.0,
        newcomer: float | None = None,
    ) -> list[str]:
        """Wait until the agent's tools are known; returns the servers whose tools are not.

        `servers` limits which to wait for. One that never answered before gets `newcomer` seconds.
        """
        units = [
            place.unit
            for name, place in self._places.of(agent, session).items()
            if servers is None or name in servers
        ]
        with anyio.move_on_after(timeout):
            async with anyio.create_task_group() as group:
                for unit in units:
                    if not unit.tools_known.is_set():
                        group.start_soon(unit.wait_tools, newcomer, name=f"wait for {unit.name}")
            with anyio.move_on_after(_RESOURCES_WAIT):
                for unit in units:
                    if unit.tools_known.is_set():
                        await unit.resources_known.wait()
        for unit in units:
            await unit.recheck_pins()
        self._look_for_crossings()
        return [unit.name for unit in units if not unit.tools_known.is_set()]

    def resource_context(
        self, agent: str, session: str | None = None, *, usable: Collection[str] | None = None
    ) -> str:
        """The block of MCP resources for the prompt; `usable` limits which tools it names."""
        known = self._places.agent(agent)
        readers = {
            one.entry.server: name
            for name, one in self._view(agent, session).bound.items()
            if one.entry.ours and (usable is None or name in usable)
        }
        shown = [
            _resources(name, place.unit, readers.get(name))
            for name, place in self._places.of(agent, session).items()
            if place.config.resources
        ]
        return mcp_resources.build_resource_context(shown, known.resource_budget)

    def instructions(self, agent: str, session: str | None = None) -> str:
        places = self._places.of(agent, session).items()
        return self._redact(
            managed_server.instructions_block((n, one.unit, one.config) for n, one in places)
        )

    def unavailable(self, agent: str, session: str | None = None) -> str:
        places = self._places.of(agent, session).items()
        return managed_server.unavailable_block((name, place.unit) for name, place in places)

    def prompts(self, agent: str, session: str | None = None) -> tuple[mcp_prompts.PromptInfo, ...]:
        return tuple(
            info
            for name, place in self._places.of(agent, session).items()
            if place.config.prompts
            for info in managed_server.prompt_infos(name, place.unit.listing)
        )

    async def complete(
        self, agent: str, begun: mcp_prompts.BegunArgument, session: str | None = None
    ) -> tuple[str, ...]:
        """What a server suggests for an argument, without values that can't be typed."""
        place = self._places.of(agent, session).get(begun.server)
        if place is None or not place.config.prompts:
            raise NotFound(f"there is no MCP server '{begun.server}' here")
        try:
            values = await place.unit.connection.complete(begun.params())
        except CallFailed as failure:
            logger.debug("MCP server '%s' suggests nothing: %s", begun.server, failure)
            return ()
        plain = (one for one in values if one.isprintable() and len(one) <= 500)
        return tuple(one for one in plain if self._redact(one) == one)

    async def get_prompt(
        self,
        agent: str,
        call: mcp_prompts.PromptCall,
        session: str | None = None,
        *,
        elicit: Elicit | None = None,
    ) -> tuple[mcp_prompts.PromptMessage, ...]:
        """The framed messages of a prompt; raises `NotFound`, `InvalidRequest` or `CallFailed`."""
        offered = self.prompts(agent, session)
        found = next((p for p in offered if (p.server, p.name) == (call.server, call.prompt)), None)
        if found is None:
            raise NotFound(f"there is no prompt /{call.server}:{call.prompt}")
        mcp_prompts.check_arguments(found, call.arguments)
        unit = self._places.of(agent, session)[call.server].unit
        await unit.connection.wait_ready(unit.config.timeout / 1000)
        with unit.asking.on_behalf(elicit):
            raw = await unit.connection.get_prompt(call.prompt, call.arguments)
        return mcp_prompts.render_prompt(raw, Rendering(call.server, call.prompt), self._deps.clean)

    async def expand_prompt(
        self, agent: str, text: str, session: str | None = None, *, elicit: Elicit | None = None
    ) -> tuple[Block, ...] | None:
        """What `/server:prompt key=value` expands to, framed; None if it isn't a known prompt."""
        call = mcp_prompts.parse_prompt_call(text) if text.lstrip().startswith("/") else None
        if call is None or call.server not in self._places.of(agent, session):
            return None
        return mcp_prompts.prompt_text(await self.get_prompt(agent, call, session, elicit=elicit))

    # What operators use

    def status(self) -> tuple[ServerStatus, ...]:
        crossings = self._look_for_crossings()
        found = [managed_server.status_of(unit, crossings) for unit in self._places.units]
        return tuple(sorted(found, key=lambda status: status.snapshot.name))

    async def recheck_pins(self) -> None:
        for unit in self._places.units:
            await unit.recheck_pins()

    def restart(self, name: str) -> None:
        units = [unit for unit in self._places.units if unit.name == name]
        if not units:
            raise NotFound(f"no MCP server '{name}' is running")
        for unit in units:
            unit.connection.restart()

    def add(
        self,
        name: str,
        config: McpServerConfig,
        session: str | None = None,
        agent: str | None = None,
    ) -> None:
        """Add or replace a server, for one session (of `agent`, if known) or for all."""
        self._places.add(name, config, session or EVERYWHERE, agent)

    replace = add

    def remove(self, name: str, session: str | None = None) -> None:
        self._places.remove(name, session or EVERYWHERE)

    def end_session(self, session: str) -> None:
        self._places.end(session)
        self._forget_views(lambda user: user[1] == session)

    def apply(self, agents: Mapping[str, AgentServers]) -> None:
        self._places.apply(agents)
        self._forget_views(lambda user: user[0] not in agents)

    # How it is kept

    def _look_for_crossings(self) -> list[Crossing]:
        servers = ((unit.name, unit.pinning) for unit in self._places.units)
        return self._crossings.look(self._places.version, servers)

    def _start(self, unit: ManagedServer) -> None:
        assert self._group is not None, "the manager is used inside its context"
        self._group.start_soon(self._run, unit, name=f"mcp {unit.name}")

    async def _run(self, unit: ManagedServer) -> None:
        """Run one server; a bug in how we handle it must not end the others."""
        try:
            await unit.run()
        except Exception:
            logger.exception("gave up on MCP server '%s'", unit.name)

    def _forget_views(self, gone: Callable[[tuple[str, str]], bool]) -> None:
        for user in [user for user in self._views if gone(user)]:
            del self._views[user]

    def _view(self, agent: str, session: str | None) -> ToolView:
        user = (agent, session or EVERYWHERE)
        views = self._views.get(user)
        if views is None:
            views = self._views[user] = _Views()
        if views.version != self._places.version:
            views.version = self._places.version
            places = self._places.of(agent, session)
            views.view = self._build_view(self._places.agent(agent), places)
        return views.view

    def _build_view(self, agent: AgentServers, places: Mapping[str, Place]) -> ToolView:
        catalog = build_catalog(
            ServerTools(
                server=name,
                prefix=place.config.tool_prefix or name,
                tools=managed_server.usable_tools(place.unit, place.config),
                reads_resources=_needs_reader(name, place, agent.resource_budget),
            )
            for name, place in places.items()
        )
        bound = {
            name: Bound(entry, places[entry.server].unit, _rendering(entry, places[entry.server]))
            for name, entry in catalog.items()
        }
        return ToolView(bound, tuple(one.entry.spec for one in bound.values()))


def _rendering(entry: CatalogEntry, place: Place) -> Rendering:
    return Rendering(
        server=entry.server,
        tool=entry.tool,
        limit=place.config.max_result_chars,
        mode=place.config.framing,
        guarded=place.config.on_suspicious == "block",
    )


def _needs_reader(name: str, place: Place, budget: int) -> bool:
    if any(tool.whole for tool in place.unit.prepared.tools):
        return True
    return place.config.resources and mcp_resources.needs_reader(
        _resources(name, place.unit), budget
    )


def _resources(
    name: str, unit: ManagedServer, reader: str | None = None
) -> mcp_resources.ServerResources:
    return mcp_resources.ServerResources(
        server=name,
        read=unit.resources,
        listed=tuple(mcp_resources.wanted(unit.ordinary_resources, ())),
        templates=tuple(one.uri_template for one in unit.listing.resource_templates),
        reader=reader,
        skills=unit.skills,
    )
