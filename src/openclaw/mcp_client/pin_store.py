"""The pins of all servers in one file: private, written whole, safe for several processes."""

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit, urlunsplit

from openclaw.config.paths import private_directory
from openclaw.config.write import locked, write_atomically
from openclaw.core.errors import NotFound, OperatorFacing
from openclaw.mcp_client.pins import Declaration, Declarations, Pinned, PinReport, accept, observed

if TYPE_CHECKING:
    from openclaw.config.schema import McpServerConfig

logger = logging.getLogger(__name__)

_FORMAT = 1
_MAX_BYTES = 64 * 1024 * 1024


def pin_key(config: "McpServerConfig") -> str:
    """What server is meant, whatever it is called: another program or address is another server."""
    parts = [config.kind, config.command, list(config.args), config.cwd, config.url]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def target_of(config: "McpServerConfig") -> str:
    """The server for a person: its program, or its address without what may be a credential."""
    if config.url is None or config.kind == "stdio":
        return Path(config.command or "").name
    parts = urlsplit(config.url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))


class PinStore:
    """Reads and writes the file; one instance may be used from many threads."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def stamp(self) -> int:
        """Something that changes when the file does; nought where there is none."""
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return 0

    def load(self) -> dict[str, Pinned]:
        """All that is pinned, by key; raises `OperatorFacing` where the file cannot be trusted."""
        try:
            if self._path.stat().st_size > _MAX_BYTES:
                raise ValueError("it is too large")
            return _read(json.loads(self._path.read_bytes()))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise OperatorFacing(
                f"the pins in {self._path} cannot be read ({type(error).__name__}: {error})",
                hint="look at the file; without it every server counts as seen for the first time",
            ) from error

    def observe(self, key: str, name: str, target: str, now: Declarations) -> PinReport:
        """Compare with what is pinned; what is seen for the first time is pinned."""
        known = self.load().get(key)
        if known is not None:
            after, report = observed(known, name, target, now)
            if after == known:
                return report
        private_directory(self._path.parent)
        with locked(self._path):
            servers = self.load()
            servers[key], report = observed(servers.get(key), name, target, now)
            self._write(servers)
        return report

    def accept(self, key: str, names: Iterable[str] | None = None) -> tuple[str, ...]:
        """Pin what the server says now, all of it or these; returns what was accepted."""
        with locked(self._path):
            servers = self.load()
            if key not in servers:
                raise NotFound("nothing is pinned of that server yet")
            before = servers[key]
            servers[key] = accept(before, names)
            if servers[key] != before:
                self._write(servers)
        left = {*servers[key].pending, *servers[key].removed}
        return tuple(n for n in (*before.pending, *before.removed) if n not in left)

    def forget(self, key: str) -> None:
        """Unpin a server, so that it counts as never seen."""
        with locked(self._path):
            servers = self.load()
            if servers.pop(key, None) is not None:
                self._write(servers)

    def _write(self, servers: Mapping[str, Pinned]) -> None:
        stored = {"format": _FORMAT, "servers": {k: _written(p) for k, p in servers.items()}}
        write_atomically(self._path, json.dumps(stored, indent=1))


def _written(pinned: Pinned) -> dict[str, Any]:
    return {
        "name": pinned.name,
        "target": pinned.target,
        "accepted": {k: [d.digest, d.text] for k, d in pinned.accepted.items()},
        "pending": {k: [d.digest, d.text] for k, d in pinned.pending.items()},
        "removed": list(pinned.removed),
    }


def _read(stored: Any) -> dict[str, Pinned]:
    if stored["format"] != _FORMAT:
        raise ValueError("another format")
    return {
        str(key): Pinned(
            name=str(one["name"]),
            target=str(one["target"]),
            accepted=_declarations(one["accepted"]),
            pending=_declarations(one["pending"]),
            removed=tuple(str(name) for name in one["removed"]),
        )
        for key, one in cast("dict[str, Any]", stored["servers"]).items()
    }


def _declarations(stored: Any) -> dict[str, Declaration]:
    found = cast("dict[str, list[str]]", stored)
    return {str(k): Declaration(str(digest), str(text)) for k, (digest, text) in found.items()}
