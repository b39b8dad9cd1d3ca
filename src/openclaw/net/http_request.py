"""Requests to servers that the user configured: our own gateway, and model providers."""

import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import anyio
import httpx2

from openclaw.net.addresses import is_loopback
from openclaw.version import __version__

CONNECT_SECONDS = 10.0
WRITE_SECONDS = 60.0  # a request with images may be large, and the line slow
_MAX_BYTES = 32 * 1024 * 1024


class AnswerTooLong(OSError):
    """Raised when an answer is longer than the limit."""


async def get(
    url: str, headers: Mapping[str, str], environ: Mapping[str, str], seconds: float
) -> tuple[int, bytes]:
    """The status and body at this address; raises `OSError` or `ValueError`.

    Uses the proxy and the certificate authorities that the environment names.
    """
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise ValueError(f"{url} is not the address of a server")
    if not all(f"{name}{value}".isprintable() for name, value in headers.items()):
        raise ValueError("a header has a character that headers cannot have")
    ours = {"user-agent": f"openclaw/{__version__}", **headers}
    try:
        with anyio.fail_after(seconds):
            async with (
                open_client(url, environ, silence=seconds) as client,
                client.stream("GET", url, headers=ours) as response,
            ):
                return response.status_code, await read_body(response, _MAX_BYTES)
    except httpx2.InvalidURL as error:
        raise ValueError(f"{url} is not the address of a server: {error}") from error
    except httpx2.HTTPError as error:
        raise OSError(str(error) or "the server ended the connection") from error


async def read_body(response: httpx2.Response, limit: int) -> bytes:
    """Raises `AnswerTooLong`."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > limit:
            raise AnswerTooLong("the answer is too long")
    return bytes(body)


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
    return httpx2.create_ssl_context(trust_env=False)
