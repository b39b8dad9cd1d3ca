"""Other programs with MCP servers: where their files are, what is in them, and our own entry there."""

import json
import re
import shutil
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from openclaw.cli.setup import SOURCES
from openclaw.cli.setup.import_servers import ImportedServer, parse_toml, read_servers
from openclaw.config.edit import set_value
from openclaw.config.json5 import KeyPath, parse
from openclaw.config.paths import expand, home_dir
from openclaw.core.errors import InvalidConfig, InvalidRequest

LOCATIONS: dict[str, tuple[str, ...]] = {
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
    "gemini": (".gemini/settings.json",),
    "windsurf": (".codeium/windsurf/mcp_config.json",),
    "zed": (".config/zed/settings.json", "AppData/Roaming/Zed/settings.json"),
}
OUR_NAME = "openclaw"
_OURSELVES = frozenset({"openclaw", "clawdbot", "openclaw.exe", "clawdbot.exe"})
_SETTINGS = ".config"
_PASSED_ON = ("OPENCLAW_CONFIG_PATH", "OPENCLAW_STATE_DIR")
_TOML_HEADER = re.compile(r"\s*\[\[?\s*(?P<name>[^\]]*?)\s*\]\]?\s*(?:#.*)?")


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers.

    `place` is where its file has them, `extra` what it wants. `variable` names the directory that it
    keeps its file in where that is not the usual one. `marker` is a directory that it makes where it
    is, in place of the one that its file is in.
    """

    name: str
    title: str
    place: KeyPath = ("mcpServers",)
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    marker: str | None = None
    variable: str | None = None


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            extra={"type": "stdio"},
            marker=".claude",
            variable="CLAUDE_CONFIG_DIR",
        ),
        Client("claude-desktop", "Claude Desktop"),
        Client("cursor", "Cursor"),
        Client("vscode", "VS Code", ("servers",), {"type": "stdio"}),
        Client(
            "codex",
            "Codex",
            ("mcp_servers",),
            {"tool_timeout_sec": 600},  # by default it gives up on an order after a minute
            variable="CODEX_HOME",
        ),
        Client("gemini", "Gemini CLI"),
        Client("windsurf", "Windsurf"),
        Client("zed", "Zed", ("context_servers",), {"source": "custom", "enabled": True}),
    )
}
assert set(CLIENTS) == set(SOURCES)


def client_places(name: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    named = environ.get(CLIENTS[name].variable or "")
    if named:
        return (expand(named, environ).absolute() / Path(LOCATIONS[name][0]).name,)
    home = home_dir(environ)
    settings = Path(environ.get("XDG_CONFIG_HOME") or home / _SETTINGS)
    if not settings.is_absolute():  # which the specification has ignored
        settings = home / _SETTINGS
    return tuple(
        settings / place.removeprefix(f"{_SETTINGS}/")
        if place.startswith(f"{_SETTINGS}/")
        else home / place
        for place in LOCATIONS[name]
    )


def client_file(name: str, environ: Mapping[str, str]) -> Path | None:
    return next((place for place in client_places(name, environ) if _is_file(place)), None)


def client_target(name: str, environ: Mapping[str, str]) -> Path | None:
    """The program's file, also one that it does not have yet; None where the program is not here."""
    found = client_file(name, environ)
    if found is not None:
        return found
    client = CLIENTS[name]
    for place in client_places(name, environ):
        usual = client.marker is not None and not environ.get(client.variable or "")
        there = place.parent / client.marker if usual and client.marker else place.parent
        if there.is_dir():
            return place
    return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # it may be one: whoever reads it says why that cannot be done
        return True


def read_client(source: str, path: Path) -> tuple[ImportedServer, ...]:
    """The servers in a program's file; raises `InvalidRequest` where it cannot be read."""
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
    words = [entry.get("command") or "", *(entry.get("args") or ())]
    names = {Path(str(word)).name for word in words}
    return "mcp-server" in names and bool(names & _OURSELVES)


def our_entry(environ: Mapping[str, str], config: Path | None) -> dict[str, Any]:
    beside = Path(sys.executable).with_name("openclaw")
    program = (
        str(beside) if beside.is_file() else shutil.which("openclaw", path=environ.get("PATH"))
    )
    words = [program] if program else [sys.executable, "-m", "openclaw"]
    options = ["--config", str(config.absolute())] if config is not None else []
    entry: dict[str, Any] = {"command": words[0], "args": [*words[1:], "mcp-server", *options]}
    passed = {name: environ[name] for name in _PASSED_ON if environ.get(name)}
    return entry | ({"env": passed} if passed else {})


def registered(text: str, client: Client, entry: Mapping[str, Any]) -> str:
    """The program's file with our entry in it; the same text where it is there already.

    Raises `InvalidRequest` where another server has our name, or the file cannot be changed safely.
    """
    wanted = {**client.extra, **entry}
    there = _existing(text, client)
    if there is not None and not _ours(there):
        raise InvalidRequest(
            f"{client.title} already has a different server called '{OUR_NAME}'; rename that "
            "one first"
        )
    if there is not None and all(there.get(key) == value for key, value in wanted.items()):
        return text
    if client.name == "codex":
        return _toml_registered(_toml_without(text), wanted)
    return set_value(text, (*client.place, OUR_NAME), wanted)


def _ours(entry: Mapping[str, Any]) -> bool:
    return is_ourselves(entry) or "mcp-server" in (entry.get("args") or ())


def _existing(text: str, client: Client) -> Mapping[str, Any] | None:
    content: Any = parse_toml(text) if client.name == "codex" else parse(text).root.plain()
    for part in (*client.place, OUR_NAME):
        content = content.get(part) if isinstance(content, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - any JSON
    return cast("Mapping[str, Any]", content) if isinstance(content, dict) else None


def _toml_registered(text: str, entry: Mapping[str, Any]) -> str:
    lines = [f"[mcp_servers.{OUR_NAME}]"]
    lines += [f"{key} = {_toml_value(value)}" for key, value in entry.items() if key != "env"]
    if entry.get("env"):
        lines += ["", f"[mcp_servers.{OUR_NAME}.env]"]
        lines += [f"{key} = {_toml_value(value)}" for key, value in entry["env"].items()]
    before = f"{text.rstrip()}\n\n" if text.strip() else ""
    after = before + "\n".join(lines) + "\n"
    servers = {**parse_toml(text).get("mcp_servers", {}), OUR_NAME: dict(entry)}
    return _checked(after, {**parse_toml(text), "mcp_servers": servers})


def _toml_value(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _toml_without(text: str) -> str:
    kept: list[str] = []
    ours = False
    for line in text.splitlines(keepends=True):
        header = _TOML_HEADER.fullmatch(line.rstrip("\r\n"))
        if header is not None:
            name = header["name"].replace('"', "").replace(" ", "")
            ours = f"{name}.".startswith(f"mcp_servers.{OUR_NAME}.")
        if not ours:
            kept.append(line)
    expected = parse_toml(text)
    expected.get("mcp_servers", {}).pop(OUR_NAME, None)
    if not expected.get("mcp_servers", True):
        del expected["mcp_servers"]
    after = "".join(kept).rstrip()
    return _checked(f"{after}\n" if after else "", expected)


def _checked(text: str, expected: Mapping[str, Any]) -> str:
    """The text, provided that it says what it should: TOML is changed by lines, which may mislead."""
    try:
        right = tomllib.loads(text) == expected
    except tomllib.TOMLDecodeError:
        right = False
    if not right:
        raise InvalidRequest(
            "it cannot be edited safely here",
            hint="use: codex mcp add openclaw -- openclaw mcp-server",
        )
    return text
