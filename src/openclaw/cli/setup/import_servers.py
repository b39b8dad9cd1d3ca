"""MCP servers from other programs' configuration files, as entries of our own. Pure.

Known are Claude Desktop, Claude Code, Cursor, VS Code, Codex, Gemini, Windsurf and Zed.
"""

import math
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, cast

from openclaw.config.json5 import KeyPath, format_path
from openclaw.config.sensitive import plain_credentials
from openclaw.core.errors import InvalidRequest
from openclaw.secrets.refs import Secret

Entry = dict[str, Any]

_FILE_NAMES = {
    "claude_desktop_config.json": "claude-desktop",
    "mcp_config.json": "windsurf",
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
        "trust",
        "source",
    }
)
_TABLES = ("env", "headers")
_SCALAR = (str, int, float)
_TRANSPORTS = {"stdio": "stdio", "sse": "sse", "http": "http", "streamable-http": "http"}
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^}]*)?\}")
_INPUT = re.compile(r"\$\{input:([^}]+)\}")


@dataclass(frozen=True, slots=True)
class ImportedServer:
    name: str
    entry: Entry
    notes: tuple[str, ...] = ()


def guess_source(file_name: str) -> str:
    """Which program a file of that name belongs to; a `mcpServers` file unless it is another."""
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
        local = _object(_object(content.get("projects")).get(project or ""))
        places = [content.get("mcpServers"), content.get("servers")]
        places += [_object(content.get("mcp")).get("servers"), content.get("context_servers")]
        places.append(local.get("mcpServers"))
    found = {name: one for place in places for name, one in _object(place).items()}
    return tuple(
        _server(name, _as_others_write(source, _object(one)), codex=source == "codex")
        for name, one in found.items()
    )


def _as_others_write(source: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """One program's peculiar names for what most programs call the same."""
    one = dict(given)
    if "serverUrl" in one:  # Windsurf
        one.setdefault("url", one.pop("serverUrl"))
    if "httpUrl" in one:  # Gemini, where `url` alone means SSE
        one |= {"url": one.pop("httpUrl"), "type": "http"}
    elif source == "gemini" and one.get("url"):
        one.setdefault("type", "sse")
    command = one.get("command")
    if isinstance(command, list) and command:  # the program and its arguments in one
        words = cast("list[object]", command)
        one |= {"command": words[0], "args": [*words[1:], *_list(one.get("args"))]}
    if isinstance(one.get("command"), dict):  # Zed's older shape
        command = _object(one.pop("command"))
        one |= {"command": command.get("path"), "args": command.get("args")}
        one |= {"env": command.get("env")}
    return one


def _copied(given: Mapping[str, Any], notes: list[str]) -> Entry:
    entry: Entry = {}
    for key in _COPIED:
        value = given.get(key)
        if not value:
            continue
        fits = _fits(key, value)
        if fits is None:
            notes.append(f"'{key}' is invalid and is left out")
            continue
        entry[key] = fits
        if key in _TABLES and len(fits) < len(value):
            notes.append(f"'{key}' has values that are not text; they are left out")
    return entry


def _fits(key: str, value: object) -> Any:
    if key in _TABLES:
        return _strings(cast("object", value)) if isinstance(value, dict) else None
    if key == "args":
        if isinstance(value, str):
            return _split(value)
        words = _list(value)
        return words if words and all(isinstance(word, _SCALAR) for word in words) else None
    return value if isinstance(value, str) else None


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return [line]


def _server(name: str, given: Mapping[str, Any], *, codex: bool) -> ImportedServer:
    notes: list[str] = []
    entry = _copied(given, notes)
    if codex:
        entry |= _codex_entry(given)
    elif (transport := _TRANSPORTS.get(str(given.get("type", "")))) in ("sse", "http"):
        entry["transport"] = transport
    if given.get("disabled") is True or given.get("enabled") is False:
        entry["enabled"] = False
    known = {*_COPIED, *_IGNORED, *(_CODEX_KEYS if codex else ())}
    notes += [f"'{key}' is not supported here and is left out" for key in sorted({*given} - known)]
    return ImportedServer(name, _adapted(entry, notes), tuple(notes))


_CODEX_KEYS = (
    *("http_headers", "env_http_headers", "bearer_token_env_var", "env_vars"),
    *("startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec"),
)


def _codex_entry(given: Mapping[str, Any]) -> Entry:
    entry = _codex_times(given)
    headers: dict[str, str] = dict(_strings(given.get("http_headers")))
    for header, variable in _strings(given.get("env_http_headers")).items():
        headers[header] = f"secret://env/{variable}"
    if isinstance(given.get("bearer_token_env_var"), str):
        headers["Authorization"] = f"Bearer secret://env/{given['bearer_token_env_var']}"
    if headers:
        entry["headers"] = headers
    if given.get("env_vars"):
        entry["inheritEnv"] = [one for one in _list(given["env_vars"]) if isinstance(one, str)]
    return entry


def _codex_times(given: Mapping[str, Any]) -> Entry:
    times: Entry = {}
    for key, ours, factor in (
        ("startup_timeout_sec", "timeout", 1000),
        ("startup_timeout_ms", "timeout", 1),
        ("tool_timeout_sec", "toolTimeout", 1000),
    ):
        if isinstance(given.get(key), int | float) and math.isfinite(given[key]):
            times[ours] = int(given[key] * factor)
    return times


def _adapted(entry: Entry, notes: list[str]) -> Entry:
    adapted = dict(entry)
    for key in ("env", "headers"):
        if key in adapted:
            values = _strings(adapted[key])
            adapted[key] = {k: _variables(v, k, notes) for k, v in values.items()}
    if "args" in adapted:
        adapted["args"] = [_variables(str(word), "args", notes) for word in adapted["args"]]
    for key in ("url", "command", "cwd"):
        if key in adapted:
            adapted[key] = _variables(str(adapted[key]), key, notes)
    return adapted


def _variables(text: str, key: str, notes: list[str]) -> str:
    def asked(match: re.Match[str]) -> str:
        notes.append(f"'{key}' was asked for at every start; set its variable instead")
        return f"<secret://env/{variable_name(match[1])}>"

    plain = re.sub(r"\$\{(?!(?:env:|input:)?[A-Za-z_][\w-]*(?::-[^}]*)?\})", "$${", text)
    return _INPUT.sub(asked, _VARIABLE.sub(r"${\1}", plain))


def variable_name(name: str) -> str:
    safe = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()
    return f"_{safe}" if safe[:1].isdigit() else safe or "SECRET"


def _object(value: object) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def _strings(value: object) -> dict[str, str]:
    plain = {key: one for key, one in _object(value).items() if isinstance(one, _SCALAR)}
    return {
        key: str(one).lower() if isinstance(one, bool) else str(one) for key, one in plain.items()
    }


_PLACES = ("env", "headers", "args", "url")
_NAME_BEFORE = re.compile(r"(?:^|[?&;#\s='\"-])([A-Za-z_][\w-]*)(?:=|:\s+(?:\w+\s+)?)$")
_FLAG = re.compile(r"-{1,2}([A-Za-z][\w-]*)")


@dataclass(frozen=True, slots=True)
class Reference:
    """A credential that became a reference: the name that now stands for it.

    It is to be `stored`, unless an environment variable of that name holds it already.
    """

    variable: str
    server: str
    key: str
    value: Secret
    stored: bool

    @property
    def text(self) -> str:
        return f"secret://{'store' if self.stored else 'env'}/{self.variable}"


@dataclass(slots=True)
class _Names:
    """Which variable stands for which value; two values never share one."""

    known: Mapping[str, str]
    taken: dict[str, str] = field(default_factory=dict[str, str])

    def variable(self, value: str, *wanted: str) -> str:
        """The variable that holds this value already, else the first of these that is free."""
        if value in self.known:
            return self.known[value]
        for name in map(variable_name, wanted):
            if self.taken.setdefault(name, value) == value:
                return name
        number = 2
        while self.taken.setdefault(f"{variable_name(wanted[-1])}_{number}", value) != value:
            number += 1
        return f"{variable_name(wanted[-1])}_{number}"


def protect(
    servers: Iterable[ImportedServer],
    environ: Mapping[str, str] | None = None,
    stored: Mapping[str, str] | None = None,
) -> tuple[tuple[ImportedServer, ...], tuple[Reference, ...]]:
    """The servers with every plain credential as a reference, and what has to be stored for that.

    A value that a variable of `environ` holds already is read from that one. `stored` are the names
    that are taken, with their values.
    """
    names = _Names(
        {value: name for name, value in (environ or {}).items() if len(value) >= 8},
        dict(stored or {}),
    )
    references: list[Reference] = []
    protected: list[ImportedServer] = []
    for server in servers:
        entry, notes = deepcopy(server.entry), list(server.notes)
        for path, value in credentials(server.entry):
            text = _at(entry, path)
            variable = names.variable(value, *_wanted(server.name, entry, path, value))
            stored_now = value not in names.known
            scheme = "store" if stored_now else "env"
            _put(entry, path, _with_reference(text, value, f"secret://{scheme}/{variable}"))
            references.append(
                Reference(variable, server.name, format_path(path), Secret(value), stored_now)
            )
            if path[0] == "args" and _SEEN not in notes:
                notes.append(_SEEN)
        protected.append(ImportedServer(server.name, entry, tuple(notes)))
    return tuple(protected), tuple(references)


_SEEN = (
    "other users of this machine can see a credential in the arguments while the server runs; "
    "move it to 'env' if the server allows that"
)


def plain_values(servers: Iterable[ImportedServer]) -> tuple[str, ...]:
    """The credentials that stand in these entries in plain text, for the redactor."""
    return tuple(value for server in servers for _, value in credentials(server.entry))


def credentials(entry: Entry) -> Iterator[tuple[KeyPath, str]]:
    """Where credentials stand in plain text, and what they are, without `Bearer` and the like."""
    return plain_credentials({key: entry[key] for key in _PLACES if key in entry})


def _wanted(server: str, entry: Entry, path: KeyPath, value: str) -> tuple[str, ...]:
    text = _at(entry, path)
    if text == value and path[0] == "env":
        return str(path[-1]), f"{server}_{path[-1]}"
    if path[0] == "headers":
        return (f"{server}_{path[-1] if text == value else 'TOKEN'}", f"{server}_{path[-1]}")
    before = text[: text.find(value)]
    named = _NAME_BEFORE.search(before)
    if text == value:  # the word after its flag
        index = int(path[-1])
        named = _FLAG.fullmatch(str(entry["args"][index - 1])) if index else None
    word = named[1] if named else "password" if ":" in before.partition("//")[2] else "token"
    own = f"{path[-1]}_" if path[0] == "env" else ""
    return (f"{server}_{own}{word}",)


def _with_reference(text: str, value: str, reference: str) -> str:
    if text.endswith(f" {value}"):  # what comes before it ends by itself
        return f"{text[: -len(value)]}{reference}"
    return reference if text == value else text.replace(value, f"<{reference}>")


def _at(entry: Entry, path: KeyPath) -> str:
    value: Any = entry
    for part in path:
        value = value[part]
    return str(value)


def _put(entry: Entry, path: KeyPath, text: str) -> None:
    place: Any = entry
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = text
