"""Let an MCP client use all of your MCP servers through this one, over stdin and stdout.

The servers in openclaw.json are offered with their rules, pins, sandbox and secrets. A running
gateway shares its servers among all clients; without one, this process starts them.
"""

import argparse
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from openclaw.cli.commands import mcp_server
from openclaw.cli.environment import Environment
from openclaw.mcp_hub.offer import OFFER
from openclaw.mcp_server import stdio
from openclaw.mcp_server.conversation import Service

if TYPE_CHECKING:
    from openclaw.mcp_server.options import Options


def register(parser: argparse.ArgumentParser) -> None:
    mcp_server.register_server(parser, "the agent whose servers and rules apply")


def run(args: argparse.Namespace, env: Environment) -> int:
    stdio.serve(OFFER, {}, lambda: load(env, args))


def load_first(program: str, options: "Options") -> stdio.OpenService:
    return mcp_server.load_first(program, options, load)


def load(env: Environment, options: "Options | argparse.Namespace") -> stdio.OpenService:
    from openclaw.runtime.hub import open_hub  # not imported while a client is waiting

    @asynccontextmanager
    async def opened(tell: stdio.Tell) -> AsyncGenerator[Service]:
        async with open_hub(env, options.agent, tell, local=options.local) as service:
            yield service

    return opened
