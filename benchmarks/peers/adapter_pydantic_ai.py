"""pydantic-ai's MCP toolset."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from fastmcp.client import Client
from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset


@asynccontextmanager
async def connect(servers: dict[str, list[str]]) -> AsyncGenerator[dict[str, Any]]:
    async with AsyncExitStack() as stack:
        calls: dict[str, Any] = {}
        for name, (command, *args) in servers.items():
            toolset = MCPToolset(Client(StdioTransport(command=command, args=args)))
            await stack.enter_async_context(toolset)
            await toolset.list_tools()
            calls[name] = _caller(toolset)
        yield calls


def _caller(toolset: Any) -> Any:
    async def call(tool: str, arguments: dict[str, Any]) -> str:
        return str(await toolset.direct_call_tool(tool, arguments))

    return call
