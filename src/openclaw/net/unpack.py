"""Unpacking of answers, a bounded piece at a time: a bomb never gets to explode."""

import zlib
from collections.abc import Iterator
from typing import Protocol

from openclaw.net.errors import FetchFailed

ACCEPT_ENCODING = "gzip, deflate"
"""What we ask for. What we did not ask for is refused, stacked encodings above all."""

_PIECE = 64 * 1024


class Unpacker(Protocol):
    """Takes packed bytes and gives plain ones, in pieces of bounded size."""

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """The plain pieces that these bytes complete."""
        ...


class Plain:
    """For answers that are not packed."""

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """The bytes themselves."""
        yield packed


class Zlib:
    """For gzip and deflate."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = gzip
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16 if gzip else zlib.MAX_WBITS)
        self._started = False

    def feed(self, packed: bytes) -> Iterator[bytes]:
        """The plain pieces that these bytes complete, each of them small."""
        while packed and not self._inflate.eof:
            piece, packed = self._step(packed)
            if piece:
                yield piece

    def _step(self, packed: bytes) -> tuple[bytes, bytes]:
        try:
            piece = self._inflate.decompress(packed, _PIECE)
        except zlib.error as error:
            if self._gzip or self._started:
                raise FetchFailed(f"the answer cannot be unpacked: {error}") from None
            # Some servers send deflate without the header that belongs to it.
            self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
            self._started = True
            return b"", packed
        self._started = True
        return piece, self._inflate.unconsumed_tail


def unpacker(encoding: str) -> Unpacker:
    """The unpacker for a `Content-Encoding`."""
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return Plain()
    if name in {"gzip", "x-gzip", "deflate"}:
        return Zlib(gzip=name != "deflate")
    raise FetchFailed(f"the answer is packed as {name[:40]!r}, which was not asked for")
