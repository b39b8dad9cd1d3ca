"""Handles a server's notifications: logs them and passes them to subscribers."""

import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio

from openclaw.core.clock import Clock
from openclaw.core.rate_limit import RateLimit
from openclaw.core.tools import json_object
from openclaw.mcp import names
from openclaw.mcp.jsonrpc import CONNECTION_CLOSED, METHOD_NOT_FOUND
from openclaw.mcp_client.bounds import LOG_BURST, LOG_LINES_PER_SECOND, printable
from openclaw.mcp_client.errors import CallFailed, RemoteError
from openclaw.mcp_client.session.listing import KINDS
from openclaw.mcp_client.session.server_session import ServerSession
from openclaw.mcp_client.transport.child_process import RedactedLog
from openclaw.secrets.redactor import Redactor

logger = logging.getLogger(__name__)

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
}


class NotificationHandler:
    """Dispatches a server's notifications. Its log messages only go to our own log."""

    def __init__(
        self, server: str, listener: "ChangeSubscription", redactor: Redactor, clock: Clock
    ) -> None:
        self._server, self._listener, self._clock = server, listener, clock
        self._redact, self._lines = redactor.redact, RedactedLog(redactor, self._write)
        self._levels: deque[int] = deque()  # of the lines that were not written yet
        self._limit = RateLimit(LOG_LINES_PER_SECOND, LOG_BURST)

    def notification(self, method: str, params: Mapping[str, Any] | None) -> None:
        match method.removeprefix("notifications/").split("/"):
            case ["message"]:
                self._log(params or {})
            case ["tools" | "resources" | "prompts" as kind, "list_changed"]:
                self._listener.list_changed(kind)
            case ["resources", "updated"]:
                uri = (params or {}).get("uri")
                if isinstance(uri, str):
                    self._listener.resource_updated(uri)
            case _:
                pass

    def _log(self, params: Mapping[str, Any]) -> None:
        if not self._limit.allows(self._clock.monotonic()):
            return
        # A server's own error is only a warning to whoever runs us.
        level = _LEVELS.get(str(params.get("level")), logging.WARNING)
        if logger.isEnabledFor(level):
            text = printable(self._redact(str(params.get("data"))[:65536]))
            if text.strip():
                self._levels.append(level)
                self._lines.feed(f"{text}\n")

    def _write(self, line: str) -> None:
        logger.log(self._levels.popleft(), "MCP server '%s' says: %s", self._server, line)


COALESCE = 0.2  # seconds after a refresh in which further changes are gathered for the next one
MAX_UPDATES = 1000  # updated resources that are remembered between two refreshes
SUBSCRIBE_TIMEOUT = 10.0
MIN_TTL = 30.0  # seconds that a catalogue stays fresh at least, whatever the server says
MAX_RETRIES = 8  # how often a failed refresh is tried again, after longer and longer pauses

_FIRST_PAUSE, _LAST_PAUSE, _LAST_LISTEN_PAUSE = 1.0, 30.0, 300.0


class ChangeSubscription:
    """Collects changes, and reports them from its own task."""

    def __init__(
        self,
        refresh: Callable[[ServerSession, str], Awaitable[bool]],
        updated: Callable[[str], None],
    ) -> None:
        self._refresh, self._updated = refresh, updated
        self._stale: set[str] = set()
        self._touched: set[str] = set()
        self._wanted: tuple[str, ...] = ()
        self._subscribed: set[str] = set()
        self._due: dict[str, float] = {}
        self._wake = anyio.Event()
        self._listening: anyio.CancelScope | None = None

    def list_changed(self, kind: str) -> None:
        self._stale.add(kind)
        self._wake.set()

    def stale_after(self, kind: str, seconds: float) -> None:
        self._due[kind] = anyio.current_time() + max(seconds, MIN_TTL)

    def resource_updated(self, uri: str) -> None:
        if len(self._touched) < MAX_UPDATES:
            self._touched.add(uri)
            self._wake.set()

    def want_updates(self, uris: Sequence[str]) -> None:
        self._wanted = tuple(uris)
        if self._listening is not None:
            self._listening.cancel()
        self._wake.set()

    async def run(self, session: ServerSession) -> None:
        async with anyio.create_task_group() as group:
            if session.handshake_result.revision.listen:
                group.start_soon(self._listen, session, name="subscriptions/listen")
            failures = 0
            while True:
                with anyio.CancelScope(deadline=min(self._due.values(), default=math.inf)):
                    await self._wake.wait()
                self._wake = anyio.Event()
                now = anyio.current_time()
                self._stale |= {kind for kind, due in self._due.items() if due <= now}
                self._due = {kind: due for kind, due in self._due.items() if due > now}
                failures = 0 if await self._catch_up(session) else failures + 1
                await anyio.sleep(COALESCE)
                if 0 < failures <= MAX_RETRIES:
                    with anyio.move_on_after(min(_FIRST_PAUSE * 2 ** (failures - 1), _LAST_PAUSE)):
                        await self._wake.wait()
                    self._wake.set()

    async def _catch_up(self, session: ServerSession) -> bool:
        """Refresh what changed; returns False if that failed and is still due."""
        stale, self._stale = self._stale, set()
        touched, self._touched = self._touched, set()
        for kind in sorted(stale):
            if not await _is_done(self._refresh(session, kind)):
                self._stale.add(kind)
        by_listening = session.handshake_result.revision.listen
        subscribed = by_listening or await self._subscribe(session)
        for uri in sorted(touched):
            self._updated(uri)
        return not self._stale and subscribed

    async def _subscribe(self, session: ServerSession) -> bool:
        if session.handshake_result.capabilities.get("resources", {}).get("subscribe") is not True:
            return True
        wanted, ask = set(self._wanted), partial(session.request, timeout=SUBSCRIBE_TIMEOUT)
        for uri in sorted(self._subscribed - wanted):
            self._subscribed.discard(uri)
            await _is_done(ask("resources/unsubscribe", {"uri": uri}))
        for uri in sorted(wanted - self._subscribed):
            if await _is_done(ask("resources/subscribe", {"uri": uri})):
                self._subscribed.add(uri)
        return wanted <= self._subscribed

    async def _listen(self, session: ServerSession) -> None:
        """Hold one stream of changes open (2026-07-28); the events come as notifications."""
        pause, uris = _FIRST_PAUSE, True
        while True:
            started = anyio.current_time()
            try:
                with anyio.CancelScope() as self._listening:
                    await self._listen_once(session, self._wanted if uris else ())
                if self._listening.cancelled_caught:  # other resources are wanted now
                    uris = True
                    continue
                # The server closed it normally, and may do so again.
            except RemoteError as refusal:
                if refusal.code == METHOD_NOT_FOUND:
                    return
                if refusal.code != CONNECTION_CLOSED:
                    logger.debug("the server does not report these changes: %s", refusal)
                    uris = not (uris and self._wanted)  # it may be one of the resources
            except CallFailed as failure:
                logger.debug("the stream of changes broke off: %s", failure)
            if anyio.current_time() - started > _LAST_LISTEN_PAUSE:
                pause = _FIRST_PAUSE
            self._stale.update(KINDS)
            self._wake.set()
            await anyio.sleep(pause)
            pause = min(2 * pause, _LAST_LISTEN_PAUSE)

    async def _listen_once(self, session: ServerSession, uris: Sequence[str]) -> None:
        offered = session.handshake_result.capabilities
        changes: dict[str, Any] = {
            f"{kind}ListChanged": True
            for kind in KINDS
            if json_object(offered.get(kind)).get("listChanged") is True
        }
        if uris:
            changes["resourceSubscriptions"] = list(uris)
        if not changes:
            await anyio.sleep_forever()  # until there is something to ask for
        await session.caller.call(names.LISTEN, {"notifications": changes})


async def _is_done(step: Awaitable[object]) -> bool:
    """Whether this need not be tried again: a server that refuses would refuse again."""
    try:
        return await step is not False
    except CallFailed as failure:
        logger.debug("a change could not be followed: %s", failure)
        return isinstance(failure, RemoteError)
