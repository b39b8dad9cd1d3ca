"""Logging in to remote servers, and out, with what is configured and what is stored."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import anyio.to_thread

from openclaw.config.agent_schema import McpAuthConfig, McpServerConfig
from openclaw.core.errors import OpenClawError, OperatorFacing
from openclaw.mcp.oauth import Grant, IdentityProvider, OAuthSettings
from openclaw.mcp.oauth_documents import Client, LoginRefused
from openclaw.mcp_client.auth.oauth import Auth, User, check_address
from openclaw.mcp_client.auth.token_store import ServerLogin, login_key, open_login_store
from openclaw.secrets.refs import Secret

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RedirectTo:
    """Where the authorization server sends the user back to."""

    uri: str = ""
    without_browser: bool = False


NOWHERE = RedirectTo()


@dataclass(frozen=True, slots=True)
class LoggedOut:
    existed: bool
    revoked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Logins:
    """The logins in this state directory."""

    directory: Path
    resolve_secrets: Callable[[Mapping[str, str]], Awaitable[dict[str, Secret]]]
    register: Callable[[str], None] = lambda value: None

    async def log_out(self, config: McpServerConfig) -> LoggedOut:
        """Revoke the tokens if the authorization server can, and delete the login in any case."""
        settings, url = auth_settings(config)
        store = open_login_store(settings.store, self.directory)
        revoked = False
        try:
            revoked = await (await self.auth(config)).log_out()
        except OpenClawError as error:  # also a login that cannot be read
            logger.info("the tokens were not revoked: %s", error)
        existed = await anyio.to_thread.run_sync(store.delete, login_key(url))
        return LoggedOut(existed=existed, revoked=revoked)

    async def auth(
        self,
        config: McpServerConfig,
        user: User | None = None,
        redirect: RedirectTo = NOWHERE,
    ) -> Auth:
        """The HTTP authentication of this server; raises `OperatorFacing`."""
        settings, url = auth_settings(config)
        try:
            check_address(url)
        except LoginRefused as error:
            raise OperatorFacing(str(error), hint="use an https address") from None
        configure = partial(self._configured, config, redirect)
        current = await configure()
        client = current.client_id and Client(current.client_id, current.client_secret)
        login = ServerLogin(
            open_login_store(settings.store, self.directory),
            url,
            client=client or None,
            register=self.register,
        )
        return Auth(configure, login, user)

    async def _configured(self, config: McpServerConfig, redirect: RedirectTo) -> OAuthSettings:
        """The settings as they are now: some secrets are only valid for a short time."""
        auth, url = auth_settings(config)
        provider = auth.identity_provider
        named = {
            "clientSecret": auth.client_secret,
            "privateKey": auth.private_key,
            "assertion": auth.assertion,
            "idToken": provider and provider.id_token,
            "providerSecret": provider and provider.client_secret,
        }
        referred = {name: value for name, value in named.items() if value is not None}
        resolved = await self.resolve_secrets(referred) if referred else {}
        secrets = {name: secret.reveal() for name, secret in resolved.items()}
        return OAuthSettings(
            url=url,
            redirect_uri=redirect.uri,
            without_browser=redirect.without_browser,
            client_id=auth.client_id,
            client_secret=secrets.get("clientSecret"),
            client_metadata_url=auth.client_metadata_url,
            private_key=secrets.get("privateKey"),
            scope=" ".join(auth.scopes) or None,
            grant=Grant(auth.grant),
            assertion=_stripped(secrets.get("assertion")),
            identity_provider=provider
            and IdentityProvider(
                id_token=secrets["idToken"].strip(),
                client_id=provider.client_id,
                client_secret=secrets.get("providerSecret"),
                token_endpoint=provider.token_endpoint,
                issuer=provider.issuer,
            ),
            dpop={"auto": None, "required": True, "off": False}[auth.dpop],
        )


def _stripped(text: str | None) -> str | None:
    """A file with a token usually ends with a line break."""
    return None if text is None else text.strip()


def auth_settings(config: McpServerConfig) -> tuple[McpAuthConfig, str]:
    if config.auth is None or config.url is None:
        raise OperatorFacing('only a remote server with `auth: "oauth"` has a login')
    return config.auth, config.url
