"""What `openclaw init` would change: the configuration and other programs' files."""

import difflib
import json
import shutil
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from openclaw.cli.commands.mcp_config import all_with_sandbox, target_place
from openclaw.cli.environment import Environment
from openclaw.cli.render.terminal import fitted
from openclaw.cli.setup.checks import OK, Finding, examine
from openclaw.cli.setup.discovery import Found, ModelOffer, shown_path
from openclaw.cli.setup.import_servers import ImportedServer, Reference
from openclaw.cli.setup.other_clients import (
    CLIENTS,
    OUR_NAME,
    Client,
    client_target,
    our_entry,
    registered,
    unregistered,
)
from openclaw.config.edit import set_value
from openclaw.config.files import locked, target_of, write_atomically
from openclaw.config.json5 import KeyPath, format_path, parse
from openclaw.config.load import parse_config, read_text
from openclaw.config.paths import PRIVATE_FILE
from openclaw.core.clock import Clock
from openclaw.core.errors import InvalidConfig, InvalidRequest, OperatorFacing
from openclaw.mcp_client.bounds import printable


@dataclass(frozen=True, slots=True)
class FileChange:
    """What becomes of a file's text.

    Of another program's file only `summary` is shown: what stands around our entry may be secret.
    Without a summary the file is our own, and its differences are shown.
    """

    path: Path
    change: Callable[[str], str]
    summary: str | None = None

    @property
    def ours(self) -> bool:
        return self.summary is None

    def changes_anything(self) -> bool:
        before = read_text(self.path) or ""
        return self.change(before) != before

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
class Written:
    path: Path
    backup: Path | None


def write_all(changes: Iterable[FileChange], clock: Clock) -> list[Written]:
    """Change every file or none: what was written is put back where a later one fails.

    Ctrl-C waits until all is done. The text is read again, so that nothing is lost that another
    program wrote since it was shown.
    """
    done: list[tuple[Path, str | None, Written]] = []
    with _uninterrupted():
        try:
            for change in changes:
                written = _write(change, clock)
                if written is not None:
                    done.append(written)
        except BaseException:
            for target, before, written in reversed(done):
                _put_back(target, before, written)
            raise
    return [written for _, _, written in done]


def _write(change: FileChange, clock: Clock) -> tuple[Path, str | None, Written] | None:
    target = target_of(change.path)
    with ExitStack() as stack:
        if change.ours:
            stack.enter_context(locked(target))
        before = read_text(target)
        after = change.change(before or "")
        if after == (before or ""):
            return None
        backup = None if before is None else _backed_up(target, clock)
        mode = PRIVATE_FILE if change.ours or before is None else target.stat().st_mode & 0o777
        write_atomically(target, after, mode=mode)
    return target, before, Written(change.path, backup)


def _backed_up(path: Path, clock: Clock) -> Path:
    stamp = datetime.fromtimestamp(clock.now_ms() / 1000, tz=UTC).strftime("%Y%m%d-%H%M%S")
    backup = path.with_name(f"{path.name}.{stamp}.bak")
    number = 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.{stamp}-{number}.bak")
    shutil.copy2(path, backup)
    return backup


def _put_back(target: Path, before: str | None, written: Written) -> None:
    if before is None:
        target.unlink(missing_ok=True)
        return
    write_atomically(target, before, mode=target.stat().st_mode & 0o777)
    if written.backup is not None:
        written.backup.unlink(missing_ok=True)


@contextmanager
def _uninterrupted() -> Generator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt


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
    """A file that says what could be changed, with this model, or else everything at its default."""
    if model is None:
        return _TEXT
    return _TEXT.replace(_NO_MODEL, f"model: {json.dumps(model, ensure_ascii=False)},")


def with_model(text: str, model: str) -> str:
    """The text with this model for every agent that names none itself."""
    chosen = parse(text).find(MODEL)
    detailed = chosen is not None and chosen.kind == "object"
    return set_value(text, (*MODEL, "primary") if detailed else MODEL, model)


def with_provider(text: str, model: ModelOffer) -> str:
    """The text with the model's provider: its address if it is the person's own, and its key.

    A key that is there stays, unless one was pasted.
    """
    provider: KeyPath = ("models", "providers", model.provider)
    if model.base_url is not None:
        text = set_value(text, (*provider, "baseUrl"), model.base_url)
        text = set_value(text, (*provider, "api"), "openai-completions")
    place = (*provider, "apiKey")
    if model.reference is None or (parse(text).find(place) is not None and not model.pasted):
        return text
    return set_value(text, place, model.reference)


@dataclass(frozen=True, slots=True)
class Plan:
    changes: tuple[FileChange, ...] = ()
    path: Path | None = None
    model: str | None = None
    servers: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()  # of each server, which program had it
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
    sandbox: bool = True,
) -> Plan:
    """Decide what every file becomes; `text` is the configuration to add to, if there is one."""
    notes: list[str] = []
    base = starter_text(model.ref if model else None) if text is None else text
    if model is not None:
        base = base if text is None else with_model(base, model.ref)
        base = with_provider(base, model)
    parse_config(base, env.environ, source=path)
    wanted = tuple(one.server for one in found.servers if one.server.name in servers)
    wanted = all_with_sandbox(wanted, env.environ) if sandbox else wanted
    after, taken = _with_servers(env, path, base, wanted, notes)
    plan = Plan(
        path=path,
        model=model.ref if model else None,
        servers=tuple(taken),
        origins=tuple(
            next((one.client for one in found.servers if one.server.name == name), "")
            for name in taken
        ),
        references=(
            *_pasted(model),
            *(one for one in found.references if one.server in taken),
        ),
    )
    changes = [FileChange(path, _only_if(path, after))] if after != text else []
    for name in clients:
        change = _registered(env, name, notes)
        if change is not None:
            changes.append(change)
            plan = replace(plan, clients=(*plan.clients, name))
    return replace(plan, changes=tuple(changes), notes=tuple(notes))


def _pasted(model: ModelOffer | None) -> tuple[Reference, ...]:
    if model is None or model.pasted is None or model.variable is None:
        return ()
    return (Reference(model.variable, "", "apiKey", model.pasted, stored=True),)


def _only_if(path: Path, after: str) -> Callable[[str], str]:
    seen = read_text(path) or ""

    def replaced(now: str) -> str:
        if now != seen:
            raise OperatorFacing(f"{path} has changed in the meantime; run this again")
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
        notes.append(f"already configured, left unchanged: {', '.join(there)}")
    return text, taken


def _registered(env: Environment, name: str, notes: list[str]) -> FileChange | None:
    client = CLIENTS[name]
    path = client_target(name, env.environ)
    if path is None:
        notes.append(f"{client.title} isn't installed (no settings directory found)")
        return None
    entry = our_entry(env.environ, env.config_option)
    shown = f"+ {_entry_place(client)}: {json.dumps({**client.extra, **entry})}"
    change = FileChange(path, lambda text: registered(text, client, entry), shown)
    try:
        same = not change.changes_anything()
    except (InvalidRequest, InvalidConfig) as error:
        hint = f"; {error.hint}" if error.hint else ""
        notes.append(f"{path} was left unchanged: {error.message}{hint}")
        return None
    if same:
        notes.append(f"OpenClaw is already registered with {client.title}")
        return None
    return change


def removal(path: Path, client: Client) -> FileChange:
    return FileChange(path, lambda text: unregistered(text, client), f"- {_entry_place(client)}")


def _entry_place(client: Client) -> str:
    return format_path((*client.place, OUR_NAME))


def report(env: Environment, plan: Plan, written: list[Written]) -> None:
    env.say("")
    for one in written:
        kept = f" (previous version: {shown_path(one.backup, env.environ)})" if one.backup else ""
        env.say(f"Wrote {shown_path(one.path, env.environ)}{kept}")
    if plan.model is not None:
        env.say(f"The agent uses {plan.model}.")
    for name, origin in zip(plan.servers, plan.origins, strict=True):
        env.say(printable(f"MCP server {name}, from {CLIENTS[origin].title}."))
    findings = [one for one in examine(env) if one.level != OK]
    env.say("\nNo problems found." if not findings else "\nPlease check:")
    for finding in findings:
        env.say(fitted(f"  {finding.level}: {finding.message}", env.stdout, hang=4))
        if finding.hint:
            env.say(fitted(f"    -> {finding.hint}", env.stdout, hang=7))
    env.say("\nNext:")
    for line in _next(env, plan):
        env.say(f"  {line}")


def _next(env: Environment, plan: Plan) -> list[str]:
    program = env.program
    lines: list[str] = []
    if weights_missing(env):
        lines.append(f"{program} models pull   # the embedded model's weights, once")
    if plan.servers:
        lines.append(f"{program} mcp probe   # start each server once to check it")
    lines.append(f'{program} agent "What can you do?"   # or: {program} chat')
    if plan.clients:
        titles = ", ".join(CLIENTS[name].title for name in plan.clients)
        lines.append(f"restart {titles}, and ask for order_openclaw")
    else:
        lines.append(f"{program} init --register NAME   # add it to Claude Code, Cursor, …")
    return lines


def weights_missing(env: Environment) -> bool:
    from openclaw.cli.commands.models import choices, trouble

    chosen = [choice.candidates[0] for choice in choices(env).values()]
    return any(one.api == "local" and trouble(one, env) is not None for one in chosen)


def report_json(env: Environment, plan: Plan, written: list[Written]) -> None:
    findings = [one for one in examine(env) if one.level != OK] if written else []
    env.say_json(
        {
            "config": str(plan.path),
            "model": plan.model,
            "servers": list(plan.servers),
            "registered": list(plan.clients),
            "secrets": sorted({one.variable for one in plan.references if one.stored}),
            "notes": list(plan.notes),
            "changes": [
                {"path": str(one.path), "diff": one.difference(env.redactor.redact)}
                for one in (plan.changes if not written else ())
            ],
            "written": [
                {"path": str(one.path), "backup": str(one.backup) if one.backup else None}
                for one in written
            ],
            "findings": [_finding(one) for one in findings],
        }
    )


def _finding(one: Finding) -> dict[str, str]:
    return {"level": one.level, "check": one.check, "message": one.message, "hint": one.hint or ""}
