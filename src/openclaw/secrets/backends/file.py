"""`secret://file/PATH[#FIELD]`: a file, or one field of a JSON file.

An absolute path is written with a slash of its own (`secret://file//run/secrets/token`) or
without (`secret://file/run/secrets/token`): both mean `/run/secrets/token`. `~/…` is the home
directory, and `./…` starts at `secrets.file.directory`, else at the state directory.
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import anyio.to_thread

from openclaw.secrets.backends.support import field_of
from openclaw.secrets.refs import SecretRef
from openclaw.secrets.resolver import BackendFailure

_NOT_BLOCKING: int = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
MAX_BYTES: Final = 1024 * 1024


class FileBackend:
    """Reads files of up to 1 MiB, and trims the newline that editors add at the end."""

    def __init__(self, home: Path, directory: Path) -> None:
        self._home = home
        self._directory = directory

    @classmethod
    def open(cls, options: Mapping[str, Any], environ: Mapping[str, str]) -> "FileBackend":
        """Relative paths start at the option `directory`, else at the state directory."""
        home = Path(environ.get("HOME") or "/")
        directory = options.get("directory") or environ.get("OPENCLAW_STATE_DIR") or "~/.openclaw"
        return cls(home, home / str(directory).removeprefix("~/"))

    async def read(self, ref: SecretRef) -> str:
        """The file's text without its last newline, or the field asked for."""
        path = self._path(ref.name)
        text = await anyio.to_thread.run_sync(_read, path, abandon_on_cancel=True)
        if ref.fragment is None:
            value = text.removesuffix("\n").removesuffix("\r")
        else:
            value = field_of(_json(text, path), ref.fragment, what=str(path))
        if not value:
            raise BackendFailure(f"{path} is empty")
        return value

    def _path(self, name: str) -> Path:
        if name == "~" or name.startswith("~/"):
            return self._home / name[2:]
        if name.startswith("~"):
            raise BackendFailure("only ~/ is understood, not another user's home")
        if name.startswith("./"):
            return self._directory / name
        return Path("/" + name.lstrip("/"))


def _read(path: Path) -> str:
    try:
        # Not blocking, so that a pipe without a writer is refused instead of waited for.
        descriptor = os.open(path, os.O_RDONLY | _NOT_BLOCKING)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BackendFailure(f"{path} is not a regular file")
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BackendFailure(f"cannot read {path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise BackendFailure(f"{path} is larger than {MAX_BYTES} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BackendFailure(f"{path} is not UTF-8 text") from None


def _json(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise BackendFailure(f"{path} is not JSON, so it has no fields") from None
