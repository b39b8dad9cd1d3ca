"""Our eyes and answers on either of the two dispatchers that a session may run on."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.abc

from openclaw.mcp_client.session.notifications import Answers, Incoming

if TYPE_CHECKING:
    from mcp.shared.dispatcher import (
        CallOptions,
        DispatchContext,
        Dispatcher,
        OnNotify,
        OnNotifyIntercept,
        OnRequest,
    )
    from mcp.shared.transport_context import TransportContext


class InterceptingDispatcher:
    """A dispatcher whose notifications go to `incoming` alone. `over` is set when it has ended.

    `serving` is entered for as long as the server waits for an answer of ours.
    """

    def __init__(
        self,
        inner: "Inner",
        incoming: Incoming,
        answers: Answers,
        over: anyio.Event,
        serving: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._inner, self._incoming, self._answers = inner, incoming, answers
        self._over, self._serving = over, serving
        self.send_raw_request = inner.send_raw_request
        self.notify = inner.notify

    async def run(
        self,
        on_request: "OnRequest",
        on_notify: "OnNotify",
        on_notify_intercept: "OnNotifyIntercept | None" = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        async def request(
            context: "DispatchContext[TransportContext]",
            method: str,
            params: Mapping[str, Any] | None,
        ) -> dict[str, Any]:
            declined = self._answers.declines(method)
            if declined is not None:
                return declined
            with self._serving():
                return await on_request(context, method, params)

        def notification(method: str, params: Mapping[str, Any] | None) -> bool:
            if on_notify_intercept is None or not on_notify_intercept(method, params):
                self._incoming.notification(method, params)
            return True

        try:
            await self._inner.run(request, on_notify, notification, task_status=task_status)
        finally:
            self._over.set()


class Inner(Protocol):
    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: "CallOptions | None" = None
    ) -> dict[str, Any]: ...

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: "CallOptions | None" = None
    ) -> None: ...

    async def run(
        self,
        on_request: "OnRequest",
        on_notify: "OnNotify",
        on_notify_intercept: "OnNotifyIntercept | None" = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None: ...


def as_dispatcher(hooked: InterceptingDispatcher) -> "Dispatcher[Any]":
    """The same, checked against the SDK's own protocol."""
    return hooked
