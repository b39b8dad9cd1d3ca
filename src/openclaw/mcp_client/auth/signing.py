"""Private keys for signed logins. Needs the `signing` extra: ask `auth.oauth` for it."""

from collections.abc import Mapping
from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from openclaw.core.errors import OperatorFacing
from openclaw.mcp.oauth_proofs import SigningKey, base64url

_P256_BYTES = 32


class PemKeys:
    def generate(self) -> str:
        key = ec.generate_private_key(ec.SECP256R1())
        return key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()

    def load(self, pem: str) -> SigningKey:
        """Raises `OperatorFacing` for text that is not a key that we can use."""
        return _load(pem)


@lru_cache(maxsize=16)
def _load(pem: str) -> SigningKey:
    try:
        key = serialization.load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise OperatorFacing(
            "the private key of a login cannot be read",
            hint="give it as unencrypted PEM, with its line breaks",
        ) from None
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return _Es256(key)
    if isinstance(key, rsa.RSAPrivateKey):
        return _Rs256(key)
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return _EdDsa(key)
    raise OperatorFacing("the private key of a login must be P-256, RSA or Ed25519")


def _number(value: int, size: int | None = None) -> str:
    return base64url(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class _Es256:
    algorithm = "ES256"

    def __init__(self, key: ec.EllipticCurvePrivateKey) -> None:
        self._key = key
        point = key.public_key().public_numbers()
        self.public: Mapping[str, str] = {
            "kty": "EC",
            "crv": "P-256",
            "x": _number(point.x, _P256_BYTES),
            "y": _number(point.y, _P256_BYTES),
        }

    def sign(self, data: bytes) -> bytes:
        parts = decode_dss_signature(self._key.sign(data, ec.ECDSA(hashes.SHA256())))
        return b"".join(part.to_bytes(_P256_BYTES, "big") for part in parts)


class _Rs256:
    algorithm = "RS256"

    def __init__(self, key: rsa.RSAPrivateKey) -> None:
        self._key = key
        numbers = key.public_key().public_numbers()
        self.public: Mapping[str, str] = {
            "kty": "RSA",
            "n": _number(numbers.n),
            "e": _number(numbers.e),
        }

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data, padding.PKCS1v15(), hashes.SHA256())


class _EdDsa:
    algorithm = "EdDSA"

    def __init__(self, key: ed25519.Ed25519PrivateKey) -> None:
        self._key = key
        raw = key.public_key().public_bytes_raw()
        self.public: Mapping[str, str] = {"kty": "OKP", "crv": "Ed25519", "x": base64url(raw)}

    def sign(self, data: bytes) -> bytes:
        return self._key.sign(data)
