"""The pins of all servers in one file: private, written whole, safe for several processes."""

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import anyio.to_thread

from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.paths import locked, private_directory, write_atomically
from openclaw.core.errors import NotFound, OpenClawError, OperatorFacing
from openclaw.mcp_client.catalog import pins
from openclaw.mcp_client.session.era_memory import identity

if TYPE_CHECKING:
    from openclaw.mcp.declarations import Listing

logger = logging.getLogger(__name__)

_FORMAT = 1
_MAX_BYTES = 64 * 1024 * 1024


pin_key = identity


def target_of(config: McpServerConfig) -> str:
    """The server's program, or its address without anything that may be a credential."""
    if config.url is None or config.kind == "stdio":
        return Path(config.command or "").name
    parts = urlsplit(config.url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


class PinStore:
    """One instance may be used from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def stamp(self) -> int:
        """Changes when the file does; 0 if there is none."""
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return 0

    def load(self) -> dict[str, pins.Pinned]:
        """All pins by key; raises `OperatorFacing` if the file can't be trusted."""
        from pydantic import TypeAdapter

        try:
            if self._path.stat().st_size > _MAX_BYTES:
                raise ValueError("it is too large")
            stored = json.loads(self._path.read_bytes())
            if stored["format"] != _FORMAT:
                raise ValueError("another format")
            return TypeAdapter(dict[str, pins.Pinned]).validate_python(stored["servers"])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise OperatorFacing(
                f"the pins in {self._path} cannot be read ({type(error).__name__}: {error})",
                hint=f"correct {self._path}, or move it away: then every server is treated as new",
            ) from error

    def observe(self, key: str, name: str, target: str, now: pins.Declarations) -> pins.PinReport:
        known = self.load().get(key)
        if known is not None:
            after, report = pins.observed(known, name, target, now)
            if after == known:
                return report
        private_directory(self._path.parent)
        with locked(self._path):
            servers = self.load()
            servers[key], report = pins.observed(servers.get(key), name, target, now)
            self._write(servers)
        return report

    def accept(self, key: str, names: Iterable[str] | None = None) -> tuple[str, ...]:
        with locked(self._path):
            servers = self.load()
            if key not in servers:
                raise NotFound("that server has no pins yet")
            before = servers[key]
            servers[key] = pins.accept(before, names)
            if servers[key] != before:
                self._write(servers)
        left = {*servers[key].pending, *servers[key].removed}
        return tuple(n for n in (*before.pending, *before.removed) if n not in left)

    def _write(self, servers: Mapping[str, pins.Pinned]) -> None:
        stored = {"format": _FORMAT, "servers": {k: asdict(p) for k, p in servers.items()}}
        write_atomically(self._path, json.dumps(stored, indent=1))


PINNED = "pinned"
_MAX_LOGGED = 50


class Pinning:
    """One server's pins. In `strict` mode, anything that nobody has accepted is withheld."""

    def __init__(
        self,
        name: str,
        config: McpServerConfig,
        store: PinStore | None,
        redact: Callable[[str], str],
    ) -> None:
        self._name = name
        self._mode = "off" if store is None else config.pin
        self._store = store
        self._key, self._target = pin_key(config), target_of(config)
        self._redact = redact
        self._now: pins.Declarations = {}
        self._stamp = 0
        self._error: str | None = None
        self.report: pins.PinReport | None = None
        self.mentions: Mapping[str, frozenset[str]] = {}

    @property
    def words(self) -> str | None:
        """The server's status in one line; None if it isn't pinned."""
        if self.report is None:
            return None
        if self._error is not None:
            return self._error
        if not self.report.unaccepted:
            return PINNED
        return f"{self.report.words()}{' (withheld)' if self._mode == 'strict' else ''}"

    def withholds(self, name: str) -> bool:
        """Whether to hide this tool, or the server's `INSTRUCTIONS`."""
        report = self.report if self._mode == "strict" else None
        return report is not None and name in report.unaccepted

    async def check(self, listing: "Listing") -> None:
        await anyio.to_thread.run_sync(self._take, listing)
        await self._compare()

    async def recheck(self) -> bool:
        """Compare again if the pins have changed since; returns whether the result changed."""
        if self.report is None or not self.report.unaccepted or self._store is None:
            return False
        if await anyio.to_thread.run_sync(self._store.stamp) == self._stamp:
            return False
        before = self.report
        await self._compare()
        return self.report != before

    def _take(self, listing: "Listing") -> None:
        self._now = pins.declarations(listing, self._redact)
        self.mentions = {
            name: pins.mentions(declared.text)
            for name, declared in self._now.items()
            if name != pins.INSTRUCTIONS
        }

    async def _compare(self) -> None:
        if self._mode == "off" or self._store is None:
            return
        before, self._error = self.report, None
        try:
            self.report = await anyio.to_thread.run_sync(self._observe, self._store)
        except OpenClawError as error:
            # Without pins there is no telling whether the server has changed.
            self._error = error.message
            self.report = pins.PinReport(changed=tuple(self._now))
        if self.report.unaccepted and self.report != before:
            logger.warning(
                "MCP server '%s' has changed since you accepted it: %s; see the changes with "
                "'openclaw mcp pins show %s'",
                self._name,
                self.words,
                self._name,
                extra={"server": self._name},
            )

    def _observe(self, store: PinStore) -> pins.PinReport:
        report = store.observe(self._key, self._name, self._target, self._now)
        self._stamp = store.stamp()
        return report


class ShadowingMonitor:
    """Finds servers that shadow or mention each other's tools; logs each pair once."""

    def __init__(self) -> None:
        self._logged: set[tuple[str, str, str]] = set()

    def look(self, servers: Iterable[tuple[str, Pinning]]) -> list[pins.ToolShadowing]:
        crossings = pins.find_shadowing({name: pinning.mentions for name, pinning in servers})
        pairs = Counter((crossing.server, crossing.other, crossing.kind) for crossing in crossings)
        for crossing in crossings:
            pair = (crossing.server, crossing.other, crossing.kind)
            if pair not in self._logged and len(self._logged) < _MAX_LOGGED:
                self._logged.add(pair)
                more = f" (and {pairs[pair] - 1} more)" if pairs[pair] > 1 else ""
                words = f"{crossing.words()}{more}"
                logger.warning("MCP servers: %s", words, extra={"server": crossing.server})
        return crossings
