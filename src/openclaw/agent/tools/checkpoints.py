"""What the file tools change in a turn, kept so that it can be undone."""

import hashlib
import json
import os
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from openclaw.agent.tools.workspace import Workspace
from openclaw.config.paths import PRIVATE_DIRECTORY, private_directory
from openclaw.core.errors import OpenClawError, ToolFailure, describe
from openclaw.core.ids import random_id
from openclaw.core.tools import CallContext

KEPT_TURNS = 20  # of each session

MAX_BYTES = 256 * 1024 * 1024
"""Of one file: a larger one is not changed, because that could not be undone."""

_LIST = "changes.jsonl"


@dataclass(frozen=True, slots=True)
class Change:
    """One file as it was: `kept` names its content beside the list; without it there was none."""

    root: str
    path: str
    kept: str | None
    mode: int = 0o644


class Checkpoints:
    def __init__(self, root: Path) -> None:
        self._root = root

    def before(self, context: CallContext, workspace: Workspace, path: str) -> None:
        """Keep this file as it is, if the turn has not changed it before. It need not exist."""
        turn = self._session(context.agent, context.session) / context.turn
        with workspace.locate(path) as spot:
            relative, status = spot.relative, spot.status()
        if any(one.path == relative and one.root == str(workspace.root) for one in _read(turn)):
            return
        if not turn.is_dir():
            private_directory(turn.parent)
            turn.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
            self._forget_old(turn.parent)
        kept, mode = None, 0o644
        if status is not None:
            if status.st_size > MAX_BYTES:
                raise ToolFailure(f"'{path}' is so large that changing it could not be undone.")
            kept, mode = random_id(), status.st_mode & 0o777
            with workspace.open_file(path) as (file, _, _), (turn / kept).open("xb") as copy:
                shutil.copyfileobj(file, copy)
        with (turn / _LIST).open("a") as changes:
            change = Change(str(workspace.root), relative, kept, mode)
            changes.write(json.dumps(asdict(change)) + "\n")

    def undo(self, agent: str, session: str) -> str:
        """Put back what the last turn with changes changed; says what was done.

        What there is now is kept in turn, so that undoing twice changes nothing.
        """
        place = self._session(agent, session)
        turns = _by_age(place)
        if not turns:
            return "There is nothing to undo: no file was changed by the file tools."
        last = turns[-1]
        context = CallContext(agent, session, "", turn=f"undo-{random_id()}")
        lines: list[str] = []
        for change in reversed(_read(last)):
            workspace = Workspace(Path(change.root))
            try:
                with suppress(ToolFailure):  # a directory that is gone has no file to keep
                    self.before(context, workspace, change.path)
                lines.append(_restored(workspace, change, last))
            except OpenClawError as error:
                lines.append(f"- {change.path}: not restored: {describe(error)}")
            except OSError as error:
                lines.append(f"- {change.path}: not restored: {error.strerror}")
        shutil.rmtree(last)
        return "\n".join(["Undone (what commands changed is not):", *lines])

    def _session(self, agent: str, session: str) -> Path:
        named = hashlib.sha256(json.dumps([agent, session]).encode()).hexdigest()[:24]
        return self._root / named

    def _forget_old(self, place: Path) -> None:
        for old in _by_age(place)[:-KEPT_TURNS]:
            shutil.rmtree(old, ignore_errors=True)


def _by_age(place: Path) -> list[Path]:
    found = place.iterdir() if place.is_dir() else ()
    return sorted(found, key=lambda one: one.stat().st_mtime_ns)


def _read(turn: Path) -> list[Change]:
    try:
        lines = (turn / _LIST).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [Change(**json.loads(line)) for line in lines]


def _restored(workspace: Workspace, change: Change, turn: Path) -> str:
    if change.kept is None:
        with workspace.locate(change.path) as spot, suppress(FileNotFoundError):
            os.unlink(spot.name, dir_fd=spot.directory)
        return f"- {change.path}: removed again"
    workspace.replace_file(change.path, (turn / change.kept).read_bytes(), mode=change.mode)
    return f"- {change.path}: as it was"
