"""What an image is, and a copy of it that a model's provider accepts.

A few kilobytes can stand for gigabytes of pixels, so images are refused by what their headers say
before anything is decoded.
"""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openclaw.media.kinds import HEAD_BYTES, MAX_IMAGES, MIB, sniff

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 100_000_000  # pixels of one frame
MAX_ALL_PIXELS = 1_000_000_000  # pixels of all frames together
MAX_SIDE = 65_535
# Every start-of-frame marker; the gaps are tables, not frames.
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})
_SVG_SEARCH = 4096


@dataclass(frozen=True, slots=True)
class ImageSize:
    mime_type: str
    width: int
    height: int
    frames: int = 1


class BadImage(ValueError):
    """Raised when this is no image that a model can be shown; the message says why."""


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """What a provider accepts in one request; the defaults are those of the strictest, Anthropic:

    32 MB in all, 5 MB and 8,000 pixels for each, and less for each beyond twenty.
    """

    count: int = 20
    side: int = 8_000
    total_bytes: int = 20 * MIB

    @property
    def bytes(self) -> int:
        """Per image, so that as many as one order may have can all be shown."""
        return self.total_bytes // MAX_IMAGES


STRICT_LIMITS = ImageLimits()
_SIDES = (4096, 3072, 2048, 1536, 1024, 512)
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


def fitted(data: bytes, limits: ImageLimits) -> bytes:
    """The image, made smaller if necessary; raises `BadImage` if it can't be decoded. Slow."""
    size = measure(data)
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    fits = len(data) <= limits.bytes and max(size.width, size.height) <= limits.side
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            # A JPEG can be decoded at a fraction of its size, which saves time and memory.
            image.draft("RGB", (_SIDES[0], _SIDES[0]))
            image.load()
            return data if fits else _smaller(image, limits)
    except BadImage:
        raise
    except Exception as error:
        raise BadImage(f"it is damaged ({error})") from error


def _smaller(image: "Image", limits: ImageLimits) -> bytes:
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(image)  # its metadata are lost with the old encoding
    for side in (limits.side, *_SIDES):
        if side < max(upright.size) or side == limits.side:
            copy = upright.copy()
            copy.thumbnail((side, side))
            for encoded in _encodings(copy):
                if len(encoded) <= limits.bytes:
                    return encoded
    raise BadImage("it is too large to be sent")


def _encodings(image: "Image") -> Iterator[bytes]:
    from PIL import Image

    if image.has_transparency_data or image.mode in ("1", "L", "P"):  # most often drawn, not taken
        buffer = io.BytesIO()
        image.save(buffer, "PNG")
        yield buffer.getvalue()
    white = Image.new("RGBA", image.size, "white")
    flat = Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    buffer = io.BytesIO()
    flat.save(buffer, "JPEG", quality=85)
    yield buffer.getvalue()


def measure(data: bytes) -> ImageSize:
    """The size of a PNG, JPEG, GIF or WebP, from its own bytes; raises `BadImage`."""
    found = _READERS.get(sniff(data[:HEAD_BYTES]) or "")
    if found is None:
        raise BadImage("it is text" if is_markup(data) else "it is not a PNG, JPEG, GIF or WebP")
    try:
        size = found(data)
    except IndexError:
        raise BadImage("its header is cut off") from None
    _check(size)
    return size


def _check(size: ImageSize) -> None:
    if size.width < 1 or size.height < 1:
        raise BadImage("it has no pixels")
    if max(size.width, size.height) > MAX_SIDE or size.width * size.height > MAX_PIXELS:
        raise BadImage(
            f"it has {size.width} x {size.height} pixels; the limit is {MAX_PIXELS // 1_000_000} "
            "megapixels"
        )
    if size.width * size.height * size.frames > MAX_ALL_PIXELS:
        raise BadImage(
            f"it has {size.frames} frames of {size.width} x {size.height} pixels; the limit is "
            f"{MAX_ALL_PIXELS // 1_000_000} megapixels in total"
        )


def is_markup(data: bytes) -> bool:
    head = data[:_SVG_SEARCH].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return head.startswith((b"<svg", b"<?xml", b"<!doctype", b"<html", b"<!--"))


def _number(data: bytes, start: int, length: int, order: str) -> int:
    piece = data[start : start + length]
    if len(piece) < length:
        raise IndexError(start)
    return int.from_bytes(piece, "big" if order == "big" else "little")


def _png(data: bytes) -> ImageSize:
    if data[12:16] != b"IHDR":
        raise BadImage("its header is not where a PNG has it")
    width, height = _number(data, 16, 4, "big"), _number(data, 20, 4, "big")
    frames, at = 1, 8
    while at + 8 <= len(data) and data[at + 4 : at + 8] != b"IDAT":
        if data[at + 4 : at + 8] == b"acTL":  # what an animation claims, before the first pixels
            frames = max(1, _number(data, at + 8, 4, "big"))
            break
        at += 12 + _number(data, at, 4, "big")
    return ImageSize("image/png", width, height, frames)


def _jpeg(data: bytes) -> ImageSize:
    at = 2
    while True:
        if data[at] != 0xFF:
            raise BadImage("its header is not where a JPEG has it")
        marker = data[at + 1]
        if marker == 0xFF:  # filling
            at += 1
        elif marker in _JPEG_ALONE:
            at += 2
        elif marker in _JPEG_FRAMES:
            height, width = _number(data, at + 5, 2, "big"), _number(data, at + 7, 2, "big")
            return ImageSize("image/jpeg", width, height)
        else:
            at += 2 + max(2, _number(data, at + 2, 2, "big"))


def _gif(data: bytes) -> ImageSize:
    width, height = _number(data, 6, 2, "little"), _number(data, 8, 2, "little")
    frames, at = 0, 13 + _gif_colours(data[10])
    while at < len(data) and data[at] != 0x3B:
        if data[at] == 0x2C:
            frames += 1
            width = max(
                width, _number(data, at + 1, 2, "little") + _number(data, at + 5, 2, "little")
            )
            height = max(
                height, _number(data, at + 3, 2, "little") + _number(data, at + 7, 2, "little")
            )
            at += 11 + _gif_colours(data[at + 9])
        elif data[at] == 0x21:
            at += 2
        else:
            break
        while at < len(data) and data[at]:
            at += 1 + data[at]
        at += 1
    return ImageSize("image/gif", width, height, max(1, frames))


def _gif_colours(flags: int) -> int:
    return 3 * (2 << (flags & 7)) if flags & 0x80 else 0


def _webp(data: bytes) -> ImageSize:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = _number(data, 26, 2, "little"), _number(data, 28, 2, "little")
        return ImageSize("image/webp", width & 0x3FFF, height & 0x3FFF)
    if kind == b"VP8L":
        bits = _number(data, 21, 4, "little")
        return ImageSize("image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8X":
        width, height = _number(data, 24, 3, "little") + 1, _number(data, 27, 3, "little") + 1
        frames, at = 0, 12
        while at + 8 <= len(data):
            frames += data[at : at + 4] == b"ANMF"
            length = _number(data, at + 4, 4, "little")
            at += 8 + length + (length & 1)
        return ImageSize("image/webp", width, height, max(1, frames))
    raise BadImage("its header is not where a WebP has it")


_READERS = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
