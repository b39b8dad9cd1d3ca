"""What `openclaw init` and `mcp import` find in other programs, and which files they would change."""

import difflib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from openclaw.cli.commands.mcp import target_place, with_sandbox
from openclaw.cli.environment import Environment
from openclaw.cli.setup.import_servers import (
    ImportedServer,
    Reference,
    guess_source,
    plain_values,
    protect,
)
from openclaw.cli.setup.model_choice import ModelOffer
from openclaw.cli.setup.other_clients import (
    CLIENTS,
    OUR_NAME,
    client_file,
    client_places,
    client_target,
    is_ourselves,
    our_entry,
    read_client,
    registered,
)
from openclaw.config.edit import set_value
from openclaw.config.json5 import KeyPath, format_path, parse
from openclaw.config.load import parse_config, read_text
from openclaw.config.paths import (
    PRIVATE_FILE,
    locked,
    private_directory,
    target_of,
    write_atomically,
)
from openclaw.config.secret_store import SecretStore
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidConfig, InvalidRequest, NotFound, OperatorFacing


@dataclass(frozen=True, slots=True)
class Found:
    servers: Mapping[str, ImportedServer]  # their credentials are already references
    references: tuple[Reference, ...]
    notes: list[str]
    unread: list[str]


def find_servers(env: Environment, source: str | None = None) -> Found:
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
    env.hide(plain_values(found.values()))
    kept, references = protect(found.values(), env.environ, SecretStore(env.environ).in_file())
    return Found({one.name: one for one in kept}, references, notes, unread)


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
        yield guess_source(Path(source).name), Path(source)


def imported_before(env: Environment) -> frozenset[str]:
    """The servers that were ever imported: the person removed those that are gone."""
    try:
        return frozenset(json.loads(_imported(env).read_text()))
    except (OSError, ValueError):
        return frozenset()


def _imported(env: Environment) -> Path:
    return env.paths.root / "imported-servers.json"


@dataclass(frozen=True, slots=True)
class FileChange:
    """What becomes of a file's text.

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


def make_plan(
    env: Environment,
    found: Found,
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
    base = starter_text(model.ref if model else None) if text is None else text
    if model is not None:
        base = base if text is None else with_model(base, model.ref)
        base = with_provider(base, model)
    parse_config(base or "{}", env.environ, source=path)
    after, notes, left_out = base, list[str](), list(found.unread)
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
            told = "; ".join([*reasons, *server.notes])
            left_out.append(f"MCP server '{server.name}' is left out: {told}")
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


def _registered(env: Environment, name: str, notes: list[str]) -> FileChange | None:
    client = CLIENTS[name]
    path = client_target(name, env.environ)
    if path is None:
        notes.append(f"{client.title} isn't installed (no settings directory found)")
        return None
    entry = our_entry(env.environ, env.config_option)
    place = format_path((*client.place, OUR_NAME))
    before = read_text(path) or ""
    try:
        same = registered(before, client, entry) == before
    except (InvalidRequest, InvalidConfig) as error:
        hint = f"; {error.hint}" if error.hint else ""
        notes.append(f"{path} was left unchanged: {error.message}{hint}")
        return None
    if same:
        notes.append(f"OpenClaw is already registered with {client.title}")
        return None
    shown = f"+ {place}: {json.dumps({**client.extra, **entry})}"
    return FileChange(path, lambda text: registered(text, client, entry), shown)


@dataclass(frozen=True, slots=True)
class Written:
    path: Path
    backup: Path | None


def write_all(env: Environment, plan: Plan, clock: Clock) -> tuple[list[Written], str]:
    """Store the plan's credentials and write its files, or change nothing; also returns where those are."""
    path = env.config_file
    if plan.changes and path.parent == env.paths.root:
        private_directory(path.parent)
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
            private_directory(env.paths.root)
            names = sorted(imported_before(env) | set(plan.servers))
            write_atomically(_imported(env), json.dumps(names) + "\n")
        undo.pop_all()
    return [one for one in written if one is not None], where


def write(change: FileChange, clock: Clock, undo: ExitStack) -> Written | None:
    """Change the text as it is now, so that nothing is lost that was written since it was shown."""
    target = target_of(change.path)
    ours = change.summary is None
    with locked(target) if ours else nullcontext():
        before = read_text(target)
        after = change.change(before or "")
        if after == (before or ""):
            return None
        backup = None if before is None else _backed_up(target, clock)
        mode = PRIVATE_FILE if ours or before is None else target.stat().st_mode & 0o777
        if backup is None:
            undo.callback(target.unlink, missing_ok=True)
        else:
            undo.callback(backup.replace, target)
        write_atomically(target, after, mode=mode)
    return Written(change.path, backup)


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


MODEL: KeyPath = ("agents", "defaults", "model")

_NO_MODEL = '// model: "provider/model",'
_TEXT = """\
// OpenClaw's configuration. It is JSON5: comments and trailing commas are fine.
// `openclaw config explain KEY` explains a key, `openclaw config validate` checks this file,
// `openclaw doctor` finds problems, and `openclaw mcp add` adds a server.
{
  models: {
    // Providers of models, and where their keys are: secret://store/NAME (`openclaw secrets set`),
    // secret://env/NAME, or a store such as gcp, aws, vault, azure or op.
    providers: {
    },
  },
  agents: {
    // For every agent; further agents go into `list: [{ id: "research", … }]`.
    defaults: {
      // The model to use, as provider/model. Without it, a key in the environment decides.
      // model: "provider/model",

      // Where the agent works if it is not started in a project.
      // workspace: "~/work",

      // Which tools may be used, by name or pattern. `deny` overrides the rest; `ask` asks you first.
      tools: {
        // allow: ["read", "mcp_time_*"],
        // deny: ["exec"],
        // ask: ["mcp_*_delete_*"],
      },

      // MCP servers whose tools the agent may use: a `command` to start, or a `url`.
      // They get the variables under `env`, not your whole environment, and `sandbox: "auto"`
      // hides your home directory from them.
      mcp: {
        servers: {
        },
      },
    },
  },

  // The gateway (`openclaw gateway start`), which keeps the servers running for every program.
  // gateway: { port: 18789, bind: "loopback" },
}
"""


def starter_text(model: str | None = None) -> str:
    if model is None:
        return _TEXT
    return _TEXT.replace(_NO_MODEL, f"model: {json.dumps(model, ensure_ascii=False)},")


def with_model(text: str, model: str) -> str:
    chosen = parse(text).find(MODEL)
    detailed = chosen is not None and chosen.kind == "object"
    return set_value(text, (*MODEL, "primary") if detailed else MODEL, model)


def with_provider(text: str, model: ModelOffer) -> str:
    """The text with the model's provider; a key that is there stays, unless one was pasted."""
    place: KeyPath = ("models", "providers", model.ref.partition("/")[0], "apiKey")
    if model.reference is None or (parse(text).find(place) is not None and not model.pasted):
        return text
    return set_value(text, place, model.reference)
