"""Moves another program's MCP servers into openclaw.json, leaves it the hub alone, and takes that back.

Only what stands at the program's own place for servers is moved, not what its projects add.
"""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from openclaw.cli.commands.mcp import target_place
from openclaw.cli.environment import Environment
from openclaw.cli.setup import import_servers as importing
from openclaw.cli.setup import plan as plans
from openclaw.config.edit import delete_value, set_value
from openclaw.config.json5 import parse
from openclaw.config.load import read_text
from openclaw.core.errors import InvalidConfig, InvalidRequest, NotFound
from openclaw.core.tools import JsonObject, json_list, json_object

HUB_NAME = "openclaw-hub"
_SAME = ("command", "args", "url")
_HEADER = re.compile(r"\s*\[\[?([^\]]*)\]\]?\s*(?:#.*)?$")


# ---- the text of a program's file


def with_hub(text: str, client: str, moved: Collection[str], entry: JsonObject) -> str:
    """The program's file with the hub in place of these servers."""
    place = plans.CLIENTS[client].place
    wanted = {**plans.CLIENTS[client].extra, **entry}
    if client == "codex":
        tables = [part for part in _tables(text) if part.server not in (*moved, HUB_NAME)]
        after = "".join(part.text for part in tables).rstrip() + "\n\n" + _as_toml(wanted)
        return _checked(after, {**_servers(text, client, moved), HUB_NAME: wanted})
    for name in moved:
        text = delete_value(text, (place, name))
    return set_value(text, (place, HUB_NAME), wanted)


def without_hub(text: str, client: str, before: str, moved: Collection[str]) -> str:
    """The program's file without the hub, and with these servers as they were `before`."""
    place = plans.CLIENTS[client].place
    present = json_object(_content(text, client).get(place))
    back = [name for name in moved if name not in present]
    originals = json_object(_content(before, client).get(place))
    if client == "codex":
        kept = "".join(part.text for part in _tables(text) if part.server != HUB_NAME).rstrip()
        old = "".join(part.text for part in _tables(before) if part.server in back)
        after = f"{kept}\n\n{old}".lstrip()
        servers = _servers(text, client, [HUB_NAME])
        return _checked(after, {**servers, **{name: originals[name] for name in back}})
    if HUB_NAME in present:
        text = delete_value(text, (place, HUB_NAME))
    for name in back:
        text = set_value(text, (place, name), originals[name])
    return text


def _content(text: str, client: str) -> JsonObject:
    parsed: Any = importing.parse_toml(text) if client == "codex" else parse(text).root.plain()
    return json_object(parsed)


def _servers(text: str, client: str, but: Collection[str]) -> dict[str, Any]:
    listed = json_object(_content(text, client).get(plans.CLIENTS[client].place))
    return {name: one for name, one in listed.items() if name not in but}


@dataclass(frozen=True, slots=True)
class _Table:
    """A part of a TOML file from one header to the next, and the MCP server that it is about."""

    server: str | None
    text: str


def _tables(text: str) -> list[_Table]:
    tables = [_Table(None, "")]
    for line in text.splitlines(keepends=True):
        if header := _HEADER.match(line):
            path = tuple(importing.parse_toml(f"[{header[1]}]\n").items())
            tables.append(_Table(_server_of(path), ""))
        tables[-1] = replace(tables[-1], text=tables[-1].text + line)
    return tables


def _server_of(path: Sequence[tuple[str, Any]]) -> str | None:
    (key, inside), *_ = path
    return next(iter(inside), None) if key == "mcp_servers" else None


def _as_toml(entry: JsonObject) -> str:
    tables = {f"mcp_servers.{HUB_NAME}": {k: v for k, v in entry.items() if k != "env"}}
    if entry.get("env"):
        tables[f"mcp_servers.{HUB_NAME}.env"] = entry["env"]
    parts = (
        [
            f"[{name}]",
            *(f"{key} = {json.dumps(one, ensure_ascii=False)}" for key, one in table.items()),
        ]
        for name, table in tables.items()
    )
    return "\n\n".join("\n".join(lines) for lines in parts) + "\n"


def _checked(after: str, servers: JsonObject) -> str:
    """Editing line by line can go wrong, so the result is compared with what was wanted."""
    if _content(after, "codex").get("mcp_servers", {}) != servers:
        raise InvalidRequest("it cannot be edited safely here")
    return after


# ---- plans


def moving_to_hub(
    env: Environment, clients: Sequence[str], text: str | None, *, sandbox: bool
) -> plans.Plan:
    """Import these programs' servers, and leave the programs the hub."""
    plan = plans.Plan([], None, [], [], [], [], [])
    after = text
    for client in clients:
        found = plans.find_servers(env, client)
        path = plans.client_file(client, env.environ)
        assert path is not None
        own = _servers(read_text(path) or "", client, ())
        names = [name for name in found.servers if name in own]
        part = plans.make_plan(env, found, after, servers=names, sandbox=sandbox)
        for change in part.changes:
            after = change.change(read_text(env.config_file) or "")
        moved = [name for name in names if name in part.servers or _is_there(after, found, name)]
        plan = _joined(plan, part)
        if not moved:
            plan.notes.append(f"{plans.CLIENTS[client].title} has no servers that could be moved")
            continue
        try:
            plan.changes.append(_hub_change(env, client, path, moved))
        except (InvalidRequest, InvalidConfig) as error:
            plan.left_out.append(f"{path} was left unchanged: {error.message}")
            continue
        plan.clients.append(client)
        plan.moved[client] = moved
    return plan


def _hub_change(env: Environment, client: str, path: Path, moved: list[str]) -> plans.FileChange:
    entry = plans.our_entry(env.environ, env.config_option, "mcp-hub")
    with_hub(read_text(path) or "", client, moved, entry)  # raises if that is not possible
    place = plans.CLIENTS[client].place
    removed = [f"- {place}.{name}" for name in moved]
    added = f"+ {place}.{HUB_NAME}: {json.dumps({**plans.CLIENTS[client].extra, **entry})}"
    change = partial(with_hub, client=client, moved=moved, entry=entry)
    return plans.FileChange(path, change, "\n".join([*removed, added]))


def _joined(plan: plans.Plan, part: plans.Plan) -> plans.Plan:
    """Both plans; the later change of our own file is the whole of it."""
    ours = [change for change in plan.changes if change.summary is not None]
    return plans.Plan(
        [*(part.changes or [c for c in plan.changes if c.summary is None]), *ours],
        None,
        [*plan.servers, *part.servers],
        plan.clients,
        [*plan.references, *part.references],
        [*plan.notes, *part.notes],
        [*plan.left_out, *part.left_out],
        plan.moved,
    )


def _is_there(text: str | None, found: plans.FoundServers, name: str) -> bool:
    """Whether openclaw.json has this very server already."""
    node = None if text is None else parse(text).find((*target_place(text), name))
    there = json_object(None if node is None else node.plain())
    entry = found.servers[name].entry
    return bool(there) and all(there.get(key) == entry.get(key) for key in _SAME)


def leaving_hub(env: Environment, clients: Sequence[str]) -> plans.Plan:
    """Give these programs their own servers back; the ones in openclaw.json stay."""
    plan = plans.Plan([], None, [], [], [], [], [])
    for client in clients:
        record = plans.moved_before(env).get(client)
        if record is None:
            raise NotFound(f"the servers of {client} were not moved to the hub")
        path, backup = Path(record["path"]), Path(record["backup"])
        before = read_text(backup)
        if before is None:
            raise NotFound(f"the backup {backup} is gone")
        names = [str(name) for name in json_list(record["servers"])]
        place = plans.CLIENTS[client].place
        lines = [f"- {place}.{HUB_NAME}", *(f"+ {place}.{name}" for name in names)]
        change = partial(without_hub, client=client, before=before, moved=names)
        plan.changes.append(plans.FileChange(path, change, "\n".join(lines)))
        plan.clients.append(client)
        plan.moved[client] = []
    return plan
