"""The type and size of images, and copies of them that model providers accept.

A few kilobytes can contain gigabytes of pixels, so images are refused by what their headers say
before anything is decoded.
"""

import io
import struct
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from openclaw.media.kinds import HEAD_BYTES, MIB, sniff

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS = 100_000_000  # pixels of one frame
MAX_ALL_PIXELS = 1_000_000_000  # pixels of all frames together
MAX_SIDE = 65_535
# Every start-of-frame marker; the gaps are tables, not frames.
_JPEG_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
_JPEG_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})
_SVG_SEARCH = 4096


class ImageSize(NamedTuple):
    mime_type: str
    width: int
    height: int
    frames: int = 1


class BadImage(ValueError):
    """Raised when this is not an image that a model can be shown; the message says why."""


# What the strictest provider, Anthropic, accepts in one request: 32 MB in all, 5 MB and 8,000 pixels
# for each image, and less for each beyond twenty.
MOST_SHOWN = 20
STRICT_BYTES = 20 * MIB  # of all images together
_SIDES = (8_000, 4096, 3072, 2048, 1536, 1024, 512)
_FORMATS = ("PNG", "JPEG", "GIF", "WEBP")


def fit_image(data: bytes, most: int) -> bytes:
    """The image in at most so many bytes; raises `BadImage` if it can't be decoded. Slow."""
    size = measure(data)
    fits = len(data) <= most and max(size.width, size.height) <= _SIDES[0]
    with _decoded(data) as image:
        return data if fits else _smaller(image, most)


def check_image(data: bytes) -> None:
    """Raise `BadImage` if the image can't be decoded. Slow."""
    measure(data)
    with _decoded(data):
        pass


@contextmanager
def _decoded(data: bytes) -> "Generator[Image]":
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            # A JPEG can be decoded at a fraction of its size, which saves time and memory.
            image.draft("RGB", (_SIDES[1], _SIDES[1]))
            image.load()
            yield image
    except BadImage:
        raise
    except UnidentifiedImageError as error:  # its message only names our buffer
        raise BadImage("it is damaged") from error
    except Exception as error:
        raise BadImage(f"it is damaged ({error})") from error


def _smaller(image: "Image", most: int) -> bytes:
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(image)  # its metadata are lost with the old encoding
    for side in _SIDES:
        if side < max(upright.size) or side == _SIDES[0]:
            copy = upright.copy()
            copy.thumbnail((side, side))
            for encoded in _encodings(copy):
                if len(encoded) <= most:
                    return encoded
    raise BadImage("it is too large to be sent")


def _encodings(image: "Image") -> Iterator[bytes]:
    from PIL import Image

    if image.has_transparency_data or image.mode in ("1", "L", "P"):  # usually not a photo
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
    except struct.error:
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


def _png(data: bytes) -> ImageSize:
    if data[12:16] != b"IHDR":
        raise BadImage("its header is not where a PNG has it")
    width, height = struct.unpack_from(">II", data, 16)
    frames, at = 1, 8
    while at + 8 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"acTL":  # what an animation claims, before the first pixels
            frames = max(1, struct.unpack_from(">I", data, at + 8)[0])
        if kind in (b"acTL", b"IDAT"):
            break
        at += 12 + length
    return ImageSize("image/png", width, height, frames)


def _jpeg(data: bytes) -> ImageSize:
    at = 2
    while True:
        start, marker = struct.unpack_from("BB", data, at)
        if start != 0xFF:
            raise BadImage("its header is not where a JPEG has it")
        if marker == 0xFF:  # padding
            at += 1
        elif marker in _JPEG_ALONE:
            at += 2
        elif marker in _JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return ImageSize("image/jpeg", width, height)
        else:
            at += 2 + max(2, struct.unpack_from(">H", data, at + 2)[0])


def _gif(data: bytes) -> ImageSize:
    width, height, flags = struct.unpack_from("<HHB", data, 6)
    frames, at = 0, 13 + _gif_colours(flags)
    while at < len(data) and data[at] in b"\x2c\x21":
        if data[at] == 0x2C:
            frames += 1
            left, top, wide, high, flags = struct.unpack_from("<HHHHB", data, at + 1)
            width, height = max(width, left + wide), max(height, top + high)
            at += 11 + _gif_colours(flags)
        else:
            at += 2
        while at < len(data) and data[at]:
            at += 1 + data[at]
        at += 1
    return ImageSize("image/gif", width, height, max(1, frames))


def _gif_colours(flags: int) -> int:
    return 3 * (2 << (flags & 7)) if flags & 0x80 else 0


def _webp(data: bytes) -> ImageSize:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return ImageSize("image/webp", width & 0x3FFF, height & 0x3FFF)
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return ImageSize("image/webp", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8X":
        low, high, low_2, high_2 = struct.unpack_from("<HBHB", data, 24)  # of 24 bits each
        frames, at = 0, 12
        while at + 8 <= len(data):
            chunk, length = struct.unpack_from("<4sI", data, at)
            frames += chunk == b"ANMF"
            at += 8 + length + (length & 1)
        width, height = (high << 16 | low) + 1, (high_2 << 16 | low_2) + 1
        return ImageSize("image/webp", width, height, max(1, frames))
    raise BadImage("its header is not where a WebP has it")


_READERS = {"image/png": _png, "image/jpeg": _jpeg, "image/gif": _gif, "image/webp": _webp}
