"""What the file tools changed in the last turns, so that /undo can put it back."""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from openclaw.agent.tools.workspace import Workspace
from openclaw.config import paths
from openclaw.core.clock import random_id
from openclaw.core.errors import OpenClawError, ToolFailure, describe
from openclaw.core.file_names import FileName, OwnDirectory
from openclaw.core.tools import CallContext

KEPT_TURNS = 20  # of each session
MAX_BYTES = 256 * 1024 * 1024  # a larger file is not changed, because that could not be undone
_UNDO = "undo-"  # prefix of the turns that are undos
_LIST = "changes.jsonl"
_CHUNK = 1 << 20

Kind = Literal["absent", "file", "directory", "link", "other"]
Mode = Literal["undo", "show", "anyway"]


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


@dataclass(slots=True)
class _Undoing:
    """An undo in progress: which changes it leaves alone, and what it says."""

    mode: Mode
    context: CallContext
    left_alone: list[Change] = field(default_factory=list[Change])
    lines: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class Checkpoints:
    root: OwnDirectory

    @contextmanager
    def recording(
        self, context: CallContext, workspace: Workspace, changed: Sequence[str], prefix: str = ""
    ) -> Generator[None]:
        """Save what is at these paths, unless the turn has done so; in the end, what is there then.

        The paths are in the workspace and have no links in them, but may be links.
        """
        turn = self._turn(context, prefix)
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
        """Put back what the last turn with changes changed; says what was done.

        What has changed since then is left alone, unless the mode is `anyway`; with `show`,
        everything is. The current files are saved first, so that undoing twice changes nothing.
        """
        turns = _by_age(self._session(agent, session).path)
        if mode == "anyway":
            turns = [turn for turn in turns if not turn.name.startswith(_UNDO)]
        if not turns:
            return "There is nothing to undo: no file was changed by the file tools."
        last = turns[-1]
        undoing = _Undoing(mode, CallContext(agent, session, "", turn=random_id()))
        changes = sorted(_read(last), key=_order)
        for change in changes:
            try:
                self._undo_change(change, last, undoing)
            except OpenClawError as error:
                undoing.lines.append(f"- {change.path}: not restored: {describe(error)}")
            except OSError as error:
                undoing.lines.append(f"- {change.path}: not restored: {error.strerror}")
        if mode != "show":
            _forget(last, undoing.left_alone)
        return "\n".join([_title(last, changes, undoing), *undoing.lines])

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
            for old in _by_age(turn.parent)[:-KEPT_TURNS]:
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
        with self.recording(undoing.context, workspace, [change.path], _UNDO):
            _restore(workspace, change, turn, now)
        undoing.lines.append(f"- {change.path}: {done}")

    def _session(self, agent: str, session: str) -> OwnDirectory:
        return self.root.subdirectory(FileName.for_parts(agent, session))

    def _turn(self, context: CallContext, prefix: str) -> Path:
        session = self._session(context.agent, context.session)
        return session / FileName(f"{prefix}{FileName.for_parts(context.turn)}")


def _order(change: Change) -> tuple[int, int]:
    """Directories come back first, from the top; files go before the directories they are in."""
    depth = change.path.count("/")
    if change.before.kind == "absent":
        return 2, -depth
    return (0, depth) if change.before.kind == "directory" else (1, 0)


def _title(turn: Path, changes: Sequence[Change], undoing: _Undoing) -> str:
    is_redo = turn.name.startswith(_UNDO)
    if undoing.mode == "show":
        return "This would be redone:" if is_redo else "This would be undone:"
    hint = " /undo anyway restores what has changed since, too." if undoing.left_alone else ""
    if undoing.left_alone and len(undoing.left_alone) == len(changes):
        return f"Nothing was undone.{hint}"
    if is_redo:
        return f"Redone: the last undo was undone.{hint}"
    return f"Undone (changes made by commands are not undone):{hint}"


def _forget(turn: Path, left_alone: Sequence[Change]) -> None:
    """Forget a turn's changes but these, without making it the newest turn."""
    if not left_alone:
        shutil.rmtree(turn)
        return
    rows = [json.dumps(asdict(change)) for change in left_alone]
    (turn / _LIST).write_text("".join(f"{row}\n" for row in rows))


def _by_age(place: Path) -> list[Path]:
    found = place.iterdir() if place.is_dir() else ()
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
