"""Where the whole of a result is kept that was too long for the model, so that it can be read on.

Each session has a directory of its own. A file's name says whose words are in it and how they are
to be shown, since whoever reads them later must not take them for ours.
"""

import contextlib
import os
import re
import shutil
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, unquote

from openclaw.content.frame import Mode
from openclaw.core.ids import random_id

_NAME = re.compile(
    r"mcp-(?P<server>.{1,160})-\w+\.(?P<mode>frame|datamark)(?P<guarded>\.guarded)?\.txt"
)
_SESSION = re.compile(r"[0-9a-f]{32}")
_SERVER_CHARS = 40

MAX_FILES = 64
MAX_BYTES = 64 * 1024 * 1024
MAX_SESSIONS = 200
"""What a session may keep, and how many may: no server fills the disk by what it says."""


@dataclass(frozen=True, slots=True)
class Kept:
    """How a kept result is to be shown: whose it is, how it is framed, whether it may be withheld."""

    server: str
    mode: Mode = "frame"
    guarded: bool = False


def directory_for(root: Path, agent: str, session: str) -> Path:
    return root / sha256(f"{agent}\0{session}".encode()).hexdigest()[:32]


def keep(words: str, kept: Kept, root: Path | None, agent: str, session: str) -> Path | None:
    """Write the whole to a file of our own; a full disk costs the rest, not the result."""
    if root is None:
        return None
    directory = directory_for(root, agent, session)
    path = directory / new_name(kept)
    data = words.encode("utf-8", "backslashreplace")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not make_room(directory, len(data)):
            return None
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(data)
    except OSError:
        return None
    return path


def make_room(directory: Path, size: int) -> bool:
    """Let go of what is oldest, so that a session keeps so much and no more; False where it is more.

    Sessions are let go of in the same way: there may be any number of them.
    """
    if size > MAX_BYTES:
        return False
    files = _by_age(directory)
    total = sum(status.st_size for _, status in files)
    while files and (len(files) >= MAX_FILES or total + size > MAX_BYTES):
        oldest, status = files.pop(0)
        oldest.unlink(missing_ok=True)
        total -= status.st_size
    sessions = (path for path, _ in _by_age(directory.parent) if _SESSION.fullmatch(path.name))
    others = [path for path in sessions if path != directory]
    for other in others[: max(0, len(others) - MAX_SESSIONS + 1)]:
        shutil.rmtree(other, ignore_errors=True)
    return True


def _by_age(directory: Path) -> list[tuple[Path, os.stat_result]]:
    found: list[tuple[Path, os.stat_result]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # another process may let it go as well
                found.append((Path(entry.path), entry.stat(follow_symlinks=False)))
    return sorted(found, key=lambda pair: pair[1].st_mtime_ns)


def new_name(kept: Kept) -> str:
    server = quote(kept.server[:_SERVER_CHARS], safe="").replace(".", "%2E") or "%00"
    guarded = ".guarded" if kept.guarded else ""
    return f"mcp-{server}-{random_id()}.{kept.mode}{guarded}.txt"


def from_name(name: str) -> Kept | None:
    """What a file's name says of it; None where it is no kept result."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    mode: Mode = "datamark" if found["mode"] == "datamark" else "frame"
    return Kept(unquote(found["server"]), mode, found["guarded"] is not None)
