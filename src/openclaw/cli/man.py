"""Print the manual page, for man(1)."""

import argparse

from openclaw.cli.environment import Environment
from openclaw.core.wire import EXIT_OK


def register(parser: argparse.ArgumentParser) -> None:
    """There are no options of its own."""


def run(args: argparse.Namespace, env: Environment) -> int:
    """Print it."""
    from openclaw.cli.man_page import man_page

    env.stdout.write(man_page(env.program))
    return EXIT_OK
