"""Serve the agent to an MCP client over stdin and stdout.

The client gives orders through one tool, order_openclaw (order_clawdbot under the
name clawdbot). stdout carries the protocol and nothing else; logs go to stderr.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openclaw.cli.environment import Environment
from openclaw.mcp_server import bootstrap
from openclaw.version import __version__

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from openclaw.mcp_server.agent_link import OrderTaker


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--agent", metavar="ID", help="the agent that takes the orders")
    parser.add_argument(
        "--local", action="store_true", help="run the agent here, also where a gateway runs"
    )
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}", help="print the version"
    )


def run(args: argparse.Namespace, env: Environment) -> int:
    """Serve until the client goes away; does not return."""
    options = bootstrap.Options(
        env.program,
        agent=args.agent,
        config=str(args.config) if args.config else None,
        verbose=args.verbose,
        log_json=args.log_json,
        local=args.local,
    )
    bootstrap.serve(options, lambda: prepare(options))


def prepare(options: bootstrap.Options) -> Any:
    """Load the SDK's side; the agent itself is loaded with the first order."""
    from openclaw.cli.logs import configure
    from openclaw.mcp_server import sdk_handoff

    config = Path(options.config) if options.config else None
    env = Environment(program=options.program, config_option=config, goes_on=True)
    configure(
        level="debug" if options.verbose else "warning",
        json=options.log_json,
        redactor=env.redactor,
        stream=env.stderr,
        environ=env.environ,
    )

    def opened() -> "AbstractAsyncContextManager[OrderTaker]":
        from openclaw.cli.open_agent import open_agent

        return open_agent(env, local=options.local, hurried=True)

    return sdk_handoff.prepare(options, opened)
