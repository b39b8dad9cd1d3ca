"""Writes the configuration file: one writer at a time, all or nothing, and only if it is valid."""

import errno
import os
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from openclaw.config.paths import PRIVATE_FILE, check_links, private_directory, state_dir
from openclaw.core.errors import OperatorFacing

if TYPE_CHECKING:
    from openclaw.config.load import LoadedConfig

# They hold between processes and, as every open file has its own, between threads. Closing the
# descriptor gives the lock back.

# Windows locks bytes, and others may not even read them: so one that no file of ours reaches.
_LOCKED_BYTE = 1 << 30
_POLL_SECONDS = 0.02
_HELD = (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


class ByteLocks(Protocol):
    @property
    def LK_NBLCK(self) -> int: ...

    def locking(self, fd: int, mode: int, nbytes: int, /) -> None: ...


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


def try_byte_lock(descriptor: int, library: ByteLocks) -> bool:
    """The same on Windows; the file's position stays the same."""
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


def edit_config(
    path: Path, environ: Mapping[str, str], change: Callable[[str], str]
) -> "LoadedConfig":
    """Write what `change` makes of the file's text; if it is invalid, only raise InvalidConfig."""
    from openclaw.config.load import parse_config, read_text

    if path.parent == state_dir(environ):
        private_directory(path.parent)
    target = target_of(path)
    with locked(target):
        before = read_text(target) or ""
        after = change(before)
        after += "" if after.endswith("\n") or after == before else "\n"
        loaded = parse_config(after, environ, source=path)
        if after != before:
            write_atomically(target, after)
    return loaded


def target_of(path: Path) -> Path:
    """The file to write, whose directory is created; a link stays a link to the same file."""
    try:
        check_links(path.parent)
        target = path.resolve()
        if path.is_symlink() and not target.parent.is_dir():
            check_links(path)
        if not target.parent.exists():
            private_directory(target.parent)
    except RuntimeError as error:  # so `resolve` says it
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
    """Replace the file in one step; after a crash it is the old one or the new one."""
    try:
        import tempfile

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
