"""Only the connection of OpenClaw, without the bridge, to tell what each of the two costs."""

import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio

from openclaw.config.agent_schema import McpServerConfig
from openclaw.mcp_client.lifecycle.connection import ServerConnection
from openclaw.mcp_client.session.connect import ConnectionDeps
from openclaw.mcp_client.transport.orphan_reaper import OrphanReaper
from openclaw.secrets.refs import Secret

logging.disable(logging.WARNING)


@asynccontextmanager
async def connect(servers: dict[str, list[str]]) -> AsyncGenerator[dict[str, Any]]:
    reaper = OrphanReaper()
    deps = ConnectionDeps(resolve_secrets=_resolve, environ=dict(os.environ), reaper=reaper)
    connections = {
        name: ServerConnection(name, McpServerConfig(command=command, args=tuple(args)), deps)
        for name, (command, *args) in servers.items()
    }
    async with anyio.create_task_group() as group:
        for connection in connections.values():
            group.start_soon(connection.run)
        for connection in connections.values():
            await connection.wait_ready(120)
        yield {name: _caller(connection) for name, connection in connections.items()}
        for connection in connections.values():
            connection.stop()
    await reaper.aclose()


async def _resolve(values: Mapping[str, str]) -> dict[str, Secret]:
    return {name: Secret(value) for name, value in values.items()}


def _caller(connection: ServerConnection) -> Any:
    async def call(tool: str, arguments: dict[str, Any]) -> str:
        result: Any = await connection.call_tool(tool, arguments)
        return result["content"][0]["text"]

    return call
