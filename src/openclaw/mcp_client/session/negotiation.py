"""The handshakes of the protocol's two eras, and finding out which one a server uses.

Servers up to revision 2025-11-25 take `initialize`, later ones `server/discover`. Some of the
former do not answer methods that they do not know, so asking costs time: `STALL` at most, and only
once per server, since the answer is remembered on disk.
"""

import hashlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from openclaw.config.paths import private_directory, write_atomically
from openclaw.core.errors import OperatorFacing
from openclaw.core.tools import json_list, json_object
from openclaw.mcp_client.errors import CallFailed, InvalidResult, RemoteError
from openclaw.mcp_client.session.jsonrpc import RawResult
from openclaw.version import __version__

if TYPE_CHECKING:
    from mcp_types import DiscoverResult, InitializeResult

    from openclaw.config.agent_schema import McpServerConfig

logger = logging.getLogger(__name__)

# The same as in the SDK's `mcp_types`, which takes long to import.
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSION = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_KEY = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_VERSION_HEADER, _METHOD_HEADER = "mcp-protocol-version", "mcp-method"
_SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
_CAPABILITIES = (
    "completions", "experimental", "extensions", "logging", "prompts", "resources", "tasks", "tools",
)  # fmt: skip

STALL = 2.0  # seconds that a server of unknown era has to answer `server/discover`
LATE = 1.0  # seconds that `initialize` has, once a late answer to `server/discover` has come in

_UNSUPPORTED_VERSION = -32022
_METHOD_NOT_FOUND = -32601

DISCOVER, INITIALIZE = "server/discover", "initialize"
_DISCOVER_TIMEOUT = 10.0
CLIENT_INFO = {"name": "openclaw", "version": __version__}


@dataclass(frozen=True, slots=True)
class HandshakeResult:
    """`capabilities` holds those that we know, each an object."""

    protocol: str
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str | None = None
    version: str | None = None
    instructions: str | None = None

    @property
    def era(self) -> "Era":
        return Era.MODERN if self.protocol == MODERN_VERSION else Era.LEGACY


def initialized(raw: RawResult) -> HandshakeResult:
    """Parse the result of `initialize`; raises `InvalidResult`."""
    protocol, info = raw.get("protocolVersion"), json_object(raw.get("serverInfo"))
    if protocol not in HANDSHAKE_VERSIONS:
        raise InvalidResult(
            f"it speaks MCP revision {str(protocol)[:64]!r}, which is not supported"
        )
    if not isinstance(info.get("name"), str) or not isinstance(info.get("version"), str):
        raise InvalidResult("its answer to initialize does not name the server and its version")
    return _parsed(raw, protocol, info)


def discovered(raw: RawResult) -> HandshakeResult:
    """Parse the result of `server/discover`; raises `InvalidResult`."""
    if MODERN_VERSION not in json_list(raw.get("supportedVersions")):
        raise InvalidResult("it speaks no MCP revision that is supported")
    info = json_object(json_object(raw.get("_meta")).get(_SERVER_INFO_KEY))
    return _parsed(raw, MODERN_VERSION, info)


def _parsed(raw: RawResult, protocol: str, info: Mapping[str, Any]) -> HandshakeResult:
    capabilities, instructions = raw.get("capabilities"), raw.get("instructions")
    if not isinstance(capabilities, dict) or not isinstance(instructions, str | None):
        raise InvalidResult("its answer to the handshake is not valid MCP")
    offered = {name: json_object(raw["capabilities"]).get(name) for name in _CAPABILITIES}
    if not all(isinstance(one, dict | None) for one in offered.values()):
        raise InvalidResult("its capabilities are not valid MCP")
    name, version = info.get("name"), info.get("version")
    return HandshakeResult(
        protocol,
        {name: one for name, one in offered.items() if one is not None},
        name if isinstance(name, str) else None,
        version if isinstance(version, str) else None,
        instructions,
    )


def as_sdk_result(result: HandshakeResult) -> "InitializeResult | DiscoverResult":
    """The result for the SDK's session, which needs only the revision from it.

    The SDK would refuse details in the server's own answer that we accept.
    """
    from mcp_types import DiscoverResult, Implementation, InitializeResult, ServerCapabilities

    nothing = ServerCapabilities()
    if result.era is Era.MODERN:
        return DiscoverResult(supported_versions=[result.protocol], capabilities=nothing)
    server = Implementation(name=result.name or "", version=result.version or "")
    return InitializeResult(
        protocol_version=result.protocol, capabilities=nothing, server_info=server
    )


def own_meta(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """What every request of the modern era says about us in its `_meta`."""
    common = {VERSION_KEY: MODERN_VERSION, CLIENT_INFO_KEY: CLIENT_INFO}
    return {**common, CAPABILITIES_KEY: dict(capabilities)}


class Era(StrEnum):
    LEGACY = "legacy"
    MODERN = "modern"


def identity(config: "McpServerConfig") -> str:
    """A key for this server that changes with its program or address."""
    parts = [config.kind, config.command, list(config.args), config.cwd, config.url]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class EraMemory:
    """One small file per server. If it can't be read or written, nothing is remembered."""

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
        if self._path is None or self.recall() is era:
            return
        try:
            private_directory(self._path.parent)
            write_atomically(self._path, era)
        except OperatorFacing as error:
            logger.debug("the protocol era cannot be remembered: %s", error)


class Negotiator:
    """Does the handshake without the SDK. `result` is its result, once there is one.

    `server/discover` is sent in its own task, so that its answer may come late.
    """

    def __init__(
        self,
        call: Callable[..., Awaitable[RawResult]],
        notify: Callable[..., Awaitable[None]],
        capabilities: Mapping[str, Any],
    ) -> None:
        self._call, self._notify, self._capabilities = call, notify, capabilities
        self.result: HandshakeResult | None = None
        self._discovered: HandshakeResult | None = None
        self._discovery_over = anyio.Event()
        self._initializing = anyio.CancelScope()  # a late discovery leaves only a moment for it
        self._turned_away = False

    async def negotiate(
        self, memory: EraMemory, turned_away: Callable[[], bool] | None = None
    ) -> HandshakeResult:
        """Do the handshake that fits the server, and remember which one that was.

        `turned_away` says whether the last answer came from something in front of the server (a
        login, a maintenance page): that says nothing about its era. Without it, the server is a
        child process.
        """
        remembered = await anyio.to_thread.run_sync(memory.recall)
        try:
            if remembered is Era.LEGACY:
                self.result = await self._initialize_first()
            else:
                await self._discover_first(turned_away or (lambda: False))
        except Exception:
            if remembered is None and turned_away is None:
                # A child that crashes on `server/discover` is not asked again.
                await anyio.to_thread.run_sync(memory.remember, Era.LEGACY)
            raise
        assert self.result is not None
        if not self._turned_away:
            await anyio.to_thread.run_sync(memory.remember, self.result.era)
        return self.result

    async def _initialize_first(self) -> HandshakeResult:
        try:
            return await self._initialize()
        except RemoteError as refusal:
            if refusal.code not in (_UNSUPPORTED_VERSION, _METHOD_NOT_FOUND):
                raise
        return await self._discover()

    async def _discover_first(self, turned_away: Callable[[], bool]) -> None:
        """Try `server/discover`, then `initialize` if it is refused or not answered.

        `initialize` may then wait behind a `server/discover` that the server has not read yet, if
        it is still starting. A server that answers both answers `server/discover` first and refuses
        the other.
        """
        async with anyio.create_task_group() as group:
            group.start_soon(self._try_discover, turned_away, name="server/discover")
            with anyio.move_on_after(STALL):
                await self._discovery_over.wait()
            self.result = self._discovered or await self._initialize_unless_modern()
            group.cancel_scope.cancel()

    async def _try_discover(self, turned_away: Callable[[], bool]) -> None:
        try:
            self._discovered = await self._discover()
            self._initializing.deadline = anyio.current_time() + LATE
        except CallFailed as refusal:
            self._turned_away = turned_away()
            logger.debug("server/discover was refused: %s", refusal)
        finally:
            self._discovery_over.set()

    async def _initialize_unless_modern(self) -> HandshakeResult:
        with self._initializing:
            try:
                return await self._initialize()
            except RemoteError as refusal:
                if refusal.code != _UNSUPPORTED_VERSION:
                    raise
                await self._discovery_over.wait()
        return self._discovered or await self._discover()

    async def _initialize(self) -> HandshakeResult:
        params = {
            "protocolVersion": HANDSHAKE_VERSIONS[-1],
            "capabilities": self._capabilities,
            "clientInfo": CLIENT_INFO,
        }
        self.result = initialized(await self._call(INITIALIZE, params, cancellable=False))
        headers = {_VERSION_HEADER: self.result.protocol}
        await self._notify("notifications/initialized", None, {"headers": headers})
        return self.result

    async def _discover(self) -> HandshakeResult:
        """The server's description; asked again if it refuses a revision that it does list."""
        try:
            return await self._discover_once()
        except RemoteError as refusal:
            known = json_list(json_object(refusal.data).get("supported"))
            if refusal.code != _UNSUPPORTED_VERSION or MODERN_VERSION not in known:
                raise
        return await self._discover_once()

    async def _discover_once(self) -> HandshakeResult:
        found = await self._call(
            DISCOVER,
            {"_meta": own_meta(self._capabilities)},
            timeout=_DISCOVER_TIMEOUT,
            cancellable=False,
            headers={_VERSION_HEADER: MODERN_VERSION, _METHOD_HEADER: DISCOVER},
        )
        return discovered(found)
