"""`openclaw mcp list`, `add` and `remove`: the servers as the configuration has them."""

import argparse
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from openclaw.cli.environment import Environment
from openclaw.cli.names import no_server
from openclaw.config.edit import delete_value, set_value
from openclaw.config.json5 import Document, parse
from openclaw.config.keypath import KeyPath, format_path
from openclaw.config.merge import agent_servers
from openclaw.config.schema import AgentEntry
from openclaw.config.write import edit_config
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.wire import EXIT_OK

if TYPE_CHECKING:
    from openclaw.config.schema import Config, McpServerConfig

DEFAULTS: KeyPath = ("agents", "defaults", "mcp", "servers")
TOP: KeyPath = ("mcp", "servers")


def list_servers(args: argparse.Namespace, env: Environment) -> int:
    """Show the configured servers, for each agent those that it has."""
    config = env.load_config().config
    rows = [
        {"agent": agent, "name": name, **_described(server)}
        for agent, servers in _by_agent(config, args.agent).items()
        for name, server in sorted(servers.items())
    ]
    if args.json:
        env.say_json({"servers": rows})
    elif not rows:
        env.say("No MCP servers are configured. Add one with: openclaw mcp add NAME -- COMMAND")
    else:
        _print(env, rows)
    return EXIT_OK


def _by_agent(config: "Config", agent: str | None) -> "Mapping[str, Mapping[str, McpServerConfig]]":
    entries = config.agents.list or (AgentEntry(id="main"),)
    found = {entry.id: agent_servers(config, entry) for entry in entries}
    if agent is None:
        return found
    if agent not in found:
        raise NotFound(f"there is no agent '{agent}'")
    return {agent: found[agent]}


def _described(server: "McpServerConfig") -> dict[str, Any]:
    started = " ".join([server.command or "", *server.args])
    target = started if server.kind == "stdio" else server.url
    return {
        "transport": server.kind,
        "target": target,
        "enabled": server.enabled,
        "lazy": server.lazy,
        "toolPrefix": server.tool_prefix,
    }


def _print(env: Environment, rows: list[dict[str, Any]]) -> None:
    several = len({row["agent"] for row in rows}) > 1
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        agent = f"{row['agent']}: " if several else ""
        marks = [word for word, on in (("off", not row["enabled"]), ("lazy", row["lazy"])) if on]
        note = f"  ({', '.join(marks)})" if marks else ""
        env.say(f"{agent}{row['name']:<{width}}  {row['transport']:<5}  {row['target']}{note}")


def add_server(args: argparse.Namespace, env: Environment) -> int:
    """Add a server to the configuration file."""
    entry = _entry(args)
    path = _change(env, lambda text: _added(text, args.agent, args.name, entry, args.force))
    _say(env, args, f"Added MCP server '{args.name}' to {path}.", {"added": args.name})
    return EXIT_OK


def remove_server(args: argparse.Namespace, env: Environment) -> int:
    """Take a server out of the configuration file, comments and all the rest left alone."""

    def without(text: str) -> str:
        document = parse(text)
        found = [
            (*place, args.name)
            for place in _places(document, args.agent)
            if document.find((*place, args.name)) is not None
        ]
        if not found:
            names = [
                key for place in _places(document, args.agent) for key in _keys(document, place)
            ]
            raise no_server(args.name, names)
        for place in found:
            text = delete_value(text, place)
        return text

    path = _change(env, without)
    _say(env, args, f"Removed MCP server '{args.name}' from {path}.", {"removed": args.name})
    return EXIT_OK


def _keys(document: Document, place: KeyPath) -> list[str]:
    found = document.find(place)
    written = found.plain() if found is not None else None
    return list(written) if isinstance(written, dict) else []  # pyright: ignore[reportUnknownArgumentType] - its keys are texts


def _say(env: Environment, args: argparse.Namespace, words: str, fact: dict[str, Any]) -> None:
    if args.json:
        env.say_json(fact)
    else:
        env.say(words)


def _change(env: Environment, change: Callable[[str], str]) -> str:
    from openclaw.config.paths import config_path

    path = env.config_option or config_path(env.environ)
    for warning in edit_config(path, env.environ, change).warnings:
        env.warn(warning)
    return str(path)


def _entry(args: argparse.Namespace) -> dict[str, Any]:
    if bool(args.url) == bool(args.program):
        raise InvalidRequest("give either --url URL or, behind --, the server's COMMAND")
    entry: dict[str, Any] = {}
    if args.program:
        entry |= {"command": args.program[0]}
        entry |= {"args": args.program[1:]} if args.program[1:] else {}
    else:
        entry["url"] = args.url
    if args.transport:
        entry["transport"] = args.transport
    if args.env:
        entry["env"] = dict(_pair(word, "=", "--env") for word in args.env)
    if args.inherit_env:
        entry["inheritEnv"] = args.inherit_env
    if args.header:
        entry["headers"] = dict(_pair(word, ":", "--header") for word in args.header)
    given = {"cwd": args.cwd, "toolPrefix": args.tool_prefix, "lazy": args.lazy or None}
    return entry | {key: value for key, value in given.items() if value is not None}


def _pair(word: str, separator: str, option: str) -> tuple[str, str]:
    key, found, value = word.partition(separator)
    if not found or not key.strip():
        raise InvalidRequest(f"{option} is written K{separator}V, not {word!r}")
    return key.strip(), value.strip() if separator == ":" else value


def _added(text: str, agent: str | None, name: str, entry: dict[str, Any], force: bool) -> str:
    place = (*target_place(text, agent), name)
    if parse(text).find(place) is not None and not force:
        raise InvalidRequest(f"there is an MCP server '{name}'; --force replaces it")
    return set_value(text, place, entry)


def target_place(text: str, agent: str | None = None) -> KeyPath:
    """Where a new server is written: beside those that are there, else under the defaults."""
    document = parse(text)
    if agent is not None:
        return _agent_place(document, agent)
    known = (place for place in (DEFAULTS, TOP) if document.find(place) is not None)
    return next(known, DEFAULTS)


def _places(document: Document, agent: str | None) -> list[KeyPath]:
    return [DEFAULTS, TOP] if agent is None else [_agent_place(document, agent)]


def _agent_place(document: Document, agent: str) -> KeyPath:
    agents = document.find(("agents", "list"))
    for index, _ in enumerate(agents.items if agents is not None else ()):
        place: KeyPath = ("agents", "list", index)
        named = document.find((*place, "id"))
        if named is not None and named.plain() == agent:
            return (*place, "mcp", "servers")
    where = format_path(("agents", "list"))
    raise NotFound(f"there is no agent '{agent}' in {where}")
