"""An open connection to a server, over any transport."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from openclaw.mcp_client.errors import Interrupted, InvalidResult, RemoteError, Unavailable
from openclaw.mcp_client.session import negotiation
from openclaw.mcp_client.session.jsonrpc import OnProgress, RawResult

if TYPE_CHECKING:
    from mcp.client.session import ClientSession


class RequestMetadata:
    """Adds the modern era's `_meta` to a request, and its headers where the transport is HTTP."""

    def __init__(
        self, greeting: negotiation.Greeting, capabilities: Mapping[str, Any], *, http: bool
    ) -> None:
        self._version, self._http = greeting.protocol, http
        self._modern = greeting.era is negotiation.Era.MODERN
        self._meta = _meta(self._version, capabilities) if self._modern else {}
        self._parameter_headers: dict[str, Any] = {}

    @property
    def blank(self) -> bool:
        return not self._modern and not self._http

    def refuses(self, schema: Mapping[str, Any]) -> str | None:
        """Why a tool cannot be called with such a schema: the headers that it names are not possible."""
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


def _meta(version: str, capabilities: Mapping[str, Any]) -> dict[str, Any]:
    return {
        negotiation.VERSION_KEY: version,
        negotiation.CLIENT_INFO_KEY: negotiation.CLIENT_INFO,
        negotiation.CAPABILITIES_KEY: dict(capabilities),
        _LOG_LEVEL_KEY: _log_level(),
    }


def _log_level() -> str:
    """The least of a server's log messages that we would show; it need not send what is below."""
    level = logging.getLogger(__name__).getEffectiveLevel()
    if level <= logging.DEBUG:
        return "debug"
    return "info" if level <= logging.INFO else "warning"


MAX_ROUNDS = 10  # how often a server may ask for more input before it gives the result of one call

_FIRST_PAUSE, _LAST_PAUSE = 0.05, 0.25
_LOG_LEVEL_KEY = "io.modelcontextprotocol/logLevel"
_TASK_METHODS = ("tasks/get", "tasks/update", "tasks/cancel")


@dataclass(slots=True)
class ServerSession:
    """`call` sends one request and waits for its result; it raises `CallFailed`.

    `sdk` is the SDK's session with the same server, which some servers never need.
    """

    call: Callable[..., Awaitable[RawResult]]
    sdk: "Callable[[], Awaitable[ClientSession]]"
    greeting: negotiation.Greeting
    stamp: RequestMetadata
    ended: anyio.Event
    is_gone: Callable[[], bool]
    why_ended: Callable[[], str]
    transport: str
    pid: int | None = None

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
            except Unavailable as gone:  # an earlier round was sent, so nobody may begin again
                raise Interrupted(gone.reason) from None
        raise InvalidResult(f"the server asked for input more than {MAX_ROUNDS} times")

    def _send(self, method: str, params: Mapping[str, Any], **options: Any) -> Awaitable[RawResult]:
        if not self.stamp.blank:
            options["headers"] = self.stamp.headers(method, params)
            params = self.stamp.params(params)
        return self.call(method, params, **options)

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
