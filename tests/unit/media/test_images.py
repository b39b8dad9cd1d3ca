"""Images measured by their headers, of every kind, honest, cut off and lying."""

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw.media.images import BadImage, ImageSize, is_markup, measure


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, frames: int | None = None) -> bytes:
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    animation = b"" if frames is None else chunk(b"acTL", struct.pack(">II", frames, 0))
    return b"\x89PNG\r\n\x1a\n" + head + animation + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def gif(width: int, height: int, frames: int = 1) -> bytes:
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x4c\x01\x00"
    colours = b"\x80\x00\x00" + bytes(6)
    extension = b"\x21\xf9\x04\x00\x00\x00\x00\x00"
    head = b"GIF89a" + struct.pack("<HH", width, height) + colours
    return head + (extension + frame) * frames + b";"


def jpeg(width: int, height: int) -> bytes:
    exif = b"\xff\xe1" + struct.pack(">H", 10) + bytes(8)
    table = b"\xff\xc4" + struct.pack(">H", 4) + bytes(2)
    start = b"\xff\xff\xc2" + struct.pack(">HBHHB", 11, 8, height, width, 1) + bytes(3)
    return b"\xff\xd8" + exif + table + start


def webp(kind: bytes, body: bytes, more: bytes = b"") -> bytes:
    inside = b"WEBP" + kind + struct.pack("<I", len(body)) + body + more
    return b"RIFF" + struct.pack("<I", len(inside)) + inside


def webp_lossy(width: int, height: int) -> bytes:
    return webp(b"VP8 ", bytes(3) + b"\x9d\x01\x2a" + struct.pack("<HH", width, height))


def webp_lossless(width: int, height: int) -> bytes:
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14))


def webp_animated(width: int, height: int, frames: int) -> bytes:
    head = bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    frame = b"ANMF" + struct.pack("<I", 3) + bytes(4)  # padded to an even length
    return webp(b"VP8X", head, frame * frames)


@pytest.mark.parametrize(
    ("data", "size"),
    [
        (png(640, 480), ImageSize("image/png", 640, 480)),
        (png(640, 480, 7), ImageSize("image/png", 640, 480, 7)),
        (gif(64, 48), ImageSize("image/gif", 64, 48)),
        (gif(64, 48, 12), ImageSize("image/gif", 64, 48, 12)),
        (jpeg(640, 480), ImageSize("image/jpeg", 640, 480)),
        (webp_lossy(640, 480), ImageSize("image/webp", 640, 480)),
        (webp_lossless(640, 480), ImageSize("image/webp", 640, 480)),
        (webp_animated(640, 480, 5), ImageSize("image/webp", 640, 480, 5)),
    ],
)
def test_the_size_is_what_the_header_says(data: bytes, size: ImageSize) -> None:
    assert measure(data) == size


@pytest.mark.parametrize(
    "data",
    [
        png(50_000, 50_000),
        png(2**31 - 1, 1),
        png(10_000, 10_000, 11),
        gif(60_000, 60_000),
        gif(2_000, 2_000, 300),
        jpeg(65_000, 65_000),
        webp_animated(16_000, 16_000, 1),
        webp_animated(9_000, 9_000, 20),
    ],
)
def test_more_pixels_than_anyone_should_decode_are_refused(data: bytes) -> None:
    assert len(data) < 10_000
    with pytest.raises(BadImage, match="megapixels"):
        measure(data)


def test_a_small_canvas_with_a_large_frame_counts_as_large() -> None:
    data = bytearray(gif(60_000, 60_000))
    data[6:10] = struct.pack("<HH", 1, 1)
    with pytest.raises(BadImage, match="megapixels"):
        measure(bytes(data))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a PNG"),
        (b"BM" + bytes(100), "not a PNG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "it is text"),
        (png(1, 1)[:18], "cut off"),
        (jpeg(1, 1)[:8], "cut off"),
        (b"\xff\xd8\xff\xe1\x00\x04\x00\x00garbage", "not where a JPEG"),
        (b"\x89PNG\r\n\x1a\n" + bytes(40), "not where a PNG"),
        (webp(b"ALPH", bytes(20)), "not where a WebP"),
        (gif(5, 5)[:9], "cut off"),
        (png(0, 5), "no pixels"),
    ],
)
def test_what_is_no_image_is_told_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(BadImage, match=reason):
        measure(data)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\xef\xbb\xbf  <?xml version='1.0'?><svg/>", True),
        (b"<!DOCTYPE html>", True),
        (b"<HTML>", True),
        (b"<!-- a --><svg/>", True),
        (b"a < b", False),
        (png(1, 1), False),
    ],
)
def test_markup_is_known_whatever_it_is_called(data: bytes, found: bool) -> None:
    assert is_markup(data) is found


@given(
    st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8X"]),
    st.binary(max_size=400),
)
def test_any_bytes_are_measured_or_refused(head: bytes, rest: bytes) -> None:
    try:
        size = measure(head + rest)
    except BadImage:
        return
    assert size.width * size.height <= 100_000_000
