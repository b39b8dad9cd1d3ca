"""Handles a server's notifications: logs them and passes them to subscribers."""

import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from openclaw.core.clock import Clock
from openclaw.core.tools import Elicit
from openclaw.mcp_client.bounds import LOG_BURST, LOG_LINES_PER_SECOND, RateLimit, printable
from openclaw.mcp_client.errors import CallFailed, RemoteError
from openclaw.mcp_client.session.listing import KINDS
from openclaw.mcp_client.session.negotiation import Era
from openclaw.mcp_client.session.server_session import ServerSession
from openclaw.mcp_client.session.server_tasks import EXTENSION
from openclaw.mcp_client.transport.child_process import RedactedLog
from openclaw.secrets.redactor import Redactor

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext, ClientSession
    from mcp.shared.dispatcher import Dispatcher
    from mcp_types import ListRootsResult
    from pydantic import BaseModel

logger = logging.getLogger(__name__)

AskHost = Elicit

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
}
_INVALID_REQUEST = -32600


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


class RequestHandlers:
    """Our answers to a server's requests, as the SDK's session wants them."""

    def __init__(
        self,
        server: str,
        roots: Sequence[Path],
        on_sampling: AskHost | None,
        on_elicitation: AskHost,
    ) -> None:
        self._server, self._roots = server, roots
        self._on_sampling, self._on_elicitation = on_sampling, on_elicitation

    def session(self, dispatcher: "Dispatcher[Any]") -> "ClientSession":
        """The SDK's session over this dispatcher, which offers only what we can do."""
        from mcp.client.session import ClientSession
        from mcp_types import CreateMessageResult, ElicitResult, Implementation

        from openclaw.version import __version__

        return ClientSession(
            dispatcher=dispatcher,
            client_info=Implementation(name="openclaw", version=__version__),
            list_roots_callback=self._list_roots,
            sampling_callback=self._callback(self._on_sampling, CreateMessageResult),
            elicitation_callback=self._callback(self._on_elicitation, ElicitResult),
        )

    def capabilities(self) -> dict[str, Any]:
        return {
            "roots": {"listChanged": True},
            "extensions": {EXTENSION: {}},
            "elicitation": {"form": {}, "url": {}},
            **({} if self._on_sampling is None else {"sampling": {}}),
        }

    async def _list_roots(self, context: "ClientRequestContext") -> "ListRootsResult":
        from mcp_types import ListRootsResult

        roots = [{"uri": path.absolute().as_uri(), "name": path.name} for path in self._roots]
        return ListRootsResult.model_validate({"roots": roots})

    def _callback(self, ask: AskHost | None, kind: "type[BaseModel]") -> Any:
        """The SDK's callback for requests that the host answers; None if it does not."""
        from mcp_types import ErrorData

        if ask is None:
            return None

        async def answer(context: "ClientRequestContext", params: "BaseModel") -> "BaseModel":
            try:
                request = params.model_dump(by_alias=True, mode="json", exclude_none=True)
                return kind.model_validate(dict(await ask(self._server, request)))
            except Exception as error:  # noqa: BLE001  the host's refusal is the server's answer
                logger.warning("a request from an MCP server was refused: %s", error)
                return ErrorData(code=_INVALID_REQUEST, message="the host refused")

        return answer


COALESCE = 0.2  # seconds after a refresh in which further changes are gathered for the next one
MAX_UPDATES = 1000  # updated resources that are remembered between two refreshes
SUBSCRIBE_TIMEOUT = 10.0
MIN_TTL = 30.0  # seconds that a catalogue stays fresh at least, whatever the server says
MAX_RETRIES = 8  # how often a failed refresh is tried again, after longer and longer pauses

_FIRST_PAUSE, _LAST_PAUSE = 1.0, 30.0


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
            if session.handshake_result.era is Era.MODERN:
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
        subscribed = session.handshake_result.era is not Era.LEGACY or await self._subscribe(
            session
        )
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
        """Hold the modern era's one stream of changes open; the events come as notifications."""
        await session.sdk()  # imports the SDK without blocking the event loop
        from mcp.client.subscriptions import SubscriptionLost
        from mcp.shared.exceptions import MCPError

        pause = _FIRST_PAUSE
        while True:
            try:
                with anyio.CancelScope() as self._listening:
                    await self._listen_once(session)
                if not self._listening.cancelled_caught:  # the server closed it normally
                    return
            except SubscriptionLost:
                self._stale.update(KINDS)
                self._wake.set()
                await anyio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
            except MCPError as error:
                logger.debug("the server does not report changes: %s", error)
                return

    async def _listen_once(self, session: ServerSession) -> None:
        from mcp.client.subscriptions import listen

        offered = session.handshake_result.capabilities
        tools, resources, prompts = (
            offered.get(kind, {}).get("listChanged") is True for kind in KINDS
        )
        if not (tools or resources or prompts or self._wanted):
            await anyio.sleep_forever()  # until there is something to ask for
        async with listen(
            await session.sdk(),
            tools_list_changed=tools,
            resources_list_changed=resources,
            prompts_list_changed=prompts,
            resource_subscriptions=self._wanted,
        ) as subscription:
            async for _ in subscription:
                pass


async def _is_done(step: Awaitable[object]) -> bool:
    """Whether this need not be tried again: a server that refuses would refuse again."""
    try:
        return await step is not False
    except CallFailed as failure:
        logger.debug("a change could not be followed: %s", failure)
        return isinstance(failure, RemoteError)
