"""What the file tools changed in the last turns, for /undo, /redo and /diff."""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

from openclaw.agent.tools.workspace import Workspace
from openclaw.config import paths
from openclaw.core.clock import random_id
from openclaw.core.errors import OpenClawError, ToolFailure, describe
from openclaw.core.file_names import FileName, OwnDirectory
from openclaw.core.tools import CallContext

KEPT_TURNS = 20  # of each session
MOST_SHOWN = 256 * 1024  # bytes of a file whose changes are shown
MAX_BYTES = 256 * 1024 * 1024  # a larger file is not changed, because that could not be undone
_UNDONE = "undo-"  # prefix of what an undo replaced, for /redo
_LIST = "changes.jsonl"
_CHUNK = 1 << 20

Kind = Literal["absent", "file", "directory", "link", "other"]
Mode = Literal["undo", "redo", "show", "anyway"]


@dataclass(frozen=True, slots=True)
class PathState:
    """What is at a path; `mark` is the digest of a file's content, or a link's target."""

    kind: Kind
    mark: str = ""
    mode: int = 0o644


_ABSENT = PathState("absent")


@dataclass(frozen=True, slots=True)
class Change:
    """What was at a path before a turn, and after the turn's last change of it.

    `kept` names the copy of a file's content. `meddled` says that somebody else changed the path
    between two of the turn's changes.
    """

    root: str
    path: str
    before: PathState
    kept: str | None = None
    after: PathState | None = None
    meddled: bool = False


@dataclass(frozen=True, slots=True)
class FileChange:
    """A file before the first change of it, and now; None if it is not there, or not text."""

    root: str
    path: str
    what: Literal["added", "changed", "removed"]
    before: str | None
    after: str | None


@dataclass(slots=True)
class _Undoing:
    """An undo in progress: which changes it leaves alone, and what it says."""

    mode: Mode
    saved: Path  # the turn that takes what is replaced
    left_alone: list[Change] = field(default_factory=list[Change])
    lines: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Checkpoints:
    root: OwnDirectory

    @contextmanager
    def recording(
        self, context: CallContext, workspace: Workspace, changed: Sequence[str]
    ) -> Generator[None]:
        """Save what is at these paths, unless the turn has done so; in the end, what is there then.

        The paths are in the workspace and have no links in them, but may be links. What was undone
        before can't be redone any more.
        """
        turn = self._session(context.agent, context.session) / FileName.for_parts(context.turn)
        for undone in _undone(turn.parent):
            shutil.rmtree(undone, ignore_errors=True)
        with self._saving(turn, workspace, changed):
            yield

    @contextmanager
    def _saving(self, turn: Path, workspace: Workspace, changed: Sequence[str]) -> Generator[None]:
        known = {(change.root, change.path): change for change in _read(turn)}
        for path in changed:
            self._before(turn, workspace, path, known)
        try:
            yield
        finally:
            for path in changed:
                _append(turn, {"root": str(workspace.root), "path": path,
                               "after": asdict(_state(workspace, path))})  # fmt: skip

    def undo(self, agent: str, session: str, mode: Mode = "undo") -> str:
        """Put back what the last turn with changes changed, or with `redo` what was undone last.

        Says what was done. What has changed since then is left alone, unless the mode is `anyway`;
        with `show`, everything is. What is replaced is saved first.
        """
        place = self._session(agent, session)
        redo = mode == "redo"
        turns = _undone(place.path) if redo else _done(place.path)
        if not turns:
            if redo:
                return "There is nothing to redo."
            return "There is nothing to undo: no file was changed by the file tools."
        saved = place / FileName(f"{'' if redo else _UNDONE}{FileName.random()}")
        undoing = _Undoing(mode, saved)
        changes = sorted(_read(turns[-1]), key=_order)
        for change in changes:
            try:
                self._undo_change(change, turns[-1], undoing)
            except OpenClawError as error:
                undoing.lines.append(f"- {change.path}: not restored: {describe(error)}")
            except OSError as error:
                undoing.lines.append(f"- {change.path}: not restored: {error.strerror}")
        if mode != "show":
            _forget(turns[-1], undoing.left_alone)
        return "\n".join([_title(changes, undoing, len(turns) - 1), *undoing.lines])

    def diff(self, agent: str, session: str) -> list[FileChange]:
        """What a session's turns changed, as far as they are kept and not undone, by path."""
        first: dict[tuple[str, str], tuple[Change, Path]] = {}
        for turn in _done(self._session(agent, session).path):
            for change in _read(turn):
                first.setdefault((change.root, change.path), (change, turn))
        found = (_file_change(*first[place]) for place in sorted(first))
        return [one for one in found if one is not None]

    def _before(
        self, turn: Path, workspace: Workspace, path: str, known: Mapping[tuple[str, str], Change]
    ) -> None:
        now = _state(workspace, path)
        change = known.get((str(workspace.root), path))
        if change is not None:
            if change.after is not None and now != change.after:
                _append(turn, {"root": change.root, "path": path, "meddled": True})
            return
        if not turn.is_dir():
            paths.private_directory(turn.parent)
            turn.mkdir(mode=paths.PRIVATE_DIRECTORY, exist_ok=True)
            for old in _done(turn.parent)[:-KEPT_TURNS]:
                shutil.rmtree(old, ignore_errors=True)
        kept = None
        if now.kind == "file":
            name = FileName.random()
            kept = name.text
            copied = paths.private_file(OwnDirectory(turn) / name)
            with workspace.open_file(path) as (file, status, _), copied.open("wb") as copy:
                if status.st_size > MAX_BYTES:
                    raise ToolFailure(f"'{path}' is so large that changing it could not be undone.")
                shutil.copyfileobj(file, copy)
        row = {"root": str(workspace.root), "path": path, "before": asdict(now), "kept": kept}
        _append(turn, row)

    def _undo_change(self, change: Change, turn: Path, undoing: _Undoing) -> None:
        workspace = Workspace(Path(change.root), restoring=True)
        now = _state(workspace, change.path)
        is_expected = not change.meddled and change.after in (None, now)
        if not is_expected and undoing.mode != "anyway":
            undoing.left_alone.append(change)
            undoing.lines.append(f"- {change.path}: left alone, because it has changed since")
            return
        done = "removed" if change.before.kind == "absent" else "restored"
        if undoing.mode == "show":
            undoing.lines.append(f"- {change.path}: would be {done}")
            return
        with self._saving(undoing.saved, workspace, [change.path]):
            _restore(workspace, change, turn, now)
        undoing.lines.append(f"- {change.path}: {done}")

    def _session(self, agent: str, session: str) -> OwnDirectory:
        return self.root.subdirectory(FileName.for_parts(agent, session))


def _order(change: Change) -> tuple[int, int]:
    """Directories come back first, from the top; files go before the directories they are in."""
    depth = change.path.count("/")
    if change.before.kind == "absent":
        return 2, -depth
    return (0, depth) if change.before.kind == "directory" else (1, 0)


def _title(changes: Sequence[Change], undoing: _Undoing, more: int) -> str:
    if undoing.mode == "show":
        return "This would be undone:"
    hint = " /undo anyway restores what has changed since, too." if undoing.left_alone else ""
    if undoing.mode == "redo":
        return "Nothing was redone." if len(undoing.left_alone) == len(changes) else "Redone:"
    if undoing.left_alone and len(undoing.left_alone) == len(changes):
        return f"Nothing was undone.{hint}"
    turns = "turn" if more == 1 else "turns"
    earlier = f" {more} earlier {turns} can be undone too." if more and not hint else ""
    return (
        f"Undone (changes made by commands are not undone; /redo takes this back):{hint}{earlier}"
    )


def _forget(turn: Path, left_alone: Sequence[Change]) -> None:
    """Forget a turn's changes but these, without making it the newest turn."""
    if not left_alone:
        shutil.rmtree(turn)
        return
    rows = [json.dumps(asdict(change)) for change in left_alone]
    (turn / _LIST).write_text("".join(f"{row}\n" for row in rows))


def _done(session: Path) -> list[Path]:
    """The turns that can be undone, the oldest first."""
    return [turn for turn in _by_age(session) if not turn.name.startswith(_UNDONE)]


def _undone(session: Path) -> list[Path]:
    return [turn for turn in _by_age(session) if turn.name.startswith(_UNDONE)]


def _by_age(session: Path) -> list[Path]:
    found = session.iterdir() if session.is_dir() else ()
    return sorted(found, key=lambda turn: turn.stat().st_mtime_ns)


def _append(turn: Path, row: Mapping[str, Any]) -> None:
    with paths.private_file(turn / _LIST).open("a") as changes:
        changes.write(json.dumps(row) + "\n")


def _read(turn: Path) -> list[Change]:
    try:
        lines = (turn / _LIST).read_text().splitlines()
    except FileNotFoundError:
        return []
    changes: dict[tuple[str, str], Change] = {}
    for line in lines:
        row: dict[str, Any] = json.loads(line)
        place = row["root"], row["path"]
        if place not in changes:
            changes[place] = Change(*place, _before_of(row), row.get("kept"))
        if row.get("after") is not None:
            changes[place] = replace(changes[place], after=PathState(**row["after"]))
        if row.get("meddled"):
            changes[place] = replace(changes[place], meddled=True)
    return list(changes.values())


def _before_of(row: Mapping[str, Any]) -> PathState:
    if "before" in row:
        return PathState(**row["before"])
    # As earlier versions recorded it.
    return PathState("file", mode=row["mode"]) if row.get("kept") else _ABSENT


# ---- what is at a path


@contextmanager
def _parent(workspace: Workspace, path: str, *, change: bool = False) -> Generator[tuple[int, str]]:
    """The open directory that a path is in, and its name there, even if it is a link.

    To `change` it, the directory is locked, and created if necessary.
    """
    directory, _, name = path.rpartition("/")
    beside = f"{directory}/{random_id()}" if directory else random_id()
    if change:
        with workspace.changing(beside, create_parents=True) as (spot,):
            yield spot.directory, name
    else:
        with workspace.locate(beside) as spot:
            yield spot.directory, name


def _state(workspace: Workspace, path: str) -> PathState:
    try:
        with _parent(workspace, path) as (directory, name):
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            mode = stat.S_IMODE(status.st_mode) & 0o777
            if stat.S_ISDIR(status.st_mode):
                return PathState("directory", mode=mode)
            if stat.S_ISLNK(status.st_mode):
                return PathState("link", os.readlink(name, dir_fd=directory))
            if not stat.S_ISREG(status.st_mode):
                return PathState("other")
        with workspace.open_file(path) as (file, _, _):
            digest = hashlib.sha256()
            while piece := file.read(_CHUNK):
                digest.update(piece)
        return PathState("file", digest.hexdigest(), mode)
    except FileNotFoundError:
        return _ABSENT
    except ToolFailure as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return _ABSENT
        raise


def _file_change(change: Change, turn: Path) -> FileChange | None:
    """What became of a path since this first change of it; None if it is as before."""
    workspace = Workspace(Path(change.root), restoring=True)
    try:
        now = _state(workspace, change.path)
    except (OpenClawError, OSError):
        return None  # it can't be looked at any more
    before = change.before
    is_same = (now.kind, now.mark) == (before.kind, before.mark)
    if is_same or "file" not in (now.kind, before.kind):
        return None
    old = new = ""
    if before.kind == "file" and change.kept is not None:
        with (OwnDirectory(turn) / FileName(change.kept)).open("rb") as copy:
            old = _text(copy)
    if now.kind == "file":
        with workspace.open_file(change.path) as (file, _, _):
            new = _text(file)
    what = "added" if before.kind == "absent" else "removed" if now.kind == "absent" else "changed"
    return FileChange(change.root, change.path, what, old, new)


def _text(file: BinaryIO) -> str | None:
    content = file.read(MOST_SHOWN + 1)
    try:
        return content.decode() if len(content) <= MOST_SHOWN else None
    except UnicodeDecodeError:
        return None


def _restore(workspace: Workspace, change: Change, turn: Path, now: PathState) -> None:
    before = change.before
    with _parent(workspace, change.path, change=True) as (directory, name):
        if now.kind == "directory" and before.kind != "directory":
            os.rmdir(name, dir_fd=directory)
        elif now.kind in ("file", "link", "other") and before.kind != "file":
            os.unlink(name, dir_fd=directory)
        if before.kind == "directory" and now.kind != "directory":
            os.mkdir(name, before.mode, dir_fd=directory)
        elif before.kind == "link":
            os.symlink(before.mark, name, dir_fd=directory)
        elif before.kind == "file" and change.kept is not None:
            if now.kind == "link":
                os.unlink(name, dir_fd=directory)
            content = (OwnDirectory(turn) / FileName(change.kept)).read_bytes()
            workspace.replace_file(change.path, content, mode=before.mode)
