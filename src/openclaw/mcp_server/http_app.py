"""The same server over Streamable HTTP: stateless at 2026-07-28, with sessions before."""

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from openclaw.core.clock import random_id
from openclaw.mcp_server.order_tasks import OrderTasks
from openclaw.mcp_server.order_tool import Principal
from openclaw.mcp_server.server import PERSON

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server
    from mcp_types import JSONRPCMessage
    from starlette.types import Receive, Scope, Send

_MOST_SESSIONS = 1000
_KEPT_BYTES = 4 << 20


class RecentEvents(EventStore):
    """One session's last events, in case its connection breaks; the oldest are dropped first."""

    def __init__(self, most_bytes: int = _KEPT_BYTES) -> None:
        self._most, self._bytes, self._last = most_bytes, 0, 0
        self._prefix = random_id()  # ids of an earlier process are not taken for ours
        self._events: OrderedDict[str, tuple[str, JSONRPCMessage | None, int]] = OrderedDict()

    async def store_event(self, stream_id: str, message: "JSONRPCMessage | None") -> str:
        self._last += 1
        name = f"{self._prefix}-{self._last}"
        size = len(message.model_dump_json(by_alias=True)) if message is not None else 0
        self._events[name] = (stream_id, message, size)
        self._bytes += size
        while self._bytes > self._most and len(self._events) > 1:
            self._bytes -= self._events.popitem(last=False)[1][2]
        return name

    async def replay_events_after(
        self, last_event_id: str, send_callback: EventCallback
    ) -> str | None:
        """Send what the same stream had after this event; None if the event is not known."""
        found = self._events.get(last_event_id)
        if found is None:
            return None
        names = list(self._events)
        for name in names[names.index(last_event_id) + 1 :]:
            stream, message, _ = self._events[name]
            if stream == found[0] and message is not None:
                await send_callback(EventMessage(message, name))
        return found[0]


class _Sessions(StreamableHTTPSessionManager):
    """Gives each session its own events: streams of two sessions have the same names."""

    @property
    def event_store(self) -> EventStore | None:
        return RecentEvents()

    @event_store.setter
    def event_store(self, value: EventStore | None) -> None:
        """Ignored: the manager sets one for all sessions."""


@dataclass(frozen=True, slots=True)
class HttpApp:
    """The application, behind a guard that has checked Host, Origin and token.

    A session belongs to the person who opened it: to anybody else it does not exist.
    """

    manager: StreamableHTTPSessionManager
    tasks: OrderTasks
    who: "Callable[[Scope], Principal]"

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        person = self.who(scope)
        scope["user"] = AuthenticatedUser(AccessToken(token="", client_id=person.name, scopes=[]))
        scope[PERSON] = person
        await self.manager.handle_request(scope, receive, send)


@asynccontextmanager
async def serve_http(
    server: "Server[Any]",
    tasks: OrderTasks,
    *,
    most_bytes: int,
    who: "Callable[[Scope], Principal]",
) -> AsyncGenerator[HttpApp]:
    manager = _Sessions(server, max_request_body_size=most_bytes, max_sessions=_MOST_SESSIONS)
    async with manager.run():
        yield HttpApp(manager, tasks, who)
