"""The MCP server on the SDK's low-level one: exactly one tool."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import methods

from openclaw.agent.port import Answer, Ask, OpenAgent, PermissionRequest
from openclaw.core.clock import SystemClock
from openclaw.core.tools import NO, Elicit, JsonObject
from openclaw.mcp_server.orders import OWNER, Caller, OrderDesk, Person, refusal
from openclaw.version import __version__

_ASKING_BY_RESULT = "2026-07-28"
"""From this revision on a server asks by its result and is called again: an order cannot wait so."""

PERSON = "openclaw.person"
"""Where a request over HTTP says whose it is."""

_DECLINED: JsonObject = {"action": "decline"}


def _form(request: PermissionRequest) -> dict[str, Any]:
    """The answers to a call, as a form."""
    answer = {
        "type": "string",
        "title": "Allow this call?",
        "enum": [one.id for one in request.choices],
        "enumNames": [one.label for one in request.choices],
    }
    reason = {"type": "string", "title": "If not, why? The agent reads it"}
    return {
        "type": "object",
        "properties": {"answer": answer, "reason": reason},
        "required": ["answer"],
    }


class AskedClient(Protocol):
    def check_client_capability(self, capability: types.ClientCapabilities) -> bool: ...

    def elicit_form(
        self, message: str, requested_schema: dict[str, Any], related_request_id: Any = None
    ) -> Awaitable[types.ElicitResult]: ...

    def elicit_url(
        self, message: str, url: str, elicitation_id: str, related_request_id: Any = None
    ) -> Awaitable[types.ElicitResult]: ...


def can_ask(client: AskedClient, protocol_version: str) -> bool:
    """Whether the client puts questions to a person in the midst of an order."""
    wanted = types.ClientCapabilities(elicitation=types.ElicitationCapability())
    return protocol_version < _ASKING_BY_RESULT and client.check_client_capability(wanted)


def permission(client: AskedClient) -> Ask:
    """Asks the person at the client whether a tool may be used; all but a clear yes is a no."""

    async def ask(request: PermissionRequest) -> Answer:
        message = f"The agent wants to use {request.title}\n\n{request.body}".rstrip()
        try:
            answer = await client.elicit_form(message, _form(request))
        except MCPError:
            return Answer(NO)
        said = answer.content if answer.action == "accept" and answer.content else {}
        return Answer(str(said.get("answer", NO)), str(said.get("reason") or ""))

    return ask


def relay(client: AskedClient) -> Elicit:
    """Hands the questions of MCP servers to the person at the client."""

    async def elicit(server: str, params: JsonObject) -> JsonObject:
        message = f"MCP server '{server}' asks: {params.get('message') or ''}"
        try:
            answer = await _asked(client, message, params)
        except MCPError:
            return _DECLINED  # a client that cannot answer this kind of question says so
        return answer.model_dump(by_alias=True, mode="json", exclude_none=True)

    return elicit


def _asked(client: AskedClient, message: str, params: JsonObject) -> Awaitable[types.ElicitResult]:
    if params.get("mode") == "url":
        return client.elicit_url(
            message, str(params.get("url")), str(params.get("elicitationId") or "")
        )
    schema: dict[str, Any] = params.get("requestedSchema") or {"type": "object", "properties": {}}
    return client.elicit_form(message, schema)


TYPE_CHECKING = False

ORDER_OPENCLAW: "dict[str, Any]" = {
    "name": "order_openclaw",
    "description": "Send a message to OpenClaw and receive a response. The message will be processed as if typed by a user. Supports sending images, files (PDF, text, markdown, CSV, JSON), audio, video, and archives (ZIP, TAR.GZ) via base64 encoding.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "The message to send to OpenClaw"},
            "sessionKey": {
                "type": "string",
                "description": "Optional session key for conversation continuity",
            },
            "images": {
                "type": "array",
                "description": "Optional base64-encoded images (max 10, 15MB each)",
                "items": {
                    "type": "object",
                    "properties": {
                        "data": {"type": "string", "description": "Base64-encoded image data"},
                        "mimeType": {
                            "type": "string",
                            "description": "MIME type (e.g., 'image/png')",
                        },
                        "filename": {"type": "string", "description": "Optional filename"},
                    },
                    "required": ["data", "mimeType"],
                },
            },
            "files": {
                "type": "array",
                "description": "Optional base64-encoded files (max 5, 15MB each)",
                "items": {
                    "type": "object",
                    "properties": {
                        "data": {"type": "string", "description": "Base64-encoded file data"},
                        "mimeType": {
                            "type": "string",
                            "description": "MIME type (e.g., 'application/pdf')",
                        },
                        "filename": {"type": "string", "description": "Optional filename"},
                    },
                    "required": ["data", "mimeType"],
                },
            },
        },
        "required": ["message"],
    },
}

ORDER_CLAWDBOT: "dict[str, Any]" = {
    "name": "order_clawdbot",
    "description": "Send a message to Clawdbot and receive a response. The message will be processed as if typed by a user.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "The message to send to Clawdbot"},
            "sessionKey": {
                "type": "string",
                "description": "Optional session key for conversation continuity",
            },
        },
        "required": ["message"],
    },
}

TOOLS = {"openclaw": ORDER_OPENCLAW, "clawdbot": ORDER_CLAWDBOT}

Context = ServerRequestContext[dict[str, Any], Any]


def _roots(context: Context) -> "Callable[[], Awaitable[Sequence[str]]] | None":
    """Asks the client which directories it works in, if it can say so."""
    session = context.session
    wanted = types.ClientCapabilities(roots=types.RootsCapability())
    if context.protocol_version >= _ASKING_BY_RESULT or not session.check_client_capability(wanted):
        return None

    async def roots() -> Sequence[str]:
        try:
            found = await session.send_request(types.ListRootsRequest(), types.ListRootsResult)
        except MCPError:
            return ()
        return [str(root.uri) for root in found.roots]

    return roots


def make_server(program: str, desk: OrderDesk) -> Server[dict[str, Any]]:
    """The server of `openclaw` or `clawdbot`, whose orders go to this desk.

    Over HTTP, `?agent=ID` in the address names the agent.
    """
    tool = types.Tool.model_validate(TOOLS[program])

    async def list_tools(
        context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[tool])

    async def call_tool(
        context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        if params.name != tool.name:
            return refusal(f"there is no tool {params.name!r}; the only one is {tool.name!r}")
        wants_progress = context.meta is not None and "progress_token" in context.meta
        person = _person_of(context)
        asks = person.decides and can_ask(context.session, context.protocol_version)
        return await desk.take(
            params.arguments,
            Caller(
                protocol_version=context.protocol_version,
                report=context.session.report_progress if wants_progress else None,
                ask=permission(context.session) if asks else None,
                elicit=relay(context.session) if asks else None,
                agent_id=_agent_of(context),
                session=person.session,
                local=context.request is None,
                roots=_roots(context),
            ),
        )

    return Server(program, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


def _agent_of(context: Context) -> str | None:
    """The agent that the address names, for an order over HTTP."""
    return context.request.query_params.get("agent") if context.request is not None else None


def _person_of(context: Context) -> Person:
    return context.request.scope[PERSON] if context.request is not None else OWNER


@asynccontextmanager
async def open_server(
    program: str, open_agent: OpenAgent, agent_id: str | None = None
) -> AsyncGenerator[Server[dict[str, Any]]]:
    """The server with an agent behind it, which is loaded by the first order and closed at the end."""
    async with open_agent() as agent:
        yield make_server(program, OrderDesk(TOOLS[program], agent, SystemClock(), agent_id))


def warm_up() -> None:
    """Build now what the SDK would otherwise build while the first client waits."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": ""}]}
    methods.serialize_server_result("tools/call", "2025-11-25", result)
    methods.serialize_server_result(
        "tools/call", "2026-07-28", {**result, "resultType": "complete"}
    )
