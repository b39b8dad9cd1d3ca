"""The whole bridge as the agent calls it: policy, redaction, framing, detection, audit on disk."""

import json
import logging
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from openclaw.config.load import parse_config
from openclaw.config.merge import effective_agents
from openclaw.core.tools import CallContext
from openclaw.runtime.host import open_servers
from openclaw.secrets.redactor import Redactor

logging.disable(logging.WARNING)


@asynccontextmanager
async def connect(servers: dict[str, list[str]]) -> AsyncGenerator[dict[str, Any]]:
    entries = {
        name: {"command": command, "args": args, "maxResultChars": 200_000_000}
        for name, (command, *args) in servers.items()
    }
    with tempfile.TemporaryDirectory() as directory:
        environ = {**os.environ, "OPENCLAW_STATE_DIR": directory}
        text = json.dumps({"mcp": {"servers": entries}})
        loaded = parse_config(text, environ, source=Path(directory) / "openclaw.json")
        agents = effective_agents(loaded.config)
        async with open_servers(loaded, environ, Redactor(), agents) as opened:
            await opened.manager.wait_for_tools("main", timeout=120)
            source = opened.tools(agents["main"])
            yield {name: _caller(source, name) for name in servers}


def _caller(source: Any, server: str) -> Any:
    context = CallContext(agent="main", session="bench", call_id="1")

    async def call(tool: str, arguments: dict[str, Any]) -> str:
        result = await source.call(f"mcp_{server}_{tool}", arguments, context)
        if result.is_error:
            raise RuntimeError("the call failed")
        return "".join(getattr(block, "text", "") for block in result.blocks)

    return call
