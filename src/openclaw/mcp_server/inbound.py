"""Attachments of an order: checked, stored, and turned into what the agent can use."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath

import anyio.to_thread

from openclaw.agent.context import InboundMedia
from openclaw.core.content import Media
from openclaw.core.errors import InvalidRequest
from openclaw.core.images import BadImage, measure
from openclaw.mcp_server.arguments import Attachment, Order
from openclaw.media import kinds
from openclaw.media.decoding import decode, decoded_size
from openclaw.media.reading import Reader
from openclaw.media.signature import HEAD_BYTES, mismatch
from openclaw.media.store import OrderFiles
from openclaw.media.transcription import Transcriber

_NAME_LENGTH = 120


@dataclass(frozen=True, slots=True)
class _Stored:
    attachment: Attachment
    mime_type: str
    path: Path
    name: str


async def receive(
    order: Order, files: OrderFiles, transcriber: Transcriber
) -> tuple[InboundMedia, ...]:
    """Store the order's attachments and read what can be read. InvalidRequest names the item."""
    _check_count("images", order.images, kinds.MAX_IMAGES)
    _check_count("files", order.files, kinds.MAX_FILES)
    stored = [await _store(item, kinds.IMAGE_TYPES, files) for item in order.images]
    stored += [await _store(item, kinds.FILE_TYPES, files) for item in order.files]
    reader = Reader(transcriber)
    received: list[InboundMedia] = []
    for item in stored:
        reading = await reader.read(item.path, item.mime_type)
        media = Media(item.mime_type, path=item.path, name=item.name)
        received.append(InboundMedia(media, reading.text, reading.note))
    return tuple(received)


def _check_count(field: str, items: Sequence[Attachment], limit: int) -> None:
    if len(items) > limit:
        raise InvalidRequest(f"has {len(items)} items; at most {limit} are taken", field=field)


async def _store(item: Attachment, allowed: Sequence[str], files: OrderFiles) -> _Stored:
    mime_type = kinds.normalise(item.mime_type)
    if mime_type not in allowed:
        raise InvalidRequest(
            f"{item.mime_type!r} is not taken; taken are {', '.join(allowed)}",
            field=f"{item.field}.mimeType",
        )
    # Decoding megabytes and writing them would hold up every other order.
    path = await anyio.to_thread.run_sync(_decode_to_file, item, mime_type, files)
    return _Stored(item, mime_type, path, display_name(item.filename, path))


def _decode_to_file(item: Attachment, mime_type: str, files: OrderFiles) -> Path:
    field = f"{item.field}.data"
    limit = kinds.MAX_INBOUND_BYTES
    data = item.take()
    if decoded_size(data) > limit * 2:  # far too much even if half of it is whitespace
        size = kinds.in_mb(decoded_size(data))
        raise InvalidRequest(f"is {size}; at most {kinds.in_mb(limit)} are taken", field=field)
    pieces = decode(data, field=field, limit=limit)
    first = next(pieces)
    found = mismatch(mime_type, first[:HEAD_BYTES])
    if found is not None:
        raise InvalidRequest(
            f"is declared as {mime_type}, but the content is {found}", field=item.field
        )
    path = files.save(chain((first,), pieces), mime_type)
    if mime_type in kinds.IMAGE_TYPES:
        _check_image(path, item.field)
    return path


def _check_image(path: Path, field: str) -> None:
    try:
        measure(path.read_bytes())
    except BadImage as bad:
        raise InvalidRequest(f"cannot be shown to a model: {bad}", field=field) from None


def display_name(given: str | None, path: Path) -> str:
    """A given file name as it may be shown: its last part, printable, short. Never used as a path."""
    last = PurePosixPath((given or "").replace("\\", "/")).name
    shown = "".join(char for char in last if char.isprintable()).strip(" .")
    return shown[:_NAME_LENGTH] or f"attachment{path.suffix}"
