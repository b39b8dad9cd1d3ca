"""Attachments of sessions in private files, named by their content and deleted with their session."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from openclaw.config.paths import NOFOLLOW, PRIVATE_FILE, private_directory
from openclaw.core.ids import random_id
from openclaw.media.files import read_regular
from openclaw.media.kinds import MAX_OUTBOUND_BYTES, MIB

SESSION_BYTES = 256 * MIB
"""What one session keeps; beyond it, the oldest go first."""

ALL_BYTES = 4096 * MIB
"""What all sessions in one directory keep together."""

LOOK_EVERY_BYTES = 64 * MIB
_DIGEST = re.compile(r"[0-9a-f]{64}")


def digest_of(data: bytes) -> str:
    """The name of these bytes: their SHA-256 in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


class AttachmentFiles:
    """One directory for each session under `root`. All of it blocks: not for the event loop."""

    def __init__(
        self, root: Path, *, session_bytes: int = SESSION_BYTES, all_bytes: int = ALL_BYTES
    ) -> None:
        self.root = root
        self._session_bytes = session_bytes
        self._all_bytes = all_bytes
        self._unseen = LOOK_EVERY_BYTES

    def keep(self, session: str, data: bytes) -> str:
        """Keep these bytes for the session with this id and return their digest."""
        digest = digest_of(data)
        directory = private_directory(self.root / session)
        path = directory / digest
        if path.exists():
            os.utime(path)  # it is the newest again
            return digest
        fresh = directory / f"new-{random_id()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW
        with os.fdopen(os.open(fresh, flags, PRIVATE_FILE), "wb") as file:
            file.write(data)
        fresh.replace(path)
        _remove_oldest(directory.iterdir(), self._session_bytes)
        self._unseen += len(data)
        if self._unseen >= LOOK_EVERY_BYTES:
            self._unseen = 0
            _remove_oldest(self.root.glob("*/*"), self._all_bytes)
        return digest

    def read(self, session: str, digest: str) -> bytes | None:
        """What was kept under this digest, or None if it is gone."""
        if not _DIGEST.fullmatch(digest):
            return None
        return read_regular(self.root / session / digest, MAX_OUTBOUND_BYTES)

    def delete(self, session: str) -> None:
        """Forget everything of this session."""
        shutil.rmtree(self.root / session, ignore_errors=True)


def _remove_oldest(paths: Iterable[Path], most: int) -> None:
    """Remove the oldest files until the rest take at most `most` bytes together."""
    found: list[tuple[float, int, Path]] = []
    for path in paths:
        with suppress(OSError):  # another process may be removing it
            status = path.lstat()
            found.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= most:
            return
        with suppress(OSError):
            path.unlink()
        total -= size
