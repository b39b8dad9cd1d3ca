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
from typing import TYPE_CHECKING

import anyio

from openclaw.core.tools import json_list, json_object
from openclaw.mcp_client.errors import CallFailed, RemoteError
from openclaw.mcp_client.session.greeting import MODERN_VERSIONS, Greeter, Greeting, discovered
from openclaw.mcp_client.session.jsonrpc import RawResult

if TYPE_CHECKING:
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
    greeter: Greeter, memory: EraMemory, turned_away: Callable[[], bool] | None = None
) -> tuple[Era, Greeting]:
    """Do the handshake that fits the server, and remember which one that was.

    `turned_away` says whether the last answer came from something in front of the server (a login,
    a maintenance page): that says nothing about its era. Without it, the server is a child process.
    """
    remembered = await anyio.to_thread.run_sync(memory.recall)
    probe = _Probe(greeter, turned_away or (lambda: False))
    try:
        if remembered is Era.LEGACY:
            era, greeting = await _initialize_first(greeter)
        else:
            era, greeting = await _discover_first(greeter, probe)
    except Exception:
        if remembered is None and turned_away is None:
            # A child that dies of the question is not asked again.
            await anyio.to_thread.run_sync(memory.remember, Era.LEGACY)
        raise
    if not probe.turned_away:
        await anyio.to_thread.run_sync(memory.remember, era)
    return era, greeting


async def _initialize_first(greeter: Greeter) -> tuple[Era, Greeting]:
    try:
        return Era.LEGACY, await greeter.initialize()
    except RemoteError as refusal:
        if refusal.code not in (_UNSUPPORTED_VERSION, _METHOD_NOT_FOUND):
            raise
    return Era.MODERN, greeter.adopt(await _discovered(greeter))


class _Probe:
    """`server/discover`, asked in a task of its own so that its answer may come late."""

    def __init__(self, greeter: Greeter, was_turned_away: Callable[[], bool]) -> None:
        self._greeter = greeter
        self._was_turned_away = was_turned_away
        self.turned_away = False
        self.done = anyio.Event()
        self.result: RawResult | None = None
        self.on_late_answer: Callable[[], None] = lambda: None

    async def ask(self) -> None:
        try:
            self.result = await _discovered(self._greeter)
            self.on_late_answer()
        except CallFailed as refusal:
            self.turned_away = self._was_turned_away()
            logger.debug("server/discover was refused: %s", refusal)
        finally:
            self.done.set()


async def _discovered(greeter: Greeter) -> RawResult:
    """What the server says of itself; asked again in its own revision if it doesn't know our newest."""
    try:
        result = await greeter.discover(MODERN_VERSIONS[-1])
    except RemoteError as refusal:
        if refusal.code != _UNSUPPORTED_VERSION:
            raise
        known = json_list(json_object(refusal.data).get("supported"))
        both = [version for version in MODERN_VERSIONS if version in known]
        if not both:
            raise
        result = await greeter.discover(both[-1])
    discovered(result)
    return result


async def _discover_first(greeter: Greeter, probe: _Probe) -> tuple[Era, Greeting]:
    """Ask; greet in the old way when the answer is no, or does not come.

    `initialize` may then stand behind a question that the server has not read yet, because it is
    still starting. A server that answers both answers the question first, and refuses the other.
    """
    greeting: Greeting | None = None
    era = Era.LEGACY
    async with anyio.create_task_group() as group:
        group.start_soon(probe.ask, name="server/discover")
        with anyio.move_on_after(STALL):
            await probe.done.wait()
        if probe.result is None:
            greeting = await _initialized(greeter, probe)
        if greeting is None:
            assert probe.result is not None
            era, greeting = Era.MODERN, greeter.adopt(probe.result)
        group.cancel_scope.cancel()
    assert greeting is not None
    return era, greeting


async def _initialized(greeter: Greeter, probe: _Probe) -> Greeting | None:
    """The greeting of a legacy server; None if it turned out to be a modern one."""
    with anyio.CancelScope() as scope:
        probe.on_late_answer = lambda: setattr(scope, "deadline", anyio.current_time() + LATE)
        try:
            return await greeter.initialize()
        except RemoteError as refusal:
            if refusal.code != _UNSUPPORTED_VERSION:
                raise
            await probe.done.wait()
            if probe.result is None:
                probe.result = await _discovered(greeter)
    return None
