"""Manages all MCP servers of all agents: each runs once, and only while somebody needs it."""

import logging
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.abc

from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.paths import expand
from openclaw.core.content import Block
from openclaw.core.errors import NotFound
from openclaw.core.tools import Elicit, ToolResult, ToolSource
from openclaw.mcp_client.bridge import prompts as mcp_prompts
from openclaw.mcp_client.bridge import resources as mcp_resources
from openclaw.mcp_client.bridge.results import Rendering
from openclaw.mcp_client.bridge.tool_source import Bound, McpToolSource, ToolView
from openclaw.mcp_client.catalog.pin_store import CrossingWatch, PinStore
from openclaw.mcp_client.catalog.pins import Crossing
from openclaw.mcp_client.catalog.tools import ServerTools, build_catalog, safe_name
from openclaw.mcp_client.errors import CallFailed
from openclaw.mcp_client.lifecycle.managed_server import (
    INSTRUCTIONS_HEADING,
    ManagedServer,
    Place,
    ServerStatus,
    fingerprint,
)
from openclaw.mcp_client.session.connect import ConnectionDeps
from openclaw.mcp_client.session.listing import CatalogCache

logger = logging.getLogger(__name__)

_RESOURCES_WAIT = 3.0  # seconds that a first turn waits for resources once the tools are known
EVERYWHERE = ""  # the scope of the configured servers, which all sessions see

User = tuple[str, str]  # an agent, and the scope of a session or `EVERYWHERE`


@dataclass(frozen=True, slots=True)
class AgentServers:
    """A server isn't started if `wholly_denied` says that policy denies all of its tools."""

    servers: Mapping[str, McpServerConfig]
    wholly_denied: Callable[[str], bool] = lambda prefix: False
    roots: tuple[Path, ...] = ()
    resource_budget: int = 40_000


@dataclass(frozen=True, slots=True)
class ManagerDeps:
    """`clean` removes secrets from prompts; `traceparent` takes a session and a call id."""

    connection: ConnectionDeps
    pins: PinStore | None = None
    clean: Callable[[ToolResult], ToolResult] = lambda result: result
    traceparent: Callable[[str, str], str | None] = lambda session, call_id: None


# Some servers, the reference filesystem server among them, take the client's roots instead of the
# directories in their own arguments. Whoever typed a directory there wants it to count.


def server_roots(
    config: McpServerConfig, agent: Sequence[Path], environ: Mapping[str, str]
) -> tuple[Path, ...]:
    """The configured roots; otherwise the agent's own and the directories named in `args`."""
    if config.roots is not None:
        base = agent[0] if agent else Path.cwd()
        return tuple(dict.fromkeys(base / expand(root, environ) for root in config.roots))
    return tuple(dict.fromkeys([*agent, *_named_directories(config.args, environ)]))


def _named_directories(args: Iterable[str], environ: Mapping[str, str]) -> Iterable[Path]:
    for argument in args:
        # The value of an option may stand in the same word.
        for text in (argument, argument.partition("=")[2]):
            path = expand(text, environ)
            with suppress(OSError):  # no permission to look
                if text and path.is_absolute() and path.is_dir():
                    yield path


class McpManager:
    """Owns every server's task. Use it as an async context manager, then `start` it."""

    def __init__(self, agents: Mapping[str, AgentServers], deps: ManagerDeps) -> None:
        self._agents = dict(agents)
        self._deps = deps
        self._redact = deps.connection.redactor.redact
        cache = deps.connection.cache
        self._cache = CatalogCache(cache / "catalog", self._redact) if cache is not None else None
        self._units: dict[str, ManagedServer] = {}
        self._places: dict[User, dict[str, Place]] = {}
        self._added: dict[str, dict[str, McpServerConfig]] = {}
        self._leaving: set[ManagedServer] = set()  # given up, but a turn still uses them
        self._generation = 0  # grows with every configuration that is applied
        self._views: dict[object, ToolView] = {}  # forgotten with every change
        self._crossings: list[Crossing] | None = None  # forgotten with every change
        self._watch = CrossingWatch()
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
            unit.connection.stop()
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
        """Start every server that isn't lazy, all at once, without waiting."""
        for agent in self._agents:
            self._update(agent, EVERYWHERE)

    # What agents use

    def tools(self, agent: str, session: str | None = None) -> ToolSource:
        """The agent's current tools, looked up anew at each use."""
        self._agent(agent)
        return McpToolSource(lambda: self._view(agent, session), self._deps.traceparent)

    @contextmanager
    def hold(self, agent: str, session: str | None = None) -> Generator[ToolSource]:
        """The tools for one turn; their servers keep running until it ends, even after a reload."""
        known, places, generation = self._agent(agent), self._of(agent, session), self._generation
        holder, units = object(), [place.unit for place in places.values()]

        def view() -> ToolView:
            if generation == self._generation:
                return self._view(agent, session)
            if holder not in self._views:
                self._views[holder] = self._build_view(known, places)
            return self._views[holder]

        for unit in units:
            unit.holders.add(holder)
        try:
            yield McpToolSource(view, self._deps.traceparent)
        finally:
            self._views.pop(holder, None)
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
        newcomer: float | None = None,
    ) -> list[str]:
        """Wait until the agent's tools are known; returns the servers whose tools are not.

        `servers` limits which to wait for. One that never answered before gets `newcomer` seconds.
        """
        units = [
            place.unit
            for name, place in self._of(agent, session).items()
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
        known = self._agent(agent)
        readers = {
            one.unit.name: name
            for name, one in self._view(agent, session).items()
            if one.tool.ours and (usable is None or name in usable)
        }
        shown = [
            place.resources(readers.get(name))
            for name, place in self._of(agent, session).items()
            if place.config.resources
        ]
        return mcp_resources.build_resource_context(shown, known.resource_budget)

    def instructions(self, agent: str, session: str | None = None) -> str:
        blocks = [place.instructions() for place in self._of(agent, session).values()]
        told = "\n".join([INSTRUCTIONS_HEADING, "", *filter(None, blocks)])
        return self._redact(told) if any(blocks) else ""

    def unavailable(self, agent: str, session: str | None = None) -> str:
        lines = (place.unavailable() for place in self._of(agent, session).values())
        return "\n".join(filter(None, lines))

    def prompts(self, agent: str, session: str | None = None) -> tuple[mcp_prompts.PromptInfo, ...]:
        places = self._of(agent, session).values()
        return tuple(info for place in places for info in place.prompts())

    async def complete(
        self, agent: str, begun: mcp_prompts.BegunArgument, session: str | None = None
    ) -> tuple[str, ...]:
        """What a server suggests for an argument, without values that can't be typed."""
        place = self._of(agent, session).get(begun.server)
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
        unit = self._of(agent, session)[call.server].unit
        await unit.connection.wait_ready(unit.config.timeout / 1000)
        with unit.asking.on_behalf(elicit):
            raw = await unit.connection.get_prompt(call.prompt, call.arguments)
        return mcp_prompts.render_prompt(raw, Rendering(call.server, call.prompt), self._deps.clean)

    async def expand_prompt(
        self, agent: str, text: str, session: str | None = None, *, elicit: Elicit | None = None
    ) -> tuple[Block, ...] | None:
        """What `/server:prompt key=value` expands to, framed; None if it isn't a known prompt."""
        call = mcp_prompts.parse_prompt_call(text) if text.lstrip().startswith("/") else None
        if call is None or call.server not in self._of(agent, session):
            return None
        return mcp_prompts.prompt_text(await self.get_prompt(agent, call, session, elicit=elicit))

    # What operators use

    def status(self) -> tuple[ServerStatus, ...]:
        crossings = self._look_for_crossings()
        found = [unit.status(crossings) for unit in self._units.values()]
        return tuple(sorted(found, key=lambda status: status.snapshot.name))

    async def recheck_pins(self) -> None:
        for unit in list(self._units.values()):  # servers may come and go meanwhile
            await unit.recheck_pins()

    def restart(self, name: str) -> None:
        units = [unit for unit in self._units.values() if unit.name == name]
        if not units:
            raise NotFound(f"no MCP server '{name}' is running")
        for unit in units:
            unit.connection.restart()

    def add(self, name: str, config: McpServerConfig, session: str, agent: str) -> None:
        """Add or replace a server for one session of an agent."""
        self._added.setdefault(session, {})[name] = config
        self._update(agent, session)

    def end_session(self, session: str) -> None:
        self._added.pop(session, None)
        self._drop(user for user in list(self._places) if user[1] == session)

    def apply(self, agents: Mapping[str, AgentServers]) -> None:
        """Take a new configuration; servers whose settings stayed the same keep running."""
        self._generation += 1
        gone = set(self._agents) - set(agents)
        self._agents = dict(agents)
        self._drop(user for user in list(self._places) if user[0] in gone)
        self.start()
        for agent, scope in [user for user in self._places if user[1] != EVERYWHERE]:
            self._update(agent, scope)

    # Who uses which server

    def _agent(self, agent: str) -> AgentServers:
        try:
            return self._agents[agent]
        except KeyError:
            raise NotFound(f"there is no agent '{agent}'") from None

    def _of(self, agent: str, session: str | None) -> dict[str, Place]:
        """The agent's servers by name, overridden by the session's."""
        shared = self._places.get((agent, EVERYWHERE), {})
        own = self._places.get((agent, session), {}) if session else {}
        return dict(sorted({**shared, **own}.items()))

    def _update(self, agent: str, scope: str) -> None:
        """Start what is wanted before ending what isn't: a shared server must not stop."""
        known = self._agent(agent)
        user = (agent, scope)
        before = self._places.get(user, {})
        after: dict[str, Place] = {}
        wanted = known.servers if scope == EVERYWHERE else self._added.get(scope, {})
        for name, config in wanted.items():
            if config.enabled and known.wholly_denied(safe_name(config.tool_prefix or name)):
                logger.info("MCP server '%s' is not started: policy denies all of its tools", name)
            elif config.enabled:
                after[name] = self._take(user, known, name, config)
        self._places[user] = after
        kept = {place.unit for place in after.values()}
        self._release(user, {n: p for n, p in before.items() if p.unit not in kept})
        self._changed()

    def _take(self, user: User, agent: AgentServers, name: str, config: McpServerConfig) -> Place:
        connection = self._deps.connection
        roots = server_roots(config, agent.roots, connection.environ)
        key = fingerprint(name, config, roots)
        unit = self._units.get(key)
        if unit is None:
            deps, keep = replace(connection, roots=roots), (self._cache, self._deps.pins)
            unit = ManagedServer(key, name, config, deps, *keep, on_change=self._changed)
            self._units[key] = unit
            assert self._group is not None, "the manager is used inside its context"
            self._group.start_soon(self._run, unit, name=f"mcp {name}")
        unit.users.add(user)
        return Place(config, unit)

    def _drop(self, users: Iterable[User]) -> None:
        for user in users:
            self._release(user, self._places.pop(user))

    def _release(self, user: User, places: Mapping[str, Place]) -> None:
        for place in places.values():
            place.unit.users.discard(user)
            if not place.unit.users and self._units.pop(place.unit.key, None) is not None:
                self._leaving.add(place.unit)
                self._leave(place.unit)
        self._changed()

    def _leave(self, unit: ManagedServer) -> None:
        if unit in self._leaving and not unit.holders:
            self._leaving.discard(unit)
            unit.connection.stop()

    def _changed(self) -> None:
        self._crossings = None
        self._views.clear()

    def _look_for_crossings(self) -> list[Crossing]:
        if self._crossings is None:
            servers = ((unit.name, unit.pinning) for unit in self._units.values())
            self._crossings = self._watch.look(servers)
        return self._crossings

    async def _run(self, unit: ManagedServer) -> None:
        """Run one server; a bug in how we handle it must not end the others."""
        try:
            await unit.run()
        except Exception:
            logger.exception("gave up on MCP server '%s'", unit.name)

    def _view(self, agent: str, session: str | None) -> ToolView:
        user = (agent, session or EVERYWHERE)
        if user not in self._places:  # a session without servers of its own
            user = (agent, EVERYWHERE)
        if user not in self._views:
            self._views[user] = self._build_view(self._agent(agent), self._of(agent, session))
        return self._views[user]

    def _build_view(self, agent: AgentServers, places: Mapping[str, Place]) -> ToolView:
        catalog = build_catalog(
            ServerTools(name, place.config.tool_prefix or name, place.tools(agent.resource_budget))
            for name, place in places.items()
        )
        bound: dict[str, Bound] = {}
        for spec, tool in catalog:
            place = places[spec.origin.server or ""]
            bound[spec.name] = Bound(spec, tool, place.unit, place.rendering(tool.name))
        return bound
