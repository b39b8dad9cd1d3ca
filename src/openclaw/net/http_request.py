"""One HTTP request, without the library for it, which takes longer to import than most answers take."""

import ssl
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import anyio
from anyio.abc import ByteStream

from openclaw.net import http_answer
from openclaw.net.proxies import open_client, proxy_for, trusted
from openclaw.version import __version__

_IN_A_PATH = "/%:@!$&'()*+,;=?~"
_MOST_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: AsyncIterator[bytes]

    async def read(self, most: int = sys.maxsize) -> bytes:
        body = bytearray()
        async for piece in self.body:
            body += piece
            if len(body) > most:
                raise http_answer.BrokenOff("the answer is too long")
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
    connect_seconds: float = http_answer.CONNECT_SECONDS,
) -> AsyncGenerator[Answer]:
    """Raises `NotReached` or `BrokenOff`; leaving closes the connection."""
    where = urlsplit(url)
    host, port = where.hostname or "", where.port or (80 if tls is None else 443)
    try:
        with anyio.fail_after(connect_seconds):
            stream: ByteStream = (
                await anyio.connect_tcp(host, port)
                if tls is None
                # Many servers end a connection without saying so; an answer says where it ends.
                else await anyio.connect_tcp(
                    host, port, ssl_context=tls, tls_standard_compatible=False
                )
            )
    except (OSError, TimeoutError) as error:
        raise http_answer.NotReached(type(error.__cause__ or error).__name__) from error
    except (anyio.EndOfStream, anyio.BrokenResourceError) as error:
        raise http_answer.BrokenOff("it ended the TLS handshake") from error
    async with stream:
        try:
            with anyio.fail_after(http_answer.SILENCE_SECONDS):
                await stream.send(
                    http_answer.request_bytes(method, where.netloc, path, headers, content)
                )
        except (anyio.BrokenResourceError, TimeoutError) as error:
            raise http_answer.BrokenOff(type(error).__name__) from error
        answer, first = http_answer.HttpAnswer(), b""
        while answer.status < 200:
            first = answer.feed(await _received(stream))
        yield Answer(answer.status, _body(stream, answer, first))


async def _received(stream: ByteStream) -> bytes:
    try:
        with anyio.fail_after(http_answer.SILENCE_SECONDS):
            return await stream.receive(http_answer.READ_BYTES)
    except anyio.EndOfStream:
        return b""
    except (anyio.BrokenResourceError, TimeoutError) as error:
        raise http_answer.BrokenOff(type(error).__name__) from error


async def _body(
    stream: ByteStream, answer: http_answer.HttpAnswer, first: bytes
) -> AsyncIterator[bytes]:
    if first:
        yield first
    while not answer.done:
        if piece := answer.feed(await _received(stream)):
            yield piece


async def get(
    url: str, headers: Mapping[str, str], environ: Mapping[str, str], seconds: float
) -> tuple[int, bytes]:
    """The status and body of what is at this address; raises `OSError` or `ValueError`.

    The proxy and the certificate authorities are those that the environment names.
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
        except http_answer.NotReached as error:
            raise (error.__cause__ or error) from None


async def _through_library(
    url: str, headers: Mapping[str, str], environ: Mapping[str, str], seconds: float
) -> tuple[int, bytes]:
    import httpx2

    try:
        async with (
            open_client(url, environ, silence=seconds) as client,
            client.stream("GET", url, headers=dict(headers)) as got,
        ):
            answer = Answer(got.status_code, got.aiter_bytes())
            return answer.status, await answer.read(_MOST_BYTES)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise OSError(str(error) or type(error).__name__) from error
