"""The OAuth client of MCP: each operation is a generator of the requests that it needs.

A generator yields a step, is sent the step's answer, and returns when it is done:

    step             answer                what it is for
    HttpRequest      HttpResponse          discovery, registration, tokens, revocation
    AskUser          the callback's query  the user logs in, in a browser
    ShowCode         None                  the user logs in, on another device
    Pause            None                  before the next step

Whoever drives it throws `OAuthUnavailable` into it if a request could not be made. `credentials` is
replaced whenever there is something new to store.

The documents that this follows: MCP's authorization page, RFC 6749 (OAuth 2.0), 7009 (revocation),
7523 (JWT assertions), 7591 (registration), 7636 (PKCE), 8414 and 9728 (metadata), 8628 (devices),
8693 (token exchange), 8707 (resources), 9207 (issuers in answers), 9449 (DPoP).
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from openclaw.mcp import oauth_discovery as discovery
from openclaw.mcp.oauth_documents import (
    AuthorizationServer,
    Challenge,
    Client,
    Credentials,
    Document,
    HttpRequest,
    HttpResponse,
    LoginRefused,
    OAuthError,
    OAuthUnavailable,
    ProtectedResource,
    Tokens,
    is_temporary,
    same_issuer,
    shown,
    text_of,
    union_scopes,
)
from openclaw.mcp.oauth_proofs import Prover, Signing, base64url

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105  its name
DEVICE_CODE = "urn:ietf:params:oauth:grant-type:device_code"
_CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105  its name
_ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"

EXPIRES_SOON = 30.0  # seconds before its end in which a token is renewed
_ATTEMPTS, _FIRST_PAUSE, _LONGEST_PAUSE = 3, 0.5, 10.0
_DEVICE_INTERVAL, _SLOWER, _DEVICE_SECONDS = 5.0, 5.0, 900.0
_TEMPORARY_CODES = ("server_error", "temporarily_unavailable")


class Grant(StrEnum):
    """How tokens are got; only for the first does anybody have to log in."""

    LOGIN = "login"
    CLIENT_CREDENTIALS = "clientCredentials"
    WORKLOAD = "workload"
    ENTERPRISE = "enterprise"


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """The organisation's login (enterprise-managed authorization); it signed the `id_token`."""

    id_token: str
    client_id: str
    client_secret: str | None = None
    token_endpoint: str | None = None
    issuer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """What the operator configured. `url` is the MCP server's; `assertion` a workload's JWT."""

    url: str
    redirect_uri: str = ""
    client_name: str = "OpenClaw"
    client_id: str | None = None
    client_secret: str | None = None
    client_metadata_url: str | None = None
    private_key: str | None = None
    scope: str | None = None
    grant: Grant = Grant.LOGIN
    assertion: str | None = None
    identity_provider: IdentityProvider | None = None
    dpop: bool | None = None
    without_browser: bool = False


@dataclass(frozen=True, slots=True)
class AskUser:
    url: str
    state: str


@dataclass(frozen=True, slots=True)
class ShowCode:
    url: str
    code: str
    direct_url: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Pause:
    seconds: float


Step = HttpRequest | AskUser | ShowCode | Pause


class Refusal(StrEnum):
    """What a resource's answer says about our token."""

    NONE = "none"
    WANTS_NONCE = "wants a nonce"
    UNAUTHORIZED = "unauthorized"
    LACKS_SCOPE = "lacks scope"


class OAuthFlow:
    """One MCP server's login.

    `client_issuer` is the issuer that was shown the operator's own client before, if any: no other
    is shown it. `random_text` must be different each time, impossible to guess, and as long as a
    PKCE verifier.
    """

    def __init__(
        self,
        settings: OAuthSettings,
        credentials: Credentials | None = None,
        *,
        client_issuer: str | None = None,
        now: Callable[[], float],
        random_text: Callable[[], str],
        signing: Signing | None = None,
    ) -> None:
        self.credentials = credentials
        self.settings = settings
        self._client_issuer = client_issuer
        self._now, self._random_text = now, random_text
        self._prover = Prover(signing, now, random_text)
        self._is_registered = False  # in this login, so for the current redirect address

    # ---- using tokens

    @property
    def tokens(self) -> Tokens | None:
        return None if self.credentials is None else self.credentials.tokens

    @property
    def expires_soon(self) -> bool:
        tokens = self.tokens
        if tokens is None or tokens.expires_at is None:
            return False
        return tokens.expires_at - EXPIRES_SOON <= self._now()

    @property
    def may_still_be_valid(self) -> bool:
        tokens = self.tokens
        return tokens is not None and (tokens.expires_at or self._now() + 1) > self._now()

    @property
    def can_refresh(self) -> bool:
        credentials, tokens = self.credentials, self.tokens
        return bool(credentials and credentials.client and tokens and tokens.refresh)

    def authorization(self, method: str, url: str) -> dict[str, str]:
        """The headers with which a request to the MCP server is authorized."""
        tokens = self.tokens
        if tokens is None:
            return {}
        if tokens.type.lower() == "dpop":
            proof = self._proof(method, url, tokens.access)
            return {"Authorization": f"DPoP {tokens.access}", **proof}
        return {"Authorization": f"Bearer {tokens.access}"}

    def judge(self, response: HttpResponse, url: str) -> tuple[Refusal, Challenge]:
        """What the MCP server's answer means for our token."""
        new_nonce = self._prover.learn_nonce(url, response)
        challenge = Challenge.parse(response.headers.get("www-authenticate"))
        if response.status == 401:
            wants_nonce = challenge.error == "use_dpop_nonce" and new_nonce
            return (Refusal.WANTS_NONCE if wants_nonce else Refusal.UNAUTHORIZED), challenge
        if response.status == 403 and challenge.error == "insufficient_scope":
            return Refusal.LACKS_SCOPE, challenge
        return Refusal.NONE, challenge

    def missing_scope(self, challenge: Challenge) -> str | None:
        """What to ask for next; None if it was all asked for before, which would be no use again."""
        granted = self.tokens.scope if self.tokens else None
        wanted = union_scopes(granted, challenge.scope)
        return None if wanted == union_scopes(granted) else wanted

    def want(self, scope: str) -> None:
        """Ask for this scope at the next login as well."""
        if self.credentials is not None:
            self.credentials = replace(self.credentials, wanted=scope)

    def forget_refresh_token(self) -> None:
        """Keep only what the next login builds on, since the refresh token was refused."""
        if self.credentials is not None and self.credentials.tokens is not None:
            tokens = replace(self.credentials.tokens, refresh=None)
            self.credentials = replace(self.credentials, tokens=tokens)

    # ---- getting tokens

    def log_in(self, challenge: Challenge, *, step_up: bool = False) -> Generator[Step, Any, None]:
        """Get tokens, after the MCP server refused a request with this challenge."""
        before = self.credentials
        try:
            yield from self._log_in(challenge, before, step_up=step_up)
        except BaseException:
            self.credentials = before
            raise

    def _log_in(
        self, challenge: Challenge, before: Credentials | None, *, step_up: bool
    ) -> Generator[Step, Any, None]:
        known_issuer = None if before is None else before.issuer
        url = self.settings.url
        resource = yield from discovery.find_resource(url, challenge)
        server = yield from discovery.find_server(url, resource, known_issuer)
        if before is not None and not same_issuer(before.issuer, server.issuer):
            # Credentials of one server are never shown to another (MCP, "Authorization server
            # migration").
            before, self._is_registered = None, False
        scope = self._choose_scope(challenge, resource, server, before, step_up=step_up)
        key = self._choose_key(resource, server)
        reused = before.client if before is not None and self._is_registered else None
        client = reused or (yield from self._find_client(server, scope, binds_key=key is not None))
        self._is_registered = True
        self.credentials = Credentials(
            server,
            client,
            None,
            None if resource is None else resource.resource,
            None if before is None else before.wanted,
            key,
        )
        tokens = yield from self._granted(self.credentials, scope)
        self._keep(tokens, scope)

    def refresh(self) -> Generator[Step, Any, None]:
        """Replace the tokens; raises `LoginRefused` if that needs a login."""
        credentials, tokens = self.credentials, self.tokens
        assert credentials is not None
        assert tokens is not None
        if tokens.refresh is None:
            raise LoginRefused("the login has expired")
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh}
        renewed = yield from self._insist(form, credentials)
        # An answer may leave out what has not changed (RFC 6749, 6).
        self._keep(replace(renewed, refresh=renewed.refresh or tokens.refresh), tokens.scope)

    def revoke(self) -> Generator[Step, Any, bool]:
        """Have the authorization server forget the tokens; returns whether it did (RFC 7009)."""
        credentials, tokens = self.credentials, self.tokens
        endpoint = credentials and credentials.server.endpoint("revocation")
        if credentials is None or tokens is None or endpoint is None:
            return False
        revoked = True
        for hint, token in (("refresh_token", tokens.refresh), ("access_token", tokens.access)):
            if token is None:
                continue
            form = {"token": token, "token_type_hint": hint}
            form, headers = self._authenticated(form, credentials, endpoint)
            response = yield from self._fetch(_form_request(endpoint, form, headers))
            revoked = revoked and response.status == 200
        return revoked

    def _keep(self, tokens: Tokens, requested_scope: str | None) -> None:
        assert self.credentials is not None
        granted = tokens.scope or requested_scope
        if self.settings.dpop and tokens.type.lower() != "dpop":
            raise LoginRefused("the authorization server does not bind its tokens to a key")
        self.credentials = replace(
            self.credentials, tokens=replace(tokens, scope=granted), wanted=None
        )

    # ---- what to ask for

    def _choose_scope(
        self,
        challenge: Challenge,
        resource: ProtectedResource | None,
        server: AuthorizationServer,
        before: Credentials | None,
        *,
        step_up: bool,
    ) -> str | None:
        """MCP's "Scope selection strategy", or what the operator configured."""
        listed = " ".join(resource.scopes or ()) if resource is not None else None
        asked = self.settings.scope or challenge.scope or listed
        if step_up and before is not None:
            granted = before.tokens.scope if before.tokens else None
            asked = union_scopes(self.settings.scope, granted, challenge.scope)
        asked = union_scopes(asked, before.wanted if before is not None else None)
        offline = "offline_access" in (server.supported("scopes") or ())
        if asked and offline and self.settings.grant is Grant.LOGIN:
            return union_scopes(asked, "offline_access")
        return asked

    # ---- who we are

    def _find_client(
        self, server: AuthorizationServer, scope: str | None, *, binds_key: bool
    ) -> Generator[Step, Any, Client | None]:
        """Pre-registered, described by a document, or registered now: in MCP's order."""
        settings = self.settings
        is_known = same_issuer(self._client_issuer or server.issuer, server.issuer)
        if settings.client_id is not None and is_known:
            return Client(settings.client_id, settings.client_secret)
        document = settings.client_metadata_url
        if document is not None and server.says("client_id_metadata_document_supported"):
            return Client(document, method="none")
        if settings.grant is Grant.WORKLOAD:  # the assertion says who we are
            return None
        if settings.grant is not Grant.LOGIN:
            raise LoginRefused("without a login, the authorization server needs `auth.clientId`")
        return (yield from self._register(server, scope, binds_key=binds_key))

    def _register(
        self, server: AuthorizationServer, scope: str | None, *, binds_key: bool
    ) -> Generator[Step, Any, Client]:
        endpoint = server.endpoint("registration")
        if endpoint is None:
            raise LoginRefused(
                "the authorization server does not register clients by itself: register one there, "
                "and set `auth.clientId`"
            )
        grants = ["authorization_code", "refresh_token"]
        if server.endpoint("device_authorization") is not None:
            grants.append(DEVICE_CODE)
        wanted: Document = {
            "client_name": self.settings.client_name,
            "application_type": "native",
            "redirect_uris": [self.settings.redirect_uri],
            "grant_types": grants,
            "response_types": ["code"],
            "token_endpoint_auth_method": _registered_method(server),
        }
        wanted |= {"scope": scope} if scope else {}
        wanted |= {"dpop_bound_access_tokens": True} if binds_key else {}
        request = HttpRequest(
            "POST",
            endpoint,
            {"Content-Type": "application/json", "Accept": "application/json"},
            json.dumps(wanted).encode(),
        )
        response = yield from self._fetch(request)
        document = response.document()
        id = text_of(document.get("client_id"))
        if response.status not in (200, 201) or id is None:
            raise _refusal(response, "did not register us")
        method = text_of(document.get("token_endpoint_auth_method"))
        secret = text_of(document.get("client_secret"))
        return Client(id, secret, "none" if secret is None else method)

    def _authenticated(
        self, form: dict[str, str], credentials: Credentials, url: str
    ) -> tuple[dict[str, str], dict[str, str]]:
        """The form and headers with which we prove who we are (RFC 6749, 2.3; RFC 7523, 2.2)."""
        client = credentials.client
        if client is None:
            return form, {}
        form = {**form, "client_id": client.id}
        match self._method(client, credentials.server):
            case "client_secret_basic":
                pair = f"{quote(client.id, safe='')}:{quote(client.secret or '', safe='')}"
                encoded = base64.b64encode(pair.encode()).decode()
                return form, {"Authorization": f"Basic {encoded}"}
            case "client_secret_post":
                return {**form, "client_secret": client.secret or ""}, {}
            case "private_key_jwt":
                assert self.settings.private_key is not None
                assertion = self._prover.client_assertion(
                    self.settings.private_key, client.id, credentials.issuer
                )
                kind = {"client_assertion_type": _CLIENT_ASSERTION}
                return {**form, **kind, "client_assertion": assertion}, {}
            case "none":
                return form, {}
            case other:
                raise LoginRefused(f"the authorization server wants us to use {shown(other)}")

    def _method(self, client: Client, server: AuthorizationServer) -> str:
        if self.settings.private_key is not None and client.id == self.settings.client_id:
            return "private_key_jwt"
        if client.method is not None:
            return client.method
        if client.secret is None:
            return "none"
        taken = server.supported("token_endpoint_auth_methods")
        is_basic = not taken or "client_secret_basic" in taken
        return "client_secret_basic" if is_basic else "client_secret_post"

    # ---- grants

    def _granted(self, credentials: Credentials, scope: str | None) -> Generator[Step, Any, Tokens]:
        asked = {"scope": scope} if scope else {}
        match self.settings.grant:
            case Grant.LOGIN:
                device = credentials.server.endpoint("device_authorization")
                if self.settings.without_browser and device is not None:
                    return (yield from self._by_device(device, asked, credentials))
                return (yield from self._by_browser(asked, credentials))
            case Grant.CLIENT_CREDENTIALS:
                form = {"grant_type": "client_credentials", **asked}
                return (yield from self._insist(form, credentials))
            case Grant.WORKLOAD:
                assertion = self.settings.assertion
            case Grant.ENTERPRISE:
                assertion = yield from self._exchanged_assertion(credentials, asked)
        if not assertion:
            raise LoginRefused("a workload's login needs `auth.assertion`")
        form = {"grant_type": JWT_BEARER, "assertion": assertion, **asked}
        return (yield from self._ask_for_tokens(form, credentials))

    def _by_browser(
        self, asked: dict[str, str], credentials: Credentials
    ) -> Generator[Step, Any, Tokens]:
        server, client = credentials.server, credentials.client
        endpoint = server.endpoint("authorization")
        if endpoint is None or client is None:
            raise LoginRefused("the authorization server does not say where to log in")
        methods = server.supported("code_challenge_methods") or ()
        if not server.is_guessed and "S256" not in methods:
            raise LoginRefused("the authorization server does not support PKCE (S256)")
        verifier, state = self._random_text(), self._random_text()
        parameters = {
            "response_type": "code",
            "client_id": client.id,
            "redirect_uri": self.settings.redirect_uri,
            "state": state,
            "code_challenge": base64url(hashlib.sha256(verifier.encode()).digest()),
            "code_challenge_method": "S256",
            **_about(credentials),
            **asked,
        }
        if "offline_access" in asked.get("scope", "").split():
            parameters["prompt"] = "consent"  # OpenID Connect Core, 11
        separator = "&" if urlsplit(endpoint).query else "?"
        url = f"{endpoint.partition('#')[0]}{separator}{urlencode(parameters)}"
        answer: Mapping[str, str] = yield AskUser(url, state)
        form = {
            "grant_type": "authorization_code",
            "code": _checked_code(answer, state, server),
            "redirect_uri": self.settings.redirect_uri,
            "code_verifier": verifier,
        }
        return (yield from self._ask_for_tokens(form, credentials))

    def _by_device(
        self, endpoint: str, asked: dict[str, str], credentials: Credentials
    ) -> Generator[Step, Any, Tokens]:
        form, headers = self._authenticated({**asked, **_about(credentials)}, credentials, endpoint)
        response = yield from self._fetch(_form_request(endpoint, form, headers))
        document = response.document()
        code = text_of(document.get("device_code"))
        user_code = text_of(document.get("user_code"))
        url = text_of(document.get("verification_uri"))
        if response.status != 200 or code is None or user_code is None or url is None:
            raise _refusal(response, "did not give us a code")
        interval = _seconds(document.get("interval"), _DEVICE_INTERVAL)
        lasts = _seconds(document.get("expires_in"), _DEVICE_SECONDS)
        ends = self._now() + lasts
        yield ShowCode(url, user_code, text_of(document.get("verification_uri_complete")), lasts)
        while self._now() < ends:
            yield Pause(interval)
            try:
                token_form = {"grant_type": DEVICE_CODE, "device_code": code}
                return (yield from self._ask_for_tokens(token_form, credentials))
            except LoginRefused as refused:
                if refused.code not in ("authorization_pending", "slow_down"):
                    raise
                if refused.code == "slow_down":
                    interval += _SLOWER
            except OAuthUnavailable:
                interval += _SLOWER
        raise LoginRefused("nobody logged in before the code expired")

    def _exchanged_assertion(
        self, credentials: Credentials, asked: dict[str, str]
    ) -> Generator[Step, Any, str]:
        """The identity provider's word for the user (enterprise-managed authorization, ID-JAG)."""
        provider = self.settings.identity_provider
        if provider is None:
            raise LoginRefused("an enterprise login needs `auth.identityProvider`")
        endpoint = provider.token_endpoint
        if endpoint is None:
            metadata = yield from discovery.find_metadata(provider.issuer or "")
            endpoint = metadata.endpoint("token")
        if endpoint is None:
            raise LoginRefused("the identity provider does not say where its tokens are")
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": _ID_JAG,
            "audience": credentials.issuer,
            "resource": credentials.resource or self.settings.url,
            "subject_token": provider.id_token,
            "subject_token_type": _ID_TOKEN,
            "client_id": provider.client_id,
            **asked,
        }
        if provider.client_secret is not None:
            form["client_secret"] = provider.client_secret
        response = yield from self._fetch(_form_request(endpoint, form, {}))
        assertion = text_of(response.document().get("access_token"))
        if response.status != 200 or assertion is None:
            raise _refusal(response, "did not vouch for the user", sender="the identity provider")
        return assertion

    # ---- the token endpoint

    def _insist(
        self, form: dict[str, str], credentials: Credentials
    ) -> Generator[Step, Any, Tokens]:
        """The same request a few times, which is safe as long as no user took part."""
        for attempt in range(_ATTEMPTS):
            try:
                return (yield from self._ask_for_tokens(form, credentials))
            except OAuthUnavailable as problem:
                if attempt + 1 == _ATTEMPTS:
                    raise
                pause = problem.retry_after or _FIRST_PAUSE * 2**attempt
                yield Pause(min(pause, _LONGEST_PAUSE))
        raise AssertionError

    def _ask_for_tokens(
        self, form: dict[str, str], credentials: Credentials
    ) -> Generator[Step, Any, Tokens]:
        url = credentials.server.endpoint("token")
        if url is None:
            raise LoginRefused("the authorization server does not say where its tokens are")
        form = {**form, **_about(credentials)}
        form, headers = self._authenticated(form, credentials, url)
        proof = {} if credentials.key is None else self._proof("POST", url)
        response = yield from self._fetch(_form_request(url, form, {**headers, **proof}))
        document = response.document()
        if proof and document.get("error") == "use_dpop_nonce":
            # Sent again as it was, but for the nonce (RFC 9449, 8).
            proof = self._proof("POST", url)
            response = yield from self._fetch(_form_request(url, form, {**headers, **proof}))
            document = response.document()
        if response.status not in (200, 201) or "error" in document:
            raise _refusal(response, "refused")
        return Tokens.parse(document, self._now())

    def _fetch(self, request: HttpRequest) -> Generator[Step, Any, HttpResponse]:
        response: HttpResponse = yield request
        self._prover.learn_nonce(request.url, response)
        return response

    # ---- proofs of possession (RFC 9449)

    def _choose_key(
        self, resource: ProtectedResource | None, server: AuthorizationServer
    ) -> str | None:
        required = self.settings.dpop is True or (resource is not None and resource.wants_dpop)
        offered = "ES256" in (server.supported("dpop_signing_alg_values") or ())
        if self.settings.dpop is False or not (required or offered):
            return None
        if not self._prover.can_sign and not required:
            return None
        return self._prover.new_key()

    def _proof(self, method: str, url: str, access_token: str | None = None) -> dict[str, str]:
        assert self.credentials is not None
        if self.credentials.key is None:
            raise LoginRefused("the stored token is bound to a key that is missing")
        return self._prover.proof(self.credentials.key, method, url, access_token)


def _checked_code(answer: Mapping[str, str], state: str, server: AuthorizationServer) -> str:
    """The code in the callback; raises for an answer to another request, or from another server."""
    if not hmac.compare_digest(answer.get("state", "").encode(), state.encode()):
        raise LoginRefused("the answer is not for this login (its state differs)")
    issuer = answer.get("iss")
    if issuer is not None and issuer != server.issuer:  # as text (RFC 9207, 2.4)
        raise LoginRefused(f"iss mismatch: the answer is from {shown(issuer)}")
    if issuer is None and server.says("authorization_response_iss_parameter_supported"):
        raise LoginRefused("the answer does not say which server it is from (iss)")
    code = answer.get("code")
    if not code:
        words = answer.get("error_description") or answer.get("error") or "no code"
        raise LoginRefused(f"the login was refused: {shown(words)}", answer.get("error", ""))
    return code


def _about(credentials: Credentials) -> dict[str, str]:
    """The resource that tokens are for (RFC 8707)."""
    return {} if credentials.resource is None else {"resource": credentials.resource}


def _registered_method(server: AuthorizationServer) -> str:
    taken = server.supported("token_endpoint_auth_methods")
    preferred = ("none", "client_secret_basic", "client_secret_post")
    return next((method for method in preferred if method in (taken or preferred)), "none")


def _form_request(url: str, form: dict[str, str], headers: dict[str, str]) -> HttpRequest:
    own = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    return HttpRequest("POST", url, {**own, **headers}, urlencode(form).encode())


def _refusal(
    response: HttpResponse, problem: str, sender: str = "the authorization server"
) -> OAuthError:
    """The error for an answer without what was asked for.

    Only an OAuth error is a refusal: anything else may come from something in between.
    """
    document = response.document()
    code = text_of(document.get("error"))
    words = text_of(document.get("error_description")) or code
    why = f": {shown(words)}" if words else ""
    if is_temporary(response) or code in _TEMPORARY_CODES:
        after = _seconds(response.headers.get("retry-after"), 0.0)
        return OAuthUnavailable(f"{sender} answered {response.status}{why}", after)
    if code is None:
        return OAuthUnavailable(f"{sender} {problem} (it answered {response.status})")
    return LoginRefused(f"{sender} {problem} ({response.status}{why})", code)


def _seconds(value: object, otherwise: float) -> float:
    if isinstance(value, str) and value.isdecimal() and len(value) < 9:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        return otherwise
    return float(value)
