"""Requests to servers that a person configured: our own gateway, and model providers.

Most are made without an HTTP library, which takes longer to import than most answers take.
"""

import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import anyio
import httpx2
from anyio.abc import ByteStream

from openclaw.net import http1
from openclaw.net.addresses import is_loopback
from openclaw.version import __version__

if TYPE_CHECKING:
    import httpx2

_IN_A_PATH = "/%:@!$&'()*+,;=?~"
_MOST_BYTES = 32 * 1024 * 1024
CONNECT_SECONDS = 10.0
WRITE_SECONDS = 60.0  # a request with images may be large, and the line slow


@dataclass(frozen=True, slots=True)
class HttpResponse:
    status: int
    body: AsyncIterator[bytes]

    async def read(self, most: int = sys.maxsize) -> bytes:
        body = bytearray()
        async for piece in self.body:
            body += piece
            if len(body) > most:
                raise http1.BrokenOff("the answer is too long")
        return bytes(body)


@asynccontextmanager
async def request(
    method: str,
    url: str,
    path: str,
    headers: Mapping[str, str],
    content: bytes = b"",
    *,
    tls: ssl.SSLContext | None = None,
    connect_seconds: float = http1.CONNECT_SECONDS,
) -> AsyncGenerator[HttpResponse]:
    """Raises `NotReached` or `BrokenOff`; leaving closes the connection."""
    where = urlsplit(url)
    host, port = where.hostname or "", where.port or (80 if tls is None else 443)
    try:
        with anyio.fail_after(connect_seconds):
            stream: ByteStream = (
                await anyio.connect_tcp(host, port)
                if tls is None
                # Many servers don't announce the end of TLS; an answer says where it ends.
                else await anyio.connect_tcp(
                    host, port, ssl_context=tls, tls_standard_compatible=False
                )
            )
    except (OSError, TimeoutError) as error:
        raise http1.NotReached(type(error.__cause__ or error).__name__) from error
    except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
        raise http1.BrokenOff("it ended the TLS handshake") from error
    async with stream:
        try:
            with anyio.fail_after(http1.SILENCE_SECONDS):
                await stream.send(http1.request_bytes(method, where.netloc, path, headers, content))
        except (anyio.BrokenResourceError, TimeoutError) as error:
            raise http1.BrokenOff(type(error).__name__) from error
        answer, first = http1.ResponseParser(), b""
        while answer.status < 200:
            first = answer.feed(await _received(stream))
        yield HttpResponse(answer.status, _body(stream, answer, first))


async def _received(stream: ByteStream) -> bytes:
    try:
        with anyio.fail_after(http1.SILENCE_SECONDS):
            return await stream.receive(http1.READ_BYTES)
    except anyio.EndOfStream:
        return b""
    except (anyio.BrokenResourceError, TimeoutError) as error:
        raise http1.BrokenOff(type(error).__name__) from error


async def _body(
    stream: ByteStream, answer: http1.ResponseParser, first: bytes
) -> AsyncIterator[bytes]:
    if first:
        yield first
    while not answer.done:
        if piece := answer.feed(await _received(stream)):
            yield piece


async def get(
    url: str, headers: Mapping[str, str], environ: Mapping[str, str], seconds: float
) -> tuple[int, bytes]:
    """The status and body at this address; raises `OSError` or `ValueError`.

    Uses the proxy and the certificate authorities that the environment names.
    """
    where = urlsplit(url)
    with anyio.fail_after(seconds):
        if proxy_for(url, environ) or "@" in where.netloc or not where.netloc.isascii():
            return await _through_library(url, headers, environ, seconds)
        if where.scheme not in ("http", "https") or not where.hostname:
            raise ValueError(f"{url} is not the address of a server")
        tls = trusted(environ) if where.scheme == "https" else None
        target = quote(f"{where.path or '/'}{where.query and f'?{where.query}'}", _IN_A_PATH)
        ours = {"user-agent": f"openclaw/{__version__}", "accept": "*/*"}
        ours |= {"accept-encoding": "identity", **headers}
        try:
            async with request("GET", url, target, ours, tls=tls, connect_seconds=seconds) as got:
                return got.status, await got.read(_MOST_BYTES)
        except http1.NotReached as error:
            raise (error.__cause__ or error) from None


async def _through_library(
    url: str, headers: Mapping[str, str], environ: Mapping[str, str], seconds: float
) -> tuple[int, bytes]:
    try:
        async with (
            open_client(url, environ, silence=seconds) as client,
            client.stream("GET", url, headers=dict(headers)) as got,
        ):
            answer = HttpResponse(got.status_code, got.aiter_bytes())
            return answer.status, await answer.read(_MOST_BYTES)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise OSError(str(error) or type(error).__name__) from error


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy that the environment names for `url`; never one for this machine itself."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    local = is_loopback(host) or host.endswith(".localhost")
    if local or _excluded(host, _variable(environ, "NO_PROXY")):
        return None
    return _variable(environ, f"{parts.scheme.upper()}_PROXY") or _variable(environ, "ALL_PROXY")


def _variable(environ: Mapping[str, str], name: str) -> str | None:
    return environ.get(name.lower()) or environ.get(name) or None


def _excluded(host: str, listed: str | None) -> bool:
    entries = [entry.strip().lstrip("*").lstrip(".") for entry in (listed or "").split(",")]
    if any(raw.strip() == "*" for raw in (listed or "").split(",")):
        return True
    return any(entry and (host == entry or host.endswith(f".{entry}")) for entry in entries)


def open_client(url: str, environ: Mapping[str, str], *, silence: float) -> "httpx2.AsyncClient":
    """A client for one provider; `silence` is how long it may send nothing."""
    proxy = proxy_for(url, environ)
    # Loading the certificates takes 20 ms, and plain HTTP needs none.
    encrypted = any(one.lower().startswith("https:") for one in (url, proxy or ""))
    return httpx2.AsyncClient(
        trust_env=False,
        proxy=proxy,
        verify=trusted(environ) if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        timeout=httpx2.Timeout(
            connect=CONNECT_SECONDS, read=silence, write=WRITE_SECONDS, pool=CONNECT_SECONDS
        ),
    )


def trusted(environ: Mapping[str, str]) -> ssl.SSLContext:
    """Checks servers against SSL_CERT_FILE or, without it, the system's authorities."""
    if authorities := environ.get("SSL_CERT_FILE"):
        return ssl.create_default_context(cafile=authorities)
    import httpcore2

    return httpcore2.default_ssl_context(_trust_env=False)
