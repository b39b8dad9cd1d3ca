"""Keep the agent running in the background, for all your programs.

The gateway keeps the MCP servers running, serves a page and an HTTP API on this machine, and
applies configuration changes without a restart.
"""

import argparse
import gc
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from openclaw.cli.environment import Environment
from openclaw.cli.logging_setup import configure, open_log_file
from openclaw.cli.parser import add_action, option, whole_number
from openclaw.config.load import load_config
from openclaw.config.paths import expand
from openclaw.config.schema import Config
from openclaw.core.clock import SystemClock
from openclaw.core.errors import (
    EXIT_FAILED,
    EXIT_OK,
    InvalidConfig,
    NotFound,
    OperatorFacing,
    describe,
    sentence,
)
from openclaw.gateway import lock as locks
from openclaw.gateway.service_files import Notifier, unit_for
from openclaw.gateway.tokens import TokenFile, owner_token
from openclaw.mcp_client.transport.environment import child_environment
from openclaw.runtime.gateway_connection import ask_gateway, frozen_gateway, require_gateway
from openclaw.sessions.liveness import is_gone, mark_of

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from openclaw.config.load import LoadedConfig
    from openclaw.core.events import Emit
    from openclaw.gateway.gateway import Gateway, GatewayBackend

_STOP_MARGIN = 20.0  # seconds beyond the turns' grace until a stop counts as failed
_SILENT_SECONDS = 1.5  # a stop that takes longer says why
_START_SECONDS = 60.0  # a busy machine takes long to import everything
_END_SECONDS = 10.0  # from releasing everything to the end of the process
_LEVELS = {"silent": "critical", "fatal": "critical", "warn": "warning", "trace": "debug"}


def register(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    run_ = add_action(actions, "run", "run the gateway in this terminal", _run, json=False)
    run_.set_defaults(runs_until_stopped=True)
    option(run_, "--port N", "the port to use; 0 picks one", type=whole_number(0, 65_535))
    for name, action, summary in (
        ("start", _start, "start the gateway in the background"),
        ("status", _status, "show whether a gateway is running, and where"),
        ("stop", _stop, "let running turns finish, then stop the gateway"),
        ("restart", _restart, "restart the gateway, or start it if it isn't running"),
        ("reload", _reload, "make the gateway reload its configuration"),
    ):
        add_action(actions, name, summary, action)
    summary = "manage tokens for other programs and machines"
    token = add_action(actions, "token", summary, json=False)
    summary = "start the gateway now and at every login"
    install = add_action(actions, "install", summary, _install, json=False)
    option(install, "--print", "print the file, don't install it", dest="print_only")
    summary = "stop the gateway and no longer start it at login"
    uninstall = add_action(actions, "uninstall", summary, _uninstall, json=False)
    which = "which service manager (default: this system's)"
    for one in (install, uninstall):
        option(one, "--kind", which, choices=("systemd", "launchd", "windows"))
    actions = token.add_subparsers(metavar="ACTION", required=True)
    summary = "create a token and print its value once"
    add = add_action(actions, "add", summary, _add_token, json=False)
    option(add, "NAME", "a name for the token")
    allows = "what it allows: orders, read or admin; can be repeated (default: orders)"
    option(add, "--scope SCOPE…", allows)
    add_action(actions, "list", "list the tokens, without their values", _list_tokens)
    remove = add_action(actions, "remove", "revoke a token, at once", _remove_token, json=False)
    option(remove, "NAME", "the token's name")
    summary = "print your own token, which allows everything"
    add_action(actions, "print", summary, _print_token, json=False)


def _run(args: argparse.Namespace, env: Environment) -> None:
    gc.disable()  # everything loaded during startup stays; scanning it takes a tenth of the startup
    loaded = _with_port(env.loaded, args.port)
    env.paths.prepare()
    with locks.gateway_lock(env.paths.gateway_lock) as publish:
        anyio.run(_serve, args, env, loaded, publish)


async def _serve(
    args: argparse.Namespace, env: Environment, loaded: "LoadedConfig", publish: Any
) -> None:
    # Only this action serves, and the others are used all day: Starlette and uvicorn are large.
    from openclaw.gateway.daemon import Daemon, serve
    from openclaw.gateway.page.routes import login_link
    from openclaw.runtime.gateway_runtime import open_backend

    def opened(emit: "Emit", url: str) -> "AbstractAsyncContextManager[GatewayBackend]":
        return open_backend(loaded, env.environ, env.redactor, emit, url)

    def ready(gateway: "Gateway") -> None:
        gc.freeze()
        gc.enable()
        if env.stderr.isatty() and gateway.settings.dashboard:
            env.warn(f"The page: {login_link(gateway)} (works once; 'openclaw page' makes another)")

    daemon = Daemon(
        loaded=loaded,
        load=lambda: _with_port(load_config(env.config_option, env.environ), args.port),
        paths=env.paths,
        clock=SystemClock(),
        redact=env.redactor.redact,
        open_backend=opened,
        resolve=env.secrets().resolve_text,
        notifier=Notifier(env.environ),
        log_file=_log(args, env),
        environ=child_environment(env.environ, {}, inherit=False),
        variables=env.environ,
        on_ready=ready,
    )
    await serve(daemon, publish)


def _tokens(env: Environment) -> TokenFile:
    return TokenFile(env.paths.prepare().root, SystemClock())


def _add_token(args: argparse.Namespace, env: Environment) -> None:
    value = _tokens(env).add(args.name, args.scope or ["orders"])
    env.warn("Copy it now: it won't be shown again.")
    env.say(value.reveal())


def _list_tokens(args: argparse.Namespace, env: Environment) -> None:
    found = _tokens(env).all()
    rows = [{"name": t.name, "scopes": t.scopes, "createdAt": t.created} for t in found]
    lines = [f"{token.name}  {', '.join(token.scopes)}" for token in found]
    empty = "No tokens yet. Create one: openclaw gateway token add NAME"
    env.report(args, {"tokens": rows}, *lines, empty=empty)


def _remove_token(args: argparse.Namespace, env: Environment) -> None:
    _tokens(env).remove(args.name)
    env.say(f"Revoked the token '{args.name}'.")


def _print_token(args: argparse.Namespace, env: Environment) -> None:
    env.say(owner_token(env.paths.prepare().root).reveal())


def _with_port(loaded: "LoadedConfig", port: int | None) -> "LoadedConfig":
    if port is None:
        return loaded
    gateway = loaded.config.gateway.model_copy(update={"port": port})
    return replace(loaded, config=loaded.config.model_copy(update={"gateway": gateway}))


def _log(args: argparse.Namespace, env: Environment) -> Path:
    settings = env.config.logging
    path = expand(settings.file, env.environ) if settings.file else env.paths.gateway_log
    configure(
        level="debug" if args.verbose else _LEVELS.get(settings.level, settings.level),
        json=args.log_json or settings.json_,
        redactor=env.redactor,
        stream=env.stderr,
        file=open_log_file(path, max_bytes=settings.max_file_bytes, keep=settings.keep),
        environ=env.environ,
    )
    return path


def _status(args: argparse.Namespace, env: Environment) -> int:
    info = locks.running_gateway(env.paths.gateway_lock)
    if info is None:
        env.report(args, {"running": False}, "No gateway is running.")
        return EXIT_FAILED
    facts = {"running": True, "pid": info.pid, "url": info.url, "startedAt": info.started}
    facts |= {"version": info.version, "config": info.config}
    lines = [f"A gateway is running: pid {info.pid}, {info.url or 'starting'}"]
    frozen = frozen_gateway(info, env.paths)
    if frozen is not None:
        facts["error"] = describe(frozen)
        lines.append(sentence(facts["error"]))
    env.report(args, facts, *lines)
    return EXIT_OK if frozen is None else EXIT_FAILED


def _stop(args: argparse.Namespace, env: Environment) -> None:
    facts = _stopped(env)
    env.report(args, facts, f"Stopped the gateway (pid {facts['stopped']}).")


def _stopped(env: Environment) -> dict[str, Any]:
    info = require_gateway(env.paths)
    try:
        config = env.config
    except InvalidConfig:  # it runs with an earlier version of the file, and must still stop
        config = Config()
    grace = config.gateway.shutdown_grace_ms / 1000
    if info.pid <= 0:
        raise OperatorFacing("the gateway is still starting; try again in a moment")
    process, began = mark_of(info.pid), time.monotonic()
    frozen = frozen_gateway(info, env.paths)
    os.kill(info.pid, signal.SIGTERM)
    if not locks.wait_until_gone(env.paths.gateway_lock, info.pid, _SILENT_SECONDS):
        if frozen is not None:
            raise frozen
        env.warn(f"Waiting up to {grace:.0f} s for running turns to finish.")
    if not locks.wait_until_gone(env.paths.gateway_lock, info.pid, grace + _STOP_MARGIN):
        raise OperatorFacing(f"the gateway (pid {info.pid}) did not stop")
    # It has released everything; the process itself ends a moment later.
    if not locks.wait_for(lambda: is_gone(process), _END_SECONDS):
        raise OperatorFacing(
            f"the gateway has stopped, but its process (pid {info.pid}) has not ended",
            hint=f"end it with: kill -9 {info.pid} (its state is safe)",
        )
    return {"stopped": info.pid, "seconds": round(time.monotonic() - began, 1)}


def _reload(args: argparse.Namespace, env: Environment) -> None:
    report = ask_gateway(env.paths, "POST", "/api/reload")
    lines = ["Applied." if report["changed"] else "Nothing has changed."]
    if report["waiting"]:
        lines.append(f"These changes need a restart: {', '.join(report['waiting'])}")
    env.report(args, report, *lines)


def _start(args: argparse.Namespace, env: Environment) -> None:
    info = locks.running_gateway(env.paths.gateway_lock)
    if info is not None and (frozen := frozen_gateway(info, env.paths)):
        raise frozen
    if info is None:
        env.load_config()  # report its problems here, not in a log
        unit = unit_for(None, env.environ, env.config_option)
        if unit.path.exists():
            _manage(unit.start)
            info = _awaited(env, lambda: None)
        else:
            info = _in_background(env)
    env.report(
        args,
        {"running": True, "pid": info.pid, "url": info.url},
        f"The gateway is running at {info.url} (pid {info.pid}).",
        f"'{env.program} page' opens its page; '{env.program} logs -f' shows what it does.",
    )


def _in_background(env: Environment) -> locks.GatewayInfo:
    """Start a gateway that outlives this command; if it fails, its output is reported."""
    named = ["--config", str(env.config_option.absolute())] if env.config_option else []
    command = [sys.executable, "-P", "-m", "openclaw", "gateway", "run", *named]
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(  # noqa: S603 - ourselves
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            env=dict(env.environ),
            cwd=env.paths.prepare().root,
            start_new_session=True,
        )

        def ended() -> str | None:
            if child.poll() is None:
                return None
            said.seek(0)
            return said.read().decode("utf-8", "replace").strip()

        return _awaited(env, ended)


def _awaited(env: Environment, ended: Callable[[], str | None]) -> locks.GatewayInfo:
    """Wait until the gateway listens; `ended` returns its output if it has ended."""

    def listening() -> bool:
        info = locks.running_gateway(env.paths.gateway_lock)
        return bool(info and info.url) or ended() is not None

    there = locks.wait_for(listening, _START_SECONDS)
    info = locks.running_gateway(env.paths.gateway_lock)
    if info is None or not info.url:
        said = ended() if there else None  # with a hint of its own
        late = f"it did not listen within {_START_SECONDS:.0f} s"
        reason = said or ("it ended at once" if there else late)
        reason = reason.removeprefix(f"{env.program}: ")
        hint = None if said else f"see: {env.program} logs"
        raise OperatorFacing(f"the gateway did not start: {reason}", hint=hint)
    return info


def _restart(args: argparse.Namespace, env: Environment) -> None:
    if locks.running_gateway(env.paths.gateway_lock) is not None:
        env.load_config()  # otherwise no gateway would run afterwards
        _stopped(env)
    _start(args, env)


def _manage(command: tuple[str, ...]) -> None:
    """Have the system's service manager do this; raises `OperatorFacing` if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ours
        problem = (done.stderr or done.stdout).strip() if done.returncode else None
    except OSError as error:
        problem = str(error)
    if problem is not None:
        hint = "to run it without a service manager: openclaw gateway start"
        raise OperatorFacing(f"{shlex.join(command)} failed: {problem or 'no reason'}", hint=hint)


def _install(args: argparse.Namespace, env: Environment) -> None:
    unit = unit_for(args.kind, env.environ, env.config_option)
    if args.print_only:
        env.say(unit.text)
        return
    unit.path.parent.mkdir(parents=True, exist_ok=True)
    before = unit.path.read_text() if unit.path.exists() else None
    unit.path.write_text(unit.text)
    try:
        _manage(unit.install)
    except OperatorFacing:  # leave nothing behind that would start at the next login
        if before is None:
            unit.path.unlink()
        else:
            unit.path.write_text(before)
        raise
    env.say(f"Wrote {unit.path}")
    env.say("The gateway runs now and at every login. To undo: openclaw gateway uninstall")


def _uninstall(args: argparse.Namespace, env: Environment) -> None:
    if not remove_service(env, args.kind):
        path = unit_for(args.kind, env.environ, env.config_option).path
        raise NotFound(f"the gateway is not installed: there is no {path}")


def stop_gateway(env: Environment) -> None:
    """Stop the gateway, if one is running."""
    if locks.running_gateway(env.paths.gateway_lock) is not None:
        _stopped(env)
        env.say("Stopped the gateway.")


def remove_service(env: Environment, kind: str | None = None) -> bool:
    """Remove the gateway's service; false if it is not installed."""
    unit = unit_for(kind, env.environ, env.config_option)
    if not unit.path.exists():
        return False
    try:
        _manage(unit.stop)
    except OperatorFacing as error:  # such as one that was never started: remove the file anyway
        env.warn(error.message)
    unit.path.unlink()
    env.say(f"Removed {unit.path}")
    return True
