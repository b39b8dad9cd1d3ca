"""nanobot's own MCP tools, as its agent calls them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from loguru import logger
from nanobot.agent.tools.mcp import connect_mcp_servers
from nanobot.agent.tools.registry import ToolRegistry
from nanobot.config.schema import MCPServerConfig

logger.remove()


@asynccontextmanager
async def connect(servers: dict[str, list[str]]) -> AsyncGenerator[dict[str, Any]]:
    registry = ToolRegistry()
    connections = await connect_mcp_servers(
        {
            name: MCPServerConfig(command=command, args=args, tool_timeout=600)
            for name, (command, *args) in servers.items()
        },
        registry,
    )
    yield {name: _caller(registry, name) for name in servers}
    for connection in connections.values():
        await connection.aclose()


def _caller(registry: Any, server: str) -> Any:
    async def call(tool: str, arguments: dict[str, Any]) -> str:
        return str(await registry.get(f"mcp_{server}_{tool}").execute(**arguments))

    return call
