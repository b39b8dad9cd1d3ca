"""Stored logins to remote servers: one record per server, with its credentials by issuer.

Credentials from one authorization server are never shown to another, even if the MCP server later
names a different one.
"""

import contextlib
import hashlib
import json
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.to_thread

from openclaw.config import paths
from openclaw.core.errors import MissingExtra, OperatorFacing
from openclaw.mcp_client.imports import load

if TYPE_CHECKING:
    from mcp.client.auth.oauth2 import OAuthContext
    from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

    from openclaw.config.agent_schema import McpAuthConfig, McpServerConfig
    from openclaw.mcp_client.auth.login import CallbackServer
    from openclaw.mcp_client.auth.oauth import Auth
    from openclaw.secrets.refs import Secret

logger = logging.getLogger(__name__)

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
        found = path.exists()
        locks = (path.with_name(f".{path.name}.lock"), self.directory / f".{key}.refresh")
        path.unlink(missing_ok=True)
        for lock in locks:
            with contextlib.suppress(OSError):  # Windows keeps one that another process holds
                lock.unlink()
        return found


class KeyringLoginStore(LoginStore):
    """Logins in the system's keyring; the directory has only their locks."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        try:
            import keyring
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
        found = self._text(key) is not None
        if found:
            try:
                self._keyring.delete_password(_SERVICE, key)
            except self._errors.KeyringError as error:
                raise OperatorFacing(f"the keyring did not remove the login: {error}") from error
        super().delete(key)
        return found


def open_login_store(store: str, directory: Path) -> LoginStore:
    return KeyringLoginStore(directory) if store == "keyring" else LoginStore(directory)


def _record(text: bytes) -> Record:
    found: Any = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is not an object")  # noqa: TRY004  a file's content, not an argument
    return cast(Record, found)


class ServerLogin:
    """One server's login, as the SDK's `TokenStorage`.

    `preset` is a client that the operator registered. `register` gets every secret, for redaction.
    With `afresh`, the stored login is ignored until a new one replaces it.
    """

    context: "OAuthContext"

    def __init__(
        self,
        store: LoginStore,
        url: str,
        *,
        preset: "OAuthClientInformationFull | None" = None,
        register: Callable[[str], None] = lambda value: None,
        afresh: bool = False,
    ) -> None:
        self._afresh = afresh
        self._store = store
        self._key = login_key(url)
        self._url = url
        self._preset = preset
        self._register = register

    async def entry(self) -> Record:
        """What is stored for the issuer used last."""
        return {} if self._afresh else await self._stored()

    async def _stored(self) -> Record:
        record: Record = await anyio.to_thread.run_sync(self._store.load, self._key) or {}
        found: Record = record.get("issuers", {}).get(record.get("issuer"), {})
        credentials: Record = {**(found.get("tokens") or {}), **(found.get("client") or {})}
        for name in ("access_token", "refresh_token", "client_secret"):
            if isinstance(secret := credentials.get(name), str):
                self._register(secret)
        return found

    async def get_tokens(self) -> "OAuthToken | None":
        from mcp.shared.auth import OAuthToken

        tokens = (await self.entry()).get("tokens")
        return None if tokens is None else OAuthToken.model_validate(tokens)

    async def get_client_info(self) -> "OAuthClientInformationFull | None":
        from mcp.shared.auth import OAuthClientInformationFull

        if self._preset is not None:
            # The operator's own secret is shown only to the issuer that first received it.
            issuer = (await self._stored()).get("issuer")
            return self._preset.model_copy(update={"issuer": issuer})
        client = (await self.entry()).get("client")
        return None if client is None else OAuthClientInformationFull.model_validate(client)

    async def set_tokens(self, tokens: "OAuthToken") -> None:
        for secret in (tokens.access_token, tokens.refresh_token):
            if secret:
                self._register(secret)
        metadata = self.context.oauth_metadata
        fields: Record = {
            "tokens": tokens.model_dump(mode="json", exclude_none=True),
            "expiresAt": self.context.token_expiry_time,
            "wanted": None,
        }
        if metadata is not None:
            fields["metadata"] = metadata.model_dump(mode="json", exclude_none=True)
        await self._update(self._issuer(), fields)

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

    async def refreshed_since(self, tokens: "OAuthToken | None") -> "OAuthToken | None":
        """What another connection or process got from the same issuer in place of these tokens."""
        stored = await self.get_tokens()
        same = (await self.entry()).get("issuer") == self._issuer()
        newer = stored and tokens and stored.access_token != tokens.access_token
        return stored if same and newer else None

    async def want(self, scope: str | None) -> None:
        """Remember which scope a call needed, for the next login."""
        await self._update(self._issuer(), {"wanted": scope})

    async def wanted_scope(self) -> str | None:
        wanted = (await self._stored()).get("wanted")
        return wanted if isinstance(wanted, str) else None

    async def set_client_info(self, client_info: "OAuthClientInformationFull") -> None:
        if client_info.client_secret:
            self._register(client_info.client_secret)
        client = client_info.model_dump(mode="json", exclude_none=True)
        await self._update(client_info.issuer or self._issuer(), {"client": client, "tokens": None})

    def _issuer(self) -> str:
        if self.context.oauth_metadata is not None:
            return str(self.context.oauth_metadata.issuer)
        return self.context.auth_server_url or ""

    async def _update(self, issuer: str, fields: Record) -> None:
        def edit(record: Record) -> None:
            record["url"] = self._url.partition("?")[0]
            record["issuer"] = issuer
            entry = record.setdefault("issuers", {}).setdefault(issuer, {})
            entry.update(fields, issuer=issuer)

        await anyio.to_thread.run_sync(self._store.change, self._key, edit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Logins:
    """The logins in this state directory; OAuth is imported when the first one is used."""

    directory: Path
    resolve_secrets: "Callable[[Mapping[str, str]], Awaitable[dict[str, Secret]]]"
    register: Callable[[str], None] = lambda value: None

    def log_out(self, config: "McpServerConfig") -> bool:
        auth, url = _settings(config)
        return open_login_store(auth.store, self.directory).delete(login_key(url))

    async def auth(
        self, config: "McpServerConfig", person: "CallbackServer | None" = None
    ) -> "Auth":
        """The HTTP authentication of this server; raises `OperatorFacing`."""
        settings, url = _settings(config)
        await load("openclaw.mcp_client.auth.oauth")
        from mcp.shared.auth import OAuthClientMetadata
        from pydantic import AnyUrl

        from openclaw.mcp_client.auth import oauth

        try:
            oauth.check_address(url)
        except oauth.OAuthFlowError as error:
            raise OperatorFacing(str(error), hint="use an https address") from None
        login = ServerLogin(
            open_login_store(settings.store, self.directory),
            url,
            preset=await self._preset(settings),
            register=self.register,
            afresh=person is not None,
        )
        unused = f"http://127.0.0.1:{settings.callback_port or 1}{oauth.CALLBACK_PATH}"
        uri = unused if person is None else person.redirect_uri
        metadata = OAuthClientMetadata(
            client_name="OpenClaw",
            redirect_uris=[AnyUrl(uri)],
            scope=" ".join(settings.scopes) or None,
            token_endpoint_auth_method=None if settings.client_secret else "none",
        )
        return oauth.Auth(url, metadata, login, person)

    async def _preset(self, auth: "McpAuthConfig") -> "OAuthClientInformationFull | None":
        from mcp.shared.auth import OAuthClientInformationFull

        if auth.client_id is None:
            return None
        secret = None
        if auth.client_secret is not None:
            resolved = await self.resolve_secrets({"clientSecret": auth.client_secret})
            secret = resolved["clientSecret"].reveal()
        return OAuthClientInformationFull(
            client_id=auth.client_id,
            client_secret=secret,
            token_endpoint_auth_method="none" if secret is None else None,
        )


def _settings(config: "McpServerConfig") -> "tuple[McpAuthConfig, str]":
    if config.auth is None or config.url is None:
        raise OperatorFacing('only a remote server with `auth: "oauth"` has a login')
    return config.auth, config.url
