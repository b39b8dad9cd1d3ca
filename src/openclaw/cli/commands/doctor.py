"""Find problems with the set-up and say how to fix them.

It starts each MCP server once. The exit code is 1 if something keeps OpenClaw from working or
makes it unsafe, and 0 if there are only warnings.
"""

import argparse
import os
import shutil
import sqlite3
import ssl
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio

from openclaw.cli.build_version import version_text
from openclaw.cli.commands.models import choices, why_unusable
from openclaw.cli.commands.secrets import check_all
from openclaw.cli.commands.sessions import open_named_store
from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_json, option
from openclaw.cli.terminal import counted
from openclaw.config import paths
from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.consistency import two_ways
from openclaw.config.load import LoadedConfig
from openclaw.config.merge import EffectiveAgent
from openclaw.config.secret_store import SecretStore
from openclaw.config.state_version import is_outdated
from openclaw.core.clock import SystemClock
from openclaw.core.errors import EXIT_FAILED, EXIT_OK, InvalidConfig, OpenClawError, describe
from openclaw.gateway.listening import bind_addresses, listen
from openclaw.gateway.lock import owner_token_path, running_gateway
from openclaw.gateway.tokens import TokenFile
from openclaw.mcp_client.bounds import printable
from openclaw.mcp_client.catalog.pin_store import PinStore, pin_key
from openclaw.mcp_client.catalog.pins import INSTRUCTIONS, find_shadowing, mentions, shown_name
from openclaw.mcp_client.catalog.server_tools import suspicion
from openclaw.mcp_client.sandbox.support import detect_support
from openclaw.models.provider_check import KeyNotChecked, KeyRefused, Provider, model_problem
from openclaw.policy.decide import problem_of_rule
from openclaw.runtime.gateway_connection import GatewayConnection
from openclaw.sessions.open import is_address, store_path
from openclaw.sessions.sqlite.schema import refuse_newer

if TYPE_CHECKING:
    from openclaw.mcp_client.catalog.pins import Pinned
    from openclaw.models.choose import Candidate

OK, WARNING, ERROR = "ok", "warning", "error"
_LEAST_SPACE = 1_000_000  # bytes
# Node, requests, curl and pip each have their own; servers get only SSL_CERT_FILE by default.
_CERTIFICATES = ("SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
# Enough for an installed program; one that has to be downloaded may take longer.
START_SECONDS = 20.0
_TLS_WORDS = ("certificate", "self_signed", "self-signed", "unable_to_get_issuer", "unknown ca")
_NO_LIST = (404, 405)  # a provider that answers, but has no list of models
_LOOPBACK = ("loopback", "127.0.0.1", "::1", "localhost")
_OWN_DIRECTORY = "set OPENCLAW_STATE_DIR to a directory of your own"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check: the problem, how to fix it, and what `--fix` would do."""

    check: str
    level: str
    message: str
    hint: str | None = None
    fix: Callable[[], None] | None = None


def register(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    option(parser, "--fix", "fix what can be fixed safely")


def run(args: argparse.Namespace, env: Environment) -> int:
    found = list(examine(env, start=True))
    findings = [_fixed(finding) for finding in found] if args.fix else found
    lines: list[str] = []
    facts: list[dict[str, Any]] = []
    for one in findings:
        lines.append(f"{one.level:<7}  {one.check}: {one.message}")
        lines += [f"         -> {one.hint}"] if one.hint else []
        fact = {"check": one.check, "level": one.level, "message": one.message}
        fact |= {"fixable": one.fix is not None} | ({"hint": one.hint} if one.hint else {})
        facts.append(fact)
    levels = Counter(finding.level for finding in findings)
    errors, warnings = levels[ERROR], levels[WARNING]
    fixable = sum(finding.fix is not None for finding in findings)
    more = f"; `{env.program} doctor --fix` fixes {fixable} of them" if fixable else ""
    lines.append(f"\n{counted(errors, 'error')}, {counted(warnings, 'warning')}{more}")
    if args.fix:
        fixed = levels[OK] - sum(finding.level == OK for finding in found)
        left = errors or warnings
        nothing = "--fix cannot fix any of this; follow the hints above."
        nothing = nothing if left else "There is nothing to fix."
        lines.append(f"Fixed {fixed}." if fixed else nothing)
    env.report(args, {"findings": facts}, *lines)
    return EXIT_FAILED if errors else EXIT_OK


def _fixed(finding: Finding) -> Finding:
    if finding.fix is None:
        return finding
    try:
        finding.fix()
    except OSError as error:
        message = f"{finding.message}, and --fix failed: {error.strerror}"
        return replace(finding, message=message, fix=None)
    message = f"fixed: {finding.message}"
    return replace(finding, level=OK, message=message, hint=None, fix=None)


# ---- the checks. Each yields its findings; an error that it raises is a finding too.


def _failed(check: str, error: OpenClawError, before: str = "") -> Finding:
    return Finding(check, ERROR, f"{before}{error.message}", error.hint)


def examine(env: Environment, *, start: bool = False) -> Iterator[Finding]:
    """Look at everything; with `start`, start each MCP server and ask each provider once."""
    yield Finding(
        "python",
        OK,
        f"OpenClaw {version_text()}, Python {sys.version.split()[0]} on {sys.platform}",
    )
    yield from _certificates(env)
    try:
        is_outdated(env.paths.root)
        refuse_newer(env.paths.database)
    except OpenClawError as error:  # everything else would write to this state
        yield _failed("state", error)
        return
    state = list(_state(env))
    yield from state
    try:
        loaded = env.loaded
    except OpenClawError as error:
        texts = map(str, error.problems) if isinstance(error, InvalidConfig) else [describe(error)]
        for problem in texts:
            yield Finding("config", ERROR, problem, f"edit {env.config_file}")
        return
    yield from _config(loaded)
    yield from _guarded("secrets", _secrets(env))
    yield from _guarded("mcp", _servers(env, start=start))
    yield from examine_trust(env)
    yield from _policies(env)
    if start and not any(finding.level == ERROR for finding in state):
        yield from _guarded("shell", _shell(env))
    yield _gateway(env)
    yield from _guarded("model", _model(env, ask=start))
    yield from _guarded("sessions", _database(env))


def _guarded(check: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    try:
        yield from findings
    except OpenClawError as error:
        yield _failed(check, error)


def _certificates(env: Environment) -> Iterator[Finding]:
    sound: set[str] = set()
    for name in _CERTIFICATES:
        path = env.environ.get(name)
        if not path or path in sound:
            continue
        try:
            ssl.create_default_context(cafile=path)  # each separately: a bad one breaks the rest
            sound.add(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            message = f"{name} is {path}, which cannot be used: {reason}"
            yield Finding("certificates", ERROR, message, f"correct {name}, or unset it")


def _mode_finding(check: str, path: Path, wanted: int) -> Iterator[Finding]:
    mode = stat.S_IMODE(path.stat().st_mode)
    if sys.platform != "win32" and mode & 0o077:
        can = "changed" if mode & 0o022 else "read"
        message = f"{path} can be {can} by others (mode {mode:04o})"
        yield Finding(check, ERROR, message, f"chmod {wanted:o} {path}", lambda: path.chmod(wanted))


def _state(env: Environment) -> Iterator[Finding]:
    root = env.paths.root
    if not root.exists():
        nearest = next(place for place in root.parents if place.exists())
        if not os.access(nearest, os.W_OK):
            message = f"{root} cannot be created: {nearest} is not writable"
            yield Finding("state", ERROR, message, _OWN_DIRECTORY)
            return
        yield Finding("state", OK, f"{root} does not exist yet; it is created when needed")
        return
    if not root.is_dir():
        yield Finding("state", ERROR, f"{root} is a file, not a directory", f"move {root} away")
        return
    found = [*_belonging(root), *_mode_finding("state", root, paths.PRIVATE_DIRECTORY)]
    private = [env.paths.database, env.paths.audit_log, env.paths.gateway_log, env.paths.pins]
    config = root / paths.CONFIG_NAME
    if config.is_file() and config.stat().st_mode & 0o022:  # reading it only matters with secrets
        private.append(config)
    if env.paths.tokens.is_dir():
        found += _mode_finding("state", env.paths.tokens, paths.PRIVATE_DIRECTORY)
        private += sorted(env.paths.tokens.glob("*.json"))
    for path in filter(Path.is_file, private):
        found += _mode_finding("state", path, paths.PRIVATE_FILE)
    found += _damaged(env)
    if (left := shutil.disk_usage(root).free) < _LEAST_SPACE:
        message = f"the disk of {root} is full ({left // 1000} kB left)"
        found.append(Finding("state", ERROR, message, "free some space"))
    yield from found or [Finding("state", OK, f"{root} is private")]


def _damaged(env: Environment) -> Iterator[Finding]:
    """Problems that would otherwise show up only when a file is needed."""
    own = env.paths
    places = (own.logs, own.memory.path, own.models, own.tokens, own.undo.path, own.locks)
    uses = [("state", partial(paths.check_directory, place)) for place in places]
    for check, use in (*uses, ("secrets", SecretStore(env.environ).names)):
        try:
            use()
        except OpenClawError as error:
            yield _failed(check, error)
    if (token := owner_token_path(own.root)).is_dir():
        yield Finding("state", ERROR, f"{token} is a directory, not a file", f"move {token} away")


def _belonging(root: Path) -> Iterator[Finding]:
    if paths.is_owned_by_another(root.stat()):
        yield Finding("state", ERROR, f"{root} belongs to another user", _OWN_DIRECTORY)
    for place in root.resolve().parents:
        mode = place.stat().st_mode
        if sys.platform != "win32" and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            message = f"{root} can be replaced by others, since anybody may write to {place}"
            yield Finding("state", ERROR, message, f"chmod o-w {place}")


def _config(loaded: LoadedConfig) -> Iterator[Finding]:
    if not loaded.exists:
        yield Finding("config", OK, f"{loaded.path} does not exist: the defaults apply")
        return
    yield Finding("config", OK, f"{loaded.path} is valid")
    for place in loaded.plaintext:
        message = f"{place} is a credential in plain text"
        hint = "replace it with a reference, for example secret://env/NAME"
        yield Finding("config", WARNING, message, hint)
    if loaded.plaintext:
        yield from _mode_finding("config", loaded.path, paths.PRIVATE_FILE)


def _secrets(env: Environment) -> Iterator[Finding]:
    for reference, places, problem in check_all(env):
        used = f" (used by {', '.join(places)})" if places else ""
        if problem is None:
            yield Finding("secrets", OK, f"{reference} resolves{used}")
        else:
            hint = problem.hint or "make it available, or change the reference"
            yield Finding("secrets", ERROR, f"{problem.message}{used}", hint)


def _servers(env: Environment, *, start: bool) -> Iterator[Finding]:
    seen: set[tuple[str, str | None, str | None]] = set()
    for agent in env.agents().values():
        startable: list[str] = []
        for name, server in agent.servers.items():
            identity = (name, server.command, server.url)
            if identity in seen:
                continue
            seen.add(identity)
            finding = _server(env, name, server)
            if start and finding.level == OK:
                startable.append(name)
            else:
                yield finding
        if startable:
            servers = {name: agent.servers[name] for name in startable}
            yield from _started(env, replace(agent, servers=servers))
    for message in two_ways(env.config):
        yield Finding("mcp", WARNING, message, "remove the other one")


def _started(env: Environment, agent: EffectiveAgent) -> Iterator[Finding]:
    from openclaw.cli.commands.mcp_live import probe_servers  # imports the whole MCP client

    for one, _ in anyio.run(probe_servers, env, [agent], START_SECONDS):
        name, state, error = one.snapshot.name, one.snapshot.state.value, one.snapshot.last_error
        server, level, hint = f"MCP server '{name}'", WARNING, None
        if state == "ready":
            level, message = OK, f"{server} starts; it has {counted(one.tools or 0, 'tool')}"
        elif state == "needs_login":
            message, hint = f"{server} needs a login", f"run: {env.program} mcp login {name}"
        elif state in ("connecting", "disconnected"):
            message = f"{server} did not answer within {START_SECONDS:.0f} s"
            hint = f"see what it does: {env.program} mcp probe {name} -v"
        else:
            level, message = ERROR, f"{server} does not start: {error or 'no answer'}"
            hint = _start_hint(env, name, f"{error} {one.snapshot.stderr}")
        yield Finding("mcp", level, message, hint)


def _start_hint(env: Environment, name: str, said: str) -> str:
    if not any(word in said.casefold() for word in _TLS_WORDS):
        return f"see what it says: {env.program} mcp probe {name}"
    reason = "it does not trust your proxy's certificate"
    own = next((one for one in _CERTIFICATES[1:] if env.environ.get(one)), None)
    if own is None:  # the only one that servers get by default
        return f"{reason}; set SSL_CERT_FILE to the file that contains it, and run this again"
    top = name in env.config.mcp.servers
    place = f"{'' if top else 'agents.defaults.'}mcp.servers.{name}.inheritEnv"
    return f"{reason}; to pass on {own}: {env.program} config set {place} '[\"{own}\"]'"


def _server(env: Environment, name: str, server: McpServerConfig) -> Finding:
    command = server.command if server.kind == "stdio" else None
    if command is None:
        return Finding("mcp", OK, f"MCP server '{name}' is at {server.url}")
    directory = paths.expand(server.cwd, env.environ) if server.cwd else None
    if directory is not None and not directory.is_dir():
        message = f"MCP server '{name}': its directory {directory} does not exist"
        return Finding("mcp", ERROR, message, "create it, or change cwd")
    if shutil.which(command, path=env.environ.get("PATH")) is None:
        message = f"MCP server '{name}': the command {command!r} was not found"
        return Finding("mcp", ERROR, message, "install it, or give its full path")
    return Finding("mcp", OK, f"MCP server '{name}': found the command {command!r}")


def _policies(env: Environment) -> Iterator[Finding]:
    for agent in env.agents().values():
        if agent.servers and not any(rules.allow or rules.deny for rules in agent.tools):
            message = f"agent '{agent.id}' may use every tool of every MCP server"
            hint = "list the tools it needs in tools.allow, or those it must not use in tools.deny"
            yield Finding("policy", OK, message, hint)
        approved = [rule for rules in agent.tools for rule in rules.approved]
        for rule in dict.fromkeys(approved):
            if problem := problem_of_rule(rule):
                message = f"the approved rule '{rule}' of agent '{agent.id}' {problem}"
                yield Finding("policy", WARNING, message, "change it in tools.approved")


def _shell(env: Environment) -> Iterator[Finding]:
    """Try the programs that commands use most, in the sandbox that they get here."""
    settings = [one.exec for one in env.agents().values() if one.exec.mode != "off"]
    if not settings or sys.platform == "win32":
        return
    from openclaw.agent.tools.shell_check import check_shell

    try:
        found = anyio.run(check_shell, env.environ, settings[0])
    except OSError as error:  # such as a full disk
        yield Finding("shell", WARNING, f"no command could be tried: {error.strerror or error}")
        return
    where = f"in {found.sandbox}" if found.sandbox else "without a sandbox"
    message = f"commands run {where}; these programs work: {', '.join(found.working) or 'none'}"
    if found.failing:
        message += f"; these are installed but don't: {', '.join(found.failing)}"
    hint = None
    if found.failing and found.sandbox:
        hint = "list what they need in tools.exec.sandbox.read"
    elif found.sandbox != "bubblewrap" and settings[0].sandbox.mode != "off":
        hint = f"bubblewrap would be better ({found.missing}): it hides the rest of the machine"
    good = found.sandbox and not found.failing
    yield Finding("shell", OK if good else WARNING, message, hint)


def _gateway(env: Environment) -> Finding:
    gateway = env.config.gateway
    if (running := running_gateway(env.paths.gateway_lock)) is not None:
        place = running.url or "an address that is not known yet"
        try:
            if running.url:
                anyio.run(GatewayConnection(running.url, env.paths.root).ping)
        except OpenClawError as error:
            return Finding("gateway", ERROR, error.message, error.hint)
        return Finding("gateway", OK, f"a gateway is running at {place}")
    try:
        token = gateway.auth.token or TokenFile(env.paths.root, SystemClock()).all()
        for one in listen(bind_addresses(gateway.bind, gateway.port, has_token=bool(token))):
            one.close()
    except OpenClawError as error:
        message = f"a gateway could not start: {error.message}"
        return Finding("gateway", WARNING, message, error.hint)
    return Finding("gateway", OK, "no gateway is running (agent and chat work without one)")


def _model(env: Environment, *, ask: bool) -> Iterator[Finding]:
    for agent, choice in choices(env).items():
        model = choice.candidates[0]
        problem = why_unusable(model, env)
        if problem is None:
            summary = f"agent '{agent}' uses {model.ref} ({choice.reason})"
            wrong = _provider_finding(env, model, summary) if ask and model.api != "local" else None
            yield wrong or Finding("model", OK, summary)
            continue
        # The embedded model's weights are downloaded when first needed, so this is no problem yet.
        level = OK if model.api == "local" and not problem.startswith("not installed") else ERROR
        hint = "see `openclaw models status`"
        yield Finding("model", level, f"agent '{agent}' uses {model.ref}: {problem}", hint)


def _provider_finding(env: Environment, model: "Candidate", summary: str) -> Finding | None:
    async def attempt() -> str | None:
        key, headers = await model.credentials(env.secrets())
        await Provider(model, key, env.environ, headers).check_key()
        providers = env.config.models.providers
        return await model_problem(
            model.ref, providers, env.secrets(), env.environ, env.paths.models
        )

    try:
        if (problem := anyio.run(attempt)) is not None:
            return Finding("model", ERROR, f"{summary}, but {problem}", "set agents.defaults.model")
    except KeyRefused as error:
        message = f"{summary}, and its provider refuses the key ({printable(str(error))})"
        return Finding("model", ERROR, message, f"check {model.key_setting}")
    except KeyNotChecked as error:
        if error.status in _NO_LIST:
            return None
        message = f"{summary}, but its provider could not be reached ({printable(str(error))})"
        return Finding("model", WARNING, message, f"check that {model.base_url} can be reached")
    except OpenClawError as error:
        return _failed("model", error, f"{summary}: ")
    return None


def _database(env: Environment) -> Iterator[Finding]:
    async def attempt() -> bool:
        async with open_named_store(None, env) as store:
            if store is not None:
                await store.list_sessions(limit=1)
            return store is not None

    if is_address(env.config.sessions.store):
        there = anyio.run(attempt)
        what = "holds the conversations" if there else "answers; no conversations are stored yet"
        yield Finding("sessions", OK, f"the PostgreSQL server {what}")
    elif not (path := store_path(env.config.sessions.store, env.paths)).exists():
        yield Finding("sessions", OK, "no conversations are stored yet")
    else:
        address = f"{path.absolute().as_uri()}?mode=ro"
        try:
            with closing(sqlite3.connect(address, uri=True, timeout=5)) as connection:
                [answer] = connection.execute("PRAGMA quick_check").fetchone()
        except sqlite3.Error as error:
            answer = str(error)
        wrong = Finding("sessions", ERROR, f"{path}: {answer}", "restore it from a backup")
        yield Finding("sessions", OK, f"{path} is intact") if answer == "ok" else wrong


Servers = Mapping[str, McpServerConfig]


def examine_trust(env: Environment) -> Iterator[Finding]:
    servers = {name: one for agent in env.agents().values() for name, one in agent.servers.items()}
    for check, problem, hint, is_so in _CARELESS:
        names = sorted(name for name, config in servers.items() if is_so(config))
        if names:
            yield Finding(check, WARNING, f"{problem}: {', '.join(names)}", hint)
    pins = env.paths.pins
    # These checks take long to import. `exists` is false for circular links.
    if servers or pins.is_symlink() or pins.exists():
        yield from _guarded("pins", _pins(env, servers))
        yield from _sandboxes(env, servers)


def _is_open(config: McpServerConfig) -> bool:
    parts = urlsplit(config.url or "")
    return parts.scheme == "http" and parts.hostname not in _LOOPBACK


_CARELESS: tuple[tuple[str, str, str, Callable[[McpServerConfig], bool]], ...] = (
    (
        "pins",
        "changes to these servers' declarations would go unnoticed",
        'set `pin` to "warn" or "strict"',
        lambda config: config.pin == "off",
    ),
    (
        "sandbox",
        "these run with your rights, without a sandbox",
        'set `sandbox` to "auto" or "strict", and list what they may `read` and `write`',
        lambda config: config.kind == "stdio" and config.sandbox.mode == "off",
    ),
    (
        "mcp",
        "these get your whole environment, including keys",
        "list the variables they need in `inheritEnv`",
        lambda config: config.inherit_env is True,
    ),
    ("mcp", "these are reached without encryption", "use an https address", _is_open),
)


def _pins(env: Environment, servers: Servers) -> Iterator[Finding]:
    known = PinStore(env.paths.pins).load()
    found = {n: known[pin_key(c)] for n, c in servers.items() if pin_key(c) in known}
    changed = {name: pinned for name, pinned in found.items() if pinned.pending}
    for name, pinned in changed.items():
        new = ", ".join(map(shown_name, pinned.pending))
        text = f"MCP server '{name}' has changed since you accepted it: {new}"
        yield Finding("pins", WARNING, text, f"see the changes: {env.program} mcp pins show {name}")
    unseen = sorted(n for n, c in servers.items() if n not in found and c.pin != "off")
    if unseen:
        yield Finding("pins", OK, f"will be pinned when they first start: {', '.join(unseen)}")
    if found and not changed:
        matching = "1 server matches" if len(found) == 1 else f"{len(found)} servers match"
        yield Finding("pins", OK, f"{matching} what you accepted")
    if found:
        yield from _declarations(env, found)


def _declarations(env: Environment, found: Mapping[str, "Pinned"]) -> Iterator[Finding]:
    """Declarations that give the model orders, or that refer to other servers' tools."""
    words: dict[str, dict[str, Any]] = {}
    for server, pinned in found.items():
        declared = {name: one.text for name, one in {**pinned.accepted, **pinned.pending}.items()}
        for name, text in declared.items():
            seen = suspicion(None if name == INSTRUCTIONS else name, text)
            if seen is not None:
                message = f"MCP server '{server}': {seen.words()}"
                hint = f"read it in full: {env.program} mcp tools {server} --json; to withhold it, "
                hint += 'use `tools.deny` or `onSuspicious: "block"`'
                yield Finding("declarations", WARNING, message, hint)
        declared.pop(INSTRUCTIONS, None)
        words[server] = {name: mentions(text) for name, text in declared.items()}
    for one in find_shadowing(words)[:20]:
        hint = "make sure that both are what you expect; use tools.deny to remove one"
        yield Finding("pins", WARNING, one.words(), hint)


def _sandboxes(env: Environment, servers: Servers) -> Iterator[Finding]:
    local = {name: one.sandbox.mode for name, one in servers.items() if one.kind == "stdio"}
    confined = {name: mode for name, mode in local.items() if mode != "off"}
    if not confined:
        return
    means = detect_support(env.environ.get("PATH", ""))
    if means.best is not None:
        are = "server is" if len(confined) == 1 else "servers are"
        yield Finding("sandbox", OK, f"{len(confined)} {are} confined by {means.best}")
        return
    for name, mode in sorted(confined.items()):
        text = f"MCP server '{name}' cannot be confined: {means.missing}"
        yield Finding("sandbox", ERROR if mode == "strict" else WARNING, text, "install bubblewrap")
