"""What a server says about itself in the handshake, and the handshakes of both protocol eras."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from openclaw.core.tools import json_list, json_object
from openclaw.mcp_client.errors import InvalidResult, RemoteError
from openclaw.mcp_client.session.jsonrpc import RawResult
from openclaw.version import __version__

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp_types import DiscoverResult, InitializeResult

# As the SDK has them (`mcp_types`), which takes long to import.
HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN_VERSIONS = ("2026-07-28",)
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO_KEY = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"
_CAPABILITIES = (
    "completions", "experimental", "extensions", "logging", "prompts", "resources", "tasks", "tools",
)  # fmt: skip

DISCOVER, INITIALIZE = "server/discover", "initialize"
_DISCOVER_TIMEOUT = 10.0
CLIENT_INFO = {"name": "openclaw", "version": __version__}


@dataclass(frozen=True, slots=True)
class Greeting:
    """`capabilities` holds those that we know, each an object."""

    protocol: str
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str | None = None
    version: str | None = None
    instructions: str | None = None


def initialized(raw: RawResult) -> Greeting:
    """The greeting in a result of `initialize`; raises `InvalidResult`."""
    protocol, info = raw.get("protocolVersion"), json_object(raw.get("serverInfo"))
    if protocol not in HANDSHAKE_VERSIONS:
        raise InvalidResult(
            f"it speaks MCP revision {str(protocol)[:64]!r}, which is not supported"
        )
    if not isinstance(info.get("name"), str) or not isinstance(info.get("version"), str):
        raise InvalidResult("its answer to initialize does not name the server and its version")
    return _greeting(raw, protocol, info)


def discovered(raw: RawResult) -> Greeting:
    """The greeting in a result of `server/discover`; raises `InvalidResult`."""
    supported = json_list(raw.get("supportedVersions"))
    both = [version for version in MODERN_VERSIONS if version in supported]
    if not both:
        raise InvalidResult("it speaks no MCP revision that is supported")
    return _greeting(
        raw, both[-1], json_object(json_object(raw.get("_meta")).get(_SERVER_INFO_KEY))
    )


def _greeting(raw: RawResult, protocol: str, info: Mapping[str, Any]) -> Greeting:
    capabilities, instructions = raw.get("capabilities"), raw.get("instructions")
    if not isinstance(capabilities, dict) or not isinstance(instructions, str | None):
        raise InvalidResult("its answer to the handshake is not valid MCP")
    offered = {name: json_object(raw["capabilities"]).get(name) for name in _CAPABILITIES}
    if not all(isinstance(one, dict | None) for one in offered.values()):
        raise InvalidResult("its capabilities are not valid MCP")
    name, version = info.get("name"), info.get("version")
    return Greeting(
        protocol,
        {name: one for name, one in offered.items() if one is not None},
        name if isinstance(name, str) else None,
        version if isinstance(version, str) else None,
        instructions,
    )


def as_sdk_result(greeting: Greeting) -> "InitializeResult | DiscoverResult":
    """The greeting for the SDK's session, which needs no more of it than the revision.

    The SDK would refuse details in the server's own answer that we accept.
    """
    from mcp_types import DiscoverResult, Implementation, InitializeResult, ServerCapabilities

    nothing = ServerCapabilities()
    if greeting.protocol in MODERN_VERSIONS:
        return DiscoverResult(supported_versions=[greeting.protocol], capabilities=nothing)
    server = Implementation(name=greeting.name or "", version=greeting.version or "")
    return InitializeResult(
        protocol_version=greeting.protocol, capabilities=nothing, server_info=server
    )


class Greeter(Protocol):
    """Greets a server; each method raises `CallFailed`."""

    async def initialize(self) -> Greeting: ...
    async def discover(self, version: str) -> RawResult: ...
    def adopt(self, found: RawResult) -> Greeting: ...


class RawGreeter:
    """Greets without the SDK. `greeting` is the one that was adopted, once there is one."""

    def __init__(
        self,
        call: Callable[..., Awaitable[RawResult]],
        notify: Callable[[str, None], Awaitable[None]],
        capabilities: Mapping[str, Any],
    ) -> None:
        self._call, self._notify, self._capabilities = call, notify, capabilities
        self.greeting: Greeting | None = None

    async def initialize(self) -> Greeting:
        params = {
            "protocolVersion": HANDSHAKE_VERSIONS[-1],
            "capabilities": self._capabilities,
            "clientInfo": CLIENT_INFO,
        }
        self.greeting = initialized(await self._call(INITIALIZE, params, cancellable=False))
        await self._notify("notifications/initialized", None)
        return self.greeting

    async def discover(self, version: str) -> RawResult:
        meta = {
            VERSION_KEY: version,
            CLIENT_INFO_KEY: CLIENT_INFO,
            CAPABILITIES_KEY: self._capabilities,
        }
        params = {"_meta": meta}
        return await self._call(DISCOVER, params, timeout=_DISCOVER_TIMEOUT, cancellable=False)

    def adopt(self, found: RawResult) -> Greeting:
        self.greeting = discovered(found)
        return self.greeting


class SdkGreeter:
    """Greets through the SDK's session, which then talks to the server in the revision they agreed on."""

    def __init__(self, session: "ClientSession") -> None:
        self._session = session

    async def initialize(self) -> Greeting:
        from mcp.shared.exceptions import MCPError

        try:
            result = await self._session.initialize()
        except MCPError as error:
            raise RemoteError(error.code, error.message, error.data) from error
        return initialized(result.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def discover(self, version: str) -> RawResult:
        from mcp.shared.exceptions import MCPError

        try:
            return await self._session.send_discover(version)
        except MCPError as error:
            raise RemoteError(error.code, error.message, error.data) from error

    def adopt(self, found: RawResult) -> Greeting:
        greeting = discovered(found)
        self._session.adopt(as_sdk_result(greeting))
        return greeting
