"""The guarded HTTP client: for every URL that we did not write ourselves."""

import ssl
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Self, TypedDict, Unpack
from urllib.parse import urljoin

import anyio
import httpx2

from openclaw.net import transport as transports
from openclaw.net.transport import Target, parse_target
from openclaw.version import __version__

ACCEPT_ENCODING = "gzip, deflate"  # anything else is refused, stacked encodings above all
_PIECE = 64 * 1024


class _Zlib:
    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16 if gzip else zlib.MAX_WBITS)
        self._started = False

    def feed(self, packed: bytes) -> Iterator[bytes]:
        while packed and not self._inflate.eof:
            piece, packed = self._step(packed)
            if piece:
                yield piece

    def _step(self, packed: bytes) -> tuple[bytes, bytes]:
        try:
            piece = self._inflate.decompress(packed, _PIECE)
        except zlib.error as error:
            if self._gzip or self._started:
                raise transports.FetchFailed(f"the answer cannot be unpacked: {error}") from None
            # Some servers send deflate without the header that belongs to it.
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
            self._started = True
            return b"", packed
        self._started = True
        return piece, self._inflate.unconsumed_tail


def unpacker(encoding: str) -> Callable[[bytes], Iterable[bytes]]:
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return lambda packed: [packed]
    if name in {"gzip", "x-gzip", "deflate"}:
        return _Zlib(gzip=name != "deflate").feed
    raise transports.FetchFailed(f"the answer is packed as {name[:40]!r}, which was not asked for")


MOST_REDIRECTS = 5
DEFAULT_MAX_BYTES = 25 * 1024 * 1024
DEFAULT_TOTAL_TIMEOUT = 30.0
_CLOSING_TIMEOUT = 2.0  # closing returns the connection; nothing in it should take longer
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# What may follow to another origin. Everything else could be a credential, whatever it is called.
_TRAVELLING_HEADERS = frozenset({"accept", "accept-language", "user-agent", "range"})
_BODY_HEADERS = frozenset({"content-type", "content-length", "content-encoding"})


@dataclass(frozen=True, slots=True)
class Fetched:
    url: str  # where it came from in the end
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def mime_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


class Answer:
    def __init__(self, response: httpx2.Response, url: str, limit: int) -> None:
        self._response = response
        self._limit = limit
        self.url = url
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers

    async def chunks(self) -> AsyncIterator[bytes]:
        """The unpacked body in pieces; raises `FetchTooLarge` as soon as it is too large."""
        declared = self.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self._limit:
            raise transports.FetchTooLarge(self._limit)
        unpack = unpacker(self.headers.get("content-encoding", ""))
        packed_size = size = 0
        async for packed in self._response.aiter_raw():
            packed_size += len(packed)
            for piece in unpack(packed):
                size += len(piece)
                if size > self._limit:
                    raise transports.FetchTooLarge(self._limit)
                yield piece
            if packed_size > self._limit:
                raise transports.FetchTooLarge(self._limit)


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
                raise transports.FetchRefused(
                    target.host, "a redirect would carry the body to another origin"
                )
            headers = {k: v for k, v in headers.items() if k.lower() in _TRAVELLING_HEADERS}
        return _Order(method, target, headers, content)


class FetchOptions(TypedDict, total=False):
    method: str
    headers: Mapping[str, str] | None
    content: bytes | None
    max_bytes: int
    total_timeout: float


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
        exemptions: transports.Exemptions | None = None,
        resolve: transports.Resolve = transports.resolve_with_system,
        ssl_context: ssl.SSLContext | None = None,
        on_hop: Callable[[str], None] | None = None,
    ) -> None:
        self._on_hop = on_hop
        self._max_bytes = max_bytes
        self._total_timeout = total_timeout
        self._client = httpx2.AsyncClient(
            transport=transports.GuardedTransport(
                resolve=resolve, exemptions=exemptions, ssl_context=ssl_context
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

    async def fetch(self, url: str, **options: Unpack[FetchOptions]) -> Fetched:
        async with self.stream(url, **options) as answer:
            body = b"".join([piece async for piece in answer.chunks()])
            return Fetched(answer.url, answer.status, answer.headers, body)

    @asynccontextmanager
    async def stream(self, url: str, **options: Unpack[FetchOptions]) -> AsyncGenerator[Answer]:
        """The answer after redirects. The time limit covers the `async with` block."""
        method, headers = options.get("method", "GET").upper(), options.get("headers") or {}
        order = _Order(method, parse_target(url), dict(headers), options.get("content"))
        limit = options.get("max_bytes", self._max_bytes)
        seconds = options.get("total_timeout", self._total_timeout)
        try:
            with anyio.fail_after(seconds):
                response, final = await self._follow(order)
                try:
                    yield Answer(response, final.url, limit)
                finally:
                    with anyio.CancelScope(shield=True), anyio.move_on_after(_CLOSING_TIMEOUT):
                        await response.aclose()
        except (TimeoutError, httpx2.TimeoutException):
            raise transports.FetchTimedOut(seconds) from None
        except httpx2.HTTPError as error:
            raise transports.FetchFailed(
                f"{order.target.host}: {error or type(error).__name__}"
            ) from error

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
        raise transports.FetchRefused(order.target.host, f"more than {MOST_REDIRECTS} redirects")
