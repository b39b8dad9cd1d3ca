"""The detector's weights, which training/train.py learns and writes to weights.bin.

The file starts with the bias, the scale and a digest of what was learnt from; the rest is one signed
byte per feature, compressed.
"""

import pkgutil
import struct
import zlib
from array import array
from functools import cache
from typing import NamedTuple

_HEADER = struct.Struct("<dd32s")


class Weights(NamedTuple):
    """A linear model over hashed features; a feature counts `scale` times its entry."""

    bias: float
    scale: float
    digest: str
    of_feature: list[int]

    def to_bytes(self) -> bytes:
        """What `from_bytes` reads."""
        header = _HEADER.pack(self.bias, self.scale, bytes.fromhex(self.digest))
        return header + zlib.compress(array("b", self.of_feature).tobytes(), 9)

    @classmethod
    def from_bytes(cls, raw: bytes) -> "Weights":
        """Raises an exception when `raw` is cut short."""
        bias, scale, digest = _HEADER.unpack_from(raw)
        of_feature = array("b", zlib.decompress(raw[_HEADER.size :]))
        return cls(bias, scale, digest.hex(), list(of_feature))


@cache
def weights() -> Weights:
    """Those of this release, read at the first use."""
    raw = pkgutil.get_data("openclaw.content.detection", "weights.bin")
    assert raw is not None  # every loader of a package can read the package's files
    return Weights.from_bytes(raw)
