"""Files of orders and sessions: private, randomly named or named by content, and cleaned up."""

import contextlib
import hashlib
import logging
import os
import re
import shutil
import stat
from collections.abc import Generator, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.config.paths import (
    CLOEXEC,
    NOFOLLOW,
    NONBLOCK,
    PRIVATE_FILE,
    private_directory,
    try_lock,
)
from openclaw.config.paths import lock as take_lock
from openclaw.core.clock import Clock, SystemClock, random_id
from openclaw.core.content import InboundMedia, Media
from openclaw.core.errors import InvalidRequest
from openclaw.core.file_names import FileName, OwnDirectory
from openclaw.media import kinds

if TYPE_CHECKING:
    from openclaw.secrets.redactor import Redactor

logger = logging.getLogger(__name__)

QUOTA_BYTES = 512 * kinds.MIB
_LOCK = ".lock"
_PIECE = 1 << 20
_UNLOCKED_SECONDS = 3600.0


class OrderFiles:
    """An order's own directory. Names given by a client are never used in a path."""

    def __init__(self, directory: Path, quota: int = QUOTA_BYTES) -> None:
        self.directory = directory
        self._left = quota

    def save(self, pieces: Iterable[bytes], mime_type: str) -> Path:
        path = self.directory / f"{random_id()}{kinds.EXTENSIONS.get(mime_type, '')}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            for piece in pieces:
                self._left -= len(piece)
                if self._left < 0:
                    raise InvalidRequest(
                        f"the order's attachments exceed {kinds.in_mb(QUOTA_BYTES)}"
                    )
                file.write(piece)
        return path

    def place(self, one: InboundMedia) -> InboundMedia:
        """An attachment as a file here, unless it is an order's file already."""
        media, orders = one.media, self.directory.parent
        if media.path is not None:
            if media.path.resolve().is_relative_to(orders.resolve()):
                return one
            with media.path.open("rb") as file:
                path = self.save(iter(lambda: file.read(_PIECE), b""), media.mime_type)
        elif media.data is not None:
            path = self.save([media.data], media.mime_type)
        else:
            return one
        return replace(one, media=Media(media.mime_type, path=path, name=media.name))


@contextlib.contextmanager
def order_files(root: Path) -> Generator[OrderFiles]:
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = random_id()
    unlocked = root / f"new-{name}"
    unlocked.mkdir(mode=0o700)
    lock = os.open(unlocked / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    take_lock(lock)
    # Until it is locked, it has a name that a sweep leaves alone for an hour.
    directory = unlocked.rename(root / f"order-{name}")
    try:
        yield OrderFiles(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def sweep(root: Path, clock: Clock | None = None) -> int:
    """Remove directories that a crash left behind: nobody holds their lock. Returns how many.

    One without a lock is being made or removed; neither takes an hour.
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


CLEANED = "secrets in it were replaced by [REDACTED]; the file itself is unchanged"
WITHHELD = (
    "it contains a secret, and only text can be cleaned; create the file again without the secret"
)
_UTF_16 = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


def cleaned(data: bytes, secrets: "Redactor") -> bytes | None:
    """The bytes of a file as they may be sent out, or None. May take a second.

    Known secrets are removed from text in all their forms; what only looks like a credential stays,
    as it may be what the file is about. Other files are searched for the values themselves.
    """
    text, encoding = _as_text(data)
    if encoding is not None:
        clean = secrets.redact(text, shapes=False)
        if clean != text:
            data = clean.encode(encoding)
    return None if secrets.holds(data) else data


def _as_text(data: bytes) -> tuple[str, str | None]:
    """The text and an encoding that gives the same bytes back; no encoding if this isn't text."""
    head = data[: kinds.HEAD_BYTES]
    for bom, encoding in _UTF_16:
        if data.startswith(bom):
            try:
                return data.decode(encoding), encoding
            except UnicodeDecodeError:
                return "", None
    if b"\0" in data or not kinds.looks_like_text(head) or kinds.sniff(head) == "application/pdf":
        return "", None
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        # Every byte is a character in Latin-1, and ASCII is the same in all the others.
        return data.decode("latin-1"), "latin-1"


def read_regular(path: Path, most: int) -> bytes | None:
    """The content of a regular file; None if it isn't one, can't be read, or is too large."""
    try:
        descriptor = os.open(path, os.O_RDONLY | NONBLOCK | CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(most + 1)
    except OSError:
        return None
    return data if len(data) <= most else None


SESSION_BYTES = 256 * kinds.MIB  # what one session keeps; beyond it, the oldest go first
ALL_BYTES = 4096 * kinds.MIB  # what all sessions in one directory keep together
LOOK_EVERY_BYTES = 64 * kinds.MIB
_DIGEST = re.compile(r"[0-9a-f]{64}")


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class AttachmentFiles:
    """One directory per session under `root`. All methods block: not for the event loop."""

    def __init__(
        self, root: Path, *, session_bytes: int = SESSION_BYTES, all_bytes: int = ALL_BYTES
    ) -> None:
        self._root = OwnDirectory(root)
        self._session_bytes = session_bytes
        self._all_bytes = all_bytes
        self._unseen = LOOK_EVERY_BYTES

    @property
    def directory(self) -> Path:
        return self._root.path

    def keep(self, session: str, data: bytes) -> str:
        digest = digest_of(data)
        directory = private_directory(self._root / FileName(session))
        path = OwnDirectory(directory) / FileName(digest)
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
            _remove_oldest(self._root.path.glob("*/*"), self._all_bytes)
        return digest

    def read(self, session: str, digest: str) -> bytes | None:
        if not _DIGEST.fullmatch(digest):
            return None
        path = self._root.subdirectory(FileName(session)) / FileName(digest)
        return read_regular(path, kinds.MAX_OUTBOUND_BYTES)

    def delete(self, session: str) -> None:
        shutil.rmtree(self._root / FileName(session), ignore_errors=True)


def _remove_oldest(paths: Iterable[Path], most: int) -> None:
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
