"""Tracks who uses which server: each runs once, and only while needed. Starts no task."""

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.paths import expand
from openclaw.core.errors import NotFound
from openclaw.core.tools import ToolResult
from openclaw.mcp_client.catalog.pin_store import PinStore
from openclaw.mcp_client.catalog.tools import safe_name
from openclaw.mcp_client.lifecycle.managed_server import ManagedServer, fingerprint
from openclaw.mcp_client.session.connect import ConnectionDeps
from openclaw.mcp_client.session.listing import CatalogCache


@dataclass(frozen=True, slots=True)
class AgentServers:
    """A server isn't started if `wholly_denied` says that policy denies all of its tools."""

    id: str
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


logger = logging.getLogger(__name__)

EVERYWHERE = ""  # the scope of a server that was added for all sessions

User = tuple[str, str]  # an agent, and the scope of a session or `EVERYWHERE`


@dataclass(slots=True)
class Place:
    config: McpServerConfig
    unit: ManagedServer


class ServerRegistry:
    """The servers of every agent and session. `version` grows with every change."""

    def __init__(
        self,
        agents: Mapping[str, AgentServers],
        deps: ManagerDeps,
        start: Callable[[ManagedServer], None],
    ) -> None:
        self._agents = dict(agents)
        self._connection, self._pins = deps.connection, deps.pins
        self._start = start
        cache, redact = deps.connection.cache, deps.connection.redactor.redact
        self._cache = CatalogCache(cache / "catalog", redact) if cache is not None else None
        self._units: dict[str, ManagedServer] = {}
        self._places: dict[User, dict[str, Place]] = {}
        self._added: dict[str, dict[str, McpServerConfig]] = {}
        self._leaving: set[ManagedServer] = set()  # given up, but a turn still uses them
        self.version = 0
        self.generation = 0  # grows with every configuration that is applied

    @property
    def units(self) -> Iterable[ManagedServer]:
        return self._units.values()

    def agent(self, agent: str) -> AgentServers:
        try:
            return self._agents[agent]
        except KeyError:
            raise NotFound(f"there is no agent '{agent}'") from None

    def of(self, agent: str, session: str | None) -> dict[str, Place]:
        """The agent's servers by name, overridden by the session's."""
        shared = self._places.get((agent, EVERYWHERE), {})
        own = self._places.get((agent, session), {}) if session else {}
        return dict(sorted({**shared, **own}.items()))

    @contextmanager
    def held(self, places: Mapping[str, Place]) -> Generator[None]:
        """Keep these servers running meanwhile, even if they are no longer wanted."""
        holder = object()
        units = [place.unit for place in places.values()]
        for unit in units:
            unit.holders.add(holder)
        try:
            yield
        finally:
            for unit in units:
                unit.holders.discard(holder)
                self._leave(unit)

    def open(self) -> None:
        for agent in self._agents:
            self._settle(agent, EVERYWHERE)

    def close(self) -> None:
        for unit in (*self._units.values(), *self._leaving):
            unit.stop()
        self._units.clear()
        self._leaving.clear()

    def add(self, name: str, config: McpServerConfig, scope: str, agent: str | None = None) -> None:
        self._added.setdefault(scope, {})[name] = config
        for one in self._agents if agent is None else [agent]:
            self._settle(one, scope)

    def remove(self, name: str, scope: str) -> None:
        added = self._added.get(scope, {})
        if name not in added:
            raise NotFound(f"no MCP server '{name}' was added")
        del added[name]
        for agent, known in list(self._places):
            if known == scope:
                self._settle(agent, scope)

    def end(self, scope: str) -> None:
        self._added.pop(scope, None)
        self._drop(user for user in list(self._places) if user[1] == scope)

    def apply(self, agents: Mapping[str, AgentServers]) -> None:
        """Take a new configuration; servers whose settings stayed the same keep running."""
        self.generation += 1
        gone = set(self._agents) - set(agents)
        self._agents = dict(agents)
        self._drop(user for user in list(self._places) if user[0] in gone)
        self.open()
        for agent, scope in [user for user in self._places if user[1] != EVERYWHERE]:
            self._settle(agent, scope)

    def _settle(self, agent: str, scope: str) -> None:
        """Start what is wanted before ending what isn't: a shared server must not stop."""
        known = self.agent(agent)
        user = (agent, scope)
        before = self._places.get(user, {})
        after: dict[str, Place] = {}
        wanted = dict(known.servers) if scope == EVERYWHERE else dict[str, McpServerConfig]()
        wanted |= self._added.get(scope, {})
        for name, config in wanted.items():
            if config.enabled and known.wholly_denied(safe_name(config.tool_prefix or name)):
                logger.info("MCP server '%s' is not started: policy denies all of its tools", name)
            elif config.enabled:
                after[name] = self._take(user, known, name, config)
        self._places[user] = after
        kept = {place.unit for place in after.values()}
        self._release(user, {n: p for n, p in before.items() if p.unit not in kept})
        self.version += 1

    def _take(self, user: User, agent: AgentServers, name: str, config: McpServerConfig) -> Place:
        roots = server_roots(config, agent.roots, self._connection.environ)
        key = fingerprint(name, config, roots)
        unit = self._units.get(key)
        if unit is None:
            deps, keep = replace(self._connection, roots=roots), (self._cache, self._pins)
            unit = ManagedServer(key, name, config, deps, *keep, on_change=self._changed)
            self._units[key] = unit
            self._start(unit)
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
        self.version += 1

    def _leave(self, unit: ManagedServer) -> None:
        if unit in self._leaving and not unit.holders:
            self._leaving.discard(unit)
            unit.stop()

    def _changed(self) -> None:
        self.version += 1
