"""The MCP server on the SDK's low-level one: exactly one tool."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import decode_header_value
from mcp_types import HEADER_MISMATCH, MISSING_REQUIRED_CLIENT_CAPABILITY
from pydantic import ValidationError

from openclaw.agent.port import Notify
from openclaw.core.errors import OpenClawError, describe
from openclaw.mcp.jsonrpc import RpcError
from openclaw.mcp.names import TASKS_EXTENSION as EXTENSION
from openclaw.mcp.revisions import REVISIONS
from openclaw.mcp.tasks import EXTENSION_TASKS
from openclaw.mcp_server import orders
from openclaw.mcp_server.order_tasks import OrderTasks
from openclaw.mcp_server.order_tool import OWNER, TOOLS, Principal
from openclaw.version import __version__

PERSON = "openclaw.person"  # the key of the `Person` in an HTTP request's scope

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_MOST_FORWARDED = 48 << 20  # gateways take requests of 64 MB; the text and the rest need room

Forward = Callable[[dict[str, Any], Notify], Awaitable[dict[str, Any] | None]]


Context = ServerRequestContext[dict[str, Any], Any]

_REQUESTS = {
    "elicitation/create": (types.ElicitRequest, types.ElicitResult),
    "roots/list": (types.ListRootsRequest, types.ListRootsResult),
}


async def _ask_client(
    session: ServerSession,
    method: str,
    params: dict[str, Any] | None = None,
    *,
    seconds: float | None = None,
) -> Any:
    request, result = _REQUESTS[method]
    given = {"method": method, "params": params}
    try:
        answer = await session.send_request(request.model_validate(given), result)
    except (MCPError, ValidationError):
        return {}
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


class _RawNotification(types.Notification[dict[str, Any], str]):
    """A notification that the SDK has no type for."""


class _TaskParams(types.RequestParams):
    task_id: str


class _UpdateParams(_TaskParams):
    input_responses: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Handlers:
    """Handles each request; `forward` passes it to a gateway, if one is running."""

    handler: orders.OrderHandler
    tasks: OrderTasks | None
    forward: Forward | None

    async def list_tools(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tool = types.Tool.model_validate(TOOLS[self.handler.program])
        return types.ListToolsResult(tools=[tool])

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> Any:
        if params.name != (wanted := TOOLS[self.handler.program]["name"]):
            return orders.refusal(f"there is no tool {params.name!r}; the only one is {wanted!r}")
        wants_progress = context.meta is not None and "progress_token" in context.meta
        caller = orders.Caller(
            revision=REVISIONS[context.protocol_version],
            report=context.session.report_progress if wants_progress else None,
            agent_id=context.request.query_params.get("agent") if context.request else None,
            session=_person_of(context).session,
            local=context.request is None,
        )
        can = context.session.check_client_capability
        elicitation = types.ClientCapabilities(elicitation=types.ElicitationCapability())
        asks = _person_of(context).may_be_asked and can(elicitation)
        if REVISIONS[context.protocol_version].server_requests:
            ask = partial(_ask_client, context.session)
            roots = can(types.ClientCapabilities(roots=types.RootsCapability()))
            caller = orders.asked_by_request(caller, ask, asks=asks, roots=roots)
            return await self.handler.take(params.arguments, caller)
        if self.tasks is None:
            return await self.handler.take(params.arguments, caller)
        too_large = self.forward is not None and _media_size(params.arguments) > _MOST_FORWARDED
        if too_large or not (asks or _declares_tasks(context)):
            if params.request_state is not None:  # never carry the order out again
                problem = "this client cannot continue with requestState"
                raise MCPError(types.INVALID_PARAMS, problem)
            return await self.handler.take(params.arguments, caller)
        return await self._order(self.tasks, context, params, caller, asks=asks)

    async def _order(
        self,
        tasks: OrderTasks,
        context: Context,
        params: types.CallToolRequestParams,
        caller: orders.Caller,
        *,
        asks: bool,
    ) -> Any:
        state, person = params.request_state, _person_of(context)
        if state is None or not tasks.runs(state):
            forwarded = await self._forwarded(context)
            if forwarded is not None:
                return forwarded
        if state is not None:
            responses: dict[str, Any] = (context.params or {}).get("inputResponses") or {}
            return await tasks.continue_with_answers(state, params.arguments, responses, person)
        wanted = _declares_tasks(context)
        return await tasks.order(params.arguments, caller, person, tasks=wanted, asks=asks)

    async def of_task(self, context: Context, params: _TaskParams) -> Any:
        """`tasks/get`, `tasks/update` and `tasks/cancel`, by this process or a gateway."""
        tasks, id, person = self.tasks, params.task_id, _person_of(context)
        if tasks is None or REVISIONS[context.protocol_version].server_requests:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)
        _require_tasks(context)
        if not id.isascii():  # the store can't look up some
            raise MCPError(types.INVALID_PARAMS, "there is no such task, or it has expired")
        named = context.request.headers.get("mcp-name") if context.request is not None else None
        if named is not None and decode_header_value(named) != id:
            raise MCPError(HEADER_MISMATCH, "the Mcp-Name header is not the task's id")
        forwarded = None if tasks.runs(id) else await self._forwarded(context)
        if forwarded is not None:
            return forwarded
        if context.method == "tasks/get":
            return EXTENSION_TASKS.view(await tasks.get(id, person))
        if isinstance(params, _UpdateParams):
            await tasks.update(id, params.input_responses, person)
        else:
            await tasks.cancel(id, person)
        return {}

    async def listen(
        self, context: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        wanted: Any = (params.notifications.model_extra or {}).get("taskIds") or []
        if wanted:
            _require_tasks(context)
        tasks, person = self.tasks, _person_of(context)
        assert tasks is not None
        if not any(map(tasks.runs, wanted)) and await self._forwarded(context) is not None:
            return types.SubscriptionsListenResult()
        meta = {_SUBSCRIPTION: context.request_id}
        sent = dict[str, Any]()
        for id in map(str, wanted):
            with suppress(RpcError):
                await tasks.get(id, person)
                sent[id] = None
        honoured = {"taskIds": list(sent)} if sent else {}
        await _notify(context, _ACKNOWLEDGED, {"notifications": honoured, "_meta": meta})
        while True:
            for id in sent:
                with suppress(RpcError):
                    now = EXTENSION_TASKS.view(await tasks.get(id, person))
                    if now != sent[id]:
                        sent[id] = now
                        await _notify(context, "notifications/tasks", {**now, "_meta": meta})
            await tasks.changed(list(sent))

    async def _forwarded(self, context: Context) -> dict[str, Any] | None:
        """The answer of a running gateway; None without one, or if this is the gateway."""
        if self.forward is None or await self.handler.works_here():
            return None
        request = {
            "jsonrpc": "2.0",
            "id": context.request_id,
            "method": context.method,
            "params": dict(context.params or {}),
        }
        try:
            answer = await self.forward(request, partial(_notify, context))
        except OpenClawError as error:
            if context.method != "tools/call":
                return None  # the store's record of a task is valid without the gateway
            return orders.refusal(describe(error))
        if answer is not None and "error" in answer:
            raise MCPError.from_error_data(types.ErrorData.model_validate(answer["error"]))
        return None if answer is None else answer["result"]


def make_server(
    handler: orders.OrderHandler, tasks: OrderTasks | None = None, forward: Forward | None = None
) -> Server[dict[str, Any]]:
    """The server of `openclaw` or `clawdbot`; over HTTP, `?agent=ID` names the agent."""
    methods = _Handlers(handler, tasks, forward)
    server: Server[dict[str, Any]] = Server(
        handler.program,
        version=__version__,
        on_list_tools=methods.list_tools,
        on_call_tool=_translating(methods.call_tool),
        on_subscriptions_listen=_translating(methods.listen) if tasks is not None else None,
    )
    if tasks is not None:
        server.extensions = {EXTENSION: {}}
        server.add_request_handler("tasks/get", _TaskParams, _translating(methods.of_task))
        server.add_request_handler("tasks/update", _UpdateParams, _translating(methods.of_task))
        server.add_request_handler("tasks/cancel", _TaskParams, _translating(methods.of_task))
    return server


def _translating(handle: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def handled(context: Context, params: Any) -> Any:
        try:
            return await handle(context, params)
        except RpcError as error:
            raise MCPError(error.code, error.message, error.data) from None

    return handled


async def _notify(context: Context, method: str, params: dict[str, Any]) -> None:
    notification: Any = _RawNotification(method=method, params=params)
    await context.session.send_notification(notification, related_request_id=context.request_id)


def _media_size(arguments: Any) -> int:
    kinds = ("images", "files")
    try:
        return sum(len(one["data"]) for kind in kinds for one in arguments.get(kind, ()))
    except (TypeError, KeyError, AttributeError):
        return 0  # the order is going to be refused


def _declares_tasks(context: Context) -> bool:
    declared = context.session.client_capabilities
    return declared is not None and EXTENSION in (declared.extensions or {})


def _require_tasks(context: Context) -> None:
    if not _declares_tasks(context):
        required: dict[str, Any] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", required
        )


def _person_of(context: Context) -> Principal:
    return context.request.scope[PERSON] if context.request is not None else OWNER
