import pytest

from openclaw.media.kinds import looks_like_text, mismatch, normalise, sniff

TAR = b"name".ljust(257, b"\0") + b"ustar\0"
SAMPLES = {
    "image/png": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "image/jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "image/gif": b"GIF89a\1\0",
    "image/webp": b"RIFF\x24\0\0\0WEBPVP8 ",
    "application/pdf": b"%PDF-1.7\n",
    "application/zip": b"PK\x03\x04\x14\0",
    "application/gzip": b"\x1f\x8b\x08\0",
    "application/x-tar": TAR,
    "audio/ogg": b"OggS\0\x02",
    "audio/flac": b"fLaC\0\0",
    "audio/mpeg": b"ID3\x04\0",
    "audio/wav": b"RIFF\x24\0\0\0WAVEfmt ",
    "audio/mp4": b"\0\0\0\x20ftypM4A \0",
    "audio/aac": b"\xff\xf1\x50\x80",
    "video/mp4": b"\0\0\0\x20ftypisom\0",
    "video/quicktime": b"\0\0\0\x14ftypqt  \0",
    "video/webm": b"\x1aE\xdf\xa3\x9f",
    "video/x-msvideo": b"RIFF\x24\0\0\0AVI LIST",
}


@pytest.mark.parametrize("mime_type", SAMPLES)
def test_a_file_is_known_by_its_first_bytes(mime_type: str) -> None:
    assert sniff(SAMPLES[mime_type]) == mime_type
    assert mismatch(mime_type, SAMPLES[mime_type]) is None


@pytest.mark.parametrize(
    ("declared", "head"),
    [
        ("audio/opus", SAMPLES["audio/ogg"]),
        ("application/x-compressed-tar", SAMPLES["application/gzip"]),
        ("audio/mp4", SAMPLES["video/mp4"]),
        ("audio/mpeg", b"\xff\xfb\x90\x00"),
        ("application/pdf", b"\n\n junk before %PDF-1.4"),
        ("text/plain", b"hello"),
        ("text/plain", b"BM is a company"),
        ("text/plain", b"MZ is a name"),
        ("text/csv", "é;ü".encode("latin-1")),
        ("text/html", "\ufeff<p>x".encode("utf-16")),
        ("application/json", b"{}"),
        ("text/markdown", b"\x1b[1mbold\x1b[0m"),
    ],
)
def test_what_a_signature_admits_is_no_mismatch(declared: str, head: bytes) -> None:
    assert mismatch(declared, head) is None


@pytest.mark.parametrize(
    ("declared", "head", "found"),
    [
        ("image/png", SAMPLES["image/jpeg"], "image/jpeg"),
        ("image/png", b"<svg xmlns=", "text"),
        ("image/gif", b"\0\1\2\3", "nothing that is recognised"),
        ("application/pdf", b"hello", "text"),
        ("application/pdf", b"", "nothing that is recognised"),
        ("text/plain", SAMPLES["application/zip"] + b"\0" * 40, "application/zip"),
        ("text/plain", b"\0\1\2\3\4\5", "binary data"),
        ("text/plain", b"%PDF-1.7\n", "application/pdf"),
        ("application/zip", b"\x7fELF\2\1\1", "application/x-executable"),
        ("audio/mpeg", b"\0\0\0\x20ftypheic", "image/heif"),
    ],
)
def test_a_mismatch_names_what_the_content_is(declared: str, head: bytes, found: str) -> None:
    assert mismatch(declared, head) == found


def test_mime_types_are_known_by_other_names_and_with_parameters() -> None:
    assert normalise("Text/Plain; charset=utf-8") == "text/plain"
    assert normalise("image/jpg") == "image/jpeg"
    assert normalise("audio/x-wav") == "audio/wav"


def test_text_may_have_colours_but_no_nul() -> None:
    assert looks_like_text(b"\x1b[31mred\x1b[0m\r\n")
    assert not looks_like_text(b"a\0b")


def _v7_tar(name: bytes) -> bytes:
    header = bytearray(512)
    header[: len(name)] = name
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return bytes(header)


@pytest.mark.parametrize(
    ("declared", "head"),
    [
        ("application/x-tar", _v7_tar(b"notes.txt")),
        ("video/quicktime", b"\0\0\0\x08wide\0\0\x10\0mdat"),
        ("video/quicktime", b"\0\0\x10\0moov\0\0\0\x6cmvhd"),
        ("audio/mpeg", b"\0" * 417 + b"\xff\xfb\x90\x64" + b"\0" * 32),
    ],
)
def test_older_and_padded_files_are_known(declared: str, head: bytes) -> None:
    assert mismatch(declared, head) is None


def test_zeros_alone_are_nothing() -> None:
    assert mismatch("audio/mpeg", bytes(4096)) == "nothing that is recognised"
    assert mismatch("application/x-tar", bytes(512)) == "nothing that is recognised"
