"""What OAuth servers send, checked: challenges, metadata, registrations, tokens and errors."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, cast
from urllib.parse import urlsplit

from openclaw.mcp import json_text

Document = dict[str, Any]


class OAuthError(Exception):
    """Raised when a login cannot be completed."""


class LoginRefused(OAuthError):
    """Raised when an authorization server definitely refuses; only a new login can help."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class SignaturesMissing(OAuthError):
    """Raised when a login needs a key of ours, and nothing here can sign."""


class OAuthUnavailable(OAuthError):
    """Raised when an authorization server could not be reached or failed; trying again may help."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class HttpRequest:
    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    content: bytes | None = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """`headers` are found by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def document(self) -> Document:
        """The JSON object in the body; anything else counts as empty."""
        try:
            value = json_text.loads(self.body)
        except json_text.Unreadable:
            return {}
        return cast("Document", value) if isinstance(value, dict) else {}


def text_of(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def texts_of(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(text for text in cast("list[object]", value) if isinstance(text, str))


def is_temporary(response: HttpResponse) -> bool:
    return response.status >= 500 or response.status in (408, 425, 429)


def origin_of(url: str) -> str:
    """Scheme, host and port, written in one way; an invalid port counts as none."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    default = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{(parts.hostname or '').lower()}:{port or default}"


def shown(text: str) -> str:
    """A server's words for a message: one line, and not long."""
    clean = "".join(char if char.isprintable() else " " for char in text[:200])
    return clean + "…" if len(text) > 200 else clean


def union_scopes(*scopes: str | None) -> str | None:
    """All of these space-separated scopes, each once, in order; None if there are none."""
    words = [word for scope in scopes for word in (scope or "").split()]
    return " ".join(dict.fromkeys(words)) or None


# ---- challenges (RFC 9110, section 11.6.1)

_WORD = r"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_PARAMETER = re.compile(rf'({_WORD})\s*+=\s*+(?:"((?:[^"\\]|\\.)*+)"|({_WORD}|[^\s,"]+))\s*+')
_SCHEME = re.compile(rf"({_WORD})(?=\s|,|$)(?!\s*+=)")
_NEITHER = re.compile(rf"{_WORD}|.", re.DOTALL)
_MOST_CHARACTERS = 16 * 1024


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a server wants of whoever it turned away."""

    schemes: tuple[str, ...] = ()
    error: str | None = None
    scope: str | None = None
    resource_metadata: str | None = None

    @classmethod
    def parse(cls, header: str | None) -> Self:
        schemes, parameters = _challenges((header or "")[:_MOST_CHARACTERS])
        return cls(
            schemes,
            parameters.get("error"),
            parameters.get("scope"),
            parameters.get("resource_metadata"),
        )


def _challenges(header: str) -> tuple[tuple[str, ...], dict[str, str]]:
    schemes: list[str] = []
    parameters: dict[str, str] = {}
    position = 0
    while position < len(header):
        if header[position] in ", \t":
            position += 1
        elif match := _PARAMETER.match(header, position):
            name, quoted, plain = match.groups()
            value = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
            parameters.setdefault(name.lower(), value)
            position = match.end()
        elif match := _SCHEME.match(header, position):
            schemes.append(match[1].lower())
            position = match.end()
        elif match := _NEITHER.match(header, position):
            position = match.end()
    return tuple(schemes), parameters


# ---- metadata


@dataclass(frozen=True, slots=True)
class ProtectedResource:
    """A resource's own metadata (RFC 9728)."""

    resource: str
    authorization_servers: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None
    wants_dpop: bool = False

    @classmethod
    def parse(cls, document: Document) -> Self | None:
        resource = text_of(document.get("resource"))
        if resource is None:
            return None
        return cls(
            resource,
            texts_of(document.get("authorization_servers")) or (),
            texts_of(document.get("scopes_supported")),
            document.get("dpop_bound_access_tokens_required") is True,
        )


_STORED_METADATA = (
    "issuer",
    "authorization_endpoint",
    "token_endpoint",
    "registration_endpoint",
    "revocation_endpoint",
    "device_authorization_endpoint",
    "scopes_supported",
    "grant_types_supported",
    "code_challenge_methods_supported",
    "token_endpoint_auth_methods_supported",
    "dpop_signing_alg_values_supported",
    "authorization_response_iss_parameter_supported",
    "client_id_metadata_document_supported",
)


@dataclass(frozen=True, slots=True)
class AuthorizationServer:
    """An authorization server's metadata (RFC 8414).

    `is_guessed` says that it publishes none, so that the addresses are those that revision
    2025-03-26 falls back to.
    """

    issuer: str
    document: Document
    is_guessed: bool = False

    @classmethod
    def parse(cls, document: Document) -> Self | None:
        issuer = text_of(document.get("issuer"))
        if issuer is None:
            return None
        return cls(issuer, {key: document[key] for key in _STORED_METADATA if key in document})

    @classmethod
    def guessed(cls, origin: str) -> Self:
        document = {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
        }
        return cls(origin, document, is_guessed=True)

    def endpoint(self, name: str) -> str | None:
        return text_of(self.document.get(f"{name}_endpoint"))

    def supported(self, feature: str) -> tuple[str, ...] | None:
        """The values that it lists; None if it does not say."""
        return texts_of(self.document.get(f"{feature}_supported"))

    def says(self, name: str) -> bool:
        return self.document.get(name) is True


def same_issuer(issuer: str, other: str) -> bool:
    """Whether they are equal; the slash after a host alone may be missing (RFC 8414, 3.3)."""
    if issuer == other:
        return True
    shorter, longer = sorted((issuer, other), key=len)
    return longer == f"{shorter}/" and not urlsplit(shorter).path


# ---- what is stored for one authorization server


@dataclass(frozen=True, slots=True)
class Client:
    """What we are to an authorization server; `method` is how we prove it to its token endpoint."""

    id: str
    secret: str | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True)
class Tokens:
    access: str
    type: str = "Bearer"
    refresh: str | None = None
    scope: str | None = None
    expires_at: float | None = None

    @classmethod
    def parse(cls, document: Document, now: float) -> Self:
        access = text_of(document.get("access_token"))
        if access is None:
            raise LoginRefused("the authorization server's answer holds no token")
        seconds = document.get("expires_in")
        if isinstance(seconds, str) and seconds.isdecimal() and len(seconds) < 12:
            seconds = int(seconds)
        lasts = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        return cls(
            access,
            text_of(document.get("token_type")) or "Bearer",
            text_of(document.get("refresh_token")),
            text_of(document.get("scope")),
            now + seconds if lasts and isinstance(seconds, int | float) else None,
        )


@dataclass(frozen=True, slots=True)
class Credentials:
    """All that we have from one authorization server for one MCP server.

    `resource` is what tokens are asked for, None for a server that does not say. `wanted` is the
    scope that a call lacked, `key` the private key that tokens are bound to.
    """

    server: AuthorizationServer
    client: Client | None = None
    tokens: Tokens | None = None
    resource: str | None = None
    wanted: str | None = None
    key: str | None = None

    @property
    def issuer(self) -> str:
        return self.server.issuer

    def to_record(self) -> Document:
        """For a file; without the fields that have no value."""
        tokens, client = self.tokens, self.client
        return {
            "issuer": self.issuer,
            "metadata": None if self.server.is_guessed else self.server.document,
            "resource": self.resource,
            "wanted": self.wanted,
            "key": self.key,
            "expiresAt": tokens and tokens.expires_at,
            "tokens": tokens
            and _present(
                access_token=tokens.access,
                token_type=tokens.type,
                refresh_token=tokens.refresh,
                scope=tokens.scope,
            ),
            "client": client
            and _present(
                client_id=client.id,
                client_secret=client.secret,
                token_endpoint_auth_method=client.method,
            ),
        }

    @classmethod
    def from_record(cls, record: Document, default_resource: str) -> Self | None:
        """What `to_record` wrote; None for anything else."""
        issuer = text_of(record.get("issuer"))
        if issuer is None:
            return None
        metadata = record.get("metadata")
        parsed = (
            AuthorizationServer.parse(cast("Document", metadata))
            if isinstance(metadata, dict)
            else None
        )
        return cls(
            parsed or AuthorizationServer.guessed(issuer.rstrip("/")),
            _stored_client(record.get("client")),
            _stored_tokens(record.get("tokens"), record.get("expiresAt")),
            text_of(record.get("resource", default_resource)),
            text_of(record.get("wanted")),
            text_of(record.get("key")),
        )


def _present(**fields: str | None) -> Document:
    return {name: value for name, value in fields.items() if value is not None}


def _stored_client(value: Any) -> Client | None:
    if not isinstance(value, dict):
        return None
    fields = cast("Document", value)
    id = text_of(fields.get("client_id"))
    secret, method = fields.get("client_secret"), fields.get("token_endpoint_auth_method")
    return None if id is None else Client(id, text_of(secret), text_of(method))


def _stored_tokens(value: Any, expires_at: Any) -> Tokens | None:
    if not isinstance(value, dict) or not text_of(cast("Document", value).get("access_token")):
        return None
    expires = float(expires_at) if isinstance(expires_at, int | float) else None
    return replace(Tokens.parse(cast("Document", value), 0.0), expires_at=expires)
