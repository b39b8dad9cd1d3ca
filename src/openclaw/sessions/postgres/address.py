"""Addresses of PostgreSQL servers, as `sessions.store` and `--store` name them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlsplit

from openclaw.core.errors import InvalidRequest
from openclaw.secrets.refs import Secret, find, has_reference, split

SCHEMES = ("postgresql", "postgres")

Resolve = Callable[[str], Awaitable[Secret]]  # the value of a `secret://` reference

_FIELD = "sessions.store"
_LOCAL_NAMES = ("localhost", "::1")


@dataclass(frozen=True, slots=True)
class Address:
    """A database server; `place` names it in messages. `tls` is the driver's `ssl` argument."""

    url: Secret
    place: str
    tls: Literal[True, "verify-full"] | None = None


def is_address(spec: str) -> bool:
    scheme, separator, _ = spec.strip().partition("://")
    return bool(separator) and scheme.lower() in (*SCHEMES, "secret")


async def resolved(spec: str, resolve: Resolve | None) -> Address:
    """The address with its references resolved.

    A reference is the whole address, or a part of it in angle brackets, as in
    `postgresql://me:<secret://env/PGPASS>@db/app`; its value may then contain any characters.
    """
    spec = spec.strip()
    if not has_reference(spec):
        return parsed(spec)
    if resolve is None:
        raise InvalidRequest("a secret:// reference cannot be resolved here", field=_FIELD)
    pieces = split(spec)
    whole = pieces[::2] == ["", ""]
    if not whole and not all(reference.startswith("<") for reference in pieces[1::2]):
        raise InvalidRequest(
            "a reference inside an address needs angle brackets around it",
            field=_FIELD,
            hint="write postgresql://USER:<secret://env/PGPASSWORD>@HOST/DATABASE",
        )
    values = [(await resolve(ref.text)).reveal() for ref in find(spec)]
    pieces[1::2] = values if whole else [quote(value, safe="") for value in values]
    return parsed("".join(pieces))


def parsed(url: str) -> Address:
    """The address; an `InvalidRequest` does not repeat it."""
    try:
        parts = urlsplit(url)
        hosts = _hosts(parts)
        query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    except ValueError:
        raise InvalidRequest("does not name a valid host and port", field=_FIELD) from None
    if parts.scheme not in SCHEMES:
        raise InvalidRequest("must be an address with postgresql://", field=_FIELD)
    hosts += query["host"].split(",") if "host" in query else []
    named = query.get("dbname") or query.get("database") or ""
    database = unquote(parts.path.lstrip("/")) or named
    place = f"{','.join(hosts) or 'the local socket'}, database '{database}'"
    return Address(Secret(url), place, _tls(hosts, query))


def _hosts(parts: SplitResult) -> list[str]:
    spec = parts.netloc.rpartition("@")[2]
    found = [unquote(host) for host in spec.split(",") if host]
    for host in found:
        tail = host.rpartition("]")[2] if host.startswith("[") else host
        port = "" if host.startswith("/") else tail.partition(":")[2]
        if port and not (port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError("port")
    return found


def _tls(hosts: list[str], query: dict[str, str]) -> Literal[True, "verify-full"] | None:
    """Certificates are checked for remote hosts, unless the address says otherwise."""
    mode, roots = query.get("sslmode"), query.get("sslrootcert", "system")
    if mode not in (None, "verify-full") or (mode is None and all(map(_is_local, hosts))):
        return None
    return True if roots == "system" else "verify-full"


def _is_local(host: str) -> bool:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return host.startswith("/") or name in _LOCAL_NAMES or name.startswith("127.")
