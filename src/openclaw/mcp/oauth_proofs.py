"""Signed proofs: of possession (DPoP, RFC 9449), and of who a client is (RFC 7523)."""

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Protocol

from openclaw.mcp.oauth_documents import Document, HttpResponse, SignaturesMissing, origin_of

_ASSERTION_SECONDS = 300


class SigningKey(Protocol):
    @property
    def algorithm(self) -> str: ...
    @property
    def public(self) -> Mapping[str, str]:
        """The public key as a JWK."""
        ...

    def sign(self, data: bytes) -> bytes: ...


class Signing(Protocol):
    """Asymmetric keys, which need a library that not everybody has."""

    def generate(self) -> str:
        """A new private key, as PEM."""
        ...

    def load(self, pem: str) -> SigningKey: ...


class Prover:
    """Makes proofs, and remembers the nonces that servers want in them."""

    def __init__(
        self, signing: Signing | None, now: Callable[[], float], random_text: Callable[[], str]
    ) -> None:
        self._signing, self._now, self._random_text = signing, now, random_text
        self._nonces: dict[str, str] = {}  # by origin (RFC 9449, 8.2)

    @property
    def can_sign(self) -> bool:
        return self._signing is not None

    def new_key(self) -> str:
        return self._signer().generate()

    def proof(
        self, pem: str, method: str, url: str, access_token: str | None = None
    ) -> dict[str, str]:
        """The header that shows that a request comes from whoever has the key."""
        key = self._signer().load(pem)
        claims: Document = {
            "jti": self._random_text(),
            "htm": method,
            "htu": url.partition("#")[0].partition("?")[0],
            "iat": int(self._now()),
        }
        if access_token is not None:
            claims["ath"] = base64url(hashlib.sha256(access_token.encode()).digest())
        if (nonce := self._nonces.get(origin_of(url))) is not None:
            claims["nonce"] = nonce
        return {"DPoP": _jwt(key, {"typ": "dpop+jwt", "jwk": dict(key.public)}, claims)}

    def learn_nonce(self, url: str, response: HttpResponse) -> bool:
        """Remember the nonce for the next proof; returns whether it is a new one."""
        nonce, origin = response.headers.get("dpop-nonce"), origin_of(url)
        if not nonce or nonce == self._nonces.get(origin):
            return False
        self._nonces[origin] = nonce
        return True

    def client_assertion(self, pem: str, client_id: str, issuer: str) -> str:
        key, now = self._signer().load(pem), int(self._now())
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": issuer,
            "jti": self._random_text(),
            "iat": now,
            "exp": now + _ASSERTION_SECONDS,
        }
        return _jwt(key, {"typ": "JWT"}, claims)

    def _signer(self) -> Signing:
        if self._signing is None:
            raise SignaturesMissing("the login needs signatures, which are not installed")
        return self._signing


def _jwt(key: SigningKey, header: Document, claims: Document) -> str:
    parts = ({**header, "alg": key.algorithm}, claims)
    signed = ".".join(base64url(json.dumps(part, separators=(",", ":")).encode()) for part in parts)
    return f"{signed}.{base64url(key.sign(signed.encode()))}"


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
