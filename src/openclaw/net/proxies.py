"""The HTTP client for model providers: our timeouts, and a proxy only if one is configured."""

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from openclaw.net.addresses import is_loopback

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 10.0
WRITE_SECONDS = 60.0  # a request with images may be large, and the line slow


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
    import httpx2

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
    """Checks servers against SSL_CERT_FILE, or else against the authorities that this system has."""
    if authorities := environ.get("SSL_CERT_FILE"):
        return ssl.create_default_context(cafile=authorities)
    import httpcore2

    return httpcore2.default_ssl_context(_trust_env=False)
