"""A session over a pipe that imports the SDK only if the server asks for something."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Self

import anyio
import anyio.abc

from openclaw.mcp_client.errors import Interrupted
from openclaw.mcp_client.session.dispatcher import InterceptingDispatcher, PipeDispatcher
from openclaw.mcp_client.session.greeting import RawGreeter, as_sdk_result
from openclaw.mcp_client.session.notifications import Answers

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.shared.dispatcher import DispatchContext, OnNotify, OnNotifyIntercept, OnRequest
    from mcp.shared.transport_context import TransportContext


class PipeSession:
    """Runs the dispatcher and greets; `sdk` makes the SDK's own session, which then takes over.

    Importing it takes a third of a start, and most servers never ask for roots, for the model or
    for a person.
    """

    def __init__(
        self,
        dispatcher: PipeDispatcher,
        hooked: InterceptingDispatcher,
        answers: Answers,
        load: Callable[[str], Awaitable[None]],
    ) -> None:
        self._hooked, self._answers, self._load = hooked, answers, load
        offered = {k: v for k, v in answers.capabilities().items() if k != "extensions"}
        self.greeter = RawGreeter(dispatcher.call, dispatcher.notify, offered)
        self._group: anyio.abc.TaskGroup | None = None
        self._making = anyio.Lock()
        self._sdk: ClientSession | None = None
        self._relay = _Relay(dispatcher)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Self]:
        async with anyio.create_task_group() as self._group:
            run, intercepts = self._hooked.run, self._relay.intercepts
            await self._group.start(run, self._on_request, _ignored, intercepts)
            try:
                yield self
            finally:
                self._group.cancel_scope.cancel()

    async def sdk(self) -> "ClientSession":
        """The SDK's session; a server may need it before it is greeted. Raises `Interrupted`."""
        async with self._making:
            if self._sdk is None:
                self._sdk = await self._make()
            greeting = self.greeter.greeting
            if greeting is not None and self._sdk.protocol_version is None:
                self._sdk.adopt(as_sdk_result(greeting))
            return self._sdk

    async def _make(self) -> "ClientSession":
        assert self._group is not None
        await self._load("mcp.client.session")
        session = self._answers.session(self._relay)
        try:
            await self._group.start(_hold, session, name="the SDK's session")
        except RuntimeError:  # the connection was closed meanwhile
            raise Interrupted("it ended") from None
        return session

    async def _on_request(
        self,
        context: "DispatchContext[TransportContext]",
        method: str,
        params: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        await self.sdk()
        assert self._relay.on_request is not None
        return await self._relay.on_request(context, method, params)


class _Relay:
    """The dispatcher as the SDK's session gets it: already running, with its requests handed on."""

    def __init__(self, inner: PipeDispatcher) -> None:
        self.send_raw_request, self.notify = inner.send_raw_request, inner.notify
        self.on_request: OnRequest | None = None
        self._intercept: OnNotifyIntercept | None = None

    async def run(
        self,
        on_request: "OnRequest",
        on_notify: "OnNotify",
        on_notify_intercept: "OnNotifyIntercept | None" = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        self.on_request, self._intercept = on_request, on_notify_intercept
        task_status.started()
        await anyio.sleep_forever()

    def intercepts(self, method: str, params: Mapping[str, Any] | None) -> bool:
        return self._intercept is not None and self._intercept(method, params)


async def _hold(session: "ClientSession", *, task_status: anyio.abc.TaskStatus[None]) -> None:
    async with session:
        task_status.started()
        await anyio.sleep_forever()


async def _ignored(
    context: "DispatchContext[TransportContext]", method: str, params: Mapping[str, Any] | None
) -> None:
    """Never called: every notification is intercepted."""
