"""Serve the agent to an MCP client over stdin and stdout.

The client gives orders through one tool, order_openclaw (order_clawdbot under the
name clawdbot). stdout carries the protocol and nothing else; logs go to stderr.
"""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.cli.environment import Environment
from openclaw.mcp_server import stdio
from openclaw.version import __version__

if TYPE_CHECKING:
    import argparse

    from openclaw.mcp_server.options import Options
    from openclaw.mcp_server.order_service import OrderService


def register(parser: "argparse.ArgumentParser") -> None:
    register_server(parser, "the agent that receives the orders")


def register_server(parser: "argparse.ArgumentParser", agent: str) -> None:
    """The options of a program that an MCP client starts; `agent` says which agent to name."""
    from openclaw.cli.parser import add_local  # not imported while a client is waiting

    parser.set_defaults(runs_until_stopped=True)
    parser.add_argument("--agent", metavar="ID", help=agent)
    add_local(parser)
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}", help="show the version"
    )


def run(args: "argparse.Namespace", env: Environment) -> int:
    stdio.serve_orders(env.program, lambda: load_orders(env, args))


Load = Callable[[Environment, "Options | argparse.Namespace"], stdio.OpenService]


def load_first(program: str, options: "Options", load: "Load | None" = None) -> stdio.OpenService:
    """The same if only the options have been parsed so far, because the handshake came first."""
    from openclaw.cli.logging_setup import configure_for

    config = Path(options.config) if options.config else None
    env = Environment(program=program, config_option=config, runs_until_stopped=True)
    configure_for(env, options, plain=False)
    env.prepare_state()
    return (load or load_orders)(env, options)


def load_orders(env: Environment, options: "Options | argparse.Namespace") -> stdio.OpenService:
    """Load what accepts orders, and the agent, unless a gateway runs it."""
    from openclaw.mcp_server.order_service import open_service
    from openclaw.runtime.access import open_agent

    @asynccontextmanager
    async def opened(tell: stdio.Tell) -> "AsyncGenerator[OrderService]":
        async with (
            open_agent(env, local=options.local, short_grace=True, ahead=True) as agent,
            open_service(env.program, agent, options.agent) as service,
        ):
            yield service

    return opened
