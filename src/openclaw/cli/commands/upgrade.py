"""Show or run the command that upgrades this installation.

Before anything changes, the state and the configuration are backed up. The new version then
tries them on a copy; if it can't use them, the old version is installed again. --undo goes back.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from openclaw.cli.build_version import build_commit, version_text
from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_json, option
from openclaw.config import state_backup
from openclaw.config.paths import private_directory
from openclaw.config.state_version import is_outdated
from openclaw.core.clock import SystemClock
from openclaw.core.errors import NotFound, OpenClawError, OperatorFacing
from openclaw.core.installed import (
    Command,
    Installation,
    installation,
    shown_command,
)
from openclaw.gateway.lock import running_gateway
from openclaw.sessions.open import is_address, store_path
from openclaw.version import __version__

_BY_HAND = {
    "container": "pull the new image and start the container again",
    "single file": "download the new file and put it in the place of the old one",
}
_WAY = {"pip": "with pip", "pipx": "with pipx"}
# What the new version must be able to do with a copy of the state.
_TRIALS = (
    ("config", "validate"),
    ("sessions", "list", "--store", "file"),
    ("cron", "list"),
    ("secrets", "list"),
)


def register(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    option(parser, "--yes", "do it, instead of showing the command")
    option(parser, "--undo", "go back to the state and the version before the last upgrade")


def run(args: argparse.Namespace, env: Environment) -> None:
    if args.undo:
        _undo(args, env)
        return
    how = installation()
    facts = {"kind": how.kind, "version": __version__, "commands": [*map(list, how.upgrade)]}
    if not how.upgrade:
        env.report(args, facts, f"Installed as a {how.kind}: {_BY_HAND[how.kind]}.")
    elif not args.yes:
        lines = [f"  {shown_command(words)}" for words in how.upgrade]
        env.report(
            args,
            facts,
            f"OpenClaw {version_text()}, installed {_WAY.get(how.kind, f'as a {how.kind}')}. To upgrade it, run:",
            *lines,
            f"{env.program} upgrade --yes does that, with a backup and a check of your state.",
        )
    else:
        _upgrade(args, env, how)


def _upgrade(args: argparse.Namespace, env: Environment, how: Installation) -> None:
    is_outdated(env.paths.root)  # raises if even the present version is too old
    root = private_directory(env.paths.root)
    reinstall = how.reinstall(_commit(how, root) or __version__)
    before = version_text()  # while this build's files are still there
    database, config, now = _database(env), env.config_file, SystemClock().now_ms()
    backup = state_backup.back_up(root, now, database, config, reinstall)
    try:
        _run_all(how.upgrade, root)
        version = _try_new_version(env, backup)
    except OpenClawError as error:
        _run_all(reinstall, root)
        hint = f"{__version__} is installed again, and nothing else was changed"
        raise OperatorFacing(f"not upgraded: {error.message}", hint=hint) from error
    facts = {"kind": how.kind, "before": __version__, "version": version, "backup": str(backup)}
    lines = [f"Upgraded from {before} to {version}. To go back: {env.program} upgrade --undo"]
    if running_gateway(env.paths.gateway_lock) is not None:
        lines.append(f"The gateway is still the old one: {env.program} gateway restart")
    env.report(args, facts, *lines)


def _database(env: Environment) -> Path | None:
    """The sessions' file; None if they are on a server, which has backups of its own."""
    try:
        spec = env.config.sessions.store
    except OpenClawError:  # an upgrade may be what repairs the configuration
        return env.paths.database
    return None if is_address(spec) else store_path(spec, env.paths)


def _commit(how: Installation, root: Path) -> str | None:
    if how.checkout is None:
        return None
    return build_commit() or _output(("git", "-C", how.checkout, "rev-parse", "HEAD"), root).strip()


def _try_new_version(env: Environment, backup: Path) -> str:
    """The version that is installed now; raises `OperatorFacing` if it can't use a copy of the state."""
    program, root = (sys.executable, "-P", "-m", "openclaw"), env.paths.root
    version = _output((*program, "--version"), root).strip().partition(" ")[2]
    with tempfile.TemporaryDirectory(prefix="openclaw-upgrade-") as directory:
        state = Path(directory) / "state"
        shutil.copytree(backup, state)
        own = {
            "OPENCLAW_STATE_DIR": str(state),
            "OPENCLAW_CONFIG_PATH": str(state / "openclaw.json"),
        }
        for words in _TRIALS:
            _output((*program, *words), root, {**env.environ, **own})
    return version


def _undo(args: argparse.Namespace, env: Environment) -> None:
    found = state_backup.backups(env.paths.root)
    backup = next((one for one in found if one.reinstall), found[0] if found else None)
    if backup is None:
        raise NotFound(f"there is no backup in {env.paths.root / 'backups'}")
    if running_gateway(env.paths.gateway_lock) is not None:
        raise OperatorFacing("a gateway is running", hint=f"{env.program} gateway stop")
    before = f"the state of {backup.path.name}" + (f" ({backup.program})" if backup.program else "")
    if not env.confirms(args, f"Go back to {before}", "go back"):
        env.say("Nothing was changed.")
        return
    replaced = state_backup.restore(env.paths.root, backup, SystemClock().now_ms())
    _run_all(backup.reinstall, env.paths.root)
    facts = {"restored": str(backup.path), "program": backup.program, "replaced": str(replaced)}
    env.report(args, facts, f"Restored {before}. What it replaced is in {replaced}.")


def _run_all(commands: Iterable[Command], root: Path) -> None:
    for words in commands:
        _output(words, root)


def _output(words: Command, root: Path, environ: dict[str, str] | None = None) -> str:
    """What it prints. It runs in our own directory: Python, pip and uv take modules and settings from
    the one that they are started in, which may be anybody's."""
    try:
        done = subprocess.run(  # noqa: S603 - how this program was installed
            words,
            capture_output=True,
            text=True,
            env=environ,
            cwd=root,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError as error:
        raise OperatorFacing(f"{words[0]} cannot be run: {error.strerror}") from error
    if done.returncode != 0:
        said = f"{done.stdout}\n{done.stderr}".strip()[-2000:]
        raise OperatorFacing(f"'{shown_command(words)}' failed: {said}")
    return done.stdout
