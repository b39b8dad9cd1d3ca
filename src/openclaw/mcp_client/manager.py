"""All MCP servers of all agents: who needs which, and that each runs once."""

import logging
from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio
import anyio.abc

from openclaw.core.content import Block
from openclaw.core.errors import NotFound
from openclaw.core.tools import ToolSource
from openclaw.mcp_client.catalog import ServerTools, build_catalog, safe_name
from openclaw.mcp_client.catalog_cache import CatalogCache
from openclaw.mcp_client.membership import AgentServers, ManagerDeps
from openclaw.mcp_client.offers import (
    ServerStatus,
    instructions_block,
    prompt_infos,
    status_of,
    usable_tools,
)
from openclaw.mcp_client.pinning import CrossingWatch
from openclaw.mcp_client.pins import Crossing
from openclaw.mcp_client.prompts import (
    PromptCall,
    PromptInfo,
    PromptMessage,
    check_arguments,
    parse_prompt_call,
    prompt_text,
    render_prompt,
)
from openclaw.mcp_client.resources import ServerResources, build_resource_context, needs_reader
from openclaw.mcp_client.roots import server_roots
from openclaw.mcp_client.toolsource import (
    Bound,
    CallPath,
    McpToolSource,
    ToolView,
    Verdict,
)
from openclaw.mcp_client.unit import ServerUnit, fingerprint

if TYPE_CHECKING:
    from openclaw.config.schema import McpServerConfig

logger = logging.getLogger(__name__)

_RESOURCES_WAIT = 3.0  # seconds that a first turn waits for resources once the tools are known
EVERYWHERE = ""  # the scope of a server that was added for all sessions


@dataclass(slots=True)
class _Place:
    """A server as one agent, or one session, uses it."""

    config: "McpServerConfig"
    unit: ServerUnit | None = None  # none where the policy denies all of it


@dataclass(slots=True)
class _Views:
    version: int = -1
    view: ToolView = field(default_factory=lambda: ToolView({}, ()))


class McpManager:
    """Owns every server's task. Use it as an async context manager, then `start` it."""

    def __init__(self, agents: Mapping[str, AgentServers], deps: ManagerDeps) -> None:
        self._agents = dict(agents)
        self._deps = deps
        cache = deps.connection.cache
        self._cache = (
            CatalogCache(cache / "catalog", deps.connection.redact) if cache is not None else None
        )
        self._units: dict[str, ServerUnit] = {}
        self._places: dict[tuple[str, str], dict[str, _Place]] = {}
        self._views: dict[tuple[str, str], _Views] = {}
        self._added: dict[str, dict[str, McpServerConfig]] = {}
        self._crossings = CrossingWatch()
        self._version = 0
        self._edition = 0  # grows with every configuration that is applied
        self._leaving: set[ServerUnit] = set()  # given up, but a turn still uses them
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
        for unit in (*self._units.values(), *self._leaving):
            unit.stop()
        self._units.clear()
        self._leaving.clear()
        self._group = None
        try:
            return await self._stack.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if group.exceptions == (error,):
                return False  # what the caller raised leaves as the caller raised it
            raise

    def start(self) -> None:
        """Start every server that is not lazy, all at once, and return at once."""
        for agent in self._agents:
            self._settle_places(agent, EVERYWHERE)

    # What agents use

    def tools(self, agent: str, session: str | None = None) -> ToolSource:
        """The agent's tools, as they are at each moment that somebody asks."""
        self._agent(agent)
        path = self._call_path(lambda name: self._agent(agent).decide(name))
        return McpToolSource(lambda: self._view(agent, session), path)

    @contextmanager
    def hold(self, agent: str, session: str | None = None) -> Generator[ToolSource]:
        """The agent's tools for one turn, which keeps them whatever configuration comes meanwhile.

        Servers that a new configuration gives up go on running until the turns that began with
        them have ended.
        """
        known = self._agent(agent)
        places = self._all_places(agent, session)
        edition = self._edition
        own = _Views()

        def view() -> ToolView:
            if edition == self._edition:
                return self._view(agent, session)
            if own.version != self._version:
                own.version, own.view = self._version, self._build_view(known, places)
            return own.view

        holder = object()
        units = [place.unit for place in places.values() if place.unit is not None]
        for unit in units:
            unit.holders.add(holder)
        try:
            yield McpToolSource(view, self._call_path(known.decide))
        finally:
            for unit in units:
                unit.holders.discard(holder)
                self._leave(unit)

    async def settle(
        self,
        agent: str,
        session: str | None = None,
        *,
        servers: Collection[str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        """Wait until it is clear which tools the agent has, or for `timeout` seconds.

        `servers` names those to wait for, where it is not all of them.
        """
        units = [
            place.unit
            for name, place in self._all_places(agent, session).items()
            if place.unit is not None and (servers is None or name in servers)
        ]
        with anyio.move_on_after(timeout):
            for unit in units:
                await unit.tools_known.wait()
            with anyio.move_on_after(_RESOURCES_WAIT):
                for unit in units:
                    await unit.resources_known.wait()
        for unit in units:
            await unit.recheck_pins()
        self._look_for_crossings()

    def resource_context(self, agent: str, session: str | None = None) -> str:
        """The block of MCP resources that goes before the agent's conversation."""
        known = self._agent(agent)
        readers = {
            one.entry.server: name
            for name, one in self._view(agent, session).bound.items()
            if one.entry.ours and known.decide(name).allowed
        }
        shown = [
            _resources(name, place.unit, readers.get(name))
            for name, place in self._all_places(agent, session).items()
            if place.unit is not None and place.config.resources
        ]
        return build_resource_context(shown, known.resource_budget)

    def instructions(self, agent: str, session: str | None = None) -> str:
        """What the agent's servers say of themselves, framed, for its system prompt."""
        redact = self._deps.connection.redact
        places = sorted(self._all_places(agent, session).items())
        return redact(
            instructions_block(
                (name, place.unit, place.config) for name, place in places if place.unit is not None
            )
        )

    def prompts(self, agent: str, session: str | None = None) -> tuple[PromptInfo, ...]:
        """The prompts that the agent's servers offer."""
        return tuple(
            info
            for name, place in sorted(self._all_places(agent, session).items())
            if place.unit is not None and place.config.prompts
            for info in prompt_infos(name, place.unit.listing)
        )

    async def get_prompt(
        self, agent: str, call: PromptCall, session: str | None = None
    ) -> tuple[PromptMessage, ...]:
        """The framed messages of a prompt; raises `NotFound`, `InvalidRequest` or `CallFailed`."""
        offered = self.prompts(agent, session)
        found = next((p for p in offered if (p.server, p.name) == (call.server, call.prompt)), None)
        if found is None:
            raise NotFound(f"there is no prompt /{call.server}:{call.prompt}")
        check_arguments(found, call.arguments)
        unit = self._all_places(agent, session)[call.server].unit
        assert unit is not None  # it offered the prompt
        await unit.connection.wait_ready(unit.config.timeout / 1000)
        raw = await unit.connection.get_prompt(call.prompt, call.arguments)
        redact = self._deps.connection.redact
        return render_prompt(raw, server=call.server, prompt=call.prompt, redact=redact)

    async def expand_prompt(
        self, agent: str, text: str, session: str | None = None
    ) -> tuple[Block, ...] | None:
        """What `/server:prompt key=value` stands for, framed; None where the text is not one.

        A text of that form whose server the agent does not have is left as it is.
        """
        call = parse_prompt_call(text) if text.lstrip().startswith("/") else None
        if call is None or call.server not in self._all_places(agent, session):
            return None
        return prompt_text(await self.get_prompt(agent, call, session))

    # What operators use

    def status(self) -> tuple[ServerStatus, ...]:
        """Every server that is kept, by name."""
        crossings = self._look_for_crossings()
        found = [status_of(unit, crossings) for unit in self._units.values()]
        return tuple(sorted(found, key=lambda status: status.snapshot.name))

    def restart(self, name: str) -> None:
        """Connect afresh to every server of that name; raises `NotFound`."""
        units = [unit for unit in self._units.values() if unit.name == name]
        if not units:
            raise NotFound(f"no MCP server '{name}' is running")
        for unit in units:
            unit.connection.restart()

    def add(
        self,
        name: str,
        config: "McpServerConfig",
        session: str | None = None,
        agent: str | None = None,
    ) -> None:
        """Take a server at run time, for one session or for all; one of that name is replaced.

        `agent` is the one that the session belongs to, where it is known.
        """
        self._added.setdefault(session or EVERYWHERE, {})[name] = config
        for one in self._agents if agent is None else [agent]:
            self._settle_places(one, session or EVERYWHERE)

    replace = add

    def remove(self, name: str, session: str | None = None) -> None:
        """Give a server up that was added at run time; raises `NotFound`."""
        added = self._added.get(session or EVERYWHERE, {})
        if name not in added:
            raise NotFound(f"no MCP server '{name}' was added")
        del added[name]
        for agent, scope in list(self._places):
            if scope == (session or EVERYWHERE):
                self._settle_places(agent, scope)

    def end_session(self, session: str) -> None:
        """Give up every server that was added for that session."""
        self._added.pop(session, None)
        for key in [key for key in self._places if key[1] == session]:
            self._release(key, self._places.pop(key))
            self._views.pop(key, None)

    def apply(self, agents: Mapping[str, AgentServers]) -> None:
        """Take a new configuration: what stayed the same goes on running untouched."""
        self._edition += 1
        gone = set(self._agents) - set(agents)
        self._agents = dict(agents)
        for key in [key for key in self._places if key[0] in gone]:
            self._release(key, self._places.pop(key))
            self._views.pop(key, None)
        for agent in agents:
            self._settle_places(agent, EVERYWHERE)
        for agent, session in [key for key in self._places if key[1] != EVERYWHERE]:
            self._settle_places(agent, session)

    # How it is kept

    def _look_for_crossings(self) -> list[Crossing]:
        servers = ((unit.name, unit.pinning) for unit in self._units.values())
        return self._crossings.look(self._version, servers)

    def _call_path(self, decide: Callable[[str], Verdict]) -> CallPath:
        return CallPath(
            decide=decide,
            redact=self._deps.connection.redact,
            results=self._deps.results,
            clock=self._deps.connection.clock,
            emit=self._deps.connection.emit,
            on_call=self._deps.on_call,
        )

    def _agent(self, agent: str) -> AgentServers:
        try:
            return self._agents[agent]
        except KeyError:
            raise NotFound(f"there is no agent '{agent}'") from None

    def _wanted(self, agent: AgentServers, session: str) -> "dict[str, McpServerConfig]":
        added = self._added.get(session, {})
        configured = dict(agent.servers) if session == EVERYWHERE else {}
        return {name: c for name, c in {**configured, **added}.items() if c.enabled}

    def _settle_places(self, agent: str, session: str) -> None:
        """Take what is wanted now, then give up what is not: a shared server never stops between."""
        known = self._agent(agent)
        key = (agent, session)
        before = self._places.get(key, {})
        after: dict[str, _Place] = {}
        for name, config in self._wanted(known, session).items():
            after[name] = self._take(key, known, name, config)
        self._places[key] = after
        kept = {place.unit for place in after.values()}
        self._release(key, {n: p for n, p in before.items() if p.unit not in kept})
        self._version += 1

    def _take(
        self, user: tuple[str, str], agent: AgentServers, name: str, config: "McpServerConfig"
    ) -> _Place:
        if agent.wholly_denied(safe_name(config.tool_prefix or name)):
            logger.info("MCP server '%s' is not started: policy denies all of its tools", name)
            return _Place(config)
        roots = server_roots(config, agent.roots, self._deps.connection.environ)
        key = fingerprint(name, config, roots)
        unit = self._units.get(key)
        if unit is None:
            unit = self._spawn(key, name, config, roots)
        unit.users.add(user)
        return _Place(config, unit)

    def _spawn(
        self, key: str, name: str, config: "McpServerConfig", roots: tuple[Path, ...]
    ) -> ServerUnit:
        assert self._group is not None, "the manager is used inside its context"
        deps = replace(self._deps.connection, roots=roots)
        unit = ServerUnit(key, name, config, deps, cache=self._cache, on_change=self._changed)
        self._units[key] = unit
        self._group.start_soon(self._run, unit, name=f"mcp {name}")
        return unit

    async def _run(self, unit: ServerUnit) -> None:
        """Run one server; a defect in how we handle it must not end the others."""
        try:
            await unit.run()
        except Exception:
            logger.exception("MCP server '%s' is given up", unit.name)

    def _release(self, user: tuple[str, str], places: Mapping[str, _Place]) -> None:
        for place in places.values():
            if place.unit is None:
                continue
            place.unit.users.discard(user)
            if not place.unit.users and self._units.pop(place.unit.key, None) is not None:
                self._leaving.add(place.unit)
                self._leave(place.unit)
        self._version += 1

    def _leave(self, unit: ServerUnit) -> None:
        """Stop a server that was given up, once no turn uses it."""
        if unit in self._leaving and not unit.holders:
            self._leaving.discard(unit)
            unit.stop()

    def _changed(self, _: ServerUnit) -> None:
        self._version += 1

    def _all_places(self, agent: str, session: str | None) -> dict[str, _Place]:
        """The agent's servers and those of the session, which win."""
        shared = self._places.get((agent, EVERYWHERE), {})
        return {**shared, **(self._places.get((agent, session), {}) if session else {})}

    def _view(self, agent: str, session: str | None) -> ToolView:
        views = self._views.setdefault((agent, session or EVERYWHERE), _Views())
        if views.version != self._version:
            views.version = self._version
            places = self._all_places(agent, session)
            views.view = self._build_view(self._agent(agent), places)
        return views.view

    def _build_view(self, agent: AgentServers, places: Mapping[str, _Place]) -> ToolView:
        running = {
            name: (place.config, place.unit)
            for name, place in places.items()
            if place.unit is not None
        }
        catalog = build_catalog(
            ServerTools(
                server=name,
                prefix=config.tool_prefix or name,
                tools=usable_tools(unit, config),
                reads_resources=config.resources
                and needs_reader(_resources(name, unit), agent.resource_budget),
            )
            for name, (config, unit) in running.items()
        )
        bound: dict[str, Bound] = {}
        for name, entry in catalog.items():
            config, unit = running[entry.server]
            bound[name] = Bound(entry, unit, config)
        specs = tuple(b.entry.spec for n, b in bound.items() if _may_be_used(agent.decide(n)))
        return ToolView(bound, specs)


def _may_be_used(verdict: Verdict) -> bool:
    return verdict.allowed or verdict.asks


def _resources(name: str, unit: ServerUnit, reader: str | None = None) -> ServerResources:
    return ServerResources(
        server=name,
        read=unit.resources,
        listed=unit.listing.resources,
        templates=tuple(one.uri_template for one in unit.listing.resource_templates),
        reader=reader,
    )
