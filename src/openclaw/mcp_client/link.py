"""An open connection to a server, whatever carries it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from openclaw.mcp_client.era import Era
from openclaw.mcp_client.failures import InvalidResult, RemoteError
from openclaw.mcp_client.jsonrpc import OnProgress
from openclaw.mcp_client.snapshot import RawResult
from openclaw.mcp_client.stamp import Stamp

if TYPE_CHECKING:
    from mcp.client.session import ClientSession

MAX_ROUNDS = 10
"""How often a server may ask for more input before it gives the result of one call."""

_FIRST_PAUSE, _LAST_PAUSE = 0.05, 0.25


class Caller(Protocol):
    """Sends one request and waits for its result; raises `CallFailed`."""

    async def call(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        timeout: float | None = None,
        on_progress: OnProgress | None = None,
        headers: dict[str, str] | None = None,
    ) -> RawResult:
        """The raw result."""
        ...


@dataclass(slots=True)
class Link:
    """One session with one server, from the handshake to the end of its channel."""

    caller: Caller
    session: "ClientSession"
    stamp: Stamp
    era: Era
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
        result = await self._once(method, params, timeout, on_progress)
        if result.get("resultType") == "input_required":
            return await self._with_input(method, params, result, timeout, on_progress)
        return result

    async def _once(
        self,
        method: str,
        params: Mapping[str, Any],
        timeout: float | None,
        on_progress: OnProgress | None,
    ) -> RawResult:
        if self.stamp.blank:
            return await self.caller.call(method, params, timeout=timeout, on_progress=on_progress)
        return await self.caller.call(
            method,
            self.stamp.params(params),
            timeout=timeout,
            on_progress=on_progress,
            headers=self.stamp.headers(method, params),
        )

    async def _with_input(
        self,
        method: str,
        params: Mapping[str, Any],
        result: RawResult,
        timeout: float | None,
        on_progress: OnProgress | None,
    ) -> RawResult:
        pause = _FIRST_PAUSE
        for _ in range(MAX_ROUNDS):
            answers = await self._answers(result)
            if not answers:
                await anyio.sleep(pause)
                pause = min(2 * pause, _LAST_PAUSE)
            again = {**params, "inputResponses": answers} if answers else dict(params)
            if (state := result.get("requestState")) is not None:
                again["requestState"] = state
            result = await self._once(method, again, timeout, on_progress)
            if result.get("resultType") != "input_required":
                return result
        raise InvalidResult(f"the server asked for input more than {MAX_ROUNDS} times")

    async def _answers(self, result: RawResult) -> dict[str, Any]:
        from mcp.client.session import ClientRequestContext
        from mcp_types import ErrorData, InputRequiredResult

        try:
            wanted = InputRequiredResult.model_validate(result).input_requests or {}
        except ValueError:
            raise InvalidResult("the server asks for input in a form that is not MCP's") from None
        answers: dict[str, Any] = {}
        for key, request in wanted.items():
            context = ClientRequestContext(session=self.session, request_id=key)
            answer = await self.session.dispatch_input_request(context, request)
            if isinstance(answer, ErrorData):
                raise RemoteError(answer.code, f"the server needs input: {answer.message}")
            answers[key] = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        return answers
