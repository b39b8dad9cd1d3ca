"""Several files changed together: shown first, each replaced in one step, with the old one kept."""

import difflib
import shutil
import signal
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from openclaw.config.files import locked, target_of, write_atomically
from openclaw.config.load import read_text
from openclaw.config.paths import PRIVATE_FILE
from openclaw.core.clock import Clock


@dataclass(frozen=True, slots=True)
class FileChange:
    """What becomes of a file's text.

    Of another program's file only `summary` is shown: what stands around our entry may be secret.
    Without a summary the file is our own, and its differences are shown.
    """

    path: Path
    change: Callable[[str], str]
    summary: str | None = None

    @property
    def ours(self) -> bool:
        """Whether this program alone writes the file."""
        return self.summary is None

    def changes_anything(self) -> bool:
        """Whether the file would not stay as it is."""
        before = read_text(self.path) or ""
        return self.change(before) != before

    def difference(self, redact: Callable[[str], str]) -> list[str]:
        """The change, for a person to see."""
        if self.summary is not None:
            return [f"--- {self.path}", f"+++ {self.path}", *self.summary.splitlines()]
        before = read_text(self.path) or ""
        after = self.change(before)
        old = str(self.path) if self.path.exists() else "/dev/null"
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), old, str(self.path), lineterm="", n=2
        )
        return [redact(line) for line in lines]


@dataclass(frozen=True, slots=True)
class Written:
    """A file that was changed, and where the one before is kept, if there was one."""

    path: Path
    backup: Path | None


def write_all(changes: Iterable[FileChange], clock: Clock) -> list[Written]:
    """Change every file or none: what was written is put back where a later one fails.

    Ctrl-C waits until all is done. The text is read again, so that nothing is lost that another
    program wrote since it was shown.
    """
    done: list[tuple[Path, str | None, Written]] = []
    with _uninterrupted():
        try:
            for change in changes:
                written = _write(change, clock)
                if written is not None:
                    done.append(written)
        except BaseException:
            for target, before, written in reversed(done):
                _put_back(target, before, written)
            raise
    return [written for _, _, written in done]


def _write(change: FileChange, clock: Clock) -> tuple[Path, str | None, Written] | None:
    target = target_of(change.path)
    with ExitStack() as stack:
        if change.ours:
            stack.enter_context(locked(target))
        before = read_text(target)
        after = change.change(before or "")
        if after == (before or ""):
            return None
        backup = None if before is None else _backed_up(target, clock)
        mode = PRIVATE_FILE if change.ours or before is None else target.stat().st_mode & 0o777
        write_atomically(target, after, mode=mode)
    return target, before, Written(change.path, backup)


def _backed_up(path: Path, clock: Clock) -> Path:
    stamp = datetime.fromtimestamp(clock.now_ms() / 1000, tz=UTC).strftime("%Y%m%d-%H%M%S")
    backup = path.with_name(f"{path.name}.{stamp}.bak")
    number = 1
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.{stamp}-{number}.bak")
    shutil.copy2(path, backup)
    return backup


def _put_back(target: Path, before: str | None, written: Written) -> None:
    if before is None:
        target.unlink(missing_ok=True)
        return
    write_atomically(target, before, mode=target.stat().st_mode & 0o777)
    if written.backup is not None:
        written.backup.unlink(missing_ok=True)


@contextmanager
def _uninterrupted() -> Generator[None]:
    """Ctrl-C is heard at the end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        heard.append(number)

    before = signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt
