"""What `openclaw init` and `mcp import` find in other programs' files, and the changes they make."""

import difflib
import json
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import Any, cast

from openclaw.cli.commands.mcp import target_place, with_sandbox
from openclaw.cli.environment import Environment
from openclaw.cli.setup import import_servers as importing
from openclaw.cli.setup import model_choice
from openclaw.cli.setup.import_servers import ImportedServer, Reference
from openclaw.cli.setup.model_choice import ModelOffer
from openclaw.config import paths
from openclaw.config.edit import delete_value, set_value
from openclaw.config.json5 import KeyPath, parse
from openclaw.config.load import parse_config, read_text
from openclaw.config.secret_store import SecretStore
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidConfig, InvalidRequest, NotFound, OperatorFacing
from openclaw.core.tools import json_list, json_object

OUR_NAME = "openclaw"
_SERVERS = frozenset({"mcp-server", "mcp-hub"})
_OURSELVES = frozenset({"openclaw", "clawdbot", "openclaw.exe", "clawdbot.exe"})

_PASSED_ON = ("OPENCLAW_CONFIG_PATH", "OPENCLAW_STATE_DIR")
_TOML_HEADER = re.compile(r"\s*\[\[?([^\]]*)\]\]?\s*(?:#.*)?$")


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers.

    Its file is at one of `files`, or in the directory that `variable` names, and has the servers at
    `place`. `marker` is a directory that shows that it is installed, in place of its file's own.
    """

    title: str
    files: tuple[str, ...]
    place: str = "mcpServers"
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    marker: str = ""
    variable: str = ""


def _per_system(file: str) -> tuple[str, ...]:
    """Where programs have their settings on macOS, Linux and Windows."""
    places = ("Library/Application Support", ".config", "AppData/Roaming")
    return tuple(f"{place}/{file}" for place in places)


_STDIO = {"type": "stdio"}
_PATIENT = {"tool_timeout_sec": 600}  # by default Codex gives up on an order after a minute
_CUSTOM = {"source": "custom", "enabled": True}
_DESKTOP = _per_system("Claude/claude_desktop_config.json")
_ZED = (".config/zed/settings.json", "AppData/Roaming/Zed/settings.json")
CLIENTS: Mapping[str, Client] = {
    "claude-code": Client(
        "Claude Code", (".claude.json",), "mcpServers", _STDIO, ".claude", "CLAUDE_CONFIG_DIR"
    ),
    "claude-desktop": Client("Claude Desktop", _DESKTOP),
    "cursor": Client("Cursor", (".cursor/mcp.json",)),
    "vscode": Client("VS Code", _per_system("Code/User/mcp.json"), "servers", _STDIO),
    "codex": Client(
        "Codex", (".codex/config.toml",), "mcp_servers", _PATIENT, variable="CODEX_HOME"
    ),
    "gemini": Client("Gemini CLI", (".gemini/settings.json",)),
    "windsurf": Client("Windsurf", (".codeium/windsurf/mcp_config.json",)),
    "zed": Client("Zed", _ZED, "context_servers", _CUSTOM),
}


def client_places(name: str, environ: Mapping[str, str]) -> tuple[Path, ...]:
    client = CLIENTS[name]
    if named := environ.get(client.variable):
        return (paths.expand(named, environ).absolute() / Path(client.files[0]).name,)
    home = paths.home_dir(environ)
    settings = Path(environ.get("XDG_CONFIG_HOME", ""))
    if not settings.is_absolute():  # the specification says to ignore it
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
    except OSError:  # it may be one; reading it will report the error
        return True


def read_client(source: str, path: Path) -> tuple[ImportedServer, ...]:
    """Raises `InvalidRequest` if the file cannot be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        content: Any = importing.parse_toml(text) if source == "codex" else parse(text).root.plain()
    except (InvalidConfig, InvalidRequest) as error:
        raise InvalidRequest(f"{path} cannot be read: {error.message}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path} cannot be read: {error}") from error
    if content is None:  # an empty file
        return ()
    if not isinstance(content, Mapping):
        raise InvalidRequest(f"{path} has no MCP servers")
    return importing.read_servers(
        source, cast("Mapping[str, Any]", content), project=str(Path.cwd())
    )


def is_ourselves(entry: Mapping[str, Any]) -> bool:
    """Whether an entry starts this program: an agent with itself as a tool would never finish."""
    words = [entry.get("command") or "", *json_list(entry.get("args"))]
    names = {Path(str(word)).name for word in words}
    return bool(names & _SERVERS) and bool(names & _OURSELVES)


def our_entry(
    environ: Mapping[str, str], config: Path | None, command: str = "mcp-server"
) -> dict[str, Any]:
    beside = Path(sys.executable).with_name("openclaw")
    found = str(beside) if beside.is_file() else shutil.which("openclaw", path=environ.get("PATH"))
    words = [found] if found else [sys.executable, "-P", "-m", "openclaw"]
    options = ["--config", str(config.absolute())] if config is not None else []
    entry: dict[str, Any] = {"command": words[0], "args": [*words[1:], command, *options]}
    passed = {name: environ[name] for name in _PASSED_ON if environ.get(name)}
    return entry | ({"env": passed} if passed else {})


def registered(text: str, name: str, entry: Mapping[str, Any]) -> str:
    """The program's file with our entry in it; the same text if it is there already.

    Raises `InvalidRequest` if another server has our name, or the file cannot be changed safely.
    """
    client = CLIENTS[name]
    wanted = {**client.extra, **entry}
    there: Any = importing.parse_toml(text) if name == "codex" else parse(text).root.plain()
    for part in (client.place, OUR_NAME):
        there = there.get(part) if isinstance(there, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - any JSON
    if isinstance(there, dict):
        now = cast("Mapping[str, Any]", there)
        if not is_ourselves(now) and "mcp-server" not in json_list(now.get("args")):
            message = f"{client.title} already has a different server called '{OUR_NAME}'"
            raise InvalidRequest(f"{message}; rename that one first")
        if all(now.get(key) == value for key, value in wanted.items()):
            return text
    if name == "codex":
        return _toml_registered(text, wanted)
    return set_value(text, (client.place, OUR_NAME), wanted)


def unregistered(text: str, name: str) -> str:
    """The program's file without our entry; the same text if there is none.

    Raises `InvalidRequest` if the file cannot be changed safely.
    """
    client = CLIENTS[name]
    there: Any = importing.parse_toml(text) if name == "codex" else parse(text).root.plain()
    for part in (client.place, OUR_NAME):
        there = there.get(part) if isinstance(there, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - any JSON
    if not isinstance(there, dict) or not is_ourselves(cast("Mapping[str, Any]", there)):
        return text
    if name == "codex":
        return _toml_registered(text, None)
    return delete_value(text, (client.place, OUR_NAME))


def _toml_registered(text: str, entry: Mapping[str, Any] | None) -> str:
    """The text with our tables at the end, replacing existing ones of ours; None has none."""
    before = importing.parse_toml(text)
    if not isinstance(others := before.get("mcp_servers", {}), dict):
        hint = "correct or remove `mcp_servers` in it, then run this again"
        raise InvalidRequest("its `mcp_servers` is not a table", hint=hint)
    others_text, ours = "", False
    for line in text.splitlines(keepends=True):
        if header := _TOML_HEADER.match(line):
            name = header[1].replace('"', "").replace(" ", "")
            ours = f"{name}.".startswith(f"mcp_servers.{OUR_NAME}.")
        others_text += "" if ours else line
    parts = [others_text.rstrip()] if others_text.strip() else []
    plain = {key: value for key, value in (entry or {}).items() if key != "env"}
    for name, table in ((OUR_NAME, plain), (f"{OUR_NAME}.env", (entry or {}).get("env"))):
        if table:
            lines = [f"{key} = {json.dumps(one, ensure_ascii=False)}" for key, one in table.items()]
            parts.append("\n".join([f"[mcp_servers.{name}]", *lines]))
    after = "\n\n".join(parts) + "\n"
    servers = {
        key: one for key, one in cast("Mapping[str, Any]", others).items() if key != OUR_NAME
    }
    if entry is not None:
        servers[OUR_NAME] = dict(entry)
    # Editing line by line can go wrong, so check the result.
    with suppress(tomllib.TOMLDecodeError):
        wanted = {**before, "mcp_servers": servers}
        if tomllib.loads(after) in (wanted, {k: v for k, v in wanted.items() if v or k in after}):
            return after
    hint = "use: codex mcp add openclaw -- openclaw mcp-server"
    raise InvalidRequest("it cannot be edited safely here", hint=hint)


# ---- what is found, and the plan made from it


@dataclass(frozen=True, slots=True)
class FoundServers:
    servers: Mapping[str, ImportedServer]  # their credentials are already references
    references: tuple[Reference, ...]
    notes: list[str]
    unread: list[str]


def find_servers(env: Environment, source: str | None = None) -> FoundServers:
    """The servers of `source`, a program or a file, or else of every program that is installed."""
    found: dict[str, ImportedServer] = {}
    notes: list[str] = []
    unread: list[str] = []
    for client, path in _files(env, source):
        try:
            servers = read_client(client, path)
        except InvalidRequest as error:
            unread.append(error.message)
            continue
        for server in servers:
            if is_ourselves(server.entry):
                continue
            first = found.setdefault(server.name, server)
            if first.entry != server.entry:
                notes.append(
                    f"{CLIENTS[client].title}'s server '{server.name}' differs from "
                    f"{CLIENTS[first.client].title}'s, which is offered instead"
                )
    env.hide(importing.plain_values(found.values()))
    protected, references = importing.protect(
        found.values(), env.environ, SecretStore(env.environ).in_file()
    )
    return FoundServers({one.name: one for one in protected}, references, notes, unread)


def _files(env: Environment, source: str | None) -> Iterator[tuple[str, Path]]:
    for name in CLIENTS if source is None or source in CLIENTS else ():
        if source in (None, name) and (path := client_file(name, env.environ)) is not None:
            yield name, path
        elif source == name:
            places = ", ".join(map(str, client_places(name, env.environ)))
            raise NotFound(f"{name} has no configuration file here (looked for {places})")
    if source is not None and source not in CLIENTS:
        if not Path(source).is_file():
            raise NotFound(f"'{source}' is neither a file nor one of {', '.join(CLIENTS)}")
        yield importing.guess_source(Path(source).name), Path(source)


def imported_before(env: Environment) -> frozenset[str]:
    """The servers that were ever imported: the person removed those that are gone."""
    try:
        return frozenset(map(str, json_list(json.loads(_imported(env).read_text("utf-8")))))
    except (OSError, ValueError):
        return frozenset()


def _imported(env: Environment) -> Path:
    return env.paths.root / "imported-servers.json"


@dataclass(frozen=True, slots=True)
class FileChange:
    """A planned change to a file's text.

    Without a `summary` the file is our own, and its differences are shown; another program's file
    may contain secrets, so only the summary is shown.
    """

    path: Path
    change: Callable[[str], str]
    summary: str | None = None

    def difference(self, redact: Callable[[str], str]) -> list[str]:
        if self.summary is not None:
            return [f"--- {self.path}", f"+++ {self.path}", *self.summary.splitlines()]
        before = read_text(self.path) or ""
        after = self.change(before)
        old = str(self.path) if self.path.exists() else "/dev/null"
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), old, str(self.path), lineterm="", n=2
        )
        return [redact(line) for line in lines]


@dataclass(frozen=True, slots=True)
class Plan:
    changes: list[FileChange]
    model: str | None
    servers: list[str]
    clients: list[str]
    references: list[Reference]
    notes: list[str]
    left_out: list[str]
    moved: dict[str, list[str]] = field(default_factory=dict[str, list[str]])  # to the hub


def make_plan(
    env: Environment,
    found: FoundServers,
    text: str | None,
    *,
    model: ModelOffer | None = None,
    servers: Sequence[str],
    clients: Sequence[str] = (),
    sandbox: bool = True,
    replace: bool | None = None,
) -> Plan:
    """Decide what every file becomes; `text` is the configuration to add to, if there is one.

    With `replace`, a server that is already there is replaced; None if there is no such option.
    """
    path = env.config_file
    after = _with_model(text, model)
    parse_config(after or "{}", env.environ, source=path)
    notes, left_out = list[str](), list(found.unread)
    taken: list[str] = []
    for server in (found.servers[name] for name in servers):
        place = (*target_place(after), server.name)
        if parse(after).find(place) is not None and not replace:
            more = "" if replace is None else "; use --force to replace it"
            notes.append(f"{server.name} is already configured and left unchanged{more}")
            continue
        entry = with_sandbox(server.entry, env.environ) if sandbox else server.entry
        tried = set_value(after, place, entry)
        try:
            parse_config(tried, env.environ, source=path)
        except InvalidConfig as error:
            reasons = [f"{problem.path}: {problem.message}" for problem in error.problems]
            details = "; ".join([*reasons, *server.notes])
            left_out.append(f"MCP server '{server.name}' is left out: {details}")
            continue
        notes += [f"{server.name}: {note}" for note in server.notes]
        taken.append(server.name)
        after = tried
    references = [one for one in found.references if one.server in taken]
    notes += [f"{one.server}: the credential in {one.key} is now {one.text}" for one in references]
    if model is not None and model.pasted is not None and model.variable is not None:
        references.append(Reference(model.variable, "", "apiKey", model.pasted, stored=True))
    seen = read_text(path) or ""

    def replaced(now: str) -> str:
        if now != seen:
            raise OperatorFacing(f"{path} has changed in the meantime; run this again")
        return after

    changes = [FileChange(path, replaced)] if after != text else []
    names: list[str] = []
    for name in clients:
        change = _registered(env, name, notes)
        if change is not None:
            changes.append(change)
            names.append(name)
    ref = model.ref if model else None
    return Plan(changes, ref, taken, names, references, notes, left_out)


def unregistering(env: Environment, names: Sequence[str]) -> Plan:
    """Take our entry out of these programs' files; programs without one are left out."""
    changes: list[FileChange] = []
    done: list[str] = []
    problems: list[str] = []
    for name in names:
        path = client_file(name, env.environ)
        if path is None:
            continue
        try:
            before = read_text(path) or ""
            if unregistered(before, name) == before:
                continue
        except (InvalidRequest, InvalidConfig, OperatorFacing) as error:
            problems.append(f"{path} was left unchanged: {error.message}")
            continue
        shown = f"- {CLIENTS[name].place}.{OUR_NAME}"
        changes.append(FileChange(path, partial(unregistered, name=name), shown))
        done.append(name)
    return Plan(changes, None, [], done, [], [], problems)


def _registered(env: Environment, name: str, notes: list[str]) -> FileChange | None:
    client = CLIENTS[name]
    path = client_target(name, env.environ)
    if path is None:
        notes.append(f"{client.title} isn't installed (no settings directory found)")
        return None
    entry = our_entry(env.environ, env.config_option)
    before = read_text(path) or ""
    try:
        same = registered(before, name, entry) == before
    except (InvalidRequest, InvalidConfig) as error:
        hint = f"; {error.hint}" if error.hint else ""
        notes.append(f"{path} was left unchanged: {error.message}{hint}")
        return None
    if same:
        notes.append(f"OpenClaw is already registered with {client.title}")
        return None
    shown = f"+ {client.place}.{OUR_NAME}: {json.dumps({**client.extra, **entry})}"
    return FileChange(path, lambda text: registered(text, name, entry), shown)


Written = tuple[Path, Path | None]  # a file, and its backup


def write_all(env: Environment, plan: Plan, clock: Clock) -> tuple[list[Written], str]:
    """Store credentials and write files, all or nothing; returns the files, and where credentials are."""
    path = env.config_file
    if plan.changes and path.parent == env.paths.root:
        paths.private_directory(path.parent)
    store, where = SecretStore(env.environ), ""
    with ExitStack() as undo:
        for one in plan.references:
            if one.stored:
                fresh = one.variable not in store.names()
                where = store.set(one.variable, one.value.reveal())
                if fresh:
                    undo.callback(store.remove, one.variable)
        written = [write(change, clock, undo) for change in plan.changes]
        if plan.servers:
            paths.private_directory(env.paths.root)
            names = sorted(imported_before(env) | set(plan.servers))
            paths.write_atomically(_imported(env), json.dumps(names) + "\n")
        if plan.moved:
            _remember_moved(env, plan.moved, dict(one for one in written if one is not None))
        undo.pop_all()
    return [one for one in written if one is not None], where


def moved_before(env: Environment) -> dict[str, Any]:
    """Which servers of which programs were moved to the hub, and where the old files are."""
    try:
        return dict(json_object(json.loads(_moved(env).read_text("utf-8"))))
    except (OSError, ValueError):
        return {}


def _moved(env: Environment) -> Path:
    return env.paths.root / "hub-clients.json"


def _remember_moved(
    env: Environment, moved: Mapping[str, Sequence[str]], backups: Mapping[Path, Path | None]
) -> None:
    records = moved_before(env)
    for client, servers in moved.items():
        path = client_file(client, env.environ)
        if not servers:
            records.pop(client, None)
        elif path is not None and path in backups:
            backup = str(backups[path] or "")
            records[client] = {"path": str(path), "backup": backup, "servers": list(servers)}
    paths.private_directory(env.paths.root)
    paths.write_atomically(_moved(env), json.dumps(records, indent=1) + "\n")


def write(change: FileChange, clock: Clock, undo: ExitStack) -> Written | None:
    """Change the current text, so that edits made since the plan was shown aren't lost."""
    target = paths.target_of(change.path)
    ours = change.summary is None
    with paths.locked(target) if ours else nullcontext():
        before = read_text(target)
        after = change.change(before or "")
        if after == (before or ""):
            return None
        backup = None if before is None else _backed_up(target, clock)
        mode = paths.PRIVATE_FILE if ours or before is None else target.stat().st_mode & 0o777
        if backup is None:
            undo.callback(target.unlink, missing_ok=True)
        else:
            undo.callback(backup.replace, target)
        paths.write_atomically(target, after, mode=mode)
    return change.path, backup


def _backed_up(path: Path, clock: Clock) -> Path:
    stamp = datetime.fromtimestamp(clock.now_ms() / 1000, tz=UTC).strftime("%Y%m%d-%H%M%S")
    names = chain([stamp], (f"{stamp}-{number}" for number in count(2)))
    places = (path.with_name(f"{path.name}.{name}.bak") for name in names)
    backup = next(place for place in places if not place.exists())
    try:
        shutil.copy2(path, backup)
    except OSError as error:
        raise OperatorFacing(f"cannot write {backup}: {error.strerror or error}") from error
    return backup


_MODEL: KeyPath = ("agents", "defaults", "model")
_NO_MODEL = '// model: "provider/model",'


def _with_model(text: str | None, model: ModelOffer | None) -> str:
    """The text, or a new one, with the model; an existing key stays unless one was pasted."""
    fresh = Path(__file__).with_name("starter.json5").read_text("utf-8") if text is None else ""
    if model is None:
        return text if text is not None else fresh
    if text is None:
        text = fresh.replace(_NO_MODEL, f"model: {json.dumps(model.ref, ensure_ascii=False)},")
    else:
        chosen = parse(text).find(_MODEL)
        detailed = chosen is not None and chosen.kind == "object"
        text = set_value(text, (*_MODEL, "primary") if detailed else _MODEL, model.ref)
    provider: KeyPath = ("models", "providers", model.ref.partition("/")[0])
    if model.base_url is not None:
        text = set_value(text, (*provider, "baseUrl"), model.base_url)
        text = set_value(text, (*provider, "api"), model_choice.OPENAI_API)
    place = (*provider, "apiKey")
    if model.reference is None or (parse(text).find(place) is not None and not model.pasted):
        return text
    return set_value(text, place, model.reference)
