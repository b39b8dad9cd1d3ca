"""What stands before every request: who asks, from where, how much and how often."""

import hmac
import ipaddress
import logging
import os
import re
import secrets
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import anyio
import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from openclaw.config.paths import PRIVATE_FILE
from openclaw.config.schema import GatewayLimits
from openclaw.core.clock import Clock
from openclaw.gateway.metrics import Metrics
from openclaw.secrets.refs import Secret

if TYPE_CHECKING:
    from collections.abc import Generator


# Front ends on the same machine authenticate with a token that the gateway makes at every start and
# puts, readable by its owner alone, into the state directory. Nobody has to copy anything, and it
# works where the configured token is a reference that the front end cannot resolve.

_BYTES = 32


def local_token_path(root: Path) -> Path:
    """Where the local token lies while a gateway runs."""
    return root / "gateway.token"


@contextmanager
def local_token(root: Path) -> "Generator[Secret]":
    """A fresh token for this machine's front ends, in its file until the gateway ends."""
    value = secrets.token_urlsafe(_BYTES)
    path = local_token_path(root)
    unborn = path.with_suffix(f".{os.getpid()}")
    unborn.unlink(missing_ok=True)
    with os.fdopen(os.open(unborn, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "w") as f:
        f.write(value)
    unborn.replace(path)
    try:
        yield Secret(value)
    finally:
        with suppress(OSError):
            path.unlink()


def read_local_token(root: Path) -> Secret | None:
    """The token of the gateway that runs now, where this account may read it."""
    try:
        return Secret(local_token_path(root).read_text("ascii").strip())
    except (OSError, ValueError):
        return None


class Tokens:
    """Compares what a client sent with what it should be, in constant time."""

    def __init__(self, configured: Secret | None, local: Secret) -> None:
        self.open = configured is None
        known = [local] if configured is None else [configured, local]
        self._known = [one.reveal().encode() for one in known]
        self._local = local.reveal().encode()

    def admits(self, given: bytes | None) -> bool:
        """Whether this bearer token is one of ours; where none is configured, anyone is let in.

        Programs that insist on sending some key are let in then, too.
        """
        if self.open:
            return True
        if given is None:
            return False
        # Every candidate is compared, so that time does not say which one came close.
        matches = [hmac.compare_digest(given, one) for one in self._known]
        return any(matches)

    def is_local(self, given: bytes | None) -> bool:
        """Whether this is the token that only this account can read."""
        return given is not None and hmac.compare_digest(given, self._local)


logger = logging.getLogger(__name__)

OPEN_PATHS = frozenset({"/health", "/ready"})
"""What monitors ask: it says yes or no and nothing else."""

_NEEDS_TOKEN = ("/api/", "/v1/", "/metrics")
_SECURITY_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_MOST_ADDRESSES = 10_000
MOST_LISTENERS = 64
"""How many may listen to `/api/events` at a time, and how many may have servers of their own."""

MOST_WATCHERS = 256
"""How many may watch turns at a time."""

# Those who stay have bounds of their own, so that they keep nobody from giving orders.
_STAYING = (
    (re.compile(r"/api/events"), "listen to events", MOST_LISTENERS),
    (re.compile(r"/api/scopes"), "have servers of their own", MOST_LISTENERS),
    (re.compile(r"/api/turns/[^/]*/events"), "watch turns", MOST_WATCHERS),
)
_OWNER = "openclaw.owner"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
# A name or an address, and a port: nothing that somebody else could read in another way.
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:@/?#\\\[\]]+)(?::[0-9]{0,5})?", re.IGNORECASE | re.ASCII)


class Refused(Exception):
    """Raised when a request is answered without being served."""

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
    """At most so many requests a minute from one address, with a burst of a tenth of them."""

    def __init__(self, per_minute: int, clock: Clock) -> None:
        self._rate = per_minute / 60
        self._burst = max(per_minute / 10, 1.0)
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def admit(self, address: str) -> float:
        """0 where the request may pass, else the seconds until one may."""
        now = self._clock.monotonic()
        bucket = self._buckets.get(address)
        if bucket is None:
            if len(self._buckets) >= _MOST_ADDRESSES:
                self._forget(now)
            bucket = self._buckets[address] = _Bucket(self._burst, now)
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.at) * self._rate)
        bucket.at = now
        if bucket.tokens < 1:
            return (1 - bucket.tokens) / self._rate
        bucket.tokens -= 1
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
    """The name in a `Host` header, without the port; nothing where it is no such header."""
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
    _serving: int = 0
    _staying: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        self._staying = Counter()
        self._rate = RateLimit(self.limits.requests_per_minute, self.clock)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        began = self.clock.monotonic()
        watched = _Watched(send)
        try:
            self._check(scope)
            scope[_OWNER] = self.tokens.is_local(_bearer(dict(scope["headers"])))
            with self._counted(scope):
                await self.app(scope, self._bounded(scope, receive), watched)
        except Refused as refused:
            if not watched.started:
                await _answer(watched, refused, scope["path"])
        finally:
            seconds = self.clock.monotonic() - began
            self.metrics.request(scope["method"], scope["path"], watched.status, seconds)

    @contextmanager
    def _counted(self, scope: Scope) -> Generator[None]:
        stays = _stays(scope["path"])
        if stays is None:
            self._serving += 1
        else:
            self._staying[stays[0]] += 1
        try:
            yield
        finally:
            if stays is None:
                self._serving -= 1
            else:
                self._staying[stays[0]] -= 1

    def _check(self, scope: Scope) -> None:
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        if not self.names.knows_host(host):
            raise Refused(421, "this Host is not served here; see gateway.allowedHosts")
        origin = headers.get(b"origin")
        if origin is not None and not self.names.knows_origin(origin.decode("latin-1"), host):
            raise Refused(403, "pages of this origin may not call; see gateway.allowedOrigins")
        if headers.get(b"sec-fetch-site") == b"cross-site" and origin is None:
            raise Refused(403, "pages of other sites may not call")
        if scope["path"] in OPEN_PATHS:
            return
        self._check_rate(scope)
        if scope["path"].startswith(_NEEDS_TOKEN) and not self.tokens.admits(_bearer(headers)):
            challenge = (b"www-authenticate", b'Bearer realm="openclaw"')
            raise Refused(401, "a bearer token is needed, and this is not it", [challenge])
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self.limits.max_request_bytes:
            raise _too_large(self.limits)

    def _check_rate(self, scope: Scope) -> None:
        client = scope.get("client")
        wait = self._rate.admit(client[0] if client else "")
        if wait:
            after = (b"retry-after", str(int(wait) + 1).encode())
            raise Refused(429, "too many requests from this address", [after])
        self._check_room(scope)

    def _check_room(self, scope: Scope) -> None:
        again = [(b"retry-after", b"1")]
        stays = _stays(scope["path"])
        if stays is None:
            if self._serving >= self.limits.max_concurrent:
                raise Refused(503, "too many requests are being served", again)
            return
        what, most = stays
        if self._staying[what] >= most:
            raise Refused(503, f"{most} clients {what} already", again)

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
            raise Refused(408, "the request took too long to arrive", [(b"connection", b"close")])

        return bounded


def _stays(path: str) -> tuple[str, int] | None:
    """What a client stays for that asks for this path, and how many may; None where it does not."""
    return next(((what, most) for pattern, what, most in _STAYING if pattern.fullmatch(path)), None)


def is_owner(scope: Scope) -> bool:
    """Whether a request comes from a program of this account on this machine.

    It has to carry the token that only this account can read, also where anyone is let in.
    """
    client = scope.get("client")
    return bool(scope.get(_OWNER)) and client is not None and _is_loopback(client[0])


def _is_loopback(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


def _too_large(limits: GatewayLimits) -> Refused:
    message = f"the request is larger than {limits.max_request_bytes} bytes"
    return Refused(413, message, [(b"connection", b"close")])


def _bearer(headers: Mapping[bytes, bytes]) -> bytes | None:
    kind, _, value = headers.get(b"authorization", b"").partition(b" ")
    return value.strip() if kind.lower() == b"bearer" else None


class _Watched:
    """A `send` that adds our headers and remembers the status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False
        self.status = 499  # until an answer begins, the client is gone before it

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], *_SECURITY_HEADERS]}
        await self._send(message)


async def _answer(send: Send, refused: Refused, path: str) -> None:
    body = refusal_body(refused, path)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *refused.headers,
    ]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def refusal_body(refused: Refused, path: str) -> bytes:
    """What a client is told that is not served, in the shape that it reads."""
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(
        refused.status, "invalid_request_error"
    )
    error: dict[str, Any] = {"message": refused.message, "type": kind, "code": None}
    if path.startswith("/v1/"):
        error["param"] = None
    return orjson.dumps({"error": error})
