"""`openclaw mcp import`: other programs' MCP servers, shown before they are written."""

import argparse
import difflib
from collections.abc import Iterable
from pathlib import Path

from openclaw.cli.environment import Environment
from openclaw.cli.mcp_edit import target_place
from openclaw.cli.other_clients import client_file, client_places, is_ourselves, read_client
from openclaw.cli.words import read_line
from openclaw.config.edit import set_value
from openclaw.config.json5 import parse
from openclaw.config.load import parse_config, read_text
from openclaw.config.paths import config_path
from openclaw.config.write import edit_config
from openclaw.core.errors import InvalidConfig, InvalidRequest, NotFound
from openclaw.core.wire import EXIT_FAILED, EXIT_OK
from openclaw.mcp_client.bounds import printable
from openclaw.mcp_client.import_secrets import Reference, plain_values, protect
from openclaw.mcp_client.importing import SOURCES, ImportedServer, guess_source


def take_over(args: argparse.Namespace, env: Environment) -> int:
    """Read, protect, show, ask, write. What is broken costs itself alone, and the exit code says so."""
    problems: list[str] = []
    found = _chosen(_read(args, env, problems), args.names, problems)
    for value in plain_values(found):
        env.redactor.register(value)
    references: tuple[Reference, ...] = ()
    if not args.keep_secrets:
        found, references = protect(found, env.environ)
    path = env.config_option or config_path(env.environ)
    before = read_text(path) or ""
    found = _valid(env, path, before, found, problems, force=args.force)
    references = tuple(one for one in references if one.server in {two.name for two in found})
    after = _written(before, found, force=args.force)
    written = bool(found) and not args.dry_run and _agreed(args, env, before, after)
    if written:
        edit_config(path, env.environ, lambda text: _written(text, found, force=args.force))
    _report(args, env, found, references, problems, path=path, written=written)
    return EXIT_FAILED if problems else EXIT_OK


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
        env.warn("left out: an entry that starts openclaw mcp-server, this program itself")
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


def _written(text: str, servers: Iterable[ImportedServer], *, force: bool) -> str:
    for server in servers:
        place = (*target_place(text), server.name)
        if parse(text).find(place) is not None and not force:
            raise InvalidRequest(f"there is an MCP server '{server.name}'; --force replaces it")
        text = set_value(text, place, server.entry)
    return text


def _agreed(args: argparse.Namespace, env: Environment, before: str, after: str) -> bool:
    if args.yes:
        return True
    if args.json:
        raise InvalidRequest("with --json, say --yes to write or --dry-run to look")
    _show(env, before, after)
    if not env.stdin.isatty():
        raise InvalidRequest("nobody can be asked here; say --yes to write or --dry-run to look")
    env.stdout.write("Write this? [y/N] ")
    env.stdout.flush()
    return read_line(env.stdin).strip().lower() in ("y", "yes")


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
    for reference in references:
        env.warn(
            f"{reference.server}: the credential in {reference.key} is now read from the environment "
            f"variable {reference.variable}; set it, or use another secret:// reference"
        )
    names = ", ".join(server.name for server in found)
    env.say(f"Imported {names} into {path}." if written else "Nothing was written.")
