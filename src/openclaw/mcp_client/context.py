"""What a handler of a server's request is given, in the SDK's terms."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.dispatcher import CallOptions
from mcp.shared.transport_context import TransportContext

if TYPE_CHECKING:
    from openclaw.mcp_client.dispatcher import PipeDispatcher

_TRANSPORT = TransportContext(kind="stdio", can_send_request=True)


class PipeContext:
    """The SDK's `DispatchContext` for a request that came through a pipe."""

    transport = _TRANSPORT
    can_send_request = True
    message_metadata = None

    def __init__(self, dispatcher: "PipeDispatcher", request_id: int | str) -> None:
        self._dispatcher = dispatcher
        self.request_id = request_id
        self.cancel_requested = anyio.Event()

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask the server something while its own request is handled."""
        return await self._dispatcher.send_raw_request(method, params, opts)

    async def notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> None:
        """Tell the server something while its own request is handled."""
        await self._dispatcher.notify(method, params, opts)

    async def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Our handlers are quick: nothing to report."""
