"""`openclaw mcp list`, `add` and `remove`: the servers as the configuration has them."""

import argparse
import difflib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from openclaw.cli.environment import Environment
from openclaw.cli.parser import no_server
from openclaw.cli.setup import SOURCES
from openclaw.cli.setup.import_servers import (
    ImportedServer,
    Reference,
    guess_source,
    plain_values,
    protect,
)
from openclaw.cli.setup.other_clients import client_file, client_places, is_ourselves, read_client
from openclaw.config.agent_schema import AgentEntry
from openclaw.config.edit import delete_value, set_value
from openclaw.config.files import edit_config, write_atomically
from openclaw.config.json5 import Document, KeyPath, format_path, parse
from openclaw.config.load import parse_config, read_text
from openclaw.config.merge import agent_servers
from openclaw.config.paths import private_directory
from openclaw.config.secret_store import SecretStore
from openclaw.core.errors import EXIT_FAILED, EXIT_OK, InvalidConfig, InvalidRequest, NotFound
from openclaw.mcp_client.bounds import printable

if TYPE_CHECKING:
    from openclaw.config.agent_schema import McpServerConfig
    from openclaw.config.schema import Config

DEFAULTS: KeyPath = ("agents", "defaults", "mcp", "servers")
TOP: KeyPath = ("mcp", "servers")


def list_servers(args: argparse.Namespace, env: Environment) -> None:
    config = env.load_config().config
    rows = [
        {"agent": agent, "name": name, **_described(server)}
        for agent, servers in _by_agent(config, args.agent).items()
        for name, server in sorted(servers.items())
    ]
    empty = "No MCP servers are configured. Add one with: openclaw mcp add NAME -- COMMAND"
    env.report(args, {"servers": rows}, *_lines(rows), empty=empty)


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


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    several = len({row["agent"] for row in rows}) > 1
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        agent = f"{row['agent']}: " if several else ""
        marks = [word for word, on in (("off", not row["enabled"]), ("lazy", row["lazy"])) if on]
        note = f"  ({', '.join(marks)})" if marks else ""
        yield f"{agent}{row['name']:<{width}}  {row['transport']:<5}  {row['target']}{note}"


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def add_server(args: argparse.Namespace, env: Environment) -> None:
    if not _NAME.fullmatch(args.name):
        raise InvalidRequest(
            f"{args.name!r} is not a name for an MCP server",
            hint="use letters, digits, '-', '_' and '.', at most 64, such as my-server",
        )
    if args.url and not args.url.startswith(("http://", "https://")):
        raise InvalidRequest(
            f"{args.url!r} is not an address",
            hint="start it with https:// or http://",
            field="--url",
        )
    entry = _entry(args)
    if not args.no_sandbox:
        entry = with_sandbox(entry, env.environ)
    server = ImportedServer(args.name, entry)
    path = _change(env, lambda text: _written(text, [server], args.agent, force=args.force))
    fact = {"added": args.name, "sandbox": entry.get("sandbox", "off")}
    words = f"Added MCP server '{args.name}' to {path}."
    env.report(args, fact, f"{words}\n{EXPLAINED}" if "sandbox" in entry else words)
    command = entry.get("command")
    if command and shutil.which(command, path=env.environ.get("PATH")) is None:
        env.warn(f"The command {command!r} was not found here: install it, or give its full path.")


def remove_server(args: argparse.Namespace, env: Environment) -> None:
    def without(text: str) -> str:
        for place in _written_at(text, args):
            text = delete_value(text, place)
        return text

    path = _change(env, without)
    env.report(args, {"removed": args.name}, f"Removed MCP server '{args.name}' from {path}.")


def set_effects(args: argparse.Namespace, env: Environment) -> None:
    wanted = dict(_pair(word, "=", "TOOL=EFFECT") for word in args.changes)

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
    told = ", ".join(f"{tool}: {effect}" for tool, effect in wanted.items())
    env.report(args, {"server": args.name, "effects": wanted}, f"Wrote to {path}: {told}.")


def _written_at(text: str, args: argparse.Namespace) -> list[KeyPath]:
    """Where the server that the arguments name is written; raises `NotFound` where it is not."""
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
    entry: dict[str, Any] = {
        "command": command,
        "args": rest,
        "url": args.url,
        "transport": args.transport,
        "env": dict(_pair(word, "=", "--env") for word in args.env),
        "inheritEnv": args.inherit_env,
        "headers": dict(_pair(word, ":", "--header") for word in args.header),
        "sandbox": _sandbox(args),
        "cwd": args.cwd,
        "toolPrefix": args.tool_prefix,
        "lazy": args.lazy,
    }
    return {key: value for key, value in entry.items() if value}


_NETWORKS: dict[str, bool | str] = {"on": True, "internet": "internet", "off": False}


def _sandbox(args: argparse.Namespace) -> dict[str, Any]:
    """What the person said of the sandbox; empty if nothing."""
    wanted: dict[str, Any] = {"read": args.read} if args.read else {}
    wanted |= {"write": args.write} if args.write else {}
    wanted |= {} if args.network is None else {"network": _NETWORKS[args.network]}
    if wanted and (args.no_sandbox or args.url):
        raise InvalidRequest("--read, --write and --network are for a server in a sandbox")
    return {"mode": DEFAULT, **wanted} if wanted else {}


def _pair(word: str, separator: str, option: str) -> tuple[str, str]:
    key, found, value = word.partition(separator)
    if not found or not key.strip():
        raise InvalidRequest(f"{option} must have the form K{separator}V, not {word!r}")
    return key.strip(), value.strip() if separator == ":" else value


def target_place(text: str, agent: str | None = None) -> KeyPath:
    """Where a new server is written: beside those that are there, else under the defaults."""
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
    where = format_path(("agents", "list"))
    raise NotFound(f"there is no agent '{agent}' in {where}")


def take_over(args: argparse.Namespace, env: Environment) -> int:
    problems: list[str] = []
    found = _chosen(_read(args, env, problems), args.names, problems)
    env.hide(plain_values(found))
    references: tuple[Reference, ...] = ()
    if not args.keep_secrets:
        found, references = protect(found, env.environ, SecretStore(env.environ).in_file())
    if not args.no_sandbox:
        found = all_with_sandbox(found, env.environ)
    path = env.config_file
    before = read_text(path) or ""
    found = _valid(env, path, before, found, problems, force=args.force)
    references = tuple(one for one in references if one.server in {two.name for two in found})
    after = _written(before, found, force=args.force)
    written = bool(found) and not args.dry_run and _agreed(args, env, before, after)
    if written:
        store_all(env, references)
        edit_config(path, env.environ, lambda text: _written(text, found, force=args.force))
        remember_imported(env, (one.name for one in found))
    _report(args, env, found, references, problems, path=path, written=written)
    return EXIT_FAILED if problems else EXIT_OK


def imported_before(env: Environment) -> frozenset[str]:
    """The servers that were taken over at some time: one that is gone since is not wanted."""
    try:
        return frozenset(json.loads(_imported(env).read_text()))
    except (OSError, ValueError):
        return frozenset()


def remember_imported(env: Environment, names: Iterable[str]) -> None:
    private_directory(env.paths.root)
    write_atomically(_imported(env), json.dumps(sorted(imported_before(env) | set(names))) + "\n")


def _imported(env: Environment) -> Path:
    return env.paths.root / "imported-servers.json"


def store_all(env: Environment, references: Iterable[Reference]) -> str:
    """Keep the credentials that became references; says where."""
    store, where = SecretStore(env.environ), ""
    for one in references:
        if one.stored:
            where = store.set(one.variable, one.value.reveal())
    return where


def _read(
    args: argparse.Namespace, env: Environment, problems: list[str]
) -> tuple[ImportedServer, ...]:
    if args.source is not None:
        return _without_ourselves(env, _read_from(args.source, env))
    found: dict[str, ImportedServer] = {}
    here = [source for source in SOURCES if client_file(source, env.environ) is not None]
    if not here:
        raise NotFound(f"none of {', '.join(SOURCES)} has a configuration file here")
    for source in here:
        try:
            servers = _read_from(source, env)
        except InvalidRequest as error:
            problems.append(error.message)
            continue
        for server in servers:
            found.setdefault(server.name, server)
    return _without_ourselves(env, tuple(found.values()))


def _valid(
    env: Environment,
    path: Path,
    text: str,
    servers: Iterable[ImportedServer],
    problems: list[str],
    *,
    force: bool,
) -> tuple[ImportedServer, ...]:
    """The servers with which the configuration still holds; what is wrong with others is told."""
    parse_config(text or "{}", env.environ, source=path)
    kept: list[ImportedServer] = []
    for server in servers:
        tried = _written(text, [server], force=force)
        try:
            parse_config(tried, env.environ, source=path)
        except InvalidConfig as error:
            reason = "; ".join(f"{problem.path}: {problem.message}" for problem in error.problems)
            notes = "".join(f"; {note}" for note in server.notes)
            problems.append(f"MCP server '{server.name}' is left out: {reason}{notes}")
        else:
            kept.append(server)
            text = tried
    return tuple(kept)


def _without_ourselves(
    env: Environment, servers: tuple[ImportedServer, ...]
) -> tuple[ImportedServer, ...]:
    others = tuple(server for server in servers if not is_ourselves(server.entry))
    if len(others) < len(servers):
        env.warn("left out an entry that starts openclaw mcp-server, which is this program")
    return others


def _read_from(source: str, env: Environment) -> tuple[ImportedServer, ...]:
    path: Path | None = Path(source)
    if source in SOURCES:
        path = client_file(source, env.environ)
        if path is None:
            places = ", ".join(map(str, client_places(source, env.environ)))
            raise NotFound(f"{source} has no configuration file here (looked for {places})")
    elif path.is_file():
        source = guess_source(path.name)
    else:
        raise NotFound(f"'{source}' is neither a file nor one of {', '.join(SOURCES)}")
    return read_client(source, path)


def _chosen(
    found: tuple[ImportedServer, ...], names: Iterable[str], problems: list[str]
) -> tuple[ImportedServer, ...]:
    wanted = set(names)
    missing = wanted - {server.name for server in found}
    unread = "".join(f"; {problem}" for problem in problems)
    if missing:
        raise NotFound(f"there is no MCP server {', '.join(sorted(missing))} in that file{unread}")
    if not found:
        raise NotFound(f"there are no MCP servers in that file{unread}")
    return tuple(server for server in found if not wanted or server.name in wanted)


def _written(
    text: str, servers: Iterable[ImportedServer], agent: str | None = None, *, force: bool
) -> str:
    for server in servers:
        place = (*target_place(text, agent), server.name)
        if parse(text).find(place) is not None and not force:
            raise InvalidRequest(
                f"MCP server '{server.name}' already exists; use --force to replace it"
            )
        text = set_value(text, place, server.entry)
    return text


def _agreed(args: argparse.Namespace, env: Environment, before: str, after: str) -> bool:
    if args.yes:
        return True
    if args.json:
        raise InvalidRequest("with --json, add --yes to write or --dry-run to preview")
    _show(env, before, after)
    if not env.stdin.isatty():
        raise InvalidRequest("nobody can be asked here; add --yes to write or --dry-run to preview")
    return env.confirms("Write this?")


def _show(env: Environment, before: str, after: str) -> None:
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), "as it is", "as it would be", lineterm="", n=2
    )
    for line in lines:
        env.say(line)


def _report(
    args: argparse.Namespace,
    env: Environment,
    found: tuple[ImportedServer, ...],
    references: tuple[Reference, ...],
    problems: list[str],
    *,
    path: Path,
    written: bool,
) -> None:
    if args.json:
        env.say_json(
            {
                "servers": {server.name: server.entry for server in found},
                "notes": [{"server": s.name, "note": n} for s in found for n in s.notes],
                "secrets": [
                    {"variable": r.variable, "server": r.server, "key": r.key} for r in references
                ],
                "problems": [printable(env.redactor.redact(problem)) for problem in problems],
                "path": str(path),
                "written": written,
            }
        )
        return
    for problem in problems:
        env.warn(printable(env.redactor.redact(problem)))
    if args.dry_run:
        before = read_text(path) or ""
        _show(env, before, _written(before, found, force=args.force))
    for server in found:
        for note in server.notes:
            env.warn(f"{server.name}: {note}")
    for one in references:
        place = f"secret://{'store' if one.stored else 'env'}/{one.variable}"
        env.warn(f"{one.server}: the credential in {one.key} is now {place}")
    names = ", ".join(server.name for server in found)
    env.say(f"Imported {names} into {path}." if written else "Nothing was written.")


# ---- the sandbox that a server gets when it is added, unless the person says otherwise

DEFAULT = "auto"

ELSEWHERE = frozenset({"docker", "podman", "nerdctl", "finch", "ssh", "wsl", "wsl.exe"})
"""Commands that start the server somewhere else, where no sandbox of ours is around it."""

EXPLAINED = (
    "It runs in a sandbox: it can write to the workspace and to paths in its arguments, and "
    "the rest of your home directory is hidden. `sandbox.read` and `sandbox.write` give access "
    "to more; --no-sandbox turns it off."
)


def with_sandbox(entry: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The entry of a server with the default sandbox, if it can have one and has none yet."""
    command = entry.get("command")
    if not isinstance(command, str) or "sandbox" in entry:
        return dict(entry)
    if PurePath(command).name in ELSEWHERE or not _machine_can(environ):
        return dict(entry)
    return {**entry, "sandbox": DEFAULT}


def all_with_sandbox(
    servers: Sequence[ImportedServer], environ: Mapping[str, str]
) -> tuple[ImportedServer, ...]:
    return tuple(replace(one, entry=with_sandbox(one.entry, environ)) for one in servers)


def _machine_can(environ: Mapping[str, str]) -> bool:
    from openclaw.mcp_client.sandbox.confinement import find_means

    return find_means(environ.get("PATH", "")).best is not None
