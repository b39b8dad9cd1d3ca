"""Checks every request before it is served: who asks, from where, how much and how often."""

import ipaddress
import logging
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openclaw.config.schema import GatewayLimits
from openclaw.core.clock import Clock
from openclaw.gateway.metrics import Metrics
from openclaw.gateway.tokens import Grant, Tokens

logger = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/health", "/ready"})
LOGIN_PATH = "/api/login"  # exchanges a one-time link's code for a token
MCP_PATH, HUB_PATH = "/mcp", "/mcp/hub"
_MCP = {MCP_PATH: "orders", HUB_PATH: "tools"}  # what MCP serves, and the scope that it needs
RESOURCE_PATH = "/.well-known/oauth-protected-resource"  # RFC 9728

_NEEDS_TOKEN = ("/api/", "/v1/", "/metrics", MCP_PATH)
_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
SECURITY_HEADERS = [*_SECURITY_HEADERS, (b"cross-origin-resource-policy", b"same-origin")]
_PREFLIGHT = Response(
    status_code=204,
    headers={
        "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
        "access-control-allow-headers": "authorization, content-type, x-openclaw-session-key,"
        " last-event-id, mcp-protocol-version, mcp-session-id, mcp-method, mcp-name",
        "access-control-max-age": "600",
    },
)
_EXPOSED_HEADERS = b"x-openclaw-turn, retry-after, mcp-session-id, www-authenticate"
_CLOSE = [(b"connection", b"close")]
_ONLY_ONCE = (b"host", b"origin", b"authorization", b"content-length", b"transfer-encoding")
_MOST_ADDRESSES = 10_000
_POLL_COST = 0.1  # of a request's cost

# Limits on simultaneous requests of a kind. Streams have their own, so that they don't block orders.
MOST_LISTENERS = 64
MOST_WATCHERS = 256
MOST_STRANGERS = 32  # simultaneous requests without a token
_STAYING = (
    (re.compile(r"/api/events"), "listen to events", MOST_LISTENERS),
    (re.compile(r"/api/scopes"), "have servers of their own", MOST_LISTENERS),
    (re.compile(r"/api/turns/[^/]*/events"), "watch turns", MOST_WATCHERS),
)
_GRANT = "openclaw.grant"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
# A name or an address, and a port; nothing that another parser could read differently.
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:@/?#\\\[\]]+)(?::[0-9]{0,5})?", re.IGNORECASE | re.ASCII)


class RequestRefused(Exception):
    def __init__(self, status: int, message: str, headers: Sequence[tuple[bytes, bytes]] = ()):
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = list(headers)


class RequestRateLimit:
    """At most so many requests a minute from one sender, with a burst of a tenth of them."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._rate = per_minute / 60
        self._burst = max(per_minute / 10, 1.0)
        self._clock = clock
        self._left: dict[str, tuple[float, float]] = {}  # the rest of the burst, and since when

    def admit(self, sender: str, cost: float = 1.0) -> float:
        """0 if the request may pass, else the seconds until one may."""
        now = self._clock.monotonic()
        if sender not in self._left and len(self._left) >= _MOST_ADDRESSES:
            full = self._burst / self._rate
            self._left = {who: one for who, one in self._left.items() if now - one[1] < full}
            while len(self._left) >= _MOST_ADDRESSES:
                self._left.pop(next(iter(self._left)))
        left, since = self._left.get(sender, (self._burst, now))
        left = min(self._burst, left + max(now - since, 0.0) * self._rate)
        passes = left >= cost
        self._left[sender] = (left - cost if passes else left, now)
        return 0.0 if passes else (cost - left) / self._rate


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Which `Host` and `Origin` values are ours."""

    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    any_address: bool = False  # bound beyond loopback: any of our IP addresses is accepted

    def knows_host(self, header: str) -> bool:
        """Whether a request may have this `Host`; prevents DNS rebinding."""
        found = _HOST.fullmatch(header)
        name = found[1].lower() if found is not None else ""
        if name in _LOOPBACK_NAMES or name in self.hosts:
            return bool(name)
        return self.any_address and _address(name.strip("[]")) is not None

    def knows_origin(self, origin: str, host: str) -> bool:
        """Whether pages of this origin may call us: our own page, and those configured."""
        if origin in self.origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


@dataclass(slots=True)
class Guard:
    """ASGI middleware that refuses requests before reading the body."""

    app: ASGIApp
    tokens: Tokens
    names: AllowedHosts
    limits: GatewayLimits
    clock: Clock
    metrics: Metrics
    _rate: RequestRateLimit = field(init=False)
    _served: Counter[str] = field(default_factory=Counter[str])
    # One request begins in each turn of the event loop, so that many at once don't hold it up.
    _entrance: anyio.Lock = field(default_factory=partial(anyio.Lock, fast_acquire=True))

    def __post_init__(self) -> None:
        self._rate = RequestRateLimit(self.limits.requests_per_minute, self.clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        began = self.clock.monotonic()
        watched = _Watched(send)
        try:
            headers = _one_of_each(scope["headers"])
            watched.origin = self._checked_origin(headers)
            asks = scope["method"] == "OPTIONS" and b"access-control-request-method" in headers
            if asks and watched.origin is not None:
                await _PREFLIGHT(scope, receive, watched)
                return
            self._check(scope, headers)
            what, _ = self._place(scope)
            self._served[what] += 1
            self.metrics.requests_running += 1
            try:
                if scope["path"] not in OPEN_PATHS:
                    async with self._entrance:
                        await anyio.lowlevel.checkpoint()
                await self.app(scope, self._bounded(receive), watched)
            finally:
                self._served[what] -= 1
                self.metrics.requests_running -= 1
        except RequestRefused as refused:
            if not watched.started:
                await refusal(refused, scope["path"])(scope, receive, watched)
        except ClientDisconnect:
            logger.debug("a client left in the middle of its request")
        finally:
            seconds = self.clock.monotonic() - began
            self.metrics.request(scope["method"], scope["path"], watched.status, seconds)

    def _checked_origin(self, headers: Mapping[bytes, bytes]) -> str | None:
        """The other origin that may read the answer, if any."""
        host = headers.get(b"host", b"").decode("latin-1")
        if not self.names.knows_host(host):
            raise RequestRefused(421, "this Host is not allowed; see gateway.allowedHosts")
        given = headers.get(b"origin")
        if given is None:
            if headers.get(b"sec-fetch-site") == b"cross-site":
                raise RequestRefused(403, "pages from other sites are not allowed")
            return None
        origin = given.decode("latin-1")
        if not self.names.knows_origin(origin, host):
            raise RequestRefused(403, "this origin is not allowed; see gateway.allowedOrigins")
        return origin if origin in self.names.origins else None

    def _check(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        if b"transfer-encoding" in headers and b"content-length" in headers:
            raise RequestRefused(
                400, "a request has Content-Length or Transfer-Encoding, not both", _CLOSE
            )
        if scope["path"] in OPEN_PATHS:
            return
        kind, _, value = headers.get(b"authorization", b"").partition(b" ")
        token = value.strip() if kind.lower() == b"bearer" else None
        scope[_GRANT] = grant = self.tokens.grant(token)
        polls = scope["path"] == MCP_PATH and headers.get(b"mcp-method") == b"tasks/get"
        self._check_rate(scope, grant, _POLL_COST if polls else 1.0)
        if grant is None and scope["path"].startswith(_NEEDS_TOKEN) and scope["path"] != LOGIN_PATH:
            challenge = (b"www-authenticate", _challenge(scope, headers))
            message = "a bearer token is required; create one with: openclaw gateway token add NAME"
            if b"authorization" in headers:
                message = "this bearer token is not valid"
            raise RequestRefused(401, message, [challenge])
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.limits.max_request_bytes:
            raise _too_large(self.limits)

    def _check_rate(self, scope: Scope, grant: Grant | None, cost: float) -> None:
        client = scope.get("client")
        # Requests without a token must not use up the limit of those that have one.
        sender = f"token {grant.name}" if grant else client[0] if client else ""
        wait = self._rate.admit(sender, cost)
        if wait:
            after = (b"retry-after", str(int(wait) + 1).encode())
            raise RequestRefused(429, "too many requests from this client", [after])
        what, most = self._place(scope)
        if self._served[what] >= most:
            self.metrics.refused += 1
            raise RequestRefused(503, f"{most} clients {what} already", [(b"retry-after", b"1")])

    def _place(self, scope: Scope) -> tuple[str, int]:
        """A request's kind, and how many of that kind may run at a time."""
        path = scope["path"]
        if scope.get(_GRANT) is None:
            return "are served without a token", MOST_STRANGERS
        if path in _MCP and scope["method"] == "GET":
            return "listen to their MCP sessions", MOST_WATCHERS
        stays = ((what, most) for pattern, what, most in _STAYING if pattern.fullmatch(path))
        return next(stays, ("are served", self.limits.max_concurrent))

    def _bounded(self, receive: Receive) -> Receive:
        """Limits the size of the request's body and the time that it takes."""
        left = self.limits.max_request_bytes
        until = self.clock.monotonic() + self.limits.client_timeout_ms / 1000
        done = False

        async def bounded() -> Message:
            nonlocal left, done
            if done:
                return await receive()
            with anyio.move_on_after(until - self.clock.monotonic()):
                message = await receive()
                if message["type"] == "http.request":
                    left -= len(message.get("body", b""))
                    done = not message.get("more_body", False)
                if left < 0:
                    raise _too_large(self.limits)
                return message
            raise RequestRefused(408, "the request took too long to arrive", _CLOSE)

        return bounded


def _challenge(scope: Scope, headers: Mapping[bytes, bytes]) -> bytes:
    path = scope["path"]
    if path not in _MCP:
        return b'Bearer realm="openclaw"'
    where = f"{origin_of(scope, headers)}{RESOURCE_PATH}{path}"
    return f'Bearer realm="openclaw", resource_metadata="{where}", scope="{_MCP[path]}"'.encode()


def origin_of(scope: Scope, headers: Mapping[bytes, bytes]) -> str:
    """The address that the client used; a proxy in front of us says whether it used TLS."""
    secure = headers.get(b"x-forwarded-proto") == b"https" or scope["scheme"] == "https"
    host = headers.get(b"host", b"").decode("latin-1")
    return f"{'https' if secure else 'http'}://{host}"


def grant_of(scope: Scope) -> Grant | None:
    return scope.get(_GRANT)


def require(scope: Scope, needed: str) -> None:
    grant = grant_of(scope)
    if grant is None or not grant.allows(needed):
        challenge = f'Bearer error="insufficient_scope", scope="{needed}"'.encode()
        headers = [(b"www-authenticate", challenge)]
        raise RequestRefused(403, f"this needs a token with the scope '{needed}'", headers)


def own_session(scope: Scope, key: str) -> str:
    grant = grant_of(scope)
    return key if grant is None else grant.session(key)


def is_owner(scope: Scope) -> bool:
    """Whether a program of this account on this machine has sent the request."""
    grant, client = grant_of(scope), scope.get("client")
    if grant is None or not grant.owner or client is None:
        return False
    found = _address(client[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return found is not None and (mapped or found).is_loopback


def _one_of_each(headers: Sequence[tuple[bytes, bytes]]) -> Mapping[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _ONLY_ONCE and name in found:
            raise RequestRefused(400, f"the header {name.decode()} appears twice", _CLOSE)
        found[name] = value
    return found


def _too_large(limits: GatewayLimits) -> RequestRefused:
    message = f"the request is larger than {limits.max_request_bytes} bytes"
    return RequestRefused(413, message, _CLOSE)


class _Watched:
    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.origin: str | None = None  # the other site whose pages may read the answer
        self.status = 499  # until an answer begins: the client left

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            more = SECURITY_HEADERS
            if self.origin is not None:
                more = [
                    *_SECURITY_HEADERS,
                    (b"access-control-allow-origin", self.origin.encode("latin-1")),
                    (b"access-control-expose-headers", _EXPOSED_HEADERS),
                    (b"vary", b"origin"),
                ]
            message = {**message, "headers": [*message["headers"], *more]}
        await self._send(message)


def refusal(refused: RequestRefused, path: str) -> Response:
    kinds = {401: "authentication_error", 429: "rate_limit_error"}
    kind = kinds.get(refused.status, "invalid_request_error")
    error: dict[str, Any] = {"message": refused.message, "type": kind, "code": None}
    if path.startswith("/v1/"):
        error["param"] = None
    headers = {name.decode(): value.decode() for name, value in refused.headers}
    return JSONResponse({"error": error}, refused.status, headers)
