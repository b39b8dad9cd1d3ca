"""Serve the agent to an ACP client, such as an editor, over stdin and stdout.

The client starts this command. stdout carries the protocol and nothing else;
logs go to stderr.
"""

import argparse
from typing import TYPE_CHECKING

from openclaw.cli.environment import Environment

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from openclaw.acp_agent.host import AgentHost


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.set_defaults(goes_on=True)
    parser.add_argument("--agent", metavar="ID", help="the agent that answers at first")
    parser.add_argument(
        "--local", action="store_true", help="run the agent here, also where a gateway runs"
    )


def run(args: argparse.Namespace, env: Environment) -> int:
    """Serve until the client goes away; does not return."""
    from openclaw.acp_agent.serve import serve_stdio

    def here() -> "AbstractAsyncContextManager[AgentHost]":
        from openclaw.runtime import open_runtime

        return open_runtime(env.load_config(), env.environ, env.redactor, hurried=True)

    def opened() -> "AbstractAsyncContextManager[AgentHost]":
        from openclaw.cli.open_agent import usable_gateway

        if args.local or usable_gateway(env) is None:
            return here()
        from openclaw.cli.acp_shared import open_shared

        return open_shared(env, here)

    serve_stdio(opened, program=env.program, agent_id=args.agent)
