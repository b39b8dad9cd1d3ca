"""FastMCP's client."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client


@asynccontextmanager
async def connect(servers: dict[str, list[str]]) -> AsyncGenerator[dict[str, Any]]:
    entries = {
        name: {"command": command, "args": args} for name, (command, *args) in servers.items()
    }
    async with Client({"mcpServers": entries}) as client:
        await client.list_tools()
        yield {name: _caller(client, "" if len(entries) == 1 else f"{name}_") for name in entries}


def _caller(client: Any, prefix: str) -> Any:
    async def call(tool: str, arguments: dict[str, Any]) -> str:
        result = await client.call_tool(f"{prefix}{tool}", arguments)
        return result.content[0].text

    return call
