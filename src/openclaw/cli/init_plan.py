"""What `openclaw init` would change: the configuration and other programs' files."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from openclaw.cli.environment import Environment
from openclaw.cli.file_changes import FileChange
from openclaw.cli.init_found import Found, ModelOffer
from openclaw.cli.mcp_edit import target_place
from openclaw.cli.other_clients import (
    CLIENTS,
    OUR_NAME,
    Client,
    client_target,
    our_entry,
    registered,
    unregistered,
)
from openclaw.config.edit import set_value
from openclaw.config.json5 import parse
from openclaw.config.keypath import format_path
from openclaw.config.load import parse_config, read_text
from openclaw.config.starter import starter_text, with_key, with_model
from openclaw.core.errors import InvalidConfig, InvalidRequest, OperatorFacing
from openclaw.mcp_client.import_secrets import Reference
from openclaw.mcp_client.importing import ImportedServer


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes, and what the person should know."""

    changes: tuple[FileChange, ...] = ()
    path: Path | None = None
    model: str | None = None
    servers: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    """Of each server, which program had it."""
    clients: tuple[str, ...] = ()
    references: tuple[Reference, ...] = ()
    notes: tuple[str, ...] = ()


def make_plan(
    env: Environment,
    found: Found,
    path: Path,
    text: str | None,
    *,
    model: ModelOffer | None,
    servers: Sequence[str],
    clients: Sequence[str],
) -> Plan:
    """Decide what every file becomes; `text` is the configuration to add to, if there is one."""
    notes: list[str] = []
    base = starter_text(model.ref if model else None) if text is None else text
    if model is not None:
        base = base if text is None else with_model(base, model.ref)
        base = with_key(base, model.provider, model.variable) if model.variable else base
    parse_config(base, env.environ, source=path)
    wanted = [one.server for one in found.servers if one.server.name in servers]
    after, taken = _with_servers(env, path, base, wanted, notes)
    plan = Plan(
        path=path,
        model=model.ref if model else None,
        servers=tuple(taken),
        origins=tuple(
            next((one.client for one in found.servers if one.server.name == name), "")
            for name in taken
        ),
        references=tuple(one for one in found.references if one.server in taken),
    )
    changes = [FileChange(path, _only_if(path, after))] if after != text else []
    for name in clients:
        change = _registered(env, name, notes)
        if change is not None:
            changes.append(change)
            plan = replace(plan, clients=(*plan.clients, name))
    return replace(plan, changes=tuple(changes), notes=tuple(notes))


def _only_if(path: Path, after: str) -> Callable[[str], str]:
    """This text, in place of the one that is there now and of no other."""
    seen = read_text(path) or ""

    def replaced(now: str) -> str:
        if now != seen:
            raise OperatorFacing(f"{path} was changed meanwhile; run this again")
        return after

    return replaced


def _with_servers(
    env: Environment, path: Path, text: str, servers: Sequence[ImportedServer], notes: list[str]
) -> tuple[str, list[str]]:
    taken: list[str] = []
    there: list[str] = []
    for server in servers:
        place = (*target_place(text), server.name)
        if parse(text).find(place) is not None:
            there.append(server.name)
            continue
        tried = set_value(text, place, server.entry)
        try:
            parse_config(tried, env.environ, source=path)
        except InvalidConfig as error:
            reason = "; ".join(f"{problem.path}: {problem.message}" for problem in error.problems)
            notes.append(f"MCP server '{server.name}' is left out: {reason}")
            continue
        notes += [f"{server.name}: {note}" for note in server.notes]
        taken.append(server.name)
        text = tried
    if there:
        notes.append(f"configured already, and left as they are: {', '.join(there)}")
    return text, taken


def _registered(env: Environment, name: str, notes: list[str]) -> FileChange | None:
    client = CLIENTS[name]
    path = client_target(name, env.environ)
    if path is None:
        notes.append(f"{client.title} is not here: none of its directories is")
        return None
    entry = our_entry(env.environ, env.config_option)
    shown = f"+ {_entry_place(client)}: {json.dumps({**client.extra, **entry})}"
    change = FileChange(path, lambda text: registered(text, client, entry), shown)
    try:
        same = not change.changes_anything()
    except (InvalidRequest, InvalidConfig) as error:
        hint = f"; {error.hint}" if error.hint else ""
        notes.append(f"{path} stays as it is: {error.message}{hint}")
        return None
    if same:
        notes.append(f"{client.title} knows OpenClaw already")
        return None
    return change


def removal(path: Path, client: Client) -> FileChange:
    """Our entry taken out of another program's file."""
    return FileChange(path, lambda text: unregistered(text, client), f"- {_entry_place(client)}")


def _entry_place(client: Client) -> str:
    return format_path((*client.place, OUR_NAME))
