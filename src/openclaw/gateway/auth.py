"""What stands before every request: who asks, from where, how much and how often."""

import ipaddress
import logging
import re
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import anyio
import orjson
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openclaw.config.schema import GatewayLimits
from openclaw.core.clock import Clock
from openclaw.gateway.metrics import Metrics
from openclaw.gateway.tokens import Grant, Tokens

logger = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/health", "/ready"})
"""What monitors ask: it says yes or no and nothing else."""

LOGIN_PATH = "/api/login"
"""Where a page trades the code of its one-time link for a token: it has none yet."""

MCP_PATH = "/mcp"
RESOURCE_PATH = "/.well-known/oauth-protected-resource"
"""Where clients read how to authenticate (RFC 9728); with the path of the resource behind it, too."""

_NEEDS_TOKEN = ("/api/", "/v1/", "/metrics", MCP_PATH)
_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]
SECURITY_HEADERS = [*_SECURITY_HEADERS, (b"cross-origin-resource-policy", b"same-origin")]
"""What every answer carries, unless it is for another origin."""
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
_POLL_COST = 0.1  # of a request: whoever may give an order may also ask how it is
MOST_LISTENERS = 64
"""How many may listen to `/api/events` at a time, and how many may have servers of their own."""

MOST_WATCHERS = 256  # how many may watch turns at a time

MOST_STRANGERS = 32
"""How many requests without a token are served at a time: they keep nobody else out."""

# Those who stay have bounds of their own, so that they keep nobody from giving orders.
_STAYING = (
    (re.compile(r"/api/events"), "listen to events", MOST_LISTENERS),
    (re.compile(r"/api/scopes"), "have servers of their own", MOST_LISTENERS),
    (re.compile(r"/api/turns/[^/]*/events"), "watch turns", MOST_WATCHERS),
)
_GRANT = "openclaw.grant"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
# A name or an address, and a port: nothing that somebody else could read in another way.
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:@/?#\\\[\]]+)(?::[0-9]{0,5})?", re.IGNORECASE | re.ASCII)


class Refused(Exception):
    def __init__(self, status: int, message: str, headers: Sequence[tuple[bytes, bytes]] = ()):
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = list(headers)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimit:
    """At most so many requests a minute from one sender, with a burst of a tenth of them."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._rate = per_minute / 60
        self._burst = max(per_minute / 10, 1.0)
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def admit(self, sender: str, cost: float = 1.0) -> float:
        """0 where the request may pass, else the seconds until one may."""
        now = self._clock.monotonic()
        bucket = self._buckets.get(sender)
        if bucket is None:
            if len(self._buckets) >= _MOST_ADDRESSES:
                self._forget(now)
            bucket = self._buckets[sender] = _Bucket(self._burst, now)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.tokens < cost:
            return (cost - bucket.tokens) / self._rate
        bucket.tokens -= cost
        return 0.0

    def _forget(self, now: float) -> None:
        full = self._burst / self._rate
        self._buckets = {k: b for k, b in self._buckets.items() if now - b.at < full}
        while len(self._buckets) >= _MOST_ADDRESSES:
            self._buckets.pop(next(iter(self._buckets)))


@dataclass(frozen=True, slots=True)
class Names:
    """Which `Host` and `Origin` values are ours."""

    port: int
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    any_address: bool = False  # bound beyond loopback: any literal address of ours will do

    def knows_host(self, header: str) -> bool:
        """Whether a request may carry this `Host`: a rebound name of somebody else may not."""
        name = _host_of(header)
        if not name:
            return False
        if name in _LOOPBACK_NAMES or name in self.hosts:
            return True
        return self.any_address and _is_address(name)

    def knows_origin(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may call us: our own page may, and those configured."""
        if origin in self.origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower()


def _host_of(header: str) -> str:
    found = _HOST.fullmatch(header)
    return found[1].lower() if found is not None else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


@dataclass(slots=True)
class Guard:
    """An ASGI middleware; everything that it refuses, it refuses before reading the body."""

    app: ASGIApp
    tokens: Tokens
    names: Names
    limits: GatewayLimits
    clock: Clock
    metrics: Metrics
    _rate: RateLimit = field(init=False)
    _served: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self._served = Counter()
        self._rate = RateLimit(self.limits.requests_per_minute, self.clock)

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
            if _is_preflight(scope, headers) and watched.origin is not None:
                await _PREFLIGHT(scope, receive, watched)
                return
            self._check(scope, headers)
            with self._counted(scope):
                await self.app(scope, self._bounded(scope, receive), watched)
        except Refused as refused:
            if not watched.started:
                await refusal(refused, scope["path"])(scope, receive, watched)
        except ClientDisconnect:
            logger.debug("a client left in the middle of its request")
        finally:
            seconds = self.clock.monotonic() - began
            self.metrics.request(scope["method"], scope["path"], watched.status, seconds)

    @contextmanager
    def _counted(self, scope: Scope) -> Generator[None]:
        what, _ = self._place(scope)
        self._served[what] += 1
        try:
            yield
        finally:
            self._served[what] -= 1

    def _checked_origin(self, headers: Mapping[bytes, bytes]) -> str | None:
        """The other origin that may read the answer, if any. Raises for those that may not."""
        host = headers.get(b"host", b"").decode("latin-1")
        if not self.names.knows_host(host):
            raise Refused(421, "this Host is not allowed; see gateway.allowedHosts")
        given = headers.get(b"origin")
        if given is None:
            if headers.get(b"sec-fetch-site") == b"cross-site":
                raise Refused(403, "pages from other sites are not allowed")
            return None
        origin = given.decode("latin-1")
        if not self.names.knows_origin(origin, host):
            raise Refused(403, "this origin is not allowed; see gateway.allowedOrigins")
        return origin if origin in self.names.origins else None

    def _check(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        if b"transfer-encoding" in headers and b"content-length" in headers:
            raise Refused(
                400, "a request has Content-Length or Transfer-Encoding, not both", _CLOSE
            )
        if scope["path"] in OPEN_PATHS:
            return
        scope[_GRANT] = grant = self.tokens.grant(_bearer(headers))
        polls = scope["path"] == MCP_PATH and headers.get(b"mcp-method") == b"tasks/get"
        self._check_rate(scope, grant, _POLL_COST if polls else 1.0)
        if grant is None and scope["path"].startswith(_NEEDS_TOKEN) and scope["path"] != LOGIN_PATH:
            challenge = (b"www-authenticate", _challenge(scope, headers))
            told = "a bearer token is required; create one with: openclaw gateway token add NAME"
            if b"authorization" in headers:
                told = "this bearer token is not valid"
            raise Refused(401, told, [challenge])
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.limits.max_request_bytes:
            raise _too_large(self.limits)

    def check_poll(self, headers: Mapping[bytes, bytes], client: tuple[str, int] | None) -> Scope:
        """A poll of a task, checked like any request; `Refused` also if it comes from another page."""
        scope: Scope = {"method": "POST", "path": MCP_PATH, "client": client, "scheme": "http"}
        if self._checked_origin(headers) is not None:
            raise Refused(403, "pages of other origins go the long way")
        self._check(scope, headers)
        require(scope, "orders")
        return scope

    def _check_rate(self, scope: Scope, grant: Grant | None, cost: float) -> None:
        client = scope.get("client")
        # Whoever has no token uses up nothing of what those who have one may do.
        sender = f"token {grant.name}" if grant else client[0] if client else ""
        wait = self._rate.admit(sender, cost)
        if wait:
            after = (b"retry-after", str(int(wait) + 1).encode())
            raise Refused(429, "too many requests from this client", [after])
        what, most = self._place(scope)
        if self._served[what] >= most:
            raise Refused(503, f"{most} clients {what} already", [(b"retry-after", b"1")])

    def _place(self, scope: Scope) -> tuple[str, int]:
        """What a request counts as, and how many of that kind there may be at a time."""
        path = scope["path"]
        if scope.get(_GRANT) is None:
            return "are served without a token", MOST_STRANGERS
        if path == MCP_PATH and scope["method"] == "GET":
            return "listen to their MCP sessions", MOST_WATCHERS
        stays = ((what, most) for pattern, what, most in _STAYING if pattern.fullmatch(path))
        return next(stays, ("are served", self.limits.max_concurrent))

    def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """The request's body: at most so large, and sent within so many seconds."""
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
            raise Refused(408, "the request took too long to arrive", _CLOSE)

        return bounded


def _challenge(scope: Scope, headers: Mapping[bytes, bytes]) -> bytes:
    if scope["path"] != MCP_PATH:
        return b'Bearer realm="openclaw"'
    where = f"{origin_of(scope, headers)}{RESOURCE_PATH}{MCP_PATH}"
    return f'Bearer realm="openclaw", resource_metadata="{where}", scope="orders"'.encode()


def origin_of(scope: Scope, headers: Mapping[bytes, bytes]) -> str:
    """The address that the client used; a proxy in front of us says whether by TLS."""
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
        raise Refused(403, f"this needs a token with the scope '{needed}'", headers)


def own_session(scope: Scope, key: str) -> str:
    grant = grant_of(scope)
    return key if grant is None else grant.session(key)


def is_owner(scope: Scope) -> bool:
    client = scope.get("client")
    grant = grant_of(scope)
    return grant is not None and grant.owner and client is not None and _is_loopback(client[0])


def _one_of_each(headers: Sequence[tuple[bytes, bytes]]) -> Mapping[bytes, bytes]:
    """The headers by name. Those that say who asks and how long it is may be there once only."""
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _ONLY_ONCE and name in found:
            raise Refused(400, f"the header {name.decode()} appears twice", _CLOSE)
        found[name] = value
    return found


def _is_preflight(scope: Scope, headers: Mapping[bytes, bytes]) -> bool:
    return scope["method"] == "OPTIONS" and b"access-control-request-method" in headers


def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


def _too_large(limits: GatewayLimits) -> Refused:
    message = f"the request is larger than {limits.max_request_bytes} bytes"
    return Refused(413, message, _CLOSE)


def _bearer(headers: Mapping[bytes, bytes]) -> bytes | None:
    kind, _, value = headers.get(b"authorization", b"").partition(b" ")
    return value.strip() if kind.lower() == b"bearer" else None


class _Watched:
    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.origin: str | None = None  # of another site whose pages may read the answer
        self.status = 499  # until an answer begins, the client is gone before it

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], *self._more_headers()]}
        await self._send(message)

    def _more_headers(self) -> list[tuple[bytes, bytes]]:
        if self.origin is None:
            return SECURITY_HEADERS
        return [
            *_SECURITY_HEADERS,
            (b"access-control-allow-origin", self.origin.encode("latin-1")),
            (b"access-control-expose-headers", _EXPOSED_HEADERS),
            (b"vary", b"origin"),
        ]


def refusal(refused: Refused, path: str) -> Response:
    """What a client is told that is not served, in the shape that it reads."""
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(
        refused.status, "invalid_request_error"
    )
    error: dict[str, Any] = {"message": refused.message, "type": kind, "code": None}
    if path.startswith("/v1/"):
        error["param"] = None
    headers = {name.decode(): value.decode() for name, value in refused.headers}
    return Response(
        orjson.dumps({"error": error}), refused.status, headers, media_type="application/json"
    )
