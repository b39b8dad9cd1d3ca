"""Temporary files of one order: private, randomly named, gone afterwards whatever happened."""

import contextlib
import logging
import os
import shutil
from collections.abc import Generator, Iterable
from pathlib import Path

from openclaw.config.filelock import lock as take_lock
from openclaw.config.filelock import try_lock
from openclaw.config.osflags import NOFOLLOW
from openclaw.core.clock import Clock, SystemClock
from openclaw.core.errors import InvalidRequest
from openclaw.core.ids import random_id
from openclaw.media.kinds import EXTENSIONS, MIB, in_mb

logger = logging.getLogger(__name__)

QUOTA_BYTES = 512 * MIB
_LOCK = ".lock"
_UNLOCKED_SECONDS = 3600.0


class OrderFiles:
    """A directory of an order's own. Names given by a client are never used for a path."""

    def __init__(self, directory: Path, quota: int = QUOTA_BYTES) -> None:
        self.directory = directory
        self._left = quota

    def save(self, pieces: Iterable[bytes], mime_type: str) -> Path:
        """Write the pieces to a new file, readable by its owner alone."""
        path = self.directory / f"{random_id()}{EXTENSIONS.get(mime_type, '')}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            for piece in pieces:
                self._left -= len(piece)
                if self._left < 0:
                    raise InvalidRequest(f"the order's attachments exceed {in_mb(QUOTA_BYTES)}")
                file.write(piece)
        return path


@contextlib.contextmanager
def order_files(root: Path) -> Generator[OrderFiles]:
    """A directory for one order under `root`, removed at the end."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = random_id()
    unborn = root / f"new-{name}"
    unborn.mkdir(mode=0o700)
    lock = os.open(unborn / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    take_lock(lock)
    # Only under this name does a sweep look at it, and by then it is locked.
    directory = unborn.rename(root / f"order-{name}")
    try:
        yield OrderFiles(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def sweep(root: Path, clock: Clock | None = None) -> int:
    """Remove what a crash left behind: directories whose lock nobody holds. Returns how many.

    One without a lock is being made or being removed; nobody takes an hour for either.
    """
    removed = 0
    if not root.is_dir():
        return removed
    too_old = (clock or SystemClock()).now_ms() / 1000 - _UNLOCKED_SECONDS
    for directory in (*root.glob("order-*"), *root.glob("new-*")):
        with contextlib.suppress(OSError):
            removed += _remove_if_abandoned(directory, too_old)
    if removed:
        logger.info("removed %d temporary directories of orders that did not end", removed)
    return removed


def _remove_if_abandoned(directory: Path, too_old: float) -> bool:
    old = directory.lstat().st_mtime < too_old
    if directory.name.startswith("new-") and not old:
        return False  # a moment later it is locked and has its other name
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR | NOFOLLOW)
    except FileNotFoundError:
        if old:
            shutil.rmtree(directory, ignore_errors=True)
        return old
    try:
        abandoned = try_lock(lock)
        if abandoned:
            shutil.rmtree(directory, ignore_errors=True)
        return abandoned
    finally:
        os.close(lock)
