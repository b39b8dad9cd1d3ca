"""The authentication of requests to a remote server: does what the OAuth flow decides."""

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import anyio
import httpx2

from openclaw.core.clock import SystemClock
from openclaw.core.errors import MissingExtra, OperatorFacing
from openclaw.mcp.oauth import (
    AskUser,
    Grant,
    OAuthFlow,
    OAuthSettings,
    Pause,
    Refusal,
    ShowCode,
    Step,
)
from openclaw.mcp.oauth_documents import (
    Challenge,
    HttpRequest,
    HttpResponse,
    LoginRefused,
    OAuthError,
    OAuthUnavailable,
    SignaturesMissing,
)
from openclaw.mcp.oauth_proofs import Signing
from openclaw.mcp_client.auth.token_store import ServerLogin
from openclaw.mcp_client.errors import NeedsLogin, Unavailable
from openclaw.net.addresses import is_loopback, why_blocked
from openclaw.net.guarded_client import (
    Exemptions,
    FetchError,
    FetchRefused,
    GuardedClient,
    resolve_with_system,
)

T = TypeVar("T")

_MAX_ANSWER = 1024 * 1024
_SECONDS = 30.0
_REVOKE_SECONDS = 10.0  # a logout must not wait for an authorization server that is gone
_MOST_STEP_UPS = 2  # for one request

_CLOCK = SystemClock()

Configure = Callable[[], Awaitable[OAuthSettings]]


class User(Protocol):
    """Somebody who can log in now."""

    async def ask(self, url: str, state: str) -> Mapping[str, str]:
        """Send them there; returns the query with which they come back."""
        ...

    def show_code(self, code: ShowCode) -> None: ...


def check_address(url: str) -> None:
    """Raise `LoginRefused` unless credentials may go there: https, or http on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and is_loopback(parts.hostname or ""):
        return
    where = f"{parts.scheme}://{parts.hostname or ''}"
    raise LoginRefused(f"{where} is refused: a login needs https")


def _signing() -> Signing | None:
    if find_spec("cryptography") is None:
        return None
    from openclaw.mcp_client.auth.signing import PemKeys

    return PemKeys()


class LoginFailed(OperatorFacing):
    """Raised when a login did not end with a token."""


class Auth(httpx2.Auth):
    """One server's authentication; raises `NeedsLogin` if somebody has to log in.

    With a `user`, they log in now. Requests of the login itself go through the guarded client, since
    an untrusted server names the addresses. A private address is reached only under the server's
    own name, and only if the server itself answered from it; a server on loopback may also have its
    login on loopback.
    """

    def __init__(self, configure: Configure, login: ServerLogin, user: User | None) -> None:
        self._configure, self._login, self._user = configure, login, user
        self._flow: OAuthFlow | None = None
        self._lock = anyio.Lock()
        self._host = (urlsplit(login.url).hostname or "").lower()
        self._answered_from: str | None = None

    @property
    def is_logged_in(self) -> bool:
        return self._flow is not None and self._flow.tokens is not None

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        url = str(request.url)
        with _translated():
            check_address(url)
        flow = await self._ready_flow()
        answered: list[Refusal] = []
        while True:
            for name in ("authorization", "dpop"):
                request.headers.pop(name, None)
            with _translated():
                request.headers.update(flow.authorization(request.method, url))
            sent = flow.tokens
            response = yield request
            self._answered_from = _peer(response) or self._answered_from
            refusal, challenge = flow.judge(
                HttpResponse(response.status_code, response.headers), url
            )
            if refusal is Refusal.NONE:
                return
            async with self._lock:
                if flow.tokens is sent and not await self._react(refusal, challenge, answered):
                    return
            answered.append(refusal)
            if len(answered) > _MOST_STEP_UPS + 2:
                return
            await _drop_body(response)

    async def _react(self, refusal: Refusal, challenge: Challenge, answered: list[Refusal]) -> bool:
        """Returns whether the request should be sent again."""
        match refusal:
            case Refusal.WANTS_NONCE:
                return refusal not in answered
            case Refusal.UNAUTHORIZED:
                if refusal in answered:
                    raise NeedsLogin("the server does not accept the token (401)")
                await self._renew(challenge)
                return True
            case Refusal.LACKS_SCOPE if answered.count(refusal) < _MOST_STEP_UPS:
                return await self._step_up(challenge)
            case _:
                return False

    async def _ready_flow(self) -> OAuthFlow:
        """The flow, with a token that has not expired if there is any."""
        async with self._lock:
            flow = self._flow or await self._load()
            if self._user is not None or not flow.expires_soon or not flow.can_refresh:
                return flow
            if self._answered_from is None and await _is_private(self._host):
                # Only its answer shows whether its login may be private too: let it refuse the token
                # first.
                return flow
            try:
                await self._refresh(flow)
            except Unavailable:
                if not flow.may_still_be_valid:
                    raise
            return flow

    async def _load(self) -> OAuthFlow:
        stored = await self._login.load()
        credentials = stored.credentials
        if self._user is not None and credentials is not None:
            credentials = replace(credentials, tokens=None)
        self._flow = OAuthFlow(
            await self._configure(),
            credentials,
            client_issuer=stored.client_issuer,
            now=lambda: _CLOCK.now_ms() / 1000,
            random_text=secrets.token_urlsafe,
            signing=_signing(),
        )
        return self._flow

    async def _renew(self, challenge: Challenge) -> None:
        """Replace a token that the server does not accept."""
        assert self._flow is not None
        flow = self._flow
        if self._user is not None:
            await self._log_in(flow, challenge)
        elif not await self._take_newer(flow):
            if flow.can_refresh:
                await self._refresh(flow)
            elif flow.settings.grant is not Grant.LOGIN:
                await self._log_in(flow, challenge)
            else:
                raise NeedsLogin("it needs a login")

    async def _step_up(self, challenge: Challenge) -> bool:
        assert self._flow is not None
        flow = self._flow
        scope = flow.missing_scope(challenge)
        if scope is None:  # the token has it: another one would be refused as well
            return False
        if self._user is None and flow.settings.grant is Grant.LOGIN:
            flow.want(scope)
            await self._save(flow)
            return False
        await self._log_in(flow, challenge, step_up=True)
        return True

    async def _log_in(
        self, flow: OAuthFlow, challenge: Challenge, *, step_up: bool = False
    ) -> None:
        flow.settings = await self._configure()
        await self._run(flow.log_in(challenge, step_up=step_up))
        await self._save(flow)

    async def _take_newer(self, flow: OAuthFlow) -> bool:
        """Use what another connection or process has stored since; returns whether it did."""
        stored = (await self._login.load()).credentials
        own = flow.credentials
        if stored is None or stored.tokens is None or (own is not None and stored == own):
            return False
        is_newer = own is None or own.tokens is None or stored.tokens.access != own.tokens.access
        flow.credentials = stored
        return is_newer

    async def _refresh(self, flow: OAuthFlow) -> None:
        async with self._login.refreshing():
            if await self._take_newer(flow):
                return
            try:
                await self._run(flow.refresh())
            except NeedsLogin:
                flow.forget_refresh_token()
                await self._save(flow)
                raise
            await self._save(flow)

    async def _save(self, flow: OAuthFlow) -> None:
        if flow.credentials is not None:
            await self._login.save(flow.credentials)

    async def log_out(self) -> bool:
        """Have the authorization server forget the tokens; returns whether it did."""
        flow = self._flow or await self._load()
        with anyio.move_on_after(_REVOKE_SECONDS), suppress(NeedsLogin, Unavailable, MissingExtra):
            return await self._run(flow.revoke())
        return False

    # ---- doing the flow's steps

    async def _run(self, steps: Generator[Step, Any, T]) -> T:
        """Raises `NeedsLogin` for a refusal, and `Unavailable` if trying again may help."""
        with _translated(), closing(steps):
            return await self._drive(steps)

    async def _drive(self, steps: Generator[Step, Any, T]) -> T:
        try:
            step = next(steps)
            while True:
                try:
                    answer = await self._do(step)
                except OAuthUnavailable as problem:
                    step = steps.throw(problem)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            return end.value

    async def _do(self, step: Step) -> HttpResponse | Mapping[str, str] | None:
        match step:
            case HttpRequest():
                return await self._fetch(step)
            case Pause():
                await anyio.sleep(step.seconds)
                return None
            case AskUser() if self._user is not None:
                check_address(step.url)
                return await self._user.ask(step.url, step.state)
            case ShowCode() if self._user is not None:
                check_address(step.url)
                self._user.show_code(step)
                return None
            case _:
                raise LoginRefused("it needs a login")

    async def _fetch(self, request: HttpRequest) -> HttpResponse:
        """One request of the login itself, with redirects, within limits."""
        own = None if self._answered_from is None else (self._host, self._answered_from)
        client = GuardedClient(
            ssl_context=httpx2.create_ssl_context(),  # as for requests to the server itself
            max_bytes=_MAX_ANSWER,
            total_timeout=_SECONDS,
            exemptions=Exemptions(loopback=is_loopback(self._host), pair=own),
            on_hop=check_address,
        )
        try:
            async with client:
                response = await client.fetch(
                    request.url,
                    method=request.method,
                    headers=request.headers,
                    content=request.content,
                )
        except FetchRefused as refusal:
            raise LoginRefused(refusal.message) from None
        except FetchError as problem:
            raise OAuthUnavailable(problem.message) from None
        return HttpResponse(response.status, response.headers, response.body)


@contextmanager
def _translated() -> Generator[None]:
    """The flow's errors as ours."""
    try:
        yield
    except SignaturesMissing:
        raise MissingExtra("a login with signatures", "signing") from None
    except OAuthUnavailable as problem:
        raise Unavailable(f"the login did not work: {problem}") from None
    except OAuthError as refusal:
        raise NeedsLogin(str(refusal)) from None


async def _drop_body(refusal: httpx2.Response) -> None:
    """Drop a refusal's body, all of which the HTTP client would read before it sends again."""
    if isinstance(refusal.stream, httpx2.AsyncByteStream):
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
