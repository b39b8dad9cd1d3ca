"""Which URLs are written so that every parser reads the same host in them."""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Literal
from urllib.parse import urlsplit

from openclaw.net.errors import FetchRefused

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
    """A URL whose host cannot be misread."""

    url: str
    scheme: Literal["http", "https"]
    host: str
    """ASCII, lower case, without brackets."""
    port: int

    @property
    def origin(self) -> tuple[str, str, int]:
        """What two URLs have in common where credentials may follow from one to the other."""
        return self.scheme, self.host, self.port


def parse_target(url: str) -> Target:
    """Read a URL strictly; raises `FetchRefused` for whatever two parsers could read differently."""
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
    """The URL as a message may show it: printable, short, and without the query."""
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
    """The host as ASCII in lower case; raises where it is anything but a plain name or address."""
    if host.startswith("["):
        return _ipv6(host[1:-1], shown)
    name = host.lower() if host.isascii() else _ascii_name(host, shown)
    labels = name.split(".")
    if len(name) > _LONGEST_HOST or not all(_LABEL.fullmatch(label) for label in labels):
        raise FetchRefused(shown, "the host is not a plain name")
    if _NUMERIC.fullmatch(labels[-1]):
        return _ipv4(name, shown)
    return name


def _ipv6(literal: str, shown: str) -> str:
    try:
        return str(IPv6Address(literal))
    except ValueError:
        raise FetchRefused(shown, "the host is not an address") from None


def _ipv4(name: str, shown: str) -> str:
    try:
        return str(IPv4Address(name))  # refuses octal, hexadecimal, decimal and short forms
    except ValueError:
        raise FetchRefused(shown, "the host is an oddly written address") from None


def _ascii_name(host: str, shown: str) -> str:
    import idna

    try:
        # IDNA 2008 as it stands refuses fullwidth and other compatibility characters.
        return idna.encode(host.lower()).decode("ascii")
    except idna.IDNAError:
        raise FetchRefused(shown, "the host is not a valid international name") from None
