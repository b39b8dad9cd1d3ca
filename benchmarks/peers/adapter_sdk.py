"""The official SDK's client, bare."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mcp import Client, StdioServerParameters


@asynccontextmanager
async def connect(servers: dict[str, list[str]]) -> AsyncGenerator[dict[str, Any]]:
    async with AsyncExitStack() as stack:
        calls: dict[str, Any] = {}
        for name, (command, *args) in servers.items():
            parameters = StdioServerParameters(command=command, args=args)
            client = await stack.enter_async_context(Client(parameters, mode="legacy"))
            await client.list_tools()
            calls[name] = _caller(client)
        yield calls


def _caller(client: Client) -> Any:
    async def call(tool: str, arguments: dict[str, Any]) -> str:
        result: Any = await client.call_tool(tool, arguments)
        return result.content[0].text

    return call
