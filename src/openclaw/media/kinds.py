"""Which media are taken and given, and how much of them."""

MIB = 1024 * 1024

MAX_INBOUND_BYTES = 15 * MIB
MAX_IMAGES = 10
MAX_FILES = 5
MAX_OUTBOUND_BYTES = 20 * MIB
MAX_RESPONSE_BYTES = 50 * MIB

IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
TEXT_TYPES = ("text/plain", "text/markdown", "text/html", "text/csv", "application/json")
DOCUMENT_TYPES = ("application/pdf", *TEXT_TYPES)
AUDIO_TYPES = (
    "audio/mpeg",
    "audio/wav",
    "audio/ogg",
    "audio/mp4",
    "audio/aac",
    "audio/flac",
    "audio/opus",
)
VIDEO_TYPES = ("video/mp4", "video/webm", "video/quicktime", "video/x-msvideo")
ARCHIVE_TYPES = (
    "application/zip",
    "application/gzip",
    "application/x-tar",
    "application/x-compressed-tar",
)
FILE_TYPES = (*DOCUMENT_TYPES, *AUDIO_TYPES, *VIDEO_TYPES, *ARCHIVE_TYPES)

EXTENSIONS = {
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/gif": ".gif",
    "image/webp": ".webp",
    "application/pdf": ".pdf",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/html": ".html",
    "text/csv": ".csv",
    "application/json": ".json",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
    "audio/ogg": ".ogg",
    "audio/mp4": ".m4a",
    "audio/aac": ".aac",
    "audio/flac": ".flac",
    "audio/opus": ".opus",
    "video/mp4": ".mp4",
    "video/webm": ".webm",
    "video/quicktime": ".mov",
    "video/x-msvideo": ".avi",
    "application/zip": ".zip",
    "application/gzip": ".gz",
    "application/x-tar": ".tar",
    "application/x-compressed-tar": ".tgz",
}

_ALIASES = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/x-wav": "audio/wav",
    "audio/wave": "audio/wav",
    "audio/vnd.wave": "audio/wav",
    "audio/x-m4a": "audio/mp4",
    "audio/m4a": "audio/mp4",
    "audio/x-flac": "audio/flac",
    "audio/x-aac": "audio/aac",
    "text/x-markdown": "text/markdown",
    "video/avi": "video/x-msvideo",
    "application/x-zip-compressed": "application/zip",
    "application/x-gzip": "application/gzip",
    "application/x-gtar": "application/x-tar",
}


def normalise(mime_type: str) -> str:
    """A MIME type without its parameters, in lower case, under its usual name."""
    bare = mime_type.partition(";")[0].strip().lower()
    return _ALIASES.get(bare, bare)


def in_mb(size: int) -> str:
    """A size as the limits are written."""
    return f"{size / MIB:.1f} MB"
