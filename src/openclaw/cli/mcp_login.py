"""`openclaw mcp login` and `logout`: a person's login to a remote server."""

import argparse
from typing import TYPE_CHECKING

import anyio

from openclaw.cli.environment import Environment
from openclaw.cli.names import no_server
from openclaw.config.merge import effective_agents
from openclaw.core.errors import InvalidRequest
from openclaw.core.wire import EXIT_OK

if TYPE_CHECKING:
    from openclaw.config.schema import McpServerConfig
    from openclaw.mcp_client.oauth import Logins


def log_in(args: argparse.Namespace, env: Environment) -> int:
    """Have the person log in with a browser."""
    from openclaw.mcp_client.login import log_in, open_browser

    def show(url: str) -> None:
        env.warn(f"Open this address to log in to '{args.name}':\n\n    {url}\n")

    config = _server(args, env)
    browse = None if args.no_browser else open_browser

    async def run() -> None:
        await log_in(config, _logins(env), show=show, browse=browse)

    anyio.run(run)
    if args.json:
        env.say_json({"loggedIn": args.name})
    else:
        env.say(f"Logged in to '{args.name}'.")
    return EXIT_OK


def log_out(args: argparse.Namespace, env: Environment) -> int:
    """Forget the login."""
    was = _logins(env).log_out(_server(args, env))
    if args.json:
        env.say_json({"loggedOut": args.name, "was": was})
    else:
        env.say(
            f"Logged out of '{args.name}'; the server may still take the tokens until they end."
            if was
            else f"There was no login to '{args.name}'."
        )
    return EXIT_OK


def _logins(env: Environment) -> "Logins":
    from openclaw.mcp_client.oauth import open_logins
    from openclaw.runtime import open_secrets

    secrets = open_secrets(env.load_config().config, env.environ, env.redactor)
    return open_logins(env.paths.tokens, env.redactor.register, secrets.resolve_map)


def _server(args: argparse.Namespace, env: Environment) -> "McpServerConfig":
    agents = list(effective_agents(env.load_config().config).values())
    found = [agent.servers[args.name] for agent in agents if args.name in agent.servers]
    if not found:
        raise no_server(args.name, (name for agent in agents for name in agent.servers))
    for config in found:
        if config.auth is not None:
            return config
    raise InvalidRequest(
        f"MCP server '{args.name}' is not configured with a login",
        hint='add `auth: "oauth"` to it',
    )
