"""Serve the agent to an MCP client over stdin and stdout.

The client gives orders through one tool, order_openclaw (order_clawdbot under the
name clawdbot). stdout carries the protocol and nothing else; logs go to stderr.
"""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openclaw.cli.environment import Environment
from openclaw.mcp_server import bootstrap
from openclaw.version import __version__

if TYPE_CHECKING:
    import argparse


def register(parser: "argparse.ArgumentParser") -> None:
    from openclaw.cli.parser import add_local  # not imported while a client is waiting

    parser.set_defaults(runs_until_stopped=True)
    parser.add_argument("--agent", metavar="ID", help="the agent that receives the orders")
    add_local(parser)
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}", help="show the version"
    )


def run(args: "argparse.Namespace", env: Environment) -> int:
    bootstrap.serve(env.program, lambda: prepare(env, args))


def prepare_first(program: str, options: bootstrap.Options) -> Any:
    """The same if only the options have been parsed so far, because the handshake came first."""
    from openclaw.cli.logging_setup import configure_for

    config = Path(options.config) if options.config else None
    env = Environment(program=program, config_option=config, runs_until_stopped=True)
    configure_for(env, options, plain=False)
    return prepare(env, options)


def prepare(env: Environment, options: "bootstrap.Options | argparse.Namespace") -> Any:
    """Load what accepts orders, and the agent, unless a gateway runs it."""
    from openclaw.mcp_server import stdio_server
    from openclaw.runtime.access import open_agent

    opened = partial(open_agent, env, local=options.local, short_grace=True, ahead=True)
    return stdio_server.prepare(env.program, options.agent, opened)
