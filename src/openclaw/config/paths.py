"""Where configuration and state live, and how files there are locked and replaced."""

import errno
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw.core.errors import OperatorFacing
from openclaw.core.file_names import OwnDirectory

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
    """Tells whether a configuration file has changed since it was read; empty for no file."""
    return hashlib.sha256(content).hexdigest()


def file_digest(path: Path) -> str | None:
    """The file's digest; None if it cannot be read."""
    try:
        return digest(path.read_bytes()) if path.is_file() else ""
    except OSError:
        return None


def workspace_here(environ: Mapping[str, str]) -> Path | None:
    """The current directory, unless it contains the home directory or our own state.

    Somebody who happens to be there did not mean to give the agent access to all of it.
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


def is_owned_by_another(status: os.stat_result) -> bool:
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
        if is_owned_by_another(status):
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


class _OwnPlace(_Place):
    """A directory in which we choose every name."""

    def __get__(self, paths: "StatePaths", owner: type) -> OwnDirectory:  # pyright: ignore[reportIncompatibleMethodOverride] - the narrower type is the purpose
        return OwnDirectory(paths.root.joinpath(*self._names))


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
    memory = _OwnPlace("memory")
    skills = _Place("skills")
    undo = _OwnPlace("undo")
    results = _OwnPlace("results")
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

# Locks work between processes and, since every open file has its own, between threads. Closing the
# descriptor releases the lock.

# Windows locks bytes, which others then cannot even read: so lock one beyond the end of our files.
_LOCKED_BYTE = 1 << 30
_POLL_SECONDS = 0.02
_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


def try_lock(descriptor: int) -> bool:
    """Take the lock, unless it is held already. Raises OSError if the file cannot be locked."""
    if sys.platform == "win32":
        import msvcrt

        return try_byte_lock(descriptor, msvcrt)
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return _held(error)
    return True


def lock(descriptor: int) -> None:
    if sys.platform != "win32":
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    while not try_lock(descriptor):
        time.sleep(_POLL_SECONDS)


def try_byte_lock(descriptor: int, library: Any) -> bool:
    """The same on Windows, with `msvcrt`; the file's position stays the same."""
    place = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
    try:
        library.locking(descriptor, library.LK_NBLCK, 1)
    except OSError as error:
        return _held(error)
    finally:
        os.lseek(descriptor, place, os.SEEK_SET)
    return True


def _held(error: OSError) -> bool:
    if error.errno not in _HELD:
        raise error
    return False


# An edit takes milliseconds; whoever holds the lock for longer is stuck.
LOCK_TIMEOUT_SECONDS = 10.0


def target_of(path: Path) -> Path:
    """The file to write, whose directory is created; a link stays a link to the same file."""
    try:
        check_links(path.parent)
        target = path.resolve()
        if target.is_symlink():
            raise RuntimeError("circular links")
        if path.is_symlink() and not target.parent.is_dir():
            check_links(path)
        if not target.parent.exists():
            private_directory(target.parent)
    except RuntimeError as error:
        raise OperatorFacing(f"cannot write {path}: its links lead in a circle") from error
    except OSError as error:
        raise _not_written(path, error) from error
    return target


def _not_written(path: Path, error: OSError) -> OperatorFacing:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "free some space and try again" if full else None
    if path.is_dir():
        hint = f"a file belongs there; move the directory {path} away"
    return OperatorFacing(f"cannot write {path}: {error.strerror or error}", hint=hint)


def write_atomically(path: Path, text: str, *, mode: int = PRIVATE_FILE) -> None:
    """Replace the file atomically; after a crash it is either the old or the new one."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            Path(name).chmod(mode)
            Path(name).replace(path)
        except BaseException:
            with suppress(FileNotFoundError):
                Path(name).unlink()
            raise
        if sys.platform != "win32":
            directory = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
    except OSError as error:
        raise _not_written(path, error) from error


@contextmanager
def locked(path: Path, timeout: float = LOCK_TIMEOUT_SECONDS) -> Generator[None]:
    lock = path.with_name(f".{path.name}.lock")
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    except OSError as error:
        raise _not_written(path, error) from error
    try:
        deadline = time.monotonic() + timeout
        try:
            while not try_lock(descriptor):
                if time.monotonic() >= deadline:
                    message = f"another program has been changing {path} for {timeout:g} s"
                    raise OperatorFacing(message)
                time.sleep(_POLL_SECONDS)
        except OSError as error:
            raise OperatorFacing(f"cannot lock {path}: {error.strerror or error}") from error
        yield
    finally:
        os.close(descriptor)  # which also releases the lock
