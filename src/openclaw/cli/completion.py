"""Print a completion script for a shell: commands, options, and the names of agents and servers.

Save it where your shell looks for such scripts, as the examples do, or source it. In zsh, `fpath` must
name the directory before `compinit` runs, and a script that is sourced comes after it.
"""

import argparse

from openclaw.cli.environment import Environment
from openclaw.core.errors import OpenClawError
from openclaw.core.wire import EXIT_OK

SHELLS = ("bash", "zsh", "fish")
NAMES = ("agents", "servers")


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("shell", choices=SHELLS, nargs="?", help="the shell that you use")
    # What the scripts ask while a person types.
    parser.add_argument("--names", choices=NAMES, help=argparse.SUPPRESS)


def run(args: argparse.Namespace, env: Environment) -> int:
    """Print the script, or the names that it asks for."""
    if args.names is not None:
        for name in _names(args.names, env):
            env.say(name)
        return EXIT_OK
    from openclaw.cli.completion_scripts import SCRIPTS, nodes
    from openclaw.core.errors import InvalidRequest

    if args.shell is None:
        raise InvalidRequest(f"name a shell: {', '.join(SHELLS)}")
    env.stdout.write(SCRIPTS[args.shell](env.program, nodes(env.program)))
    return EXIT_OK


def _names(what: str, env: Environment) -> list[str]:
    """As the configuration has them; none where it cannot be read, since nobody wants to be told."""
    from openclaw.config.load import load_config
    from openclaw.config.merge import effective_agents

    try:
        agents = effective_agents(load_config(env.config_option, env.environ).config)
    except OpenClawError:
        return []
    if what == "agents":
        return list(agents)
    return sorted({name for agent in agents.values() for name in agent.servers})
