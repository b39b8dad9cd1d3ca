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
from openclaw.core.prompts import PartialArgument, PromptInfo
from openclaw.core.tools import Elicit, ToolResult, ToolSource
from openclaw.mcp_client.bridge import prompts as mcp_prompts
from openclaw.mcp_client.bridge import resources as mcp_resources
from openclaw.mcp_client.bridge.results import Rendering
from openclaw.mcp_client.bridge.tool_source import CallableTool, McpToolSource, ToolView
from openclaw.mcp_client.catalog.pin_store import PinStore, ShadowingMonitor
from openclaw.mcp_client.catalog.pins import ToolShadowing
from openclaw.mcp_client.catalog.server_tools import ServerTools, build_catalog, safe_name
from openclaw.mcp_client.errors import CallFailed
from openclaw.mcp_client.lifecycle.managed_server import (
    INSTRUCTIONS_HEADING,
    ManagedServer,
    ServerStatus,
    ServerUse,
    fingerprint,
)
from openclaw.mcp_client.lifecycle.server_state import ServerState
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
# directories in their own arguments. Whoever typed a directory there wants it used.


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
        # The value of an option may be in the same word.
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
        self._servers: dict[str, ManagedServer] = {}
        self._uses: dict[User, dict[str, ServerUse]] = {}
        self._added: dict[str, dict[str, McpServerConfig]] = {}
        self._roots: dict[str, Sequence[Path]] = {}  # of sessions with roots of their own
        self._watchers: set[Callable[[], None]] = set()
        self._leaving: set[ManagedServer] = set()  # no longer wanted, but a turn still uses them
        self._generation = 0  # grows with every configuration that is applied
        self._views: dict[object, ToolView] = {}  # cleared on every change
        self._crossings: list[ToolShadowing] | None = None  # cleared on every change
        self._shadowing = ShadowingMonitor()
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
        running = len(self._servers) + len(self._leaving)
        for server in (*self._servers.values(), *self._leaving):
            server.connection.stop()
        self._servers.clear()
        self._leaving.clear()
        self._group = None
        try:
            return await self._stack.__aexit__(kind, error, trace)
        except BaseExceptionGroup as group:
            if group.exceptions == (error,):
                return False  # the caller's own exception leaves unwrapped
            raise
        finally:
            if running:
                logger.info("MCP: all servers are shut down")

    def start(self) -> None:
        """Start every server that isn't lazy, all at once, without waiting."""
        for agent in self._agents:
            self._update(agent, EVERYWHERE)
        assert self._group is not None, "the manager is used inside its context"
        self._group.start_soon(self._say_how_many_are_ready, name="mcp servers")

    async def _say_how_many_are_ready(self) -> None:
        """Once each has started or failed; lazy servers start when they are needed."""
        servers = [server for server in self._servers.values() if not server.config.lazy]
        for server in servers:
            await server.tools_known.wait()
        ready = sum(server.state is ServerState.READY for server in servers)
        if servers:
            logger.info("MCP: %d of %d servers ready", ready, len(servers))

    # What agents use

    def tools(self, agent: str, session: str | None = None) -> ToolSource:
        """The agent's current tools, looked up anew at each use."""
        self._agent(agent)
        return McpToolSource(lambda: self._view(agent, session), self._deps.traceparent)

    @contextmanager
    def hold(self, agent: str, session: str | None = None) -> Generator[ToolSource]:
        """The tools for one turn; their servers keep running until it ends, even after a reload."""
        known, uses = self._agent(agent), self.uses_of(agent, session)
        generation, holder = self._generation, object()
        servers = [use.server for use in uses.values()]

        def view() -> ToolView:
            if generation == self._generation:
                return self._view(agent, session)
            if holder not in self._views:
                self._views[holder] = self._build_view(known, uses)
            return self._views[holder]

        for server in servers:
            server.holders.add(holder)
        try:
            yield McpToolSource(view, self._deps.traceparent)
        finally:
            self._views.pop(holder, None)
            for server in servers:
                server.holders.discard(holder)
                self._leave(server)

    async def wait_for_tools(
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
        wanted = [
            use.server
            for name, use in self.uses_of(agent, session).items()
            if servers is None or name in servers
        ]
        with anyio.move_on_after(timeout):
            async with anyio.create_task_group() as group:
                for server in wanted:
                    if not server.tools_known.is_set():
                        group.start_soon(
                            server.wait_tools, newcomer, name=f"wait for {server.name}"
                        )
            with anyio.move_on_after(_RESOURCES_WAIT):
                for server in wanted:
                    if server.tools_known.is_set():
                        await server.resources_known.wait()
        for server in wanted:
            await server.recheck_pins()
        self._look_for_crossings()
        return [server.name for server in wanted if not server.tools_known.is_set()]

    def resource_context(
        self, agent: str, session: str | None = None, *, usable: Collection[str] | None = None
    ) -> str:
        """The block of MCP resources for the prompt; `usable` limits which tools it names."""
        known = self._agent(agent)
        readers = {
            entry.server.name: name
            for name, entry in self._view(agent, session).items()
            if entry.tool.ours and (usable is None or name in usable)
        }
        shown = [
            use.resources(readers.get(name))
            for name, use in self.uses_of(agent, session).items()
            if use.config.resources
        ]
        return mcp_resources.build_resource_context(shown, known.resource_budget)

    def instructions(self, agent: str, session: str | None = None) -> str:
        blocks = [use.instructions() for use in self.uses_of(agent, session).values()]
        text = "\n".join([INSTRUCTIONS_HEADING, "", *filter(None, blocks)])
        return self._redact(text) if any(blocks) else ""

    def unavailable(self, agent: str, session: str | None = None) -> str:
        lines = (use.unavailable() for use in self.uses_of(agent, session).values())
        return "\n".join(filter(None, lines))

    def prompts(self, agent: str, session: str | None = None) -> tuple[PromptInfo, ...]:
        uses = self.uses_of(agent, session).values()
        return tuple(info for use in uses for info in use.prompts())

    async def complete(
        self, agent: str, begun: PartialArgument, session: str | None = None
    ) -> tuple[str, ...]:
        """What a server suggests for an argument, without values that can't be typed."""
        use = self.uses_of(agent, session).get(begun.server)
        if use is None or not use.config.prompts:
            raise NotFound(f"there is no MCP server '{begun.server}' here")
        try:
            values = await use.server.connection.complete(begun.params())
        except CallFailed as failure:
            logger.debug("MCP server '%s' suggests nothing: %s", begun.server, failure)
            return ()
        plain = (value for value in values if value.isprintable() and len(value) <= 500)
        return tuple(value for value in plain if self._redact(value) == value)

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
        prompt = next(
            (p for p in offered if (p.server, p.name) == (call.server, call.prompt)), None
        )
        if prompt is None:
            raise NotFound(f"there is no prompt /{call.server}:{call.prompt}")
        mcp_prompts.check_arguments(prompt, call.arguments)
        server = self.uses_of(agent, session)[call.server].server
        await server.connection.wait_ready(server.config.timeout / 1000)
        with server.asking.on_behalf(elicit):
            raw = await server.connection.get_prompt(call.prompt, call.arguments)
        return mcp_prompts.render_prompt(raw, Rendering(call.server, call.prompt), self._deps.clean)

    async def expand_prompt(
        self, agent: str, text: str, session: str | None = None, *, elicit: Elicit | None = None
    ) -> tuple[Block, ...] | None:
        """What `/server:prompt key=value` expands to, framed; None if it isn't a known prompt."""
        call = mcp_prompts.parse_prompt_call(text) if text.lstrip().startswith("/") else None
        if call is None or call.server not in self.uses_of(agent, session):
            return None
        return mcp_prompts.prompt_text(await self.get_prompt(agent, call, session, elicit=elicit))

    @contextmanager
    def watched(self, watcher: Callable[[], None]) -> Generator[None]:
        """While this lasts, `watcher` is called whenever what servers offer may have changed."""
        self._watchers.add(watcher)
        try:
            yield
        finally:
            self._watchers.discard(watcher)

    # What operators use

    def status(self) -> tuple[ServerStatus, ...]:
        crossings = self._look_for_crossings()
        statuses = [server.status(crossings) for server in self._servers.values()]
        return tuple(sorted(statuses, key=lambda status: status.snapshot.name))

    async def recheck_pins(self) -> None:
        for server in list(self._servers.values()):  # servers may come and go meanwhile
            await server.recheck_pins()

    def restart(self, name: str) -> None:
        servers = [server for server in self._servers.values() if server.name == name]
        if not servers:
            raise NotFound(f"no MCP server '{name}' is running")
        for server in servers:
            server.connection.restart()

    def add(
        self,
        name: str,
        config: McpServerConfig,
        session: str,
        agent: str,
        *,
        roots: Sequence[Path] | None = None,
    ) -> None:
        """Add or replace a server for one session of an agent; `roots` instead of the agent's."""
        self._added.setdefault(session, {})[name] = config
        if roots is not None:
            self._roots[session] = roots
        self._update(agent, session)

    def end_session(self, session: str) -> None:
        self._added.pop(session, None)
        self._roots.pop(session, None)
        self._drop(user for user in list(self._uses) if user[1] == session)

    def forget_client(self, scope: str) -> None:
        """A client of the hub has gone."""
        for server in self._servers.values():
            server.clients.pop(scope, None)

    def apply(self, agents: Mapping[str, AgentServers]) -> None:
        """Take a new configuration; servers whose settings stayed the same keep running."""
        self._generation += 1
        gone = set(self._agents) - set(agents)
        self._agents = dict(agents)
        self._drop(user for user in list(self._uses) if user[0] in gone)
        self.start()
        for agent, scope in [user for user in self._uses if user[1] != EVERYWHERE]:
            self._update(agent, scope)

    # Who uses which server

    def _agent(self, agent: str) -> AgentServers:
        try:
            return self._agents[agent]
        except KeyError:
            raise NotFound(f"there is no agent '{agent}'") from None

    def uses_of(self, agent: str, session: str | None = None) -> dict[str, ServerUse]:
        """The agent's servers by name, overridden by the session's."""
        shared = self._uses.get((agent, EVERYWHERE), {})
        own = self._uses.get((agent, session), {}) if session else {}
        return dict(sorted({**shared, **own}.items()))

    def _update(self, agent: str, scope: str) -> None:
        """Start what is wanted before ending what isn't: a shared server must not stop."""
        known = self._agent(agent)
        user = (agent, scope)
        before = self._uses.get(user, {})
        after: dict[str, ServerUse] = {}
        wanted = known.servers if scope == EVERYWHERE else self._added.get(scope, {})
        for name, config in wanted.items():
            if not config.enabled:
                logger.info("MCP server '%s' is disabled, skipping", name)
            elif known.wholly_denied(safe_name(config.tool_prefix or name)):
                logger.info("MCP server '%s' is not started: policy denies all of its tools", name)
            else:
                after[name] = self._take(user, known, name, config)
        self._uses[user] = after
        still_used = {use.server for use in after.values()}
        self._release(user, {n: u for n, u in before.items() if u.server not in still_used})
        self._changed()

    def _take(
        self, user: User, agent: AgentServers, name: str, config: McpServerConfig
    ) -> ServerUse:
        connection = self._deps.connection
        roots = server_roots(config, self._roots.get(user[1], agent.roots), connection.environ)
        key = fingerprint(name, config, roots, user[1] if config.per_client else EVERYWHERE)
        server = self._servers.get(key)
        if server is None:
            deps, stores = replace(connection, roots=roots), (self._cache, self._deps.pins)
            server = ManagedServer(key, name, config, deps, *stores, on_change=self._changed)
            self._servers[key] = server
            assert self._group is not None, "the manager is used inside its context"
            self._group.start_soon(self._run, server, name=f"mcp {name}")
        server.users.add(user)
        return ServerUse(config, server)

    def _drop(self, users: Iterable[User]) -> None:
        for user in users:
            self._release(user, self._uses.pop(user))

    def _release(self, user: User, uses: Mapping[str, ServerUse]) -> None:
        for use in uses.values():
            use.server.users.discard(user)
            if not use.server.users and self._servers.pop(use.server.key, None) is not None:
                self._leaving.add(use.server)
                self._leave(use.server)
        self._changed()

    def _leave(self, server: ManagedServer) -> None:
        if server in self._leaving and not server.holders:
            self._leaving.discard(server)
            server.connection.stop()

    def _changed(self) -> None:
        self._crossings = None
        self._views.clear()
        for watcher in self._watchers:
            watcher()

    def _look_for_crossings(self) -> list[ToolShadowing]:
        if self._crossings is None:
            servers = ((server.name, server.pinning) for server in self._servers.values())
            self._crossings = self._shadowing.look(servers)
        return self._crossings

    async def _run(self, server: ManagedServer) -> None:
        """Run one server; a bug in how we handle it must not end the others."""
        try:
            await server.run()
        except Exception:
            logger.exception("gave up on MCP server '%s'", server.name)

    def _view(self, agent: str, session: str | None) -> ToolView:
        user = (agent, session or EVERYWHERE)
        if user not in self._uses:  # a session without servers of its own
            user = (agent, EVERYWHERE)
        if user not in self._views:
            self._views[user] = self._build_view(self._agent(agent), self.uses_of(agent, session))
        return self._views[user]

    def _build_view(self, agent: AgentServers, uses: Mapping[str, ServerUse]) -> ToolView:
        catalog = build_catalog(
            ServerTools(name, use.config.tool_prefix or name, use.tools(agent.resource_budget))
            for name, use in uses.items()
        )
        bound: dict[str, CallableTool] = {}
        for spec, tool in catalog:
            use = uses[spec.origin.server or ""]
            bound[spec.name] = CallableTool(spec, tool, use.server, use.rendering(tool.name))
        return bound
