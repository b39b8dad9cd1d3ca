"""Where configuration and state live."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openclaw.core.errors import OperatorFacing

CONFIG_NAME = "openclaw.json"
STATE_NAME = ".openclaw"
PRIVATE_DIRECTORY = 0o700
PRIVATE_FILE = 0o600


def home_dir(environ: Mapping[str, str]) -> Path:
    named = environ.get("HOME") or environ.get("USERPROFILE")
    return Path(named) if named else Path("~").expanduser()


def expand(path: str, environ: Mapping[str, str]) -> Path:
    if path == "~":
        return home_dir(environ)
    if path.startswith(("~/", "~\\")):
        return home_dir(environ) / path[2:]
    return Path(path)


def state_dir(environ: Mapping[str, str]) -> Path:
    """`$OPENCLAW_STATE_DIR`, else `~/.openclaw`; always absolute."""
    named = environ.get("OPENCLAW_STATE_DIR")
    return (expand(named, environ) if named else home_dir(environ) / STATE_NAME).absolute()


def config_path(environ: Mapping[str, str]) -> Path:
    """`$OPENCLAW_CONFIG_PATH`, else `openclaw.json` in the state directory; always absolute."""
    named = environ.get("OPENCLAW_CONFIG_PATH")
    return expand(named, environ).absolute() if named else state_dir(environ) / CONFIG_NAME


def digest(content: bytes) -> str:
    """Says whether a configuration file is still the one that was read; empty for no file."""
    import hashlib

    return hashlib.sha256(content).hexdigest()


def file_digest(path: Path) -> str | None:
    """The digest of the file there; None where it cannot be read."""
    try:
        return digest(path.read_bytes()) if path.is_file() else ""
    except OSError:
        return None


def workspace_here(environ: Mapping[str, str]) -> Path | None:
    """The current directory, unless it holds the home directory or our own state.

    Somebody who happens to be there did not mean to give the agent all of it.
    """
    try:
        here = Path.cwd()
    except OSError:
        return None
    home, state = home_dir(environ).resolve(), state_dir(environ).resolve()
    private = home.is_relative_to(here) or state.is_relative_to(here) or here.is_relative_to(state)
    return None if private else here


def check_links(path: Path) -> None:
    """Raise `OperatorFacing` if a link on the way is broken: its target may be on another disk."""
    for place in (*reversed(path.parents), path):
        if place.is_symlink() and not place.exists():
            raise OperatorFacing(
                f"{place} is a link to {place.readlink()}, which does not exist",
                hint="create its target, or remove the link",
            )


def is_strangers(status: os.stat_result) -> bool:
    """Whether a file or directory belongs to somebody else; never for root."""
    return sys.platform != "win32" and os.geteuid() not in (0, status.st_uid)


def check_directory(path: Path) -> None:
    """Raise `OperatorFacing` if there is a file in the directory's place; it may be missing."""
    found = next((each for each in (path, *path.parents) if each.exists()), path)
    if found.exists() and not found.is_dir():
        raise OperatorFacing(f"{found} is a file, not a directory", hint=f"move {found} away")


def private_directory(path: Path) -> Path:
    """Make the directory with its parents, if missing, and private to this user."""
    try:
        check_links(path)
        for missing in reversed([each for each in path.parents if not each.exists()]):
            missing.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        path.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        status = path.stat()
        if is_strangers(status):
            raise OperatorFacing(
                f"{path} belongs to another user, who could read and change what is kept there",
                hint="set OPENCLAW_STATE_DIR to a directory of your own",
            )
        if status.st_mode & 0o077:
            path.chmod(PRIVATE_DIRECTORY)
    except OSError as error:
        check_directory(path)
        raise OperatorFacing(
            f"cannot use the directory {path}: {error.strerror or error}",
            hint="set OPENCLAW_STATE_DIR to a directory of your own",
        ) from error
    return path


def private_file(path: Path) -> Path:
    private_directory(path.parent)
    try:
        path.touch(mode=PRIVATE_FILE)
        if path.stat().st_mode & 0o077:
            path.chmod(PRIVATE_FILE)
    except OSError as error:
        raise OperatorFacing(f"cannot use the file {path}: {error.strerror or error}") from error
    return path


class _Place:
    """A path below the state directory."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __get__(self, paths: "StatePaths", owner: type) -> Path:
        return paths.root.joinpath(*self._names)


@dataclass(frozen=True, slots=True)
class StatePaths:
    """The paths under the state directory, which may not exist."""

    root: Path

    database = _Place("sessions.db")
    audit_log = _Place("logs", "audit.jsonl")
    logs = _Place("logs")
    gateway_log = _Place("logs", "gateway.log")
    cache = _Place("cache")
    pins = _Place("pins.json")
    models = _Place("models")
    temp = _Place("tmp")
    tokens = _Place("tokens")
    cron = _Place("cron")
    memory = _Place("memory")
    skills = _Place("skills")
    undo = _Place("undo")
    results = _Place("results")
    workspace = _Place("workspace")
    chat_history = _Place("chat-history")
    locks = _Place("locks")
    gateway_lock = _Place("locks", "gateway.lock")

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "StatePaths":
        return cls(state_dir(environ))

    def prepare(self) -> "StatePaths":
        private_directory(self.root)
        private_directory(self.cache)
        return self


CLOEXEC: int = getattr(os, "O_CLOEXEC", 0)
DIRECTORY: int = getattr(os, "O_DIRECTORY", 0)
NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)
