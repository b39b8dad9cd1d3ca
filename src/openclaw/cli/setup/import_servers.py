"""Converts MCP servers from other programs' configuration files to our entries. Pure.

Supports Claude Desktop, Claude Code, Cursor, VS Code, Codex, Gemini, Windsurf and Zed.
"""

import math
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, count
from operator import getitem
from typing import Any, cast

from openclaw.config.json5 import KeyPath, format_path
from openclaw.config.sensitive import plain_credentials
from openclaw.core.errors import InvalidRequest
from openclaw.core.tools import json_list, json_object
from openclaw.secrets.refs import Secret

Entry = dict[str, Any]

_FILE_NAMES = {"claude_desktop_config.json": "claude-desktop", "mcp_config.json": "windsurf"}
_COPIED = ("command", "args", "env", "cwd", "url", "headers")
_IGNORED = frozenset(
    (
        *("type", "name", "disabled", "enabled", "gallery", "version", "description", "dev"),
        *("autoApprove", "trust", "source"),
    )
)
_TABLES = ("env", "headers")
_SCALAR = (str, int, float)
_TRANSPORTS = {"sse": "sse", "http": "http", "streamable-http": "http"}
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]{0,256})?\}")
_INPUT = re.compile(r"\$\{input:([^}]{1,256})\}")


@dataclass(frozen=True, slots=True)
class ImportedServer:
    name: str
    entry: Entry
    notes: tuple[str, ...] = ()
    client: str = ""

    @property
    def target(self) -> str:
        words = [str(self.entry.get("command", "")), *map(str, self.entry.get("args", ()))]
        return str(self.entry.get("url") or " ".join(words))


def guess_source(file_name: str) -> str:
    if file_name.endswith(".toml"):
        return "codex"
    return _FILE_NAMES.get(file_name, "claude-code")


def parse_toml(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"it is not TOML: {error}") from error


def read_servers(
    source: str, content: Mapping[str, Any], project: str | None = None
) -> tuple[ImportedServer, ...]:
    if source == "codex":
        places = [content.get("mcp_servers")]
    else:
        local = json_object(json_object(content.get("projects")).get(project or ""))
        places = [content.get("mcpServers"), content.get("servers")]
        places += [json_object(content.get("mcp")).get("servers"), content.get("context_servers")]
        places.append(local.get("mcpServers"))
    found = {name: one for place in places for name, one in json_object(place).items()}
    return tuple(_server(name, json_object(one), source) for name, one in found.items())


def _as_others_write(source: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    one = dict(fields)
    if "serverUrl" in one:  # Windsurf
        one.setdefault("url", one.pop("serverUrl"))
    if "httpUrl" in one:  # Gemini, where `url` alone means SSE
        one |= {"url": one.pop("httpUrl"), "type": "http"}
    elif source == "gemini" and one.get("url"):
        one.setdefault("type", "sse")
    command = one.get("command")
    if isinstance(command, list) and command:  # the program and its arguments in one
        words = json_list(cast("object", command))
        one |= {"command": words[0], "args": [*words[1:], *json_list(one.get("args"))]}
    if isinstance(one.get("command"), dict):  # Zed's older shape
        command = json_object(one.pop("command"))
        one |= {"command": command.get("path"), "args": command.get("args")}
        one |= {"env": command.get("env")}
    return one


def _valid(key: str, value: object, notes: list[str]) -> Any:
    """The valid part of the value, with a note if anything is left out."""
    fits: Any = value if isinstance(value, str) and key not in _TABLES else None
    if key in _TABLES:
        fits = _strings(value)
    elif key == "args" and isinstance(value, str):
        try:
            fits = shlex.split(value)
        except ValueError:
            fits = [value]
    elif key == "args" and all(isinstance(word, _SCALAR) for word in json_list(value)):
        fits = list(map(str, json_list(value)))
    if not fits or (key in _TABLES and len(fits) < len(json_object(value))):
        notes.append(f"'{key}' is invalid and is left out, as far as it is")
    return fits


def _server(name: str, as_written: Mapping[str, Any], source: str) -> ImportedServer:
    fields, codex = _as_others_write(source, as_written), source == "codex"
    notes: list[str] = []
    entry: Entry = {k: _valid(k, fields[k], notes) for k in _COPIED if fields.get(k)}
    entry = {key: value for key, value in entry.items() if value}
    if codex:
        entry |= _codex_entry(fields)
    elif (transport := _TRANSPORTS.get(str(fields.get("type", "")))) is not None:
        entry["transport"] = transport
    if fields.get("disabled") is True or fields.get("enabled") is False:
        entry["enabled"] = False
    known = {*_COPIED, *_IGNORED, *(_CODEX_KEYS if codex else ())}
    notes += [f"'{key}' is not supported here and is left out" for key in sorted({*fields} - known)]
    return ImportedServer(name, _adapted(entry, "", notes), tuple(notes), source)


_CODEX_KEYS = (
    *("http_headers", "env_http_headers", "bearer_token_env_var", "env_vars"),
    *("startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec"),
)


def _codex_entry(fields: Mapping[str, Any]) -> Entry:
    entry: Entry = {}
    for key, ours, factor in (
        ("startup_timeout_sec", "timeout", 1000),
        ("startup_timeout_ms", "timeout", 1),
        ("tool_timeout_sec", "toolTimeout", 1000),
    ):
        if isinstance(fields.get(key), int | float) and math.isfinite(fields[key]):
            entry[ours] = int(fields[key] * factor)
    headers: dict[str, str] = dict(_strings(fields.get("http_headers")))
    for header, variable in _strings(fields.get("env_http_headers")).items():
        headers[header] = f"secret://env/{variable}"
    if isinstance(fields.get("bearer_token_env_var"), str):
        headers["Authorization"] = f"Bearer secret://env/{fields['bearer_token_env_var']}"
    if headers:
        entry["headers"] = headers
    if fields.get("env_vars"):
        entry["inheritEnv"] = [one for one in json_list(fields["env_vars"]) if isinstance(one, str)]
    return entry


def _adapted(value: Any, key: str, notes: list[str]) -> Any:
    """The value with variables as we write them."""
    if isinstance(value, dict):
        inner = cast("Mapping[str, Any]", value)
        return {name: _adapted(one, name, notes) for name, one in inner.items()}
    if isinstance(value, list):
        return [_adapted(one, key, notes) for one in cast("list[Any]", value)]
    return _variables(value, key, notes) if isinstance(value, str) else value


def _variables(text: str, key: str, notes: list[str]) -> str:
    def asked(match: re.Match[str]) -> str:
        notes.append(f"'{key}' was asked for at every start; set its variable instead")
        return f"<secret://env/{variable_name(match[1])}>"

    plain = re.sub(r"\$\{(?!(?:env:|input:)?[A-Za-z_][\w-]*(?::-[^}]{0,256})?\})", "$${", text)
    return _INPUT.sub(asked, _VARIABLE.sub(r"${\1}", plain))


def variable_name(name: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
    return f"_{safe}" if safe[:1].isdigit() else safe or "SECRET"


def _strings(value: object) -> dict[str, str]:
    plain = {key: one for key, one in json_object(value).items() if isinstance(one, _SCALAR)}
    return {k: str(one).lower() if isinstance(one, bool) else str(one) for k, one in plain.items()}


_PLACES = ("env", "headers", "args", "url")


@dataclass(frozen=True, slots=True)
class Reference:
    """A credential that became a reference; `stored` unless the environment already has it."""

    variable: str
    server: str
    key: str
    value: Secret
    stored: bool

    @property
    def text(self) -> str:
        return f"secret://{'store' if self.stored else 'env'}/{self.variable}"


def protect(
    servers: Iterable[ImportedServer],
    environ: Mapping[str, str] | None = None,
    stored: Mapping[str, str] | None = None,
) -> tuple[tuple[ImportedServer, ...], tuple[Reference, ...]]:
    """The servers with plain credentials replaced by references, and the values to store.

    A value that is in `environ` is read from there. `stored` has the names in use.
    """
    held = {value: name for name, value in (environ or {}).items() if len(value) >= 8}
    taken = dict(stored or {})  # two values never share a name

    def named(value: str, wanted: Sequence[str]) -> str:
        """The variable that already has this value, else the first free name."""
        if value in held:
            return held[value]
        names = [variable_name(one) for one in wanted]
        numbered = (f"{names[-1]}_{number}" for number in count(2))
        free = (name for name in chain(names, numbered) if taken.setdefault(name, value) == value)
        return next(free)

    references: list[Reference] = []
    protected: list[ImportedServer] = []
    for server in servers:
        entry, notes = deepcopy(server.entry), list(server.notes)
        for path, value in credentials(server.entry):
            variable = named(value, _wanted(server.name, path))
            where, is_new = format_path(path), value not in held
            one = Reference(variable, server.name, where, Secret(value), is_new)
            references.append(one)
            place: Any = reduce(getitem, path[:-1], cast("Any", entry))
            place[path[-1]] = _with_reference(str(place[path[-1]]), value, one.text)
            if path[0] == "args" and _SEEN not in notes:
                notes.append(_SEEN)
        protected.append(replace(server, entry=entry, notes=tuple(notes)))
    return tuple(protected), tuple(references)


_SEEN = (
    "other users of this machine can see a credential in the arguments while the server runs; "
    "move it to 'env' if the server allows that"
)


def plain_values(servers: Iterable[ImportedServer]) -> tuple[str, ...]:
    return tuple(value for server in servers for _, value in credentials(server.entry))


def credentials(entry: Entry) -> Iterator[tuple[KeyPath, str]]:
    """The places of plain-text credentials, and their values without `Bearer` and the like."""
    return plain_credentials({key: entry[key] for key in _PLACES if key in entry})


def _wanted(server: str, path: KeyPath) -> tuple[str, ...]:
    if path[0] == "env":
        return str(path[-1]), f"{server}_{path[-1]}"
    return (f"{server}_{path[-1] if path[0] == 'headers' else 'token'}",)


def _with_reference(text: str, value: str, reference: str) -> str:
    if text.endswith(f" {value}"):  # needs no angle brackets
        return f"{text[: -len(value)]}{reference}"
    return reference if text == value else text.replace(value, f"<{reference}>")
