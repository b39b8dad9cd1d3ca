"""Which of the protocol's two eras a server belongs to: found out once, remembered on disk.

Servers up to revision 2025-11-25 are greeted by `initialize`, later ones by `server/discover`. Some
of the former do not answer what they do not know, so that asking costs time: `STALL` at most, and
once in a server's life.
"""

import hashlib
import json
import logging
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp_types import DiscoverResult

    from openclaw.config.agent_schema import McpServerConfig

logger = logging.getLogger(__name__)

STALL = 2.0  # seconds that a server of unknown era has to answer `server/discover`
LATE = 1.0  # seconds that `initialize` has, once a late answer to `server/discover` has come in

_UNSUPPORTED_VERSION = -32022
_METHOD_NOT_FOUND = -32601
_PRIVATE = 0o600


class Era(StrEnum):
    LEGACY = "legacy"
    MODERN = "modern"


def identity(config: "McpServerConfig") -> str:
    """A name for this server that changes when another program or address is meant."""
    parts = [config.kind, config.command, list(config.args), config.cwd, config.url]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class EraMemory:
    """One small file per server. What cannot be read or written is not remembered."""

    def __init__(self, directory: Path | None, key: str) -> None:
        self._path = None if directory is None else directory / "mcp-protocols" / key

    def recall(self) -> Era | None:
        if self._path is None:
            return None
        try:
            return Era(self._path.read_text("ascii").strip())
        except (OSError, ValueError):
            return None

    def remember(self, era: Era) -> None:
        """Remember the era, unless it is remembered already."""
        if self._path is None or self.recall() is era:
            return
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.write_text(era, "ascii")
            draft.chmod(_PRIVATE)
            draft.replace(self._path)
        except OSError as error:
            logger.debug("the protocol era cannot be remembered: %s", error)


async def greet(
    session: "ClientSession", memory: EraMemory, turned_away: Callable[[], bool] | None = None
) -> Era:
    """Do the handshake that fits the server, and remember which one that was.

    `turned_away` says whether the last answer came from something in front of the server (a login,
    a maintenance page): that says nothing about its era. Without it, the server is a child process.
    """
    remembered = await anyio.to_thread.run_sync(memory.recall)
    probe = _Probe(session, turned_away or (lambda: False))
    try:
        if remembered is Era.LEGACY:
            era = await _initialize_first(session)
        else:
            era = await _discover_first(session, probe)
    except Exception:
        if remembered is None and turned_away is None:
            # A child that dies of the question is not asked again.
            await anyio.to_thread.run_sync(memory.remember, Era.LEGACY)
        raise
    if not probe.turned_away:
        await anyio.to_thread.run_sync(memory.remember, era)
    return era


async def _initialize_first(session: "ClientSession") -> Era:
    from mcp.shared.exceptions import MCPError

    try:
        await session.initialize()
    except MCPError as refusal:
        if refusal.code not in (_UNSUPPORTED_VERSION, _METHOD_NOT_FOUND):
            raise
        await session.discover()
        return Era.MODERN
    return Era.LEGACY


class _Probe:
    """`server/discover`, asked in a task of its own so that its answer may come late."""

    def __init__(self, session: "ClientSession", was_turned_away: Callable[[], bool]) -> None:
        self._session = session
        self._was_turned_away = was_turned_away
        self.turned_away = False
        self.done = anyio.Event()
        self.result: DiscoverResult | None = None
        self.on_late_answer: Callable[[], None] = lambda: None

    async def ask(self) -> None:
        from mcp.shared.exceptions import MCPError
        from mcp_types import DiscoverResult
        from mcp_types.version import MODERN_PROTOCOL_VERSIONS

        try:
            result = DiscoverResult.model_validate(await _discovered(self._session))
            if any(version in MODERN_PROTOCOL_VERSIONS for version in result.supported_versions):
                self.result = result
                self.on_late_answer()
        except (MCPError, ValueError) as refusal:
            self.turned_away = self._was_turned_away()
            logger.debug("server/discover was refused: %s", refusal)
        finally:
            self.done.set()


async def _discovered(session: "ClientSession") -> dict[str, Any]:
    """What the server says of itself; asked again in its own revision where it knows not our newest."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import UnsupportedProtocolVersionErrorData
    from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS

    try:
        return await session.send_discover(LATEST_MODERN_VERSION)
    except MCPError as refusal:
        if refusal.code != _UNSUPPORTED_VERSION:
            raise
        known = UnsupportedProtocolVersionErrorData.model_validate(refusal.data).supported
        both = [version for version in MODERN_PROTOCOL_VERSIONS if version in known]
        if not both:
            raise
    return await session.send_discover(both[-1])


async def _discover_first(session: "ClientSession", probe: _Probe) -> Era:
    """Ask; greet in the old way when the answer is no, or does not come.

    `initialize` may then stand behind a question that the server has not read yet, because it is
    still starting. A server that answers both answers the question first, and refuses the other.
    """
    era = Era.LEGACY
    async with anyio.create_task_group() as group:
        group.start_soon(probe.ask, name="server/discover")
        with anyio.move_on_after(STALL):
            await probe.done.wait()
        if probe.result is not None or not await _initialized(session, probe):
            assert probe.result is not None
            session.adopt(probe.result)
            era = Era.MODERN
        group.cancel_scope.cancel()
    return era


async def _initialized(session: "ClientSession", probe: _Probe) -> bool:
    from mcp.shared.exceptions import MCPError

    with anyio.CancelScope() as scope:
        probe.on_late_answer = lambda: setattr(scope, "deadline", anyio.current_time() + LATE)
        try:
            await session.initialize()
        except MCPError as refusal:
            if refusal.code != _UNSUPPORTED_VERSION:
                raise
            await probe.done.wait()
            if probe.result is None:
                await session.discover()
                probe.result = session.discover_result
        else:
            return True
    return False
