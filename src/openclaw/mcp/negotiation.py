"""Finding out which revisions a server speaks, with the handshakes of the protocol's two eras.

Servers up to 2025-11-25 take `initialize`, later ones `server/discover`. Some of the former do not
answer methods that they do not know, so asking costs time: `STALL` at most, and only where the era
is not known.

    state         discover    discover    initialize  initialize     at the
                  answered    refused     answered    refused        deadline
    ------------  ----------  ----------  ----------  -------------  ------------
    DISCOVERING   MODERN      ask INIT →                             ask INIT →
                              INITIAL.                               BOTH
    BOTH          LATE        INITIAL.    LEGACY      WAITING or     -
                                                      failed
    LATE                                  LEGACY      MODERN         MODERN
    WAITING       MODERN      failed
    INITIALIZING                          LEGACY      ask DISCOVER → -
                                                      WAITING or
                                                      failed

"INITIAL." is INITIALIZING. A refusal of `initialize` leads to WAITING if it means that the server
speaks only later revisions. A server that answers both answers `server/discover` first and refuses
the other; one that is still starting answers `server/discover` late.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from math import inf
from typing import Any, cast

from openclaw.mcp import names
from openclaw.mcp.jsonrpc import METHOD_NOT_FOUND, UNSUPPORTED_VERSION, ErrorData, JsonObject
from openclaw.mcp.revisions import (
    HANDSHAKE_REVISIONS,
    LATEST,
    LATEST_WITH_HANDSHAKE,
    REVISIONS,
    Revision,
)

STALL = 2.0  # seconds that a server of unknown era has to answer `server/discover`
LATE_SECONDS = 1.0  # that `initialize` has, once a late answer to `server/discover` has come in
DISCOVER_SECONDS = 10.0

_CAPABILITIES = (
    "completions", "experimental", "extensions", "logging", "prompts", "resources", "tasks", "tools",
)  # fmt: skip


class NotUnderstood(Exception):
    """Raised when a server's answer to the handshake is not valid, or in a revision unknown to us."""


@dataclass(frozen=True, slots=True)
class Handshake:
    """What a server said about itself; `capabilities` are those that we know, each an object."""

    revision: Revision
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str | None = None
    version: str | None = None
    instructions: str | None = None


def initialized(result: JsonObject) -> Handshake:
    """What the result of `initialize` says; raises `NotUnderstood`."""
    protocol, info = result.get("protocolVersion"), _object(result.get("serverInfo"))
    if protocol not in HANDSHAKE_REVISIONS:
        raise NotUnderstood(
            f"it speaks MCP revision {str(protocol)[:64]!r}, which is not supported"
        )
    if not isinstance(info.get("name"), str) or not isinstance(info.get("version"), str):
        raise NotUnderstood("its answer to initialize does not name the server and its version")
    return _parsed(result, REVISIONS[protocol], info)


def discovered(result: JsonObject) -> Handshake:
    """What the result of `server/discover` says; raises `NotUnderstood`."""
    supported = result.get("supportedVersions")
    if LATEST.name not in _texts(supported):
        raise NotUnderstood("it speaks no MCP revision that is supported")
    info = _object(_object(result.get("_meta")).get(names.META_SERVER))
    return _parsed(result, LATEST, info)


def _parsed(result: JsonObject, revision: Revision, info: JsonObject) -> Handshake:
    capabilities, instructions = result.get("capabilities"), result.get("instructions")
    if not isinstance(capabilities, dict) or not isinstance(instructions, str | None):
        raise NotUnderstood("its answer to the handshake is not valid MCP")
    offered = {name: _object(result["capabilities"]).get(name) for name in _CAPABILITIES}
    if not all(isinstance(capability, dict | None) for capability in offered.values()):
        raise NotUnderstood("its capabilities are not valid MCP")
    name, version = info.get("name"), info.get("version")
    return Handshake(
        revision,
        {name: capability for name, capability in offered.items() if capability is not None},
        name if isinstance(name, str) else None,
        version if isinstance(version, str) else None,
        instructions,
    )


def own_meta(client_info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> JsonObject:
    """What every request at 2026-07-28 says about us in its `_meta`."""
    return {
        names.META_VERSION: LATEST.name,
        names.META_CLIENT: dict(client_info),
        names.META_CAPABILITIES: dict(capabilities),
    }


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _texts(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


class Phase(Enum):
    DISCOVERING = auto()
    BOTH = auto()
    LATE = auto()
    WAITING = auto()
    INITIALIZING = auto()
    DONE = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True)
class Ask:
    method: str
    params: JsonObject
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class NotAnswered:
    """A request of the handshake got no answer from the server: a timeout, or no connection."""

    reason: object = None


Refusal = ErrorData | NotUnderstood | NotAnswered


class Negotiation:
    """Feed it the outcome of each request that it asks for, and the time.

    `result` is there once it is done; `failure` is the refusal that ended it.
    """

    def __init__(
        self, client_info: Mapping[str, Any], capabilities: Mapping[str, Any], stall: float = STALL
    ) -> None:
        self._client_info, self._capabilities = client_info, capabilities
        self._stall = stall
        self.phase = Phase.DISCOVERING
        self.deadline = inf
        self.result: Handshake | None = None
        self.failure: Refusal | None = None
        self._modern: Handshake | None = None
        self._asked_again = False

    @property
    def is_over(self) -> bool:
        return self.phase in (Phase.DONE, Phase.FAILED)

    def start(self, now: float, *, legacy: bool = False) -> list[Ask]:
        """The first request; `legacy` if the server is known to be of the earlier era."""
        if legacy:
            self.phase = Phase.INITIALIZING
            return [self._initialize()]
        self.deadline = now + self._stall
        return [self._discover()]

    def answered(self, method: str, result: JsonObject, now: float) -> list[Ask]:
        try:
            handshake = discovered(result) if method == names.DISCOVER else initialized(result)
        except NotUnderstood as problem:
            return self.refused(method, problem, now)
        if method == names.INITIALIZE or self.phase in (Phase.DISCOVERING, Phase.WAITING):
            self._end(handshake)
        elif self.phase is Phase.BOTH:
            self._modern = handshake
            self.phase, self.deadline = Phase.LATE, now + LATE_SECONDS
        return []

    def refused(self, method: str, refusal: Refusal, now: float) -> list[Ask]:
        if method == names.DISCOVER:
            return self._discover_refused(refusal)
        return self._initialize_refused(refusal)

    def _discover_refused(self, refusal: Refusal) -> list[Ask]:
        if self._may_ask_again(refusal):
            self._asked_again = True
            return [self._discover()]
        match self.phase:
            case Phase.DISCOVERING:
                self.phase, self.deadline = Phase.INITIALIZING, inf
                return [self._initialize()]
            case Phase.BOTH:
                self.phase = Phase.INITIALIZING
            case Phase.WAITING:
                self._fail(refusal)
            case _:
                pass
        return []

    def _may_ask_again(self, refusal: Refusal) -> bool:
        """Whether it refuses a revision that it says it does support."""
        if not isinstance(refusal, ErrorData) or refusal.code != UNSUPPORTED_VERSION:
            return False
        supported = _texts(_object(refusal.data).get("supported"))
        return LATEST.name in supported and not self._asked_again

    def _initialize_refused(self, refusal: Refusal) -> list[Ask]:
        code = refusal.code if isinstance(refusal, ErrorData) else None
        if self.phase is Phase.LATE:
            self._end(self._modern)
        elif self.phase is Phase.BOTH and code == UNSUPPORTED_VERSION:
            self.phase = Phase.WAITING
        elif self.phase is Phase.INITIALIZING and code in (UNSUPPORTED_VERSION, METHOD_NOT_FOUND):
            self.phase = Phase.WAITING
            return [self._discover()]
        elif not self.is_over:
            self._fail(refusal)
        return []

    def expire(self, now: float) -> list[Ask]:
        if now < self.deadline:
            return []
        self.deadline = inf
        if self.phase is Phase.LATE:
            self._end(self._modern)
        elif self.phase is Phase.DISCOVERING:
            self.phase = Phase.BOTH
            return [self._initialize()]
        return []

    def _end(self, result: Handshake | None) -> None:
        self.phase, self.deadline, self.result = Phase.DONE, inf, result

    def _fail(self, refusal: Refusal) -> None:
        self.phase, self.deadline, self.failure = Phase.FAILED, inf, refusal

    def _initialize(self) -> Ask:
        # Earlier revisions have no extensions among the capabilities.
        offered = {k: v for k, v in self._capabilities.items() if k != "extensions"}
        return Ask(
            names.INITIALIZE,
            {
                "protocolVersion": LATEST_WITH_HANDSHAKE.name,
                "capabilities": offered,
                "clientInfo": dict(self._client_info),
            },
        )

    def _discover(self) -> Ask:
        meta = own_meta(self._client_info, self._capabilities)
        return Ask(names.DISCOVER, {"_meta": meta}, DISCOVER_SECONDS)
