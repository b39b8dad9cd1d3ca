"""MCP servers from other programs' configuration files, as entries of our own. Pure.

Known are Claude Desktop, Claude Code, Cursor, VS Code and Codex. Credentials that stand there in
plain text become `secret://env/…` references; their values are never repeated.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from openclaw.core.errors import InvalidRequest
from openclaw.secrets.lookslike import looks_like_credential, plaintext_credentials

Entry = dict[str, Any]

SOURCES = ("claude-desktop", "claude-code", "cursor", "vscode", "codex")
_LOCATIONS: dict[str, tuple[str, ...]] = {
    "claude-desktop": (
        "Library/Application Support/Claude/claude_desktop_config.json",
        ".config/Claude/claude_desktop_config.json",
        "AppData/Roaming/Claude/claude_desktop_config.json",
    ),
    "claude-code": (".claude.json",),
    "cursor": (".cursor/mcp.json",),
    "vscode": (
        ".config/Code/User/mcp.json",
        "Library/Application Support/Code/User/mcp.json",
        "AppData/Roaming/Code/User/mcp.json",
    ),
    "codex": (".codex/config.toml",),
}
_COPIED = ("command", "args", "env", "cwd", "url", "headers")
_IGNORED = frozenset(
    {
        "type",
        "name",
        "disabled",
        "enabled",
        "gallery",
        "version",
        "description",
        "dev",
        "autoApprove",
    }
)
_TRANSPORTS = {"stdio": "stdio", "sse": "sse", "http": "http", "streamable-http": "http"}
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_INPUT = re.compile(r"\$\{input:([^}]+)\}")
_SCHEME = re.compile(r"(Bearer|Basic|Token|ApiKey)\s+(\S+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ImportedServer:
    """One server as it would be written, and what the person should know about it."""

    name: str
    entry: Entry
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reference:
    """A credential that became a reference: the variable that now has to hold it."""

    variable: str
    server: str
    key: str


@dataclass(slots=True)
class _Reading:
    notes: list[str] = field(default_factory=list[str])


def locations(source: str) -> tuple[str, ...]:
    """Where that program keeps its file, relative to the home directory."""
    return _LOCATIONS[source]


def guess_source(file_name: str) -> str:
    """Which program a file of that name belongs to; a `mcpServers` file unless it is another."""
    if file_name.endswith(".toml"):
        return "codex"
    if file_name == "claude_desktop_config.json":
        return "claude-desktop"
    return "claude-code"


def parse_toml(text: str) -> Mapping[str, Any]:
    """A TOML file's content; raises `InvalidRequest`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"it is not TOML: {error}") from error


def read_servers(
    source: str, content: Mapping[str, Any], project: str | None = None
) -> tuple[ImportedServer, ...]:
    """The servers in a file of that program's; `project` is the directory for Claude Code."""
    if source == "codex":
        return tuple(_codex(name, one) for name, one in _tables(content.get("mcp_servers")))
    found = dict(_tables(content.get("mcpServers")))
    found |= dict(_tables(content.get("servers")))
    found |= dict(_tables(_object(content.get("mcp")).get("servers")))
    if project is not None:
        local = _object(_object(content.get("projects")).get(project))
        found |= dict(_tables(local.get("mcpServers")))
    return tuple(_json_server(name, one) for name, one in found.items())


def _json_server(name: str, given: Mapping[str, Any]) -> ImportedServer:
    reading = _Reading()
    entry: Entry = {key: given[key] for key in _COPIED if given.get(key)}
    transport = _TRANSPORTS.get(str(given.get("type", "")))
    if transport in ("sse", "http"):
        entry["transport"] = transport
    if given.get("disabled") is True or given.get("enabled") is False:
        entry["enabled"] = False
    for key in sorted(set(given) - set(_COPIED) - _IGNORED):
        reading.notes.append(f"'{key}' has no counterpart here and is left out")
    return ImportedServer(name, _adapted(entry, reading), tuple(reading.notes))


def _codex(name: str, given: Mapping[str, Any]) -> ImportedServer:
    reading = _Reading()
    taken = {"http_headers", "env_http_headers", "bearer_token_env_var", "env_vars"}
    taken |= {"startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec"}
    entry: Entry = {key: given[key] for key in _COPIED if given.get(key)}
    headers: dict[str, str] = dict(_strings(given.get("http_headers")))
    for header, variable in _strings(given.get("env_http_headers")).items():
        headers[header] = f"secret://env/{variable}"
    if isinstance(given.get("bearer_token_env_var"), str):
        headers["Authorization"] = f"Bearer secret://env/{given['bearer_token_env_var']}"
    if headers:
        entry["headers"] = headers
    if given.get("env_vars"):
        entry["inheritEnv"] = list(given["env_vars"])
    entry |= _codex_times(given)
    if given.get("enabled") is False:
        entry["enabled"] = False
    for key in sorted(set(given) - set(_COPIED) - _IGNORED - taken):
        reading.notes.append(f"'{key}' has no counterpart here and is left out")
    return ImportedServer(name, _adapted(entry, reading), tuple(reading.notes))


def _codex_times(given: Mapping[str, Any]) -> Entry:
    times: Entry = {}
    for key, ours, factor in (
        ("startup_timeout_sec", "timeout", 1000),
        ("startup_timeout_ms", "timeout", 1),
        ("tool_timeout_sec", "toolTimeout", 1000),
    ):
        if isinstance(given.get(key), int | float):
            times[ours] = int(given[key] * factor)
    return times


def _adapted(entry: Entry, reading: _Reading) -> Entry:
    """The entry with the other program's variables written as ours."""
    adapted = dict(entry)
    for key in ("env", "headers"):
        if key in adapted:
            values = _strings(adapted[key])
            adapted[key] = {k: _variables(v, k, reading) for k, v in values.items()}
    if "args" in adapted:
        adapted["args"] = [_variables(str(word), "args", reading) for word in adapted["args"]]
        if _has_credential(adapted["args"]):
            reading.notes.append("an argument looks like a credential; move it into 'env'")
    for key in ("url", "command", "cwd"):
        if key in adapted:
            adapted[key] = _variables(str(adapted[key]), key, reading)
    return adapted


def _variables(text: str, key: str, reading: _Reading) -> str:
    def asked(match: re.Match[str]) -> str:
        reading.notes.append(f"'{key}' was asked for at start; set the variable that it names now")
        return f"<secret://env/{_upper(match[1])}>"

    plain = re.sub(r"\$\{(?!(?:env:|input:)?[A-Za-z_][\w-]*(?::-[^}]*)?\})", "$${", text)
    return _INPUT.sub(asked, _VARIABLE.sub(r"${\1}", plain))


def _has_credential(words: Sequence[str]) -> bool:
    for before, word in zip(("", *words), words, strict=False):
        option, equals, _ = word.partition("=")
        if word.startswith("-") and equals and looks_like_credential(option):
            return True
        if before.startswith("-") and not word.startswith("-") and looks_like_credential(before):
            return True
    return False


def protect(
    servers: Iterable[ImportedServer],
) -> tuple[tuple[ImportedServer, ...], tuple[Reference, ...]]:
    """The servers with every plain credential as a reference, and which variables they now need."""
    values: dict[str, str] = {}
    references: list[Reference] = []
    protected: list[ImportedServer] = []
    for server in servers:
        entry = dict(server.entry)
        for table in ("env", "headers"):
            given: Mapping[str, str] = entry.get(table, {})
            kept = dict(given)
            for key, value in given.items():
                if not list(plaintext_credentials({key: value})):
                    continue
                kept[key], variable = _reference(server.name, table, key, value, values)
                references.append(Reference(variable, server.name, f"{table}.{key}"))
            if kept:
                entry[table] = kept
        protected.append(ImportedServer(server.name, entry, server.notes))
    return tuple(protected), tuple(references)


def _reference(
    server: str, table: str, key: str, value: str, values: dict[str, str]
) -> tuple[str, str]:
    scheme = _SCHEME.fullmatch(value) if table == "headers" else None
    plain = scheme[2] if scheme else value
    wanted = key if table == "env" else f"{server}_{'TOKEN' if scheme else key}"
    variable = _upper(wanted)
    if values.setdefault(variable, plain) != plain:
        variable = _upper(f"{server}_{key}")
        values[variable] = plain
    reference = f"secret://env/{variable}"
    return (f"{scheme[1]} {reference}" if scheme else reference), variable


def plain_values(servers: Iterable[ImportedServer]) -> tuple[str, ...]:
    """The credentials that stand in these entries in plain text, for the redactor."""
    return tuple(
        value
        for server in servers
        for table in ("env", "headers")
        for value in plaintext_credentials(_strings(server.entry.get(table)))
    )


def _upper(name: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
    return f"_{safe}" if safe[:1].isdigit() else safe or "SECRET"


def _object(value: object) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}


def _tables(value: object) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for name, one in _object(value).items():
        if isinstance(one, dict):
            yield name, cast(Mapping[str, Any], one)


def _strings(value: object) -> dict[str, str]:
    return {key: str(one) for key, one in _object(value).items()}
