"""The directory that file tools work in, and a walk that can't escape it.

A path is walked one component at a time, each opened relative to the one before and without following
a link; the walk follows links itself as long as they stay inside, and `..` never goes above the
root. So what is checked is what is opened, even if a component is renamed or relinked meanwhile. A
hard link to a file outside looks like any file; writing never changes it, but creates a new file.
"""

import errno
import os
import stat
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from openclaw.config import paths
from openclaw.core.clock import random_id
from openclaw.core.errors import ToolFailure

_DIRECTORY = os.O_RDONLY | paths.DIRECTORY | paths.NOFOLLOW | paths.CLOEXEC
_FILE = os.O_RDONLY | paths.NOFOLLOW | paths.NONBLOCK | paths.CLOEXEC  # a pipe must not block us
_MOST_LINKS = 40
_NEW_FILE = 0o644
_NEW_DIRECTORY = 0o755


@dataclass(slots=True)
class ResolvedPath:
    """Where a path ends: an open directory, and a name in it (empty for the directory itself)."""

    directory: int
    name: str
    relative: str

    def status(self) -> os.stat_result | None:
        """What is there, never a link's target; None if there is nothing."""
        try:
            return os.stat(self.name or ".", dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None


Stamp = tuple[int, int, int]


def stamp(status: os.stat_result) -> Stamp:
    """Identifies the file that was read, to notice if it was changed or replaced."""
    return status.st_ino, status.st_mtime_ns, status.st_size


@dataclass(slots=True)
class _Walk:
    stack: list[int]
    names: list[str] = field(default_factory=list[str])
    links: int = 0

    def up(self) -> None:
        if not self.names:
            raise ToolFailure("That path leads out of the workspace; give a path inside it.")
        os.close(self.stack.pop())
        self.names.pop()

    def down(self, name: str) -> None:
        self.stack.append(os.open(name, _DIRECTORY, dir_fd=self.stack[-1]))
        self.names.append(name)


@dataclass(frozen=True, slots=True)
class Workspace:
    """An agent's directory. Its methods block: call them in a thread.

    No path leads to what is `private`: this program's configuration and state, with which an agent
    could grant itself any permission.
    """

    root: Path
    private: Sequence[Path] = ()
    restoring: bool = False  # what was there before, even for git

    def _private_ids(self) -> set[tuple[int, int]]:
        found: set[tuple[int, int]] = set()
        for path in self.private:
            with suppress(OSError):
                found.add(_identity(path.stat()))
        return found

    def _refuse_private(self, status: os.stat_result | None) -> None:
        if status is not None and _identity(status) in self._private_ids():
            raise ToolFailure("That is OpenClaw's own file or directory, which no tool may use.")

    @contextmanager
    def locate(self, path: str, *, create_parents: bool = False) -> Generator[ResolvedPath]:
        """Walk to `path`; its last component need not exist and is not a link.

        With `create_parents`, for what writes there, it doesn't lead into a `.git`.
        """
        if create_parents and not self.restoring:
            _refuse_git(self._components(path))
        try:
            root = os.open(self.root, os.O_RDONLY | paths.DIRECTORY | paths.CLOEXEC)
        except OSError as error:
            raise ToolFailure(
                f"The workspace cannot be used ({error.strerror}); tell the user."
            ) from error
        walk = _Walk([root])
        try:
            self._refuse_private(os.fstat(walk.stack[0]))
            name = self._walk(walk, path, create_parents)
            parts = [*walk.names, name] if name else walk.names
            spot = ResolvedPath(walk.stack[-1], name, "/".join(parts) or ".")
            self._refuse_private(spot.status())
            if create_parents and not self.restoring:
                _refuse_git(parts)
            yield spot
        except NotADirectoryError:
            raise ToolFailure(f"A part of '{path}' is not a directory.") from None
        except (FileNotFoundError, IsADirectoryError) as error:
            raise ToolFailure(
                f"There is no '{path}' in the workspace; use list to look."
            ) from error
        finally:
            for descriptor in walk.stack:
                os.close(descriptor)

    @contextmanager
    def changing(
        self, *paths: str, create_parents: bool = False
    ) -> Generator[tuple[ResolvedPath, ...]]:
        """Walk to each of `paths`; until the end, no tool changes a file in the same directories.

        With `create_parents`, the directories of the last one are created.
        """
        with ExitStack() as stack:
            last = len(paths) - 1
            spots = tuple(
                stack.enter_context(self.locate(p, create_parents=create_parents and at == last))
                for at, p in enumerate(paths)
            )
            _hold([spot.directory for spot in spots], stack)
            yield spots

    @contextmanager
    def open_file(self, path: str) -> Generator[tuple[BinaryIO, os.stat_result, str]]:
        """Open a regular file to read it; yields it with its status and its path in the workspace."""
        with self.locate(path) as spot:
            status = spot.status()
            if status is None:
                raise ToolFailure(f"There is no '{path}' in the workspace; use list to look.")
            _require_regular(status, path)
            descriptor = os.open(spot.name, _FILE, dir_fd=spot.directory)
            with os.fdopen(descriptor, "rb") as file:
                opened = os.fstat(descriptor)
                _require_regular(opened, path)
                yield file, opened, spot.relative

    def walk(
        self, spot: ResolvedPath, *, depth: int = sys.maxsize, skipped: Set[str] = frozenset()
    ) -> "Iterator[FoundEntry]":
        """What is in a directory, `depth` levels down, sorted by name; follows no links."""
        try:
            directory = os.open(spot.name or ".", _DIRECTORY, dir_fd=spot.directory)
        except NotADirectoryError:
            raise ToolFailure(f"'{spot.relative}' is a file, not a directory; use read.") from None
        prefix = "" if spot.relative == "." else f"{spot.relative}/"
        yield from _below(directory, prefix, depth, skipped, self._private_ids())

    def replace_file(
        self, path: str, content: bytes, *, expected: Stamp | None = None, mode: int = _NEW_FILE
    ) -> str:
        """Write a file, whole or not at all, and return its path in the workspace.

        Nothing is written if the file is no longer the `expected` one. `mode` is for a new file.
        """
        with self.locate(path, create_parents=True) as spot:
            before = spot.status()
            if not spot.name:
                raise ToolFailure(f"'{path}' is a directory; give the path of a file.")
            if before is not None:
                _require_regular(before, path)
            mode = mode if before is None else stat.S_IMODE(before.st_mode) & 0o777
            temporary = f".{random_id()}.tmp"
            try:
                _write_new(spot.directory, temporary, content, mode, keep=before is not None)
                now = spot.status() if expected is not None else None
                if expected is not None and (now is None or stamp(now) != expected):
                    raise ToolFailure(
                        f"'{path}' has changed in the meantime; read it again and repeat the edit."
                    )
                os.replace(
                    temporary, spot.name, src_dir_fd=spot.directory, dst_dir_fd=spot.directory
                )
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=spot.directory)
                raise
            return spot.relative

    def _walk(self, walk: _Walk, path: str, create_parents: bool) -> str:
        pending = self._components(path)
        while pending:
            name = pending.pop()
            if name == "..":
                walk.up()
                continue
            target = _link_target(walk.stack[-1], name)
            if target is not None:
                walk.links += 1
                if walk.links > _MOST_LINKS:
                    raise ToolFailure(f"'{path}' is a loop of links.")
                while target.startswith("/") and walk.names:
                    walk.up()
                pending += self._components(target)
            elif pending:
                self._step(walk, name, create_parents)
            else:
                return name
        return ""

    def _step(self, walk: _Walk, name: str, create_parents: bool) -> None:
        try:
            walk.down(name)
        except FileNotFoundError:
            if not create_parents:
                raise
            with suppress(FileExistsError):
                os.mkdir(name, _NEW_DIRECTORY, dir_fd=walk.stack[-1])
            walk.down(name)
        self._refuse_private(os.fstat(walk.stack[-1]))

    def _components(self, path: str) -> list[str]:
        """The components of `path`, last first; an absolute path must be in the workspace."""
        if "\0" in path:
            raise ToolFailure("A path cannot contain a NUL character.")
        if len(path) > 4096:
            raise ToolFailure("That path is too long.")
        if path.startswith("/"):
            whole, roots = PurePosixPath(path), (self.root, self.root.resolve())
            root = next((one for one in roots if whole.is_relative_to(one)), None)
            if root is None:
                raise ToolFailure(f"'{path}' is outside the workspace; give a path relative to it.")
            path = str(whole.relative_to(root))
        return [part for part in reversed(path.split("/")) if part not in ("", ".")]


# Taken by threads of this process, by directory. Between processes, a lock on the directory does it.
_CHANGES = tuple(threading.RLock() for _ in range(64))
_LOCK_SECONDS = 30.0
_POLL_SECONDS = 0.01


def _hold(directories: Iterable[int], stack: ExitStack) -> None:
    """Lock these open directories until the stack is closed, always in the same order."""
    by_identity = {_identity(os.fstat(directory)): directory for directory in directories}
    for number in sorted({hash(identity) % len(_CHANGES) for identity in by_identity}):
        stack.enter_context(_CHANGES[number])
    until = time.monotonic() + _LOCK_SECONDS
    for _, directory in sorted(by_identity.items()):
        with suppress(OSError):  # some network file systems cannot lock a directory
            while not paths.try_lock(directory):
                if time.monotonic() > until:
                    raise ToolFailure("Another program keeps that directory locked; try later.")
                time.sleep(_POLL_SECONDS)


def _refuse_git(parts: Iterable[str]) -> None:
    """Git runs what its configuration and hooks name: `git status` would no longer be harmless."""
    if any(part.casefold() == ".git" for part in parts):
        raise ToolFailure("Git's own files say what git runs; change them with git, in a command.")


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """An entry of the open `directory`. The walk does not enter a `private` one."""

    path: str
    name: str
    status: os.stat_result
    directory: int
    private: bool


def _below(
    directory: int, prefix: str, depth: int, skipped: Set[str], private: Set[tuple[int, int]]
) -> Iterator[FoundEntry]:
    try:
        for name in sorted(os.listdir(directory)):
            with suppress(OSError):  # gone or changed meanwhile, or not readable
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                ours = _identity(status) in private
                yield FoundEntry(prefix + name, name, status, directory, ours)
                if depth > 1 and stat.S_ISDIR(status.st_mode) and not ours and name not in skipped:
                    below = os.open(name, _DIRECTORY, dir_fd=directory)
                    yield from _below(below, f"{prefix}{name}/", depth - 1, skipped, private)
    finally:
        os.close(directory)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _link_target(directory: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):  # not a link, or nothing there
            return None
        if error.errno == errno.ENAMETOOLONG:
            raise ToolFailure("A name in that path is too long.") from error
        raise


def _require_regular(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailure(f"'{path}' is a directory; use list, or give the path of a file.")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailure(f"'{path}' is not an ordinary file; it cannot be used.")


def _write_new(directory: int, name: str, content: bytes, mode: int, *, keep: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | paths.NOFOLLOW | paths.CLOEXEC
    descriptor = os.open(name, flags, mode, dir_fd=directory)
    with os.fdopen(descriptor, "wb") as file:
        if keep and sys.platform != "win32":
            os.fchmod(descriptor, mode)  # the old file's, whatever the umask
        file.write(content)
        file.flush()
        os.fsync(descriptor)
