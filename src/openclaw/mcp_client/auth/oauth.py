"""Logins to remote servers: the SDK's OAuth client, limited to addresses and issuers we accept."""

import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import union_scopes
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata, OAuthMetadata

from openclaw.mcp_client.auth.token_store import ServerLogin
from openclaw.mcp_client.errors import NeedsLogin
from openclaw.net.addresses import is_loopback, why_blocked
from openclaw.net.guarded_client import Exemptions, FetchError, GuardedClient, resolve_with_system

if TYPE_CHECKING:
    from openclaw.mcp_client.auth.login import CallbackServer

logger = logging.getLogger(__name__)
# It logs every failure with a traceback that has token endpoints' answers in it; we log it once.
logging.getLogger("mcp.client.auth.oauth2").setLevel(logging.CRITICAL)

CALLBACK_PATH = "/callback"
_MAX_ANSWER = 1024 * 1024
_SECONDS = 30.0
_UNAUTHORIZED, _FORBIDDEN = 401, 403


def check_address(url: str) -> None:
    """Raise `OAuthFlowError` unless credentials may go there: https, or http on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and is_loopback(parts.hostname or ""):
        return
    where = f"{parts.scheme}://{parts.hostname or ''}"
    raise OAuthFlowError(f"{where} is refused: a login needs https")


class Auth(OAuthClientProvider):
    """The authentication of one server's requests; raises `NeedsLogin` if a person is needed.

    Requests of the login itself go through the guarded client, since an untrusted server names the
    addresses. A private address is reached only under the server's own name, and only if the server
    itself answered from it; a server on loopback may also have its login on loopback.
    """

    def __init__(
        self,
        url: str,
        metadata: OAuthClientMetadata,
        login: ServerLogin,
        person: "CallbackServer | None",
    ) -> None:
        self._login = login
        self._person = person
        self._scope = metadata.scope
        self._wants_more = False
        redirect = self._no_person if person is None else self._checked_redirect
        callback = _no_answer if person is None else person.wait
        super().__init__(url, metadata, login, redirect, callback)
        login.context = self.context
        self._host = (urlsplit(url).hostname or "").lower()
        self._answered_from: str | None = None
        self._refresh_request: httpx2.Request | None = None

    async def _no_person(self, url: str) -> None:
        if self.context.current_tokens is not None:
            await self._login.want(self.context.client_metadata.scope)
        raise NeedsLogin("it needs a login")

    async def _checked_redirect(self, url: str) -> None:
        check_address(url)
        methods = self.context.oauth_metadata and (
            self.context.oauth_metadata.code_challenge_methods_supported
        )
        if self.context.oauth_metadata is not None and "S256" not in (methods or ()):
            raise OAuthFlowError("the authorization server does not support PKCE (S256)")
        assert self._person is not None
        await self._person.redirect(url)

    async def _initialize(self) -> None:
        """Load what is stored, and what the SDK forgets: the token's expiry and its issuer."""
        await super()._initialize()
        entry = await self._login.entry()
        self.context.token_expiry_time = entry.get("expiresAt")
        if self._answered_from is None and await _is_private(self._host):
            # Only its answer shows whether its login may be private too: let it refuse the token
            # first.
            self.context.token_expiry_time = None
        if self.context.oauth_metadata is None and entry.get("metadata"):
            self.context.oauth_metadata = OAuthMetadata.model_validate(entry["metadata"])

    async def _auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        check_address(str(request.url))
        if not self.context.is_token_valid():
            self._initialized = False  # another process may have refreshed it
        flow = super()._auth_flow(request)
        refreshed = False
        refusal: httpx2.Response | None = None
        try:
            outgoing = await flow.__anext__()
            while True:
                if outgoing is self._refresh_request:
                    async with self._login.refreshing():
                        outgoing = await flow.asend(await self._refreshed(outgoing))
                    continue
                if outgoing is not request:
                    response = await self._fetch(outgoing)
                else:
                    await _drop_body(refusal)
                    refusal = response = yield outgoing
                    self._answered_from = _peer(response) or self._answered_from
                    self._wants_more = response.status_code == _FORBIDDEN
                    if response.status_code == _UNAUTHORIZED and not refreshed:
                        refreshed = True
                        if await self._refresh():
                            self._add_auth_header(request)
                            continue
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()

    async def _perform_authorization(self) -> httpx2.Request:
        """Ask for the operator's scopes, or the server's, plus those that a call lacked."""
        metadata = self.context.client_metadata
        asked = metadata.scope if self._wants_more else self._scope or metadata.scope
        metadata.scope = union_scopes(asked, await self._login.wanted_scope())
        self._choose_method()
        return await super()._perform_authorization()

    async def _refresh_token(self) -> httpx2.Request:
        self._choose_method()
        self._refresh_request = await super()._refresh_token()
        return self._refresh_request

    def _choose_method(self) -> None:
        """Send the operator's own secret in a way that the authorization server accepts."""
        client, metadata = self.context.client_info, self.context.oauth_metadata
        if client is None or client.token_endpoint_auth_method is not None:
            return
        taken = metadata and metadata.token_endpoint_auth_methods_supported
        basic = not taken or "client_secret_basic" in taken
        method = "client_secret_basic" if basic else "client_secret_post"
        self.context.client_info = client.model_copy(update={"token_endpoint_auth_method": method})

    async def _refresh(self) -> bool:
        """Replace a token that the server no longer accepts; returns whether that worked."""
        if not self.context.can_refresh_token():
            return False
        before = self.context.current_tokens
        async with self._login.refreshing():
            response = await self._refreshed(await self._refresh_token())
            if await self._handle_refresh_response(response):
                return True
        self.context.current_tokens = before  # its scope is what a new login asks for
        return False

    async def _refreshed(self, request: httpx2.Request) -> httpx2.Response:
        """The answer to a refresh, or the tokens that somebody else got while we waited."""
        newer = await self._login.refreshed_since(self.context.current_tokens)
        if newer is None:
            return await self._fetch(request)
        content = newer.model_dump_json(exclude_none=True).encode()
        return httpx2.Response(200, content=content, request=request)

    async def _fetch(self, request: httpx2.Request) -> httpx2.Response:
        """One request of the login itself, with redirects, within limits."""
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in ("host", "content-length")
        }
        own = None if self._answered_from is None else (self._host, self._answered_from)
        client = GuardedClient(
            ssl_context=httpx2.create_ssl_context(),  # as for requests to the server itself
            max_bytes=_MAX_ANSWER,
            total_timeout=_SECONDS,
            exemptions=Exemptions(loopback=is_loopback(self._host), pair=own),
            on_hop=check_address,
        )
        content = request.content or None
        try:
            async with client:
                got = await client.fetch(
                    str(request.url), method=request.method, headers=headers, content=content
                )
        except FetchError as error:
            raise OAuthFlowError(error.message) from None
        unpacked = {k: v for k, v in got.headers.items() if k.lower() not in _UNPACKED}
        return httpx2.Response(got.status, headers=unpacked, content=got.body, request=request)


async def _drop_body(refusal: httpx2.Response | None) -> None:
    """Drop a refusal's body, all of which the HTTP client would read before it sends again."""
    if refusal is not None and isinstance(refusal.stream, httpx2.AsyncByteStream):
        await refusal.stream.aclose()
        refusal.stream = httpx2.ByteStream(b"")


def _peer(response: httpx2.Response) -> str | None:
    stream = response.extensions.get("network_stream")
    address: Any = stream.get_extra_info("server_addr") if stream is not None else None
    return str(address[0]) if address else None


async def _is_private(host: str) -> bool:
    if is_loopback(host):
        return False
    try:
        return any(map(why_blocked, await resolve_with_system(host, 443)))
    except OSError:
        return False


_UNPACKED = ("content-encoding", "content-length", "transfer-encoding")


async def _no_answer() -> AuthorizationCodeResult:
    raise NeedsLogin("it needs a login")
