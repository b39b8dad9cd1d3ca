"""Print a completion script for a shell: commands, options, and the names of what there is.

The names are those of agents, servers, conversations, and tools of servers that ran before.

Save it where your shell looks for such scripts, as the examples do, or source it. In zsh, `fpath` must
name the directory before `compinit` runs, and a script that is sourced comes after it.
"""

import argparse
import re
from typing import TYPE_CHECKING

from openclaw.cli.environment import Environment
from openclaw.core.errors import OpenClawError
from openclaw.core.wire import EXIT_OK

if TYPE_CHECKING:
    from openclaw.config.load import LoadedConfig

SHELLS = ("bash", "zsh", "fish")
NAMES = ("agents", "servers", "tools", "sessions")
_MOST_SESSIONS = 200
# A shell expands what it is offered: a name that a stranger chose must not be a command in it.
_HARMLESS = re.compile(r"[\w.@/+:][\w.@/+:-]*")


def register(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("shell", choices=SHELLS, nargs="?", help="the shell that you use")
    # What the scripts ask while a person types.
    parser.add_argument("--names", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument("--of", metavar="SERVER", help=argparse.SUPPRESS)


def run(args: argparse.Namespace, env: Environment) -> int:
    """Print the script, or the names that it asks for."""
    if args.names is not None:
        for name in _names(args, env):
            if _HARMLESS.fullmatch(name):
                env.say(name)
        return EXIT_OK
    from openclaw.cli.completion_scripts import SCRIPTS, nodes
    from openclaw.core.errors import InvalidRequest

    if args.shell is None:
        raise InvalidRequest(f"name a shell: {', '.join(SHELLS)}")
    env.stdout.write(SCRIPTS[args.shell](env.program, nodes(env.program)))
    return EXIT_OK


def _names(args: argparse.Namespace, env: Environment) -> list[str]:
    """As they are stored; none where they cannot be read, since nobody wants to be told."""
    from openclaw.config.load import load_config

    try:
        loaded = load_config(env.config_option, env.environ)
        for value in loaded.credentials:
            env.redactor.register(value)
        return _LISTS[args.names](args, env, loaded)
    except OpenClawError:
        return []


def _agents(args: argparse.Namespace, env: Environment, loaded: "LoadedConfig") -> list[str]:
    from openclaw.config.merge import effective_agents

    return list(effective_agents(loaded.config))


def _servers(args: argparse.Namespace, env: Environment, loaded: "LoadedConfig") -> list[str]:
    from openclaw.config.merge import effective_agents

    agents = effective_agents(loaded.config).values()
    return sorted({name for agent in agents for name in agent.servers})


def _tools(args: argparse.Namespace, env: Environment, loaded: "LoadedConfig") -> list[str]:
    """What the server declared when it last ran: it is not started for this."""
    from openclaw.config.merge import effective_agents
    from openclaw.mcp_client.pin_store import PinStore, pin_key

    agents = effective_agents(loaded.config).values()
    keys = {pin_key(agent.servers[args.of]) for agent in agents if args.of in agent.servers}
    known = PinStore(env.paths.pins).load()
    pinned = [known[key] for key in keys if key in known]
    gone = {name for one in pinned for name in one.removed}
    return sorted({name for one in pinned for name in (*one.accepted, *one.pending)} - gone)


def _sessions(args: argparse.Namespace, env: Environment, loaded: "LoadedConfig") -> list[str]:
    """The ones used last. A database server is not asked: it may be slow, or away."""
    import anyio

    from openclaw.cli.sessions_store import opened
    from openclaw.sessions.opening import is_server

    if is_server(loaded.config.sessions.store):
        return []

    async def keys() -> list[str]:
        async with opened(None, env, loaded) as store:
            page = None if store is None else await store.list_sessions(limit=_MOST_SESSIONS)
        return [] if page is None else [info.key for info in page.sessions]

    return list(dict.fromkeys(anyio.run(keys)))


_LISTS = {"agents": _agents, "servers": _servers, "tools": _tools, "sessions": _sessions}
