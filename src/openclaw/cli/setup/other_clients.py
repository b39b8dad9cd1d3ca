"""Other programs' MCP configuration files: where they are, and our entry in them."""

import json
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from openclaw.cli.setup import SOURCES
from openclaw.cli.setup.import_servers import ImportedServer, parse_toml, read_servers
from openclaw.config.edit import set_value
from openclaw.config.json5 import KeyPath, parse
from openclaw.config.paths import expand, home_dir
from openclaw.core.errors import InvalidConfig, InvalidRequest
from openclaw.core.tools import json_list

OUR_NAME = "openclaw"
_OURSELVES = frozenset({"openclaw", "clawdbot", "openclaw.exe", "clawdbot.exe"})

_PASSED_ON = ("OPENCLAW_CONFIG_PATH", "OPENCLAW_STATE_DIR")
_TOML_HEADER = re.compile(r"\s*\[\[?\s*(?P<name>[^\]]*?)\s*\]\]?\s*(?:#.*)?")


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers.

    Its file is at one of `files`, or in the directory that `variable` names, and has the servers at
    `place`. `marker` is a directory that shows that it is installed, in place of its file's own.
    """

    name: str
    title: str
    files: tuple[str, ...]
    place: KeyPath = ("mcpServers",)
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    marker: str = ""
    variable: str = ""


def _per_system(file: str) -> tuple[str, ...]:
    """Where programs have their settings on macOS, Linux and Windows."""
    places = ("Library/Application Support", ".config", "AppData/Roaming")
    return tuple(f"{place}/{file}" for place in places)


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            (".claude.json",),
            extra={"type": "stdio"},
            marker=".claude",
            variable="CLAUDE_CONFIG_DIR",
        ),
        Client(
            "claude-desktop",
            "Claude Desktop",
            _per_system("Claude/claude_desktop_config.json"),
        ),
        Client("cursor", "Cursor", (".cursor/mcp.json",)),
        Client(
            "vscode",
            "VS Code",
            _per_system("Code/User/mcp.json"),
            ("servers",),
            {"type": "stdio"},
        ),
        Client(
            "codex",
            "Codex",
            (".codex/config.toml",),
            ("mcp_servers",),
            {"tool_timeout_sec": 600},  # by default it gives up on an order after a minute
            variable="CODEX_HOME",
        ),
        Client("gemini", "Gemini CLI", (".gemini/settings.json",)),
        Client("windsurf", "Windsurf", (".codeium/windsurf/mcp_config.json",)),
        Client(
            "zed",
            "Zed",
            (".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
            ("context_servers",),
            {"source": "custom", "enabled": True},
        ),
    )
}
assert set(CLIENTS) == set(SOURCES)


def client_places(name: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    client = CLIENTS[name]
    if named := environ.get(client.variable):
        return (expand(named, environ).absolute() / Path(client.files[0]).name,)
    home = home_dir(environ)
    settings = Path(environ.get("XDG_CONFIG_HOME", ""))
    if not settings.is_absolute():  # which the specification has ignored
        settings = home / ".config"
    return tuple(
        settings / place.removeprefix(".config/") if place.startswith(".config/") else home / place
        for place in client.files
    )


def client_file(name: str, environ: Mapping[str, str]) -> Path | None:
    return next((place for place in client_places(name, environ) if _is_file(place)), None)


def client_target(name: str, environ: Mapping[str, str]) -> Path | None:
    """The program's file, even if it does not exist yet; None if the program is not installed."""
    if (found := client_file(name, environ)) is not None:
        return found
    client = CLIENTS[name]
    marker = "" if environ.get(client.variable) else client.marker
    places = client_places(name, environ)
    return next((place for place in places if (place.parent / marker).is_dir()), None)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # it may be one: whoever reads it says why that cannot be done
        return True


def read_client(source: str, path: Path) -> tuple[ImportedServer, ...]:
    """Raises `InvalidRequest` if the file cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        content: Any = parse_toml(text) if source == "codex" else parse(text).root.plain()
    except (InvalidConfig, InvalidRequest) as error:
        raise InvalidRequest(f"{path} cannot be read: {error.message}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}") from error
    if content is None:  # an empty file
        return ()
    if not isinstance(content, Mapping):
        raise InvalidRequest(f"{path} has no MCP servers")
    return read_servers(source, cast("Mapping[str, Any]", content), project=str(Path.cwd()))


def is_ourselves(entry: Mapping[str, Any]) -> bool:
    """Whether an entry starts this program: an agent that has itself as a tool never ends."""
    words = [entry.get("command") or "", *json_list(entry.get("args"))]
    names = {Path(str(word)).name for word in words}
    return "mcp-server" in names and bool(names & _OURSELVES)


def our_entry(environ: Mapping[str, str], config: Path | None) -> dict[str, Any]:
    beside = Path(sys.executable).with_name("openclaw")
    found = str(beside) if beside.is_file() else shutil.which("openclaw", path=environ.get("PATH"))
    words = [found] if found else [sys.executable, "-m", "openclaw"]
    options = ["--config", str(config.absolute())] if config is not None else []
    entry: dict[str, Any] = {"command": words[0], "args": [*words[1:], "mcp-server", *options]}
    passed = {name: environ[name] for name in _PASSED_ON if environ.get(name)}
    return entry | ({"env": passed} if passed else {})


def registered(text: str, client: Client, entry: Mapping[str, Any]) -> str:
    """The program's file with our entry in it; the same text if it is there already.

    Raises `InvalidRequest` if another server has our name, or the file cannot be changed safely.
    """
    wanted = {**client.extra, **entry}
    there: Any = parse_toml(text) if client.name == "codex" else parse(text).root.plain()
    for part in (*client.place, OUR_NAME):
        there = there.get(part) if isinstance(there, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - any JSON
    if isinstance(there, dict):
        now = cast("Mapping[str, Any]", there)
        if not is_ourselves(now) and "mcp-server" not in json_list(now.get("args")):
            told = f"{client.title} already has a different server called '{OUR_NAME}'"
            raise InvalidRequest(f"{told}; rename that one first")
        if all(now.get(key) == value for key, value in wanted.items()):
            return text
    if client.name == "codex":
        return _toml_registered(text, wanted)
    return set_value(text, (*client.place, OUR_NAME), wanted)


def _toml_registered(text: str, entry: Mapping[str, Any]) -> str:
    """The text with our tables at its end, instead of those that it has of ours."""
    before = parse_toml(text)
    if not isinstance(others := before.get("mcp_servers", {}), dict):
        hint = "correct or remove `mcp_servers` in it, then run this again"
        raise InvalidRequest("its `mcp_servers` is not a table", hint=hint)
    kept: list[str] = []
    ours = False
    for line in text.splitlines(keepends=True):
        header = _TOML_HEADER.fullmatch(line.rstrip("\r\n"))
        if header is not None:
            name = header["name"].replace('"', "").replace(" ", "")
            ours = f"{name}.".startswith(f"mcp_servers.{OUR_NAME}.")
        if not ours:
            kept.append(line)
    parts = ["".join(kept).rstrip()] if "".join(kept).strip() else []
    plain = {key: value for key, value in entry.items() if key != "env"}
    for name, table in ((OUR_NAME, plain), (f"{OUR_NAME}.env", entry.get("env"))):
        if table:
            lines = [f"{key} = {json.dumps(one, ensure_ascii=False)}" for key, one in table.items()]
            parts.append("\n".join([f"[mcp_servers.{name}]", *lines]))
    after = "\n\n".join(parts) + "\n"
    servers = {**cast("Mapping[str, Any]", others), OUR_NAME: dict(entry)}
    # It was edited by lines, which may mislead: it must say what it should.
    with suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(after) == {**before, "mcp_servers": servers}:
            return after
    hint = "use: codex mcp add openclaw -- openclaw mcp-server"
    raise InvalidRequest("it cannot be edited safely here", hint=hint)
