"""`secret://store/NAME`: what `openclaw secrets set` keeps, in the system's keyring or a private file.

The file lists every name; the value stands beside it unless the keyring has it.
"""

from collections.abc import Mapping
from pathlib import Path

import anyio.to_thread

from openclaw.core.errors import MissingExtra
from openclaw.secrets.backends.local import read_keyring
from openclaw.secrets.refs import SecretRef
from openclaw.secrets.resolver import BackendFailure
from openclaw.secrets.stored import SERVICE, read_store


class StoreBackend:
    """Reads the file whenever it is asked: a value may have been set since."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def open(cls, environ: Mapping[str, str]) -> "StoreBackend":
        """The store of this account."""
        state = environ.get("OPENCLAW_STATE_DIR")
        root = Path(state) if state else Path(environ.get("HOME") or "/") / ".openclaw"
        return cls(root / "secrets.json")

    async def read(self, ref: SecretRef) -> str:
        """The value of that name."""
        return await anyio.to_thread.run_sync(self._read, ref.name, abandon_on_cancel=True)

    def _read(self, name: str) -> str:
        found = read_store(self._path)
        if name not in found:
            raise BackendFailure(
                f"nothing is stored as {name}", hint=f"store it with: openclaw secrets set {name}"
            )
        value = found[name]
        try:
            value = read_keyring(SERVICE, name) if value is None else value
        except MissingExtra:
            raise BackendFailure("its value is in the keyring, which cannot be used now") from None
        if not value:
            raise BackendFailure("the keyring no longer has it")
        return value
