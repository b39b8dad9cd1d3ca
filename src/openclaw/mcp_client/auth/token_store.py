"""Stored logins to remote servers: one record per server, with its credentials by issuer.

Credentials from one authorization server are never shown to another, even if the MCP server later
names a different one.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from openclaw.config import paths
from openclaw.core.errors import MissingExtra, OperatorFacing
from openclaw.core.tools import json_object
from openclaw.mcp.oauth_documents import Client, Credentials

Record = dict[str, Any]

_SERVICE = "openclaw-mcp"
_MAX_BYTES = 1024 * 1024
_REFRESH_SECONDS, _LOOK_SECONDS = 60.0, 0.05  # twice what a refresh may take


def login_key(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:32]


class LoginStore:
    """Logins in files. One process at a time changes one: most refresh tokens work only once."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}.json"

    def load(self, key: str) -> Record | None:
        path = self._path(key)
        try:
            if path.stat().st_size > _MAX_BYTES:
                raise ValueError("it is too large")
            return _record(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise OperatorFacing(
                f"the login in {path} cannot be read: {error}", hint="log out, and in again"
            ) from error

    def change(self, key: str, edit: Callable[[Record], None]) -> None:
        paths.private_directory(self.directory)
        with paths.locked(self._path(key)):
            record = self.load(key) or {}
            edit(record)
            self._store(key, json.dumps(record))

    def _store(self, key: str, text: str) -> None:
        paths.write_atomically(self._path(key), text)

    def delete(self, key: str) -> bool:
        path = self._path(key)
        existed = path.exists()
        locks = (path.with_name(f".{path.name}.lock"), self.directory / f".{key}.refresh")
        path.unlink(missing_ok=True)
        for lock in locks:
            with contextlib.suppress(OSError):  # Windows keeps one that another process holds
                lock.unlink()
        return existed


class KeyringLoginStore(LoginStore):
    """Logins in the system's keyring; the directory has only their locks."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        try:
            import keyring.errors
        except ImportError:
            raise MissingExtra("storing logins in the keyring", "keyring") from None
        self._keyring: Any = keyring
        self._errors: Any = keyring.errors

    def load(self, key: str) -> Record | None:
        text = self._text(key)
        try:
            return None if text is None else _record(text.encode())
        except ValueError as error:
            raise OperatorFacing(
                f"the login in the keyring cannot be read: {error}", hint="log out, and in again"
            ) from error

    def _text(self, key: str) -> str | None:
        try:
            return self._keyring.get_password(_SERVICE, key)
        except self._errors.KeyringError as error:
            raise OperatorFacing(f"the keyring does not answer: {error}") from error

    def _store(self, key: str, text: str) -> None:
        try:
            self._keyring.set_password(_SERVICE, key, text)
        except self._errors.KeyringError as error:
            raise OperatorFacing(f"the keyring did not accept the login: {error}") from error

    def delete(self, key: str) -> bool:
        existed = self._text(key) is not None
        if existed:
            try:
                self._keyring.delete_password(_SERVICE, key)
            except self._errors.KeyringError as error:
                raise OperatorFacing(f"the keyring did not remove the login: {error}") from error
        super().delete(key)
        return existed


def open_login_store(store: str, directory: Path) -> LoginStore:
    return KeyringLoginStore(directory) if store == "keyring" else LoginStore(directory)


def _record(text: bytes) -> Record:
    record: Any = json.loads(text)
    if not isinstance(record, dict):
        raise ValueError("it is not an object")  # noqa: TRY004  a file's content, not an argument
    return cast(Record, record)


@dataclass(frozen=True, slots=True)
class StoredLogin:
    """`client_issuer` is the issuer that was shown the operator's own client, if any."""

    credentials: Credentials | None = None
    client_issuer: str | None = None


class ServerLogin:
    """One server's login in a store.

    `client` is a client that the operator registered: its secret is never stored. `register` gets
    every secret, for redaction.
    """

    def __init__(
        self,
        store: LoginStore,
        url: str,
        *,
        client: Client | None = None,
        register: Callable[[str], None] = lambda value: None,
    ) -> None:
        self._store = store
        self._key = login_key(url)
        self.url = url
        self._client = client
        self._register = register

    async def load(self) -> StoredLogin:
        """What is stored for the issuer used last; raises `OperatorFacing`."""
        record: Record = await anyio.to_thread.run_sync(self._store.load, self._key) or {}
        issuer, issuers = record.get("issuer"), json_object(record.get("issuers"))
        entry = dict(json_object(issuers.get(issuer or "")))
        if not entry.get("issuer"):  # written for a server that publishes no metadata
            parts = urlsplit(self.url)
            entry["issuer"] = f"{parts.scheme}://{parts.netloc}" if entry else None
        credentials = Credentials.from_record(entry, self.url)
        client_issuer = None if self._client is None else _shown_to(self._client.id, record)
        if credentials is None:
            return StoredLogin(None, client_issuer)
        if self._client is not None and client_issuer == credentials.issuer:
            credentials = replace(credentials, client=self._client)
        self._register_secrets(credentials)
        return StoredLogin(credentials, client_issuer)

    async def save(self, credentials: Credentials) -> None:
        self._register_secrets(credentials)
        fields = credentials.to_record()
        if self._client is not None and fields["client"]:
            fields["client"].pop("client_secret", None)
        issuer = credentials.issuer

        def edit(record: Record) -> None:
            record["url"] = self.url.partition("?")[0]
            record["issuer"] = issuer
            record.setdefault("issuers", {})[issuer] = fields

        await anyio.to_thread.run_sync(self._store.change, self._key, edit)

    def _register_secrets(self, credentials: Credentials) -> None:
        tokens, client = credentials.tokens, credentials.client
        own = (client and client.secret, credentials.key)
        for secret in (*own, tokens and tokens.access, tokens and tokens.refresh):
            if secret:
                self._register(secret)

    @asynccontextmanager
    async def refreshing(self) -> AsyncGenerator[None]:
        """Lets one process at a time refresh this login: most refresh tokens work only once."""
        path = paths.private_file(
            paths.private_directory(self._store.directory) / f".{self._key}.refresh"
        )
        descriptor = os.open(path, os.O_RDWR)
        try:
            with anyio.move_on_after(_REFRESH_SECONDS):
                while not paths.try_lock(descriptor):  # noqa: ASYNC110  no event for it
                    await anyio.sleep(_LOOK_SECONDS)
            yield
        finally:
            os.close(descriptor)


def _shown_to(client_id: str, record: Record) -> str | None:
    """The first issuer that the client was used with."""
    for issuer, entry in json_object(record.get("issuers")).items():
        stored = json_object(entry)
        client = stored.get("client")
        # Older versions did not store a client of the operator's own.
        if json_object(client).get("client_id") == client_id or (
            stored.get("tokens") and not client
        ):
            return issuer
    return None
