"""langchain-mcp-adapters, with one session kept open for each server."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools


@asynccontextmanager
async def connect(servers: dict[str, list[str]]) -> AsyncGenerator[dict[str, Any]]:
    client = MultiServerMCPClient(
        {
            name: {"command": command, "args": args, "transport": "stdio"}
            for name, (command, *args) in servers.items()
        }
    )
    async with AsyncExitStack() as stack:
        calls: dict[str, Any] = {}
        for name in servers:
            session = await stack.enter_async_context(client.session(name))
            calls[name] = _caller({tool.name: tool for tool in await load_mcp_tools(session)})
        yield calls


def _caller(tools: dict[str, Any]) -> Any:
    async def call(tool: str, arguments: dict[str, Any]) -> str:
        answer = await tools[tool].ainvoke(arguments)
        return answer if isinstance(answer, str) else answer[0]["text"]

    return call
