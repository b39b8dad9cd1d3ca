"""Which media types are accepted and returned, and their size limits."""

MIB = 1024 * 1024
MAX_INBOUND_BYTES = 15 * MIB
MAX_IMAGES = 10
MAX_FILES = 5
MAX_OUTBOUND_BYTES = 20 * MIB
MAX_RESPONSE_BYTES = 50 * MIB

# Each type with its file extension and its aliases.
_TYPES: dict[str, tuple[str, ...]] = {
    "image/jpeg": (".jpg", "image/jpg"),
    "image/png": (".png",),
    "image/gif": (".gif",),
    "image/webp": (".webp",),
    "application/pdf": (".pdf",),
    "text/plain": (".txt",),
    "text/markdown": (".md", "text/x-markdown"),
    "text/html": (".html",),
    "text/csv": (".csv",),
    "application/json": (".json",),
    "audio/mpeg": (".mp3", "audio/mp3"),
    "audio/wav": (".wav", "audio/x-wav", "audio/wave", "audio/vnd.wave"),
    "audio/ogg": (".ogg",),
    "audio/mp4": (".m4a", "audio/x-m4a", "audio/m4a"),
    "audio/aac": (".aac", "audio/x-aac"),
    "audio/flac": (".flac", "audio/x-flac"),
    "audio/opus": (".opus",),
    "video/mp4": (".mp4",),
    "video/webm": (".webm",),
    "video/quicktime": (".mov",),
    "video/x-msvideo": (".avi", "video/avi"),
    "application/zip": (".zip", "application/x-zip-compressed"),
    "application/gzip": (".gz", "application/x-gzip"),
    "application/x-tar": (".tar", "application/x-gtar"),
    "application/x-compressed-tar": (".tgz",),
}
EXTENSIONS = {name: ending for name, (ending, *_) in _TYPES.items()}
_ALIASES = {other: name for name, (_, *others) in _TYPES.items() for other in others}

TEXT_TYPES = ("text/plain", "text/markdown", "text/html", "text/csv", "application/json")
DOCUMENT_TYPES = ("application/pdf", *TEXT_TYPES)
IMAGE_TYPES, AUDIO_TYPES, VIDEO_TYPES = (
    tuple(kind for kind in EXTENSIONS if kind.startswith(f"{family}/"))
    for family in ("image", "audio", "video")
)
ARCHIVE_TYPES = (
    "application/zip", "application/gzip", "application/x-tar", "application/x-compressed-tar",
)  # fmt: skip
FILE_TYPES = (*DOCUMENT_TYPES, *AUDIO_TYPES, *VIDEO_TYPES, *ARCHIVE_TYPES)


def normalise(mime_type: str) -> str:
    bare = mime_type.partition(";")[0].strip().lower()
    return _ALIASES.get(bare, bare)


def in_mb(size: int) -> str:
    return f"{size / MIB:.1f} MB"


HEAD_BYTES = 4096  # as much as any signature below needs

_PREFIXES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
    (b"ADIF", "audio/aac"),
    (b"\x7fELF", "application/x-executable"),
    (b"MZ", "application/x-msdownload"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    (b"Rar!\x1a\x07", "application/vnd.rar"),
    (b"BZh", "application/x-bzip2"),
    (b"\xfd7zXZ\x00", "application/x-xz"),
    (b"\x28\xb5\x2f\xfd", "application/zstd"),
)
_RIFF = {b"WAVE": "audio/wav", b"WEBP": "image/webp", b"AVI ": "video/x-msvideo"}
_AUDIO_BRANDS = (b"M4A ", b"M4B ", b"M4P ", b"F4A ")
_IMAGE_BRANDS = (b"heic", b"heix", b"mif1", b"avif", b"avis")
_OLD_QUICKTIME = (b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot")  # before there was ftyp
_TAR_MAGIC_AT = 257
_PDF_SEARCH = 1024  # readers accept a header within the first 1024 bytes

# Other types with the same signature: containers that say nothing about their content.
_ALSO = {
    "application/gzip": ("application/x-compressed-tar",),
    "audio/ogg": ("audio/opus",),
    "video/mp4": ("audio/mp4",),
    "video/quicktime": ("video/mp4", "audio/mp4"),
}


def sniff(head: bytes) -> str | None:
    """The MIME type by the content's signature; None if it has none."""
    for prefix, mime_type in _PREFIXES:
        if head.startswith(prefix):
            return mime_type
    if head[:4] == b"RIFF" and head[8:12] in _RIFF:
        return _RIFF[head[8:12]]
    if head[4:8] == b"ftyp":
        return _by_brand(head[8:12])
    if head[4:8] in _OLD_QUICKTIME and int.from_bytes(head[:4]) not in range(2, 8):
        return "video/quicktime"
    if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar" or _is_old_tar(head[:512]):
        return "application/x-tar"
    if found := _by_frame_sync(head) or _late_mp3(head):
        return found
    return "application/pdf" if b"%PDF-" in head[:_PDF_SEARCH] else None


def _is_old_tar(header: bytes) -> bool:
    given = header[148:156].strip(b" \0")
    if len(header) < 512 or not header[0] or not given or given.strip(b"01234567"):
        return False
    return int(given, 8) == sum(header) - sum(header[148:156]) + 8 * ord(" ")


def _late_mp3(head: bytes) -> str | None:
    """An MP3 behind zeros, as some recorders write it; its header is then checked more closely."""
    frame = head.lstrip(b"\0")
    if frame.startswith(b"ID3"):
        return "audio/mpeg"
    if len(frame) < 4 or frame[2] >> 4 in (0, 15) or frame[2] >> 2 & 3 == 3:
        return None
    return "audio/mpeg" if _by_frame_sync(frame) == "audio/mpeg" else None


def _by_brand(brand: bytes) -> str:
    if brand in _AUDIO_BRANDS:
        return "audio/mp4"
    if brand in _IMAGE_BRANDS:
        return "image/heif"
    return "video/quicktime" if brand == b"qt  " else "video/mp4"


def _by_frame_sync(head: bytes) -> str | None:
    if len(head) < 2 or head[0] != 0xFF:
        return None
    if head[1] & 0xF6 == 0xF0:  # ADTS: layer bits are zero
        return "audio/aac"
    if head[1] & 0xE0 == 0xE0 and head[1] & 0x06:
        return "audio/mpeg"
    return None


def looks_like_text(head: bytes) -> bool:
    """Whether this can be text: it has a BOM, or no control bytes that text never has."""
    if head.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return True
    controls = sum(byte < 32 and byte not in b"\t\n\r\f\x1b\b" for byte in head)
    return b"\0" not in head and controls * 50 <= len(head)


def mismatch(declared: str, head: bytes) -> str | None:
    """What the content is instead of the declared type; None if they agree."""
    found = sniff(head)
    if declared in TEXT_TYPES and looks_like_text(head):
        # "BM" or "MZ" may begin a sentence; only what text cannot contain decides.
        return found if found == "application/pdf" and head.startswith(b"%PDF-") else None
    if declared in TEXT_TYPES:
        return found or "binary data"
    if found is None:
        return "text" if head and looks_like_text(head) else "nothing that is recognised"
    if found == declared or declared in _ALSO.get(found, ()):
        return None
    return found
