"""`openclaw mcp pins`: what servers declared when they were accepted, and what they declare now."""

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from openclaw.cli.environment import Environment
from openclaw.cli.parser import no_server
from openclaw.cli.render.terminal import counted
from openclaw.config.merge import effective_agents
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.mcp_client.catalog.pin_store import PinStore, pin_key
from openclaw.mcp_client.catalog.pins import INSTRUCTIONS, Pinned, diff, shown_name

if TYPE_CHECKING:
    from openclaw.config.agent_schema import McpServerConfig
    from openclaw.mcp_client.auth.oauth import Logins


def run(args: argparse.Namespace, env: Environment) -> None:
    if args.what != "list" and args.name is None:
        raise InvalidRequest(f"name a server: {env.program} mcp pins {args.what} NAME")
    does = {"list": _list, "show": _show, "accept": _accept, "forget": _forget}
    does[args.what](args, env, PinStore(env.paths.pins))


def pinned_servers(env: Environment, store: PinStore) -> Iterator[tuple[str, str, Pinned]]:
    """Name, key and pins of every server that has any, under the name it is configured with."""
    known = store.load()
    seen: set[str] = set()
    for agent in effective_agents(env.load_config().config).values():
        for name, config in agent.servers.items():
            key = pin_key(config)
            if key in known and key not in seen:
                seen.add(key)
                yield name, key, known[key]
    for key, pinned in known.items():
        if key not in seen:
            yield pinned.name, key, pinned


def _list(args: argparse.Namespace, env: Environment, store: PinStore) -> None:
    rows = [_row(name, pinned) for name, _, pinned in pinned_servers(env, store)]
    lines = [
        f"{row['name']}  {row['target']}  {counted(row['tools'], 'tool')}, {_note(row)}"
        for row in rows
    ]
    empty = "Nothing is pinned yet: a server is pinned when it first starts."
    env.report(args, {"servers": rows}, *lines, empty=empty)


def _note(row: dict[str, Any]) -> str:
    changes = [*row["changed"], *row["new"], *(["its instructions"] * row["instructions"])]
    notes = [f"not accepted: {', '.join(changes)}"] if changes else []
    notes += [f"removed: {', '.join(row['removed'])}"] if row["removed"] else []
    return "; ".join(notes) or "as accepted"


def _row(name: str, pinned: Pinned) -> dict[str, Any]:
    pending = [one for one in pinned.pending if one != INSTRUCTIONS]
    return {
        "name": name,
        "target": pinned.target,
        "tools": sum(one != INSTRUCTIONS for one in pinned.accepted),
        "changed": [shown_name(one) for one in pending if one in pinned.accepted],
        "new": [shown_name(one) for one in pending if one not in pinned.accepted],
        "removed": [shown_name(one) for one in pinned.removed],
        "instructions": INSTRUCTIONS in pinned.pending,
    }


def _found(args: argparse.Namespace, env: Environment, store: PinStore) -> list[tuple[str, Pinned]]:
    found = [(key, one) for name, key, one in pinned_servers(env, store) if name == args.name]
    if not found:
        raise NotFound(
            f"there are no pins for a server '{args.name}'",
            hint=f"list all pins with: {env.program} mcp pins",
        )
    return found


def _show(args: argparse.Namespace, env: Environment, store: PinStore) -> None:
    found = [one for _, one in _found(args, env, store)]
    if args.json:
        env.say_json({"name": args.name, "pins": [_as_json(one) for one in found]})
        return
    for pinned in found:
        if args.tools:
            for tool in args.tools:
                env.say(_text_of(pinned, tool))
        else:
            _print_changes(env, args.name, pinned)


def _as_json(pinned: Pinned) -> dict[str, Any]:
    return {
        "target": pinned.target,
        "accepted": {name: one.text for name, one in pinned.accepted.items()},
        "pending": {
            name: {"text": one.text, "diff": diff(pinned, name)}
            for name, one in pinned.pending.items()
        },
        "removed": list(pinned.removed),
    }


def _text_of(pinned: Pinned, tool: str) -> str:
    if tool in pinned.pending:
        return diff(pinned, tool)
    if tool not in pinned.accepted:
        raise NotFound(f"'{pinned.name}' has no pinned tool '{tool}'")
    return pinned.accepted[tool].text


def _print_changes(env: Environment, name: str, pinned: Pinned) -> None:
    for key in pinned.pending:
        what = "changed" if key in pinned.accepted else "new"
        env.say(f"{shown_name(key)} ({what})\n{diff(pinned, key)}\n")
    for key in pinned.removed:
        env.say(f"{shown_name(key)} was removed\n")
    if pinned.pending:
        env.say(f"Accept it with: {env.program} mcp pins accept {name}")
    elif not pinned.removed:
        tools = ", ".join(shown_name(key) for key in pinned.accepted if key != INSTRUCTIONS)
        env.say(f"'{name}' matches what you accepted: {tools or 'no tools'}")


def _accept(args: argparse.Namespace, env: Environment, store: PinStore) -> None:
    accepted: list[str] = []
    for key, pinned in _found(args, env, store):
        for tool in args.tools:
            if tool not in pinned.pending and tool not in pinned.removed:
                raise NotFound(f"there is nothing to accept for '{args.name}/{tool}'")
        accepted += store.accept(key, args.tools or None)
    shown = [shown_name(one) for one in accepted]
    told = f"Accepted from '{args.name}': {', '.join(shown)}"
    nothing = f"There was nothing to accept for '{args.name}'."
    env.report(args, {"accepted": shown}, told if shown else nothing)


def _forget(args: argparse.Namespace, env: Environment, store: PinStore) -> None:
    for key, _ in _found(args, env, store):
        store.forget(key)
    told = f"'{args.name}' is now treated as new; it is pinned again when it next starts."
    env.report(args, {"forgotten": args.name}, told)


async def log_in(args: argparse.Namespace, env: Environment) -> None:
    from openclaw.mcp_client.auth.login import log_in, open_browser

    def show(url: str) -> None:
        env.warn(f"Open this address to log in to '{args.name}':\n\n    {url}\n")

    browse = None if args.no_browser else open_browser
    await log_in(_server(args, env), _logins(env), show=show, browse=browse)
    env.report(args, {"loggedIn": args.name}, f"Logged in to '{args.name}'.")


def log_out(args: argparse.Namespace, env: Environment) -> None:
    was = _logins(env).log_out(_server(args, env))
    told = f"There was no login to '{args.name}'."
    if was:
        told = f"Logged out of '{args.name}'; the server may still accept the tokens until they expire."
    env.report(args, {"loggedOut": args.name, "was": was}, told)


def _logins(env: Environment) -> "Logins":
    from openclaw.mcp_client.auth.oauth import Logins
    from openclaw.runtime.host import open_secrets

    secrets = open_secrets(env.load_config().config, env.environ, env.redactor)
    return Logins(
        directory=env.paths.tokens,
        register=env.redactor.register,
        resolve_secrets=secrets.resolve_map,
    )


def _server(args: argparse.Namespace, env: Environment) -> "McpServerConfig":
    agents = list(effective_agents(env.load_config().config).values())
    found = [agent.servers[args.name] for agent in agents if args.name in agent.servers]
    if not found:
        raise no_server(args.name, (name for agent in agents for name in agent.servers))
    for config in found:
        if config.auth is not None:
            return config
    raise InvalidRequest(
        f"MCP server '{args.name}' is not configured for a login",
        hint='add `auth: "oauth"` to it',
    )
