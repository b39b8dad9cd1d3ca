"""The guarded HTTP client, for every URL that we did not write ourselves.

A name is resolved once, every address is checked, and the connection goes to one of those very
addresses. TLS and the Host header keep the name, so nothing is left for a second lookup to change.
"""

import re
import socket
import ssl
import zlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Self, TypedDict, Unpack, cast
from urllib.parse import urljoin, urlsplit

import anyio
import httpcore2
import httpx2
import idna

from openclaw.core.errors import ToolFailure
from openclaw.net.addresses import is_loopback, why_blocked
from openclaw.version import __version__


class FetchError(ToolFailure):
    """Raised when a URL could not be fetched."""


class FetchRefused(FetchError):
    """Raised when a URL, or where it leads, must not be reached."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"refused to fetch {what}: {reason}")


class FetchFailed(FetchError):
    """Raised when the network or the other side failed, took too long, or sent too much."""


_ODD = re.compile(
    r"[\x00-\x20\x7f-\xa0\\\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff]"
)
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
# As browsers read it: a last label that is a number makes the whole an IPv4 address.
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*", re.ASCII)
_LONGEST_URL = 8192
_LONGEST_HOST = 253
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Target:
    url: str
    scheme: str
    host: str  # ASCII, lower case, without brackets
    port: int

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port


def parse_target(url: str) -> Target:
    """Read a URL strictly; raises `FetchRefused` for anything ambiguous."""
    try:
        return _target(url)
    except ValueError as error:
        raise FetchRefused(_shown(url), str(error)) from None


def _target(url: str) -> Target:
    if len(url) > _LONGEST_URL:
        raise ValueError("the URL is too long")
    if _ODD.search(url):
        raise ValueError("the URL has spaces, control characters or backslashes")
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _DEFAULT_PORTS:
        raise ValueError("only http and https are fetched")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if re.search(r"[%\u3002\uff0e\uff61]", authority):
        raise ValueError("the host is encoded")
    if "@" in authority:
        raise ValueError("the URL has a user name")
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", authority, re.ASCII)
    if match is None:
        raise ValueError("the host is malformed")
    host, default = match[1], _DEFAULT_PORTS[scheme]
    port = int(match[2] or default)
    if not 0 < port < 65536:
        raise ValueError("the port is out of range")
    name = _checked_host(host)
    if (urlsplit(url).hostname or "").lower() != host.strip("[]").lower():
        raise ValueError("the host is ambiguous")
    literal = f"[{name}]" if ":" in name else name
    suffix = rest[len(authority) :].partition("#")[0]
    where = literal if port == default else f"{literal}:{port}"
    return Target(f"{scheme}://{where}{suffix or '/'}", scheme, name, port)


def _shown(url: str) -> str:
    """The URL for a message: printable, short, and without the query."""
    plain = "".join(c if c.isprintable() else "?" for c in url.partition("?")[0])
    return repr(plain if len(plain) <= 200 else plain[:200] + "…")


def _checked_host(host: str) -> str:
    if host.startswith("["):
        return _address(IPv6Address, host[1:-1], "the host is not an address")
    name = host.lower() if host.isascii() else _ascii_name(host)
    labels = name.split(".")
    if len(name) > _LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("the host is not a plain name")
    if _NUMERIC.fullmatch(labels[-1]):
        # It refuses octal, hexadecimal, decimal and short forms.
        return _address(IPv4Address, name, "the host is an oddly written address")
    return name


def _address(read: type[IPv4Address | IPv6Address], literal: str, otherwise: str) -> str:
    try:
        return str(read(literal))
    except ValueError:
        raise ValueError(otherwise) from None


def _ascii_name(host: str) -> str:
    try:
        # IDNA 2008 as it stands refuses fullwidth and other compatibility characters.
        return idna.encode(host.lower()).decode("ascii")
    except idna.IDNAError:
        raise ValueError("the host is not a valid international name") from None


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_MOST_ADDRESSES = 32
# One dead address of several must not use up the time for the others.
_CONNECT_TIMEOUT = 10.0


async def resolve_with_system(host: str, port: int) -> Sequence[str]:
    answers = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))


@dataclass(frozen=True, slots=True)
class Exemptions:
    """What may be reached though it is blocked: this machine, or one address under one name."""

    loopback: bool = False
    pair: tuple[str, str] | None = None

    def cover(self, host: str, address: str) -> bool:
        return (self.loopback and is_loopback(address)) or (host, address) == self.pair


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    def __init__(self, resolve: Resolve, exemptions: Exemptions) -> None:
        self._resolve = resolve
        self._exemptions = exemptions
        # httpcore2 replaces it with a stub if anyio is missing, which hides its type.
        self._network = cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._checked_addresses(host, port)
        each = min(timeout or _CONNECT_TIMEOUT, _CONNECT_TIMEOUT)
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._network.connect_tcp(
                    address, port, each, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore2.ConnectError(f"{host} has no address")

    async def _checked_addresses(self, host: str, port: int) -> Sequence[str]:
        plain = host.strip("[]")
        if why_blocked(plain) == "not an address":
            try:
                addresses = tuple(await self._resolve(plain, port))
            except OSError as error:
                raise httpcore2.ConnectError(
                    f"{plain} cannot be resolved: {error.strerror or error}"
                ) from error
        else:
            addresses = (plain,)
        for address in addresses:
            why = why_blocked(address)
            if why is not None and not self._exemptions.cover(plain, address):
                raise FetchRefused(plain, f"{address} is {why}" if address != plain else why)
        return addresses[:_MOST_ADDRESSES]


class GuardedTransport(httpx2.AsyncHTTPTransport):
    def __init__(self, backend: GuardedBackend, ssl_context: ssl.SSLContext) -> None:
        super().__init__(verify=ssl_context, trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=ssl_context,
            max_connections=32,
            max_keepalive_connections=8,
            keepalive_expiry=15.0,
            network_backend=backend,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        parse_target(str(request.url))
        return await super().handle_async_request(request)


ACCEPT_ENCODING = "gzip"  # anything else is refused, stacked encodings above all
_PIECE = 64 * 1024


def unpacker(encoding: str) -> Callable[[bytes], Iterable[bytes]]:
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return lambda packed: [packed]
    if name not in {"gzip", "x-gzip", "deflate"}:
        raise FetchFailed(f"the answer is packed as {name[:40]!r}, which was not asked for")
    inflate = zlib.decompressobj(zlib.MAX_WBITS | 32)  # takes both formats, by their headers

    def unpack(packed: bytes) -> Iterator[bytes]:
        while packed and not inflate.eof:
            try:
                yield inflate.decompress(packed, _PIECE)
            except zlib.error as error:
                raise FetchFailed(f"the answer cannot be unpacked: {error}") from None
            packed = inflate.unconsumed_tail

    return unpack


MOST_REDIRECTS = 5
DEFAULT_MAX_BYTES = 25 * 1024 * 1024
DEFAULT_TOTAL_TIMEOUT = 30.0
_CLOSING_TIMEOUT = 2.0  # closing returns the connection; nothing in it should take longer
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# What may be sent to another origin. Anything else could be a credential, whatever its name.
_TRAVELLING_HEADERS = frozenset({"accept", "accept-language", "user-agent", "range"})
_BODY_HEADERS = frozenset({"content-type", "content-length", "content-encoding"})


class FetchedResponse:
    def __init__(self, response: httpx2.Response, url: str, limit: int) -> None:
        self._response = response
        self._limit = limit
        self.url = url  # after redirects
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.body = b""  # all of it, unpacked, after `fetch`

    @property
    def mime_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The unpacked body in pieces; raises `FetchFailed` as soon as it is too large."""
        too_large = FetchFailed(f"the answer is larger than {self._limit} bytes")
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self._limit:
            raise too_large
        unpack = unpacker(self.headers.get("content-encoding", ""))
        packed_size = size = 0
        async for packed in self._response.aiter_raw():
            packed_size += len(packed)
            for piece in unpack(packed):
                size += len(piece)
                if size > self._limit:
                    raise too_large
                yield piece
            if packed_size > self._limit:
                raise too_large


@dataclass(frozen=True, slots=True)
class _Order:
    method: str
    target: Target
    headers: Mapping[str, str]
    content: bytes | None

    def redirected(self, status: int, location: str) -> "_Order":
        target = parse_target(urljoin(self.target.url, location.strip()))
        method, content, headers = self.method, self.content, dict(self.headers)
        becomes_get = status == 303 or (status in {301, 302} and method == "POST")
        if becomes_get and method != "HEAD":
            method, content = "GET", None
            headers = {k: v for k, v in headers.items() if k.lower() not in _BODY_HEADERS}
        if target.origin != self.target.origin:
            if content is not None:
                raise FetchRefused(target.host, "a redirect would carry the body to another origin")
            headers = {k: v for k, v in headers.items() if k.lower() in _TRAVELLING_HEADERS}
        return _Order(method, target, headers, content)


class FetchOptions(TypedDict, total=False):
    method: str
    headers: Mapping[str, str] | None
    content: bytes | None
    max_bytes: int


class GuardedClient:
    """An HTTP client that can't be led to private addresses, flooded, or held up.

    It reads no proxy, netrc or certificates from the environment and keeps no cookies. `on_hop`
    gets each URL, redirects included, before it is reached, and may raise.
    """

    def __init__(
        self,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        total_timeout: float = DEFAULT_TOTAL_TIMEOUT,
        exemptions: Exemptions | None = None,
        resolve: Resolve = resolve_with_system,
        ssl_context: ssl.SSLContext | None = None,
        on_hop: Callable[[str], None] | None = None,
    ) -> None:
        self._on_hop = on_hop
        self._max_bytes = max_bytes
        self._total_timeout = total_timeout
        self._client = httpx2.AsyncClient(
            transport=GuardedTransport(
                GuardedBackend(resolve, exemptions or Exemptions()),
                ssl_context or httpx2.create_ssl_context(trust_env=False),
            ),
            trust_env=False,
            follow_redirects=False,
            timeout=total_timeout,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            headers={"User-Agent": f"openclaw/{__version__}", "Accept-Encoding": ACCEPT_ENCODING},
        )

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._client.__aexit__(*error)

    async def fetch(self, url: str, **options: Unpack[FetchOptions]) -> FetchedResponse:
        async with self.stream(url, **options) as answer:
            answer.body = b"".join([piece async for piece in answer.chunks()])
            return answer

    @asynccontextmanager
    async def stream(
        self, url: str, **options: Unpack[FetchOptions]
    ) -> AsyncGenerator[FetchedResponse]:
        """The answer after redirects. The time limit covers the `async with` block."""
        method, headers = options.get("method", "GET").upper(), options.get("headers") or {}
        order = _Order(method, parse_target(url), dict(headers), options.get("content"))
        limit = options.get("max_bytes", self._max_bytes)
        try:
            with anyio.fail_after(self._total_timeout):
                response, final = await self._follow(order)
                try:
                    yield FetchedResponse(response, final.url, limit)
                finally:
                    with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_TIMEOUT):
                        await response.aclose()
        except (TimeoutError, httpx2.TimeoutException):
            raise FetchFailed(f"no complete answer within {self._total_timeout:g} s") from None
        except httpx2.HTTPError as error:
            raise FetchFailed(f"{order.target.host}: {error or type(error).__name__}") from error

    async def _follow(self, order: _Order) -> tuple[httpx2.Response, Target]:
        for _ in range(MOST_REDIRECTS + 1):
            if self._on_hop is not None:
                self._on_hop(order.target.url)
            request = self._client.build_request(
                order.method, order.target.url, headers=dict(order.headers), content=order.content
            )
            response = await self._client.send(request, stream=True)
            location = response.headers.get("location")
            if response.status_code not in _REDIRECTS or location is None:
                return response, order.target
            await response.aclose()
            order = order.redirected(response.status_code, location)
        raise FetchRefused(order.target.host, f"more than {MOST_REDIRECTS} redirects")
