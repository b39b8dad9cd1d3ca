"""Serve the agent to an ACP client, such as an editor, over stdin and stdout.

The client starts this command. stdout carries the protocol and nothing else;
logs go to stderr.
"""

import argparse
from functools import partial

from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_local, option
from openclaw.runtime.access import open_agent


def register(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(runs_until_stopped=True)
    option(parser, "--agent ID", "the agent to start with")
    add_local(parser)


def run(args: argparse.Namespace, env: Environment) -> int:
    from openclaw.acp_agent.agent import serve_stdio  # the ACP library is large

    opened = partial(open_agent, env, local=args.local, short_grace=True)
    serve_stdio(opened, program=env.program, agent_id=args.agent)
