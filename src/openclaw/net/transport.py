"""Connects to the address that was checked, under the requested host name.

The name is resolved once, every answer is judged, and the connection goes to one of those very
answers. TLS and the Host header keep the name, so nothing is left for a second lookup to change.
"""

import re
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import anyio
import httpcore2
import httpx2

from openclaw.core.errors import ToolFailure
from openclaw.net.addresses import is_loopback, why_blocked

# ToolFailure
# └── FetchError
# ├── FetchRefused     the address may not be reached
# ├── FetchTooLarge    the answer is larger than was asked for
# ├── FetchTimedOut    the whole took too long
# └── FetchFailed      the network or the other side failed


class FetchError(ToolFailure):
    """Raised when a URL could not be fetched."""


class FetchRefused(FetchError):
    """Raised when a URL, or where it leads, is not to be reached."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"refused to fetch {what}: {reason}")
        self.reason = reason


class FetchTooLarge(FetchError):
    """Raised when an answer has more bytes than the limit, packed or unpacked."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is larger than {limit} bytes")
        self.limit = limit


class FetchTimedOut(FetchError):
    """Raised when connecting, redirects and reading together took too long."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no complete answer within {seconds:g} s")
        self.seconds = seconds


class FetchFailed(FetchError):
    """Raised when the network or the other side failed."""


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
    scheme: Literal["http", "https"]
    host: str  # ASCII, lower case, without brackets
    port: int

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port


def parse_target(url: str) -> Target:
    """Read a URL strictly; raises `FetchRefused` for anything ambiguous."""
    shown = _shown(url)
    if len(url) > _LONGEST_URL:
        raise FetchRefused(shown, "the URL is too long")
    if _ODD.search(url):
        raise FetchRefused(shown, "the URL has spaces, control characters or backslashes")
    scheme, separator, rest = url.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _DEFAULT_PORTS:
        raise FetchRefused(shown, "only http and https are fetched")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    if re.search(r"[%\u3002\uff0e\uff61]", authority):
        raise FetchRefused(shown, "the host is encoded")
    if "@" in authority:
        raise FetchRefused(shown, "the URL has a user name")
    host, port = _host_and_port(authority, shown)
    name = checked_host(host, shown)
    if (urlsplit(url).hostname or "").lower() != host.strip("[]").lower():
        raise FetchRefused(shown, "the host is ambiguous")
    literal = f"[{name}]" if ":" in name else name
    suffix = rest[len(authority) :].partition("#")[0]
    default = _DEFAULT_PORTS[scheme]
    where = literal if port in (None, default) else f"{literal}:{port}"
    plain: Literal["http", "https"] = "https" if scheme == "https" else "http"
    return Target(f"{scheme}://{where}{suffix or '/'}", plain, name, port or default)


def _shown(url: str) -> str:
    """The URL for a message: printable, short, and without the query."""
    plain = "".join(c if c.isprintable() else "?" for c in url.partition("?")[0])
    return repr(plain if len(plain) <= 200 else plain[:200] + "…")


def _host_and_port(authority: str, shown: str) -> tuple[str, int | None]:
    match = re.fullmatch(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{0,5}))?", authority, re.ASCII)
    if match is None:
        raise FetchRefused(shown, "the host is malformed")
    port = int(match[2]) if match[2] else None
    if port is not None and not 0 < port < 65536:
        raise FetchRefused(shown, "the port is out of range")
    return match[1], port


def checked_host(host: str, shown: str) -> str:
    if host.startswith("["):
        return _address(IPv6Address, host[1:-1], shown, "the host is not an address")
    name = host.lower() if host.isascii() else _ascii_name(host, shown)
    labels = name.split(".")
    if len(name) > _LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise FetchRefused(shown, "the host is not a plain name")
    if _NUMERIC.fullmatch(labels[-1]):
        # It refuses octal, hexadecimal, decimal and short forms.
        return _address(IPv4Address, name, shown, "the host is an oddly written address")
    return name


def _address(
    read: type[IPv4Address | IPv6Address], literal: str, shown: str, otherwise: str
) -> str:
    try:
        return str(read(literal))
    except ValueError:
        raise FetchRefused(shown, otherwise) from None


def _ascii_name(host: str, shown: str) -> str:
    import idna

    try:
        # IDNA 2008 as it stands refuses fullwidth and other compatibility characters.
        return idna.encode(host.lower()).decode("ascii")
    except idna.IDNAError:
        raise FetchRefused(shown, "the host is not a valid international name") from None


Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_MOST_ADDRESSES = 32
# One dead address of several must not use up the time for the others.
_CONNECT_TIMEOUT = 10.0


async def resolve_with_system(host: str, port: int) -> Sequence[str]:
    import socket

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
        # httpcore2 puts a stand-in in its place where anyio is missing, and so hides its type.
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
                raise httpcore2.ConnectError(f"{plain} cannot be resolved: {error}") from error
        else:
            addresses = (plain,)
        for address in addresses:
            why = why_blocked(address)
            if why is not None and not self._exemptions.cover(plain, address):
                raise FetchRefused(plain, f"{address} is {why}" if address != plain else why)
        return addresses[:_MOST_ADDRESSES]

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        raise FetchRefused("a Unix socket", "only http and https are fetched")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """A transport for any httpx2 client that checks each request and each redirect."""

    def __init__(
        self,
        *,
        resolve: Resolve = resolve_with_system,
        exemptions: Exemptions | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        context = ssl_context or httpx2.create_ssl_context(trust_env=False)
        super().__init__(verify=context, trust_env=False)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=32,
            max_keepalive_connections=8,
            keepalive_expiry=15.0,
            network_backend=GuardedBackend(resolve, exemptions or Exemptions()),
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        parse_target(str(request.url))
        return await super().handle_async_request(request)
