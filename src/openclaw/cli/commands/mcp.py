"""Manage the MCP servers that the agent uses: list, add, remove and try them."""

import argparse
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, cast

from openclaw.cli.environment import Environment
from openclaw.cli.parser import CommandParser, add_action, no_server, option
from openclaw.config.agent_schema import AgentEntry
from openclaw.config.edit import delete_value, edit_config, set_value
from openclaw.config.json5 import Document, KeyPath, parse
from openclaw.config.load import read_text
from openclaw.config.merge import agent_servers
from openclaw.config.secret_store import SecretStore
from openclaw.config.sensitive import references
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.mcp_client.sandbox.confinement import own_home
from openclaw.mcp_client.sandbox.support import detect_support
from openclaw.mcp_client.transport.environment import NETWORK


class _Parser(CommandParser):
    """Leaves the program after `--` and its arguments alone."""

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
    _declare_trying(actions)
    _declare_trust(actions)


def _declare_editing(actions: Any) -> None:
    listing = add_action(actions, "list", "show the configured servers", _list)
    option(listing, "--agent ID", "only the servers of this agent")

    add = add_action(actions, "add", "add a server to the configuration", _add)
    add.usage = (
        "openclaw mcp add NAME [options] -- COMMAND [ARGS…]\n"
        "       openclaw mcp add NAME [options] --url URL"
    )
    option(add, "NAME")
    option(add, "--url URL", "the address of a remote server")
    option(add, "--transport", choices=("stdio", "http", "streamable-http", "sse"))
    variable = "an environment variable for the server; V may be a secret:// reference"
    option(add, "--env K=V…", variable)
    passed_on = "one of your environment variables to pass on, such as SSL_CERT_FILE"
    option(add, "--inherit-env NAME…", passed_on)
    option(add, "--header 'K: V'…", "an HTTP header; V may contain a secret:// reference")
    option(add, "--cwd DIR", "the server's working directory")
    option(add, "--no-sandbox", NO_SANDBOX)
    for name, what in (("--read", "read"), ("--write", "write to")):
        path = f"a file or directory that the server may {what}, besides the workspace"
        option(add, f"{name} PATH…", path)
    access = "network access: everything, only public addresses through a proxy, or nothing"
    option(add, "--network", access, choices=tuple(_NETWORKS))
    option(add, "--tool-prefix P", "used instead of NAME in the tools' names")
    option(add, "--lazy", "start it when it is first used")
    option(add, "--agent ID", "only for this agent")
    option(add, "--force", "replace a server of that name")

    remove = add_action(actions, "remove", "remove a server from the configuration", _remove)
    option(remove, "NAME")
    option(remove, "--agent ID", "only from this agent")
    option(remove, "--secrets", "also remove the stored secrets that nothing else uses")

    summary = "import the servers of Claude Code, Claude Desktop, Cursor and other programs"
    take = add_action(actions, "import", summary, "init:import_servers")
    programs = "claude-code, claude-desktop, cursor, vscode, codex, gemini, windsurf, zed"
    places = f"{programs}, or the path of such a file (default: all installed)"
    option(take, "[FROM]", places, dest="source")
    option(take, "[NAME…]", "only these servers", dest="names")
    option(take, "--dry-run", "show what would be written")
    option(take, "--yes", "write without asking")
    option(take, "--force", "replace servers of the same names")
    option(take, "--no-sandbox", NO_SANDBOX)


NO_SANDBOX = "run added servers without a sandbox (default: with one, if this machine supports it)"


def _declare_trying(actions: Any) -> None:
    for name, summary, function in (
        ("tools", "start the servers and list their tools", "list_tools"),
        ("probe", "start each server once and report the result", "probe"),
    ):
        one = add_action(actions, name, summary, f"mcp_live:{function}")
        option(one, "[SERVER…]", "only these", dest="servers")
        option(one, "--agent ID")

    call = add_action(actions, "call", "call one tool", "mcp_live:call_tool")
    option(call, "TOOL", "its full name, SERVER/TOOL, or SERVER TOOL")
    option(call, "[key=value…]", "a value may be JSON", dest="arguments")
    option(call, "--args JSON", "all arguments as one JSON object")
    option(call, "--agent ID")

    summary = "restart a server in the running gateway"
    option(add_action(actions, "restart", summary, "mcp_live:restart"), "NAME")

    summary = "list the servers' prompts, or get one"
    prompt = add_action(actions, "prompt", summary, "mcp_live:prompt")
    option(prompt, "[SERVER:PROMPT]", dest="prompt")
    option(prompt, "[key=value…]", dest="arguments")
    option(prompt, "--agent ID")


def _declare_trust(actions: Any) -> None:
    summary = "show how servers' declarations differ from what you accepted"
    pins = add_action(actions, "pins", summary, "mcp_live:pins")
    what = ("list", "show", "accept")
    pins.add_argument("what", nargs="?", default="list", choices=what)
    option(pins, "[NAME]", "a server")
    option(pins, "[TOOL…]", "accept only these tools", dest="tools")

    summary = "show what a server's tools do, or set it yourself"
    effects = add_action(actions, "effects", summary, "mcp_live:effects")
    option(effects, "SERVER", dest="name")
    kinds = "read, open (an address), change, send or destroy; auto removes your setting"
    option(effects, "[TOOL=EFFECT…]", kinds, dest="changes")
    option(effects, "--agent ID")

    login = add_action(actions, "login", "log in to a remote server", "mcp_live:log_in_to_server")
    option(login, "NAME")
    option(login, "--no-browser", "print the address instead of opening a browser")
    option(
        add_action(actions, "logout", "delete the login to a server", "mcp_live:log_out_of_server"),
        "NAME",
    )


# ---- configured servers

DEFAULTS: KeyPath = ("agents", "defaults", "mcp", "servers")
TOP: KeyPath = ("mcp", "servers")


def _list(args: argparse.Namespace, env: Environment) -> None:
    config = env.config
    agents = {one.id: one for one in config.agents.list or (AgentEntry(id="main"),)}
    if args.agent is not None and args.agent not in agents:
        raise NotFound(f"there is no agent '{args.agent}'")
    shown = agents if args.agent is None else {args.agent: agents[args.agent]}
    found = [
        (agent, name, server)
        for agent, entry in shown.items()
        for name, server in sorted(agent_servers(config, entry).items())
    ]
    width = max((len(name) for _, name, _ in found), default=0)
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for agent, name, server in found:
        started = " ".join([server.command or "", *server.args])
        target = started if server.kind == "stdio" else server.url
        row = {"agent": agent, "name": name, "transport": server.kind, "target": target}
        row |= {"enabled": server.enabled, "lazy": server.lazy, "toolPrefix": server.tool_prefix}
        rows.append(row)
        marks = [word for word, on in (("off", not server.enabled), ("lazy", server.lazy)) if on]
        note = f"  ({', '.join(marks)})" if marks else ""
        whose = f"{agent}: " if len(shown) > 1 else ""
        lines.append(f"{whose}{name:<{width}}  {server.kind:<5}  {target}{note}")
    empty = "No MCP servers are configured. Add one with: openclaw mcp add NAME -- COMMAND"
    env.report(args, {"servers": rows}, *lines, empty=empty)


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def _add(args: argparse.Namespace, env: Environment) -> None:
    if not _NAME.fullmatch(args.name):
        hint = "use letters, digits, '-', '_' and '.', at most 64, such as my-server"
        raise InvalidRequest(f"{args.name!r} is not a name for an MCP server", hint=hint)
    if args.url and not args.url.startswith(("http://", "https://")):
        hint = "start it with https:// or http://"
        raise InvalidRequest(f"{args.url!r} is not an address", hint=hint, field="--url")
    entry = _entry(args)
    if recorded := _network_settings(env.environ) if entry.get("command") else {}:
        entry["env"] = recorded | dict(entry.get("env") or {})
    if not args.no_sandbox:
        entry = with_sandbox(entry, env.environ)

    def added(text: str) -> str:
        place = (*target_place(text, args.agent), args.name)
        if parse(text).find(place) is not None and not args.force:
            message = f"MCP server '{args.name}' already exists; use --force to replace it"
            raise InvalidRequest(message)
        return set_value(text, place, entry)

    path = _change(env, added)
    fact = {"added": args.name, "sandbox": entry.get("sandbox", "off")}
    words = f"Added MCP server '{args.name}' to {path}."
    if recorded:
        words += f" It gets these settings of yours, wherever it starts: {', '.join(recorded)}."
    env.report(args, fact, f"{words}\n{EXPLAINED}" if "sandbox" in entry else words)
    command = entry.get("command")
    if command and shutil.which(command, path=env.environ.get("PATH")) is None:
        env.warn(f"The command {command!r} was not found here: install it, or give its full path.")


def _network_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Certificates and proxies that are set here: a client may start us without them.

    A proxy's address with a password in it is left out.
    """
    found = {name: environ.get(name, "") for name in NETWORK}
    return {name: value for name, value in found.items() if value and "@" not in value}


def _remove(args: argparse.Namespace, env: Environment) -> None:
    def without(text: str) -> str:
        for place in _written_at(text, args):
            text = delete_value(text, place)
        return text

    before = parse(read_text(env.config_file) or "{}").root.plain()
    path = _change(env, without)
    after = parse(read_text(env.config_file) or "{}").root.plain()
    directories = _remove_homes(env, args.name, {*_commands(before, args.name)}, after)
    unused = {one.name for one in references(before) if one.scheme == "store"}
    unused &= {*SecretStore(env.environ).names()}
    secrets = sorted(unused - {one.name for one in references(after)})
    lines = [f"Removed MCP server '{args.name}' from {path}."]
    lines += [f"Removed its directory {one}." for one in directories]
    if args.secrets:
        for name in secrets:
            SecretStore(env.environ).remove(name)
        lines += [f"Removed the secret {name}." for name in secrets]
    else:
        command = f"{env.program} secrets remove"
        lines += [f"Nothing uses the secret {name} now: {command} {name}" for name in secrets]
    facts = {"removed": args.name, "directories": directories, "unusedSecrets": secrets}
    env.report(args, facts, *lines)


def _remove_homes(
    env: Environment, server: str, commands: Iterable[str | None], config: Any
) -> list[str]:
    """Remove the directories that the sandbox made for this server, unless it is still used."""
    removed: list[str] = []
    for command in set(commands) - {*_commands(config, server)}:
        home = own_home(env.paths.root, server, command)
        if home.is_dir():
            shutil.rmtree(home, ignore_errors=True)  # a gateway may not have stopped it yet
            removed.append(str(home))
    return removed


def _commands(config: Any, server: str) -> Iterator[str | None]:
    """The commands of a server of this name, wherever it is configured."""
    if isinstance(config, dict):
        for key, value in cast("dict[str, Any]", config).items():
            if key == "servers" and isinstance(value, dict) and server in value:
                yield cast("dict[str, Any]", value[server]).get("command")
            yield from _commands(value, server)
    elif isinstance(config, list):
        for value in cast("list[Any]", config):
            yield from _commands(value, server)


def set_effects(args: argparse.Namespace, env: Environment) -> None:
    wanted = dict(pair(word, "=", "TOOL=EFFECT") for word in args.changes)

    def changed(text: str) -> str:
        found = _written_at(text, args)[0]
        for tool, effect in wanted.items():
            place = (*found, "effects", tool)
            if effect != "auto":
                text = set_value(text, place, effect)
            elif parse(text).find(place) is not None:
                text = delete_value(text, place)
        return text

    path = _change(env, changed)
    summary = ", ".join(f"{tool}: {effect}" for tool, effect in wanted.items())
    env.report(args, {"server": args.name, "effects": wanted}, f"Wrote to {path}: {summary}.")


def _written_at(text: str, args: argparse.Namespace) -> list[KeyPath]:
    """Where the server that the arguments name is configured; raises `NotFound` if it isn't."""
    document = parse(text)
    places = [DEFAULTS, TOP] if args.agent is None else [_agent_place(document, args.agent)]
    found = [place for place in places if document.find((*place, args.name)) is not None]
    if not found:
        tables = [document.find(place) for place in places]
        known = [one.plain() for one in tables if one is not None and one.kind == "object"]
        raise no_server(args.name, [name for names in known for name in names])
    return [(*place, args.name) for place in found]


def _change(env: Environment, change: Callable[[str], str]) -> str:
    for warning in edit_config(env.config_file, env.environ, change).warnings:
        env.warn(warning)
    return str(env.config_file)


def _entry(args: argparse.Namespace) -> dict[str, Any]:
    if bool(args.url) == bool(args.program):
        raise InvalidRequest("give either --url URL, or the server's COMMAND after --")
    command, *rest = args.program or (None,)
    if args.cwd is None:  # the server won't start in this directory
        command = _absolute(command) if command and os.sep in command else command
        rest = [_absolute(word) for word in rest]
    entry: dict[str, Any] = {
        "command": command,
        "args": rest,
        "url": args.url,
        "transport": args.transport,
        "env": dict(pair(word, "=", "--env") for word in args.env),
        "inheritEnv": args.inherit_env,
        "headers": dict(pair(word, ":", "--header") for word in args.header),
        "sandbox": _sandbox(args),
        "cwd": args.cwd and _absolute(args.cwd),
        "toolPrefix": args.tool_prefix,
        "lazy": args.lazy,
    }
    return {key: value for key, value in entry.items() if value}


def _absolute(word: str) -> str:
    """A path in this directory as an absolute one; anything else as it is."""
    path = Path(word)
    is_path = os.sep in word or word in (".", "..") or path.suffix != ""
    with suppress(OSError):  # no path at all, such as a long text
        if is_path and path.exists():
            return str(path.absolute())
    return word


_NETWORKS: dict[str, bool | str] = {"on": True, "internet": "internet", "off": False}


def _sandbox(args: argparse.Namespace) -> dict[str, Any]:
    wanted: dict[str, Any] = {"read": args.read} if args.read else {}
    wanted |= {"write": args.write} if args.write else {}
    wanted |= {} if args.network is None else {"network": _NETWORKS[args.network]}
    if wanted and (args.no_sandbox or args.url):
        raise InvalidRequest("--read, --write and --network are for a server in a sandbox")
    return {"mode": DEFAULT, **wanted} if wanted else {}


def pair(word: str, separator: str, option: str, hint: str | None = None) -> tuple[str, str]:
    key, found, value = word.partition(separator)
    if not found or not key.strip():
        wrong = f"{option} must have the form K{separator}V, not {word!r}"
        raise InvalidRequest(wrong, hint=hint)
    return key.strip(), value.strip() if separator == ":" else value


def target_place(text: str, agent: str | None = None) -> KeyPath:
    """Where to add a new server: next to the existing ones, else under the defaults."""
    document = parse(text)
    if agent is not None:
        return _agent_place(document, agent)
    known = (place for place in (DEFAULTS, TOP) if document.find(place) is not None)
    return next(known, DEFAULTS)


def _agent_place(document: Document, agent: str) -> KeyPath:
    agents = document.find(("agents", "list"))
    for index, _ in enumerate(agents.items if agents is not None else ()):
        place: KeyPath = ("agents", "list", index)
        named = document.find((*place, "id"))
        if named is not None and named.plain() == agent:
            return (*place, "mcp", "servers")
    raise NotFound(f"there is no agent '{agent}' in agents.list")


# ---- the sandbox that an added server gets, unless the person says otherwise

DEFAULT = "auto"
# These start the server somewhere else, where our sandbox has no effect.
ELSEWHERE = frozenset({"docker", "podman", "nerdctl", "finch", "ssh", "wsl", "wsl.exe"})
EXPLAINED = (
    "It runs in a sandbox: it can write to the workspace and to paths in its arguments, and "
    "the rest of your home directory is hidden. `sandbox.read` and `sandbox.write` give access "
    "to more; --no-sandbox turns it off."
)


def with_sandbox(entry: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """A server's entry, with the default sandbox if it can have one and has none yet."""
    command = entry.get("command")
    if not isinstance(command, str) or "sandbox" in entry:
        return dict(entry)
    can = PurePath(command).name not in ELSEWHERE and detect_support(environ.get("PATH", "")).best
    return {**entry, "sandbox": DEFAULT} if can else dict(entry)
