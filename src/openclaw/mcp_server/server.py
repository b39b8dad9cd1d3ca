"""The MCP server on the SDK's low-level one: exactly one tool."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp_types import methods

from openclaw.core.clock import SystemClock
from openclaw.mcp_server.agent_link import AgentLink, OpenAgent
from openclaw.mcp_server.orders import Caller, OrderDesk, refusal
from openclaw.mcp_server.relay import can_ask, permission, relay
from openclaw.mcp_server.tool import TOOLS
from openclaw.version import __version__

Context = ServerRequestContext[dict[str, Any], Any]


def make_server(program: str, desk: OrderDesk) -> Server[dict[str, Any]]:
    """The server of `openclaw` or `clawdbot`, whose orders go to this desk."""
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
        asks = can_ask(context.session, context.protocol_version)
        return await desk.take(
            params.arguments,
            Caller(
                protocol_version=context.protocol_version,
                report=context.session.report_progress if wants_progress else None,
                ask=permission(context.session) if asks else None,
                elicit=relay(context.session) if asks else None,
            ),
        )

    return Server(program, version=__version__, on_list_tools=list_tools, on_call_tool=call_tool)


@asynccontextmanager
async def open_server(
    program: str, open_agent: OpenAgent, agent_id: str | None = None
) -> AsyncGenerator[Server[dict[str, Any]]]:
    """The server with an agent behind it, which is opened by the first order and closed at the end."""
    link = AgentLink(open_agent)
    async with anyio.create_task_group() as tasks:
        await tasks.start(link.run, name="agent")
        yield make_server(program, OrderDesk(TOOLS[program], link, SystemClock(), agent_id))
        tasks.cancel_scope.cancel()


def warm_up() -> None:
    """Build now what the SDK would otherwise build while the first client waits."""
    result: dict[str, Any] = {"content": [{"type": "text", "text": ""}]}
    methods.serialize_server_result("tools/call", "2025-11-25", result)
    methods.serialize_server_result(
        "tools/call", "2026-07-28", {**result, "resultType": "complete"}
    )
