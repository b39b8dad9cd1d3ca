"""Writes the store behind `secret://store/NAME`."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from openclaw.config.paths import locked, state_dir, target_of, write_atomically
from openclaw.core.errors import InvalidRequest, NotFound, OperatorFacing
from openclaw.secrets.refs import KEYRING_SERVICE, STORE_FILE, BackendFailure, read_store

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")


class SecretStore:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self.path = state_dir(environ) / STORE_FILE

    def names(self) -> list[str]:
        return sorted(self._read())

    def in_file(self) -> dict[str, str]:
        """The values stored in the file, not in the keyring."""
        return {name: value for name, value in self._read().items() if value is not None}

    def set(self, name: str, value: str, *, keyring: bool | None = None) -> str:
        if not _NAME.fullmatch(name):
            raise InvalidRequest(
                "must be letters, digits, '_', '-' and '.' only, 128 at most", field="NAME"
            )
        if not value:
            raise InvalidRequest("is empty", field="the value")
        kept = keyring is not False and _to_keyring(name, value)
        if keyring and not kept:
            raise OperatorFacing("this machine has no usable keyring")
        with locked(target_of(self.path)):
            self._write({**self._read(), name: None if kept else value})
        return "the system's keyring" if kept else f"{self.path} (readable only by you)"

    def remove(self, name: str) -> None:
        with locked(target_of(self.path)):
            entries = self._read()
            if name not in entries:
                raise NotFound(
                    f"nothing is stored as '{name}'", hint="openclaw secrets list shows the names"
                )
            if entries.pop(name) is None:
                _from_keyring(name)
            self._write(entries)

    def _read(self) -> dict[str, str | None]:
        try:
            return read_store(self.path)
        except BackendFailure as failure:
            raise OperatorFacing(failure.reason, hint=failure.hint) from None

    def _write(self, entries: Mapping[str, str | None]) -> None:
        text = json.dumps(dict(sorted(entries.items())), indent=2) + "\n"
        write_atomically(target_of(self.path), text)


def keyring_works() -> bool:
    return _usable_keyring() is not None


def _usable_keyring() -> Any | None:
    """The library, if it is installed and this machine has a keyring."""
    try:
        import keyring
        from keyring.backends import fail, null
    except ImportError:
        return None
    backend = keyring.get_keyring()
    usable = not isinstance(backend, fail.Keyring | null.Keyring) and backend.priority > 0
    return keyring if usable else None


def _to_keyring(name: str, value: str) -> bool:
    keyring = _usable_keyring()
    if keyring is None:
        return False
    try:
        keyring.set_password(KEYRING_SERVICE, name, value)
        return keyring.get_password(KEYRING_SERVICE, name) == value
    except (keyring.errors.KeyringError, RuntimeError):
        return False


def _from_keyring(name: str) -> None:
    keyring = _usable_keyring()
    if keyring is None:
        return  # nobody can read it without the keyring
    with suppress(keyring.errors.KeyringError, RuntimeError):  # it is gone
        keyring.delete_password(KEYRING_SERVICE, name)
