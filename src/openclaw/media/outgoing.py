"""Secrets in files that are handed out: text goes without them, anything else does not go at all."""

import os
import stat
from pathlib import Path
from typing import Protocol

from openclaw.config.osflags import CLOEXEC, NONBLOCK
from openclaw.media.signature import HEAD_BYTES, looks_like_text, sniff

CLEANED = "secrets in it were replaced by [REDACTED]; the file itself is unchanged"
WITHHELD = (
    "a secret stands in it, and what is not text cannot be cleaned; "
    "make the file anew without the secret"
)
_UTF_16 = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class Searches(Protocol):
    """What knows the secrets."""

    def redact(self, text: str, /, *, shapes: bool = True) -> str:
        """`text` without any secret that is known and, with `shapes`, what looks like one."""
        ...

    def holds(self, data: bytes, /) -> bool:
        """Whether a secret that is known stands in what is no text."""
        ...


def cleaned(data: bytes, secrets: Searches) -> bytes | None:
    """The bytes of a file as they may leave, else None. It may take a second: not for the event loop.

    Known values are taken out of text in all their forms; what only looks like a credential stays,
    since it may well be what the file is about. In anything else the values themselves are sought.
    """
    text, encoding = _as_text(data)
    if encoding is not None:
        clean = secrets.redact(text, shapes=False)
        if clean != text:
            data = clean.encode(encoding)
    return None if secrets.holds(data) else data


def _as_text(data: bytes) -> tuple[str, str | None]:
    """The text in a character set that gives the same bytes back; without one, it is no text."""
    head = data[:HEAD_BYTES]
    for bom, encoding in _UTF_16:
        if data.startswith(bom):
            try:
                return data.decode(encoding), encoding
            except UnicodeDecodeError:
                return "", None
    if b"\0" in data or not looks_like_text(head) or sniff(head) == "application/pdf":
        return "", None
    try:
        return data.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        # Every byte is a character here, and what is ASCII is the same in all the others.
        return data.decode("latin-1"), "latin-1"


def read_regular(path: Path, most: int) -> bytes | None:
    """What is in a file; None where it is none, cannot be read, or holds more than `most` bytes."""
    try:
        descriptor = os.open(path, os.O_RDONLY | NONBLOCK | CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return None
            data = file.read(most + 1)
    except OSError:
        return None
    return data if len(data) <= most else None
