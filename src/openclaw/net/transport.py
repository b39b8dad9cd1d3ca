"""Connecting to the address that was checked, under the name that was asked for.

The name is resolved once, every answer is judged, and the connection goes to one of those very
answers. TLS and the Host header keep the name, so nothing is left for a second lookup to change.
"""

import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import anyio
import httpcore2
import httpx2

from openclaw.net.addresses import is_loopback, why_blocked
from openclaw.net.errors import FetchRefused
from openclaw.net.hosts import parse_target

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""From a host name and a port to the addresses of it."""

_MOST_ADDRESSES = 32
# One dead address of several must not use up the time for the others.
_CONNECT_TIMEOUT = 10.0


async def resolve_with_system(host: str, port: int) -> Sequence[str]:
    """The addresses that the system's resolver gives."""
    import socket

    answers = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))


@dataclass(frozen=True, slots=True)
class Exemptions:
    """What the operator allows though it would be blocked: `host`, `host:port`, address likewise."""

    hosts: frozenset[str] = frozenset()
    addresses: frozenset[str] = frozenset()
    loopback: bool = False

    @classmethod
    def of(
        cls, *, hosts: Iterable[str] = (), addresses: Iterable[str] = (), loopback: bool = False
    ) -> "Exemptions":
        """Exemptions from plain lists."""
        lowered = frozenset(host.lower() for host in hosts)
        return cls(lowered, frozenset(addresses), loopback)

    def cover(self, host: str, port: int, address: str) -> bool:
        """Whether this address may be reached under this name and port."""
        if self.loopback and is_loopback(address):
            return True
        return not {host, f"{host}:{port}"}.isdisjoint(self.hosts) or not {
            address,
            f"{address}:{port}",
        }.isdisjoint(self.addresses)


def _anyio_network() -> httpcore2.AsyncNetworkBackend:
    # httpcore2 puts a stand-in in its place where anyio is missing, and so hides its type.
    return cast(httpcore2.AsyncNetworkBackend, httpcore2.AnyIOBackend())


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """A network that has no private addresses in it."""

    def __init__(self, resolve: Resolve, exemptions: Exemptions) -> None:
        self._resolve = resolve
        self._exemptions = exemptions
        self._network: httpcore2.AsyncNetworkBackend = _anyio_network()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to one of the checked addresses of `host`, in the order of the resolver."""
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
            addresses = await self._lookup(plain, port)
        else:
            addresses = (plain,)
        for address in addresses:
            why = why_blocked(address)
            if why is not None and not self._exemptions.cover(plain, port, address):
                raise FetchRefused(plain, f"{address} is {why}" if address != plain else why)
        return addresses[:_MOST_ADDRESSES]

    async def _lookup(self, host: str, port: int) -> Sequence[str]:
        try:
            return tuple(await self._resolve(host, port))
        except OSError as error:
            raise httpcore2.ConnectError(f"{host} cannot be resolved: {error}") from error

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Never: a URL does not lead into the file system."""
        raise FetchRefused("a Unix socket", "only http and https are fetched")

    async def sleep(self, seconds: float) -> None:
        """Wait, for the pool's own retries."""
        await anyio.sleep(seconds)


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """A transport for any httpx2 client: each request and each redirect is checked anew."""

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
        """Send a request whose URL no two parsers read differently."""
        parse_target(str(request.url))
        return await super().handle_async_request(request)
