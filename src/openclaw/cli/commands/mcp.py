"""Manage the MCP servers that the agent uses: list, add, remove and try them."""

import argparse
import importlib
from collections.abc import Sequence
from inspect import iscoroutinefunction
from typing import Any

from openclaw.cli.environment import Environment
from openclaw.cli.parser import CommandParser, add_action
from openclaw.cli.setup import SOURCES
from openclaw.core.errors import EXIT_OK


class _Parser(CommandParser):
    """What stands behind `--` is a program with its arguments, and not ours to read."""

    def parse_known_args(
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        words = list(args or ())
        at = words.index("--") if "--" in words else len(words)
        found, rest = super().parse_known_args(words[:at], namespace)
        found.program = words[at + 1 :]
        return found, rest


def register(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, parser_class=_Parser)
    _declare_editing(actions)
    _declare_importing(actions)
    _declare_trying(actions)
    _declare_trust(actions)


def _declare_editing(actions: Any) -> None:
    listing = add_action(actions, "list", "show the configured servers", "mcp_config:list_servers")
    listing.add_argument("--agent", metavar="ID", help="only the servers of this agent")

    add = add_action(actions, "add", "add a server to the configuration", "mcp_config:add_server")
    add.usage = (
        "openclaw mcp add NAME [options] -- COMMAND [ARGS…]\n"
        "       openclaw mcp add NAME [options] --url URL"
    )
    add.add_argument("name", metavar="NAME")
    add.add_argument("--url", metavar="URL", help="the address of a remote server")
    add.add_argument("--transport", choices=("stdio", "http", "streamable-http", "sse"))
    add.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="K=V",
        help="an environment variable for the server; V may be a secret:// reference",
    )
    add.add_argument(
        "--inherit-env",
        action="append",
        default=[],
        metavar="NAME",
        help="one of your environment variables to pass on, such as SSL_CERT_FILE",
    )
    add.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="'K: V'",
        help="an HTTP header; V may contain a secret:// reference",
    )
    add.add_argument("--cwd", metavar="DIR", help="the server's working directory")
    _declare_sandbox(add)
    add.add_argument("--tool-prefix", metavar="P", help="used instead of NAME in the tools' names")
    add.add_argument("--lazy", action="store_true", help="start it when it is first used")
    add.add_argument("--agent", metavar="ID", help="only for this agent")
    add.add_argument("--force", action="store_true", help="replace a server of that name")

    remove = add_action(
        actions, "remove", "remove a server from the configuration", "mcp_config:remove_server"
    )
    remove.add_argument("name", metavar="NAME")
    remove.add_argument("--agent", metavar="ID", help="only from this agent")


_NO_SANDBOX = "run it without a sandbox (default: in one, if this machine supports it)"


def _declare_sandbox(add: argparse.ArgumentParser) -> None:
    add.add_argument("--no-sandbox", action="store_true", help=_NO_SANDBOX)
    for option, what in (("--read", "read"), ("--write", "write to")):
        add.add_argument(
            option,
            action="append",
            default=[],
            metavar="PATH",
            help=f"a file or directory that the server may {what}, besides the workspace",
        )
    add.add_argument(
        "--network",
        choices=("on", "internet", "off"),
        help="network access: everything, only public addresses through a proxy, or nothing",
    )


def _declare_importing(actions: Any) -> None:
    summary = "import the servers of Claude Code, Claude Desktop, Cursor and other programs"
    take = add_action(actions, "import", summary, "mcp_config:take_over")
    take.add_argument(
        "source",
        nargs="?",
        metavar="FROM",
        help=f"{', '.join(SOURCES)}, or the path of such a file (default: all installed)",
    )
    take.add_argument("names", nargs="*", metavar="NAME", help="only these servers")
    take.add_argument("--dry-run", action="store_true", help="show what would be written")
    take.add_argument("--yes", action="store_true", help="write without asking")
    take.add_argument("--force", action="store_true", help="replace servers of the same names")
    take.add_argument("--no-sandbox", action="store_true", help=_NO_SANDBOX)
    take.add_argument(
        "--keep-secrets",
        action="store_true",
        help="keep credentials in plain text instead of storing them as secret:// references",
    )


def _declare_trying(actions: Any) -> None:
    tools = add_action(
        actions, "tools", "start the servers and list their tools", "mcp_live:list_tools"
    )
    tools.add_argument("servers", nargs="*", metavar="SERVER", help="only these")
    tools.add_argument("--agent", metavar="ID")

    call = add_action(actions, "call", "call one tool", "mcp_live:call_tool")
    call.add_argument("tool", metavar="TOOL", help="its full name, SERVER/TOOL, or SERVER TOOL")
    call.add_argument("arguments", nargs="*", metavar="key=value", help="a value may be JSON")
    call.add_argument("--args", metavar="JSON", help="all arguments as one JSON object")
    call.add_argument("--agent", metavar="ID")

    probe = add_action(
        actions, "probe", "start each server once and report the result", "mcp_live:probe"
    )
    probe.add_argument("servers", nargs="*", metavar="SERVER", help="only these")
    probe.add_argument("--agent", metavar="ID")

    restart = add_action(
        actions, "restart", "restart a server in the running gateway", "mcp_live:restart"
    )
    restart.add_argument("name", metavar="NAME")

    prompt = add_action(
        actions, "prompt", "list the servers' prompts, or get one", "mcp_live:prompt"
    )
    prompt.add_argument("prompt", nargs="?", metavar="SERVER:PROMPT")
    prompt.add_argument("arguments", nargs="*", metavar="key=value")
    prompt.add_argument("--agent", metavar="ID")


def _declare_trust(actions: Any) -> None:
    summary = "show how servers' declarations differ from what you accepted"
    pins = add_action(actions, "pins", summary, "mcp_trust:run")
    pins.add_argument(
        "what", nargs="?", default="list", choices=("list", "show", "accept", "forget")
    )
    pins.add_argument("name", nargs="?", metavar="NAME", help="a server")
    pins.add_argument("tools", nargs="*", metavar="TOOL", help="only these tools")

    effects = add_action(
        actions,
        "effects",
        "show what a server's tools do, or set it yourself",
        "mcp_live:effects",
    )
    effects.add_argument("name", metavar="SERVER")
    effects.add_argument(
        "changes",
        nargs="*",
        metavar="TOOL=EFFECT",
        help="read, open (an address), change, send or destroy; auto goes by its definition again",
    )
    effects.add_argument("--agent", metavar="ID")

    login = add_action(actions, "login", "log in to a remote server", "mcp_trust:log_in")
    login.add_argument("name", metavar="NAME")
    login.add_argument(
        "--no-browser", action="store_true", help="print the address instead of opening a browser"
    )
    logout = add_action(actions, "logout", "delete the login to a server", "mcp_trust:log_out")
    logout.add_argument("name", metavar="NAME")


def run(args: argparse.Namespace, env: Environment) -> int:
    module, _, function = str(args.action).partition(":")
    action: Any = getattr(importlib.import_module(f"openclaw.cli.commands.{module}"), function)
    if iscoroutinefunction(action):
        from openclaw.cli.interrupts import run_interruptible

        return run_interruptible(env, action, args, env) or EXIT_OK
    return action(args, env) or EXIT_OK
