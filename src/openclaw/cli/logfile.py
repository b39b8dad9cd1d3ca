"""A log file that only its owner can read, rotated by size."""

import logging.handlers
import os
import sys
from io import TextIOWrapper
from pathlib import Path

from openclaw.config.osflags import CLOEXEC


class PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """A rotating log file with mode 0600."""

    def _open(self) -> TextIOWrapper:
        descriptor = os.open(
            self.baseFilename, os.O_WRONLY | os.O_APPEND | os.O_CREAT | CLOEXEC, 0o600
        )
        if sys.platform != "win32":
            os.fchmod(descriptor, 0o600)  # it may be there already, from before
        return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace")

    def doRollover(self) -> None:
        """Begin anew; where no earlier file is to be kept, what is there goes."""
        super().doRollover()
        if self.backupCount == 0 and self.stream is not None:
            self.stream.truncate(0)

    def handleError(self, record: logging.LogRecord) -> None:
        """A full disk must not stop the work; what the record says is on stderr as well."""


def open_log_file(path: Path, *, max_bytes: int, keep: int) -> logging.Handler:
    """A handler for the file at `path`, whose directory is made if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    return PrivateRotatingFile(path, maxBytes=max_bytes, backupCount=keep, encoding="utf-8")
