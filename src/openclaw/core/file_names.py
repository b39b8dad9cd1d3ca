"""Names of files in our own directories, which are always made here.

Text that somebody else chose (a turn's id, a session's key, a digest in an address) never becomes
part of a path: an `OwnDirectory` takes only a `FileName`, and a `FileName` is a digest, a random
id, or text that was checked to be nothing but a name.
"""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

from openclaw.core.clock import random_id

_NAME = re.compile(r"[A-Za-z0-9%_~-][A-Za-z0-9%._~-]{0,254}", re.ASCII)
_DIGEST_CHARS = 24


@final
@dataclass(frozen=True, slots=True)
class FileName:
    """Raises `ValueError` for text that could lead elsewhere."""

    text: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.text):
            raise ValueError(f"{self.text[:80]!r} is not a name of a file of ours")

    @classmethod
    def for_parts(cls, *parts: str) -> "FileName":
        """The same name for the same parts, whatever they are."""
        return cls(hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_DIGEST_CHARS])

    @classmethod
    def random(cls) -> "FileName":
        return cls(random_id())

    def __str__(self) -> str:
        return self.text


@final
@dataclass(frozen=True, slots=True)
class OwnDirectory:
    """A directory whose entries only we name. `path` is for creating it and looking through it."""

    path: Path

    def __truediv__(self, name: FileName) -> Path:
        return self.path / name.text

    def subdirectory(self, name: FileName) -> "OwnDirectory":
        return OwnDirectory(self / name)
