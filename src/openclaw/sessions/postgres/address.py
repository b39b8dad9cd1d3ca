"""Where the database is: a `postgresql://` address, without ever showing what is secret in it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from openclaw.core.errors import InvalidRequest
from openclaw.secrets.refs import Secret, find, has_reference

SCHEMES = ("postgresql", "postgres")

Resolve = Callable[[str], Awaitable[Secret]]
"""What turns text with `secret://` references into the value that it stands for."""

_FIELD = "sessions.store"
_LOCAL_NAMES = ("localhost", "::1")


@dataclass(frozen=True, slots=True)
class Address:
    """A database server; `place` names it in messages, and `url` is never shown."""

    url: Secret
    place: str
    tls: Literal["system", "verify-full"] | None = field(default=None)
    """How the connection is secured where the address itself does not say."""


def is_address(spec: str) -> bool:
    """True where `spec` names a database server, or hides its address behind a reference."""
    scheme, separator, _ = spec.strip().partition("://")
    return bool(separator) and scheme.lower() in (*SCHEMES, "secret")


async def resolved(spec: str, resolve: Resolve | None) -> Address:
    """The address with every `secret://` in it replaced by its value.

    A reference that is the whole address stands for a whole address. One that stands in angle
    brackets inside (`postgresql://me:<secret://env/PGPASS>@db/app`) stands for that part of it,
    whatever characters the value has.
    """
    return parsed(await _revealed(spec.strip(), resolve))


async def _revealed(spec: str, resolve: Resolve | None) -> str:
    if not has_reference(spec):
        return spec
    if resolve is None:
        raise InvalidRequest("a secret:// reference cannot be resolved here", field=_FIELD)
    pieces: list[str] = []
    position = 0
    for hit in find(spec):
        whole = (hit.start, hit.end) == (0, len(spec))
        if not whole and spec[hit.start] != "<":
            raise InvalidRequest(
                "a reference inside an address needs angle brackets around it",
                field=_FIELD,
                hint="write postgresql://USER:<secret://env/PGPASSWORD>@HOST/DATABASE",
            )
        value = (await resolve(hit.ref.text)).reveal()
        pieces += spec[position : hit.start], value if whole else quote(value, safe="")
        position = hit.end
    return "".join([*pieces, spec[position:]])


def parsed(url: str) -> Address:
    """The address that `url` is; `InvalidRequest` where it is none, without repeating it."""
    try:
        parts = urlsplit(url)
        hosts = _hosts(parts)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    except ValueError:
        raise InvalidRequest("does not name a valid host and port", field=_FIELD) from None
    if parts.scheme not in SCHEMES:
        raise InvalidRequest("must be an address with postgresql://", field=_FIELD)
    hosts += query.get("host", "").split(",") if "host" in query else []
    place = f"{','.join(hosts) or 'the local socket'}, database '{_database(parts, query)}'"
    return Address(Secret(url), place, _tls(hosts, query))


def _hosts(parts: SplitResult) -> list[str]:
    spec = parts.netloc.rpartition("@")[2]
    found = [unquote(host) for host in spec.split(",") if host]
    for host in found:
        port = _port_of(host)
        if port and not (port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError("port")
    return found


def _port_of(host: str) -> str:
    tail = host.rpartition("]")[2] if host.startswith("[") else host
    return "" if host.startswith("/") else tail.partition(":")[2]


def _database(parts: SplitResult, query: dict[str, str]) -> str:
    return unquote(parts.path.lstrip("/")) or query.get("dbname") or query.get("database") or ""


def _tls(hosts: list[str], query: dict[str, str]) -> Literal["system", "verify-full"] | None:
    """Certificates are checked for hosts elsewhere, unless the address says otherwise."""
    mode, roots = query.get("sslmode"), query.get("sslrootcert", "system")
    if mode is None and all(_is_local(host) for host in hosts):
        return None
    if mode not in (None, "verify-full"):
        return None
    return "system" if roots == "system" else "verify-full"


def _is_local(host: str) -> bool:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return host.startswith("/") or name in _LOCAL_NAMES or name.startswith("127.")
