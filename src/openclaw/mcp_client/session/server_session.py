"""An open connection to a server, over any transport."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc

from openclaw.mcp_client.errors import Interrupted, InvalidResult, RemoteError, Unavailable
from openclaw.mcp_client.imports import load
from openclaw.mcp_client.session import negotiation
from openclaw.mcp_client.session.jsonrpc import OnProgress, RawResult

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.shared.dispatcher import DispatchContext, OnNotify, OnNotifyIntercept, OnRequest
    from mcp.shared.transport_context import TransportContext

    from openclaw.mcp_client.session.dispatcher import PipeDispatcher
    from openclaw.mcp_client.session.http import StreamDispatcher
    from openclaw.mcp_client.session.notifications import NotificationHandler, RequestHandlers


class RequestMetadata:
    """Adds the modern era's `_meta` to a request, and over HTTP its headers."""

    def __init__(
        self, result: negotiation.HandshakeResult, capabilities: Mapping[str, Any], *, http: bool
    ) -> None:
        self._version, self._http = result.protocol, http
        self._modern = result.era is negotiation.Era.MODERN
        self._meta = {**negotiation.own_meta(capabilities), _LOG_LEVEL_KEY: _log_level()}
        self._parameter_headers: dict[str, Any] = {}

    @property
    def blank(self) -> bool:
        return not self._modern and not self._http

    def refuses(self, schema: Mapping[str, Any]) -> str | None:
        """Why a tool with this schema can't be called: the headers that it names are invalid."""
        if not (self._modern and self._http):
            return None
        from mcp.shared.inbound import find_invalid_x_mcp_header

        return find_invalid_x_mcp_header(schema)

    def learn(self, tools: Mapping[str, Mapping[str, Any]]) -> None:
        if self._modern and self._http:
            from mcp.shared.inbound import x_mcp_header_map

            self._parameter_headers = {
                name: x_mcp_header_map(schema) for name, schema in tools.items()
            }

    def params(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self._modern:
            return params
        return {**params, "_meta": {**(params.get("_meta") or {}), **self._meta}}

    def headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        from mcp.shared import inbound

        headers = {inbound.MCP_PROTOCOL_VERSION_HEADER: self._version}
        if not self._modern:
            return headers
        headers[inbound.MCP_METHOD_HEADER] = method
        key = "taskId" if method in _TASK_METHODS else inbound.NAME_BEARING_METHODS.get(method)
        name = params.get(key) if key is not None else None
        if isinstance(name, str):
            headers[inbound.MCP_NAME_HEADER] = inbound.encode_header_value(name)
            mapping = self._parameter_headers.get(name) if method == "tools/call" else None
            if mapping:
                headers.update(inbound.mcp_param_headers(mapping, params.get("arguments") or {}))
        return headers


def _log_level() -> str:
    """The lowest level of a server's log messages that we show; it need not send the others."""
    level = logging.getLogger(__name__).getEffectiveLevel()
    if level <= logging.DEBUG:
        return "debug"
    return "info" if level <= logging.INFO else "warning"


MAX_ROUNDS = 10  # how often a server may ask for more input before it gives the result of one call

_FIRST_PAUSE, _LAST_PAUSE = 0.05, 0.25
_LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel"
_TASK_METHODS = ("tasks/get", "tasks/update", "tasks/cancel")


class ServerSession:
    """A connection to a server. The handshake needs no SDK; after it, `request` may be used.

    `sdk` creates the SDK's own session, which from then on handles the server's requests: importing
    it takes a third of the start-up time, and most servers never ask for roots, sampling or
    elicitation.
    """

    handshake_result: negotiation.HandshakeResult
    request_metadata: RequestMetadata

    def __init__(
        self,
        dispatcher: "PipeDispatcher | StreamDispatcher",
        incoming: "NotificationHandler",
        answers: "RequestHandlers",
        transport: str,
        pid: int | None = None,
    ) -> None:
        self.dispatcher, self.transport, self.pid = dispatcher, transport, pid
        self.send_raw_request, self.notify = dispatcher.send_raw_request, dispatcher.notify
        self._incoming, self._answers = incoming, answers
        offered = {k: v for k, v in answers.capabilities().items() if k != "extensions"}
        self._negotiator = negotiation.Negotiator(dispatcher.call, dispatcher.notify, offered)
        self._group: anyio.abc.TaskGroup | None = None
        self._sdk_lock = anyio.Lock()
        self._sdk: ClientSession | None = None
        self._sdk_on_request: OnRequest | None = None
        self._sdk_intercept: OnNotifyIntercept | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as self._group:
            await self._group.start(self._serve)
            try:
                yield
            finally:
                self._group.cancel_scope.cancel()

    async def _serve(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        run = self.dispatcher.run
        try:
            await run(self._on_request, self._on_notification, task_status=task_status)
        finally:
            self.dispatcher.lost.set()

    async def handshake(
        self, memory: negotiation.EraMemory, turned_away: Callable[[], bool] | None = None
    ) -> None:
        self.handshake_result = await self._negotiator.negotiate(memory, turned_away)
        http, offered = self.transport != "stdio", self._answers.capabilities()
        self.request_metadata = RequestMetadata(self.handshake_result, offered, http=http)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        timeout: float | None,
        on_progress: OnProgress | None = None,
    ) -> RawResult:
        """One request, with as many rounds of input as the server asks for."""
        send = partial(self._send, method, timeout=timeout, on_progress=on_progress)
        result, pause = await send(params), _FIRST_PAUSE
        for asked in range(MAX_ROUNDS + 1):
            if result.get("resultType") != "input_required":
                return result
            if asked == MAX_ROUNDS:
                break
            answers = await self.answers(result)
            if not answers:
                await anyio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
            again = {**params, "inputResponses": answers} if answers else dict(params)
            if (state := result.get("requestState")) is not None:
                again["requestState"] = state
            try:
                result = await send(again)
            except Unavailable as gone:  # an earlier round was sent, so it must not be repeated
                raise Interrupted(gone.reason) from None
        raise InvalidResult(f"the server asked for input more than {MAX_ROUNDS} times")

    def _send(self, method: str, params: Mapping[str, Any], **options: Any) -> Awaitable[RawResult]:
        if not self.request_metadata.blank:
            options["headers"] = self.request_metadata.headers(method, params)
            params = self.request_metadata.params(params)
        return self.dispatcher.call(method, params, **options)

    async def answers(self, result: RawResult) -> dict[str, Any]:
        session = await self.sdk()
        from mcp.client.session import ClientRequestContext
        from mcp_types import ErrorData, InputRequiredResult

        try:
            wanted = InputRequiredResult.model_validate(result).input_requests or {}
        except ValueError:
            raise InvalidResult(
                "the server asks for input in a form that MCP does not have"
            ) from None
        answers: dict[str, Any] = {}
        for key, request in wanted.items():
            context = ClientRequestContext(session=session, request_id=key)
            answer = await session.dispatch_input_request(context, request)
            if isinstance(answer, ErrorData):
                raise RemoteError(answer.code, f"the server needs input: {answer.message}")
            answers[key] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        return answers

    async def sdk(self) -> "ClientSession":
        """The SDK's session; may be needed before the handshake is done. Raises `Interrupted`."""
        async with self._sdk_lock:
            if self._sdk is None:
                self._sdk = await self._make_sdk()
            result = self._negotiator.result
            if result is not None and self._sdk.protocol_version is None:
                self._sdk.adopt(negotiation.as_sdk_result(result))
            return self._sdk

    async def _make_sdk(self) -> "ClientSession":
        assert self._group is not None
        await load("mcp.client.session")
        session = self._answers.session(self)
        try:
            await self._group.start(_hold, session, name="the SDK's session")
        except RuntimeError:  # the connection was closed meanwhile
            raise Interrupted("it ended") from None
        return session

    async def run(
        self,
        on_request: "OnRequest",
        on_notify: "OnNotify",
        on_notify_intercept: "OnNotifyIntercept | None" = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Called by the SDK's session, to which this is a dispatcher; it is already running."""
        self._sdk_on_request, self._sdk_intercept = on_request, on_notify_intercept
        task_status.started()
        await anyio.sleep_forever()

    async def _on_request(
        self,
        context: "DispatchContext[TransportContext]",
        method: str,
        params: Mapping[str, Any] | None,
    ) -> dict[str, Any]:
        await self.sdk()
        assert self._sdk_on_request is not None
        return await self._sdk_on_request(context, method, params)

    def _on_notification(self, method: str, params: Mapping[str, Any] | None) -> None:
        if self._sdk_intercept is None or not self._sdk_intercept(method, params):
            self._incoming.notification(method, params)


async def _hold(session: "ClientSession", *, task_status: anyio.abc.TaskStatus[None]) -> None:
    async with session:
        task_status.started()
        await anyio.sleep_forever()
