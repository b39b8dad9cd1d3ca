"""Files that a command line names, checked and read for the agent."""

import mimetypes
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread

from openclaw.agent.port import InboundMedia
from openclaw.core.content import Media
from openclaw.core.errors import InvalidRequest
from openclaw.media import kinds
from openclaw.media.intake import TEXT_BUDGET, Reader, actual_type
from openclaw.media.kinds import HEAD_BYTES
from openclaw.media.transcription import Transcriber


async def read_attachments(
    images: Sequence[Path],
    files: Sequence[Path],
    transcriber: Transcriber,
    *,
    budget: int = TEXT_BUDGET,
) -> tuple[InboundMedia, ...]:
    """The files as the agent takes them; InvalidRequest names the one that cannot be taken."""
    reader = Reader(transcriber, budget)
    read: list[InboundMedia] = []
    wanted = [(path, kinds.IMAGE_TYPES) for path in images]
    wanted += [(path, kinds.FILE_TYPES + kinds.IMAGE_TYPES) for path in files]
    for path, allowed in wanted:
        mime_type = await anyio.to_thread.run_sync(_check, path, allowed)
        media = Media(mime_type, path=path.absolute(), name=path.name)
        reading = await reader.read(path, mime_type)
        read.append(InboundMedia(media, reading.text, reading.note))
    return tuple(read)


def _check(path: Path, allowed: Sequence[str]) -> str:
    """The file's type; raises where it is missing, too large or of no use."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise InvalidRequest(error.strerror or str(error), field=str(path)) from error
    if size > kinds.MAX_INBOUND_BYTES:
        limit = kinds.in_mb(kinds.MAX_INBOUND_BYTES)
        raise InvalidRequest(f"is {kinds.in_mb(size)}; at most {limit} are taken", field=str(path))
    named = kinds.normalise(mimetypes.guess_type(path.name)[0] or "")
    mime_type = actual_type(head, named, otherwise="application/octet-stream")
    if mime_type not in allowed:
        known = ", ".join(allowed)
        raise InvalidRequest(f"is {mime_type}; taken are {known}", field=str(path))
    return mime_type
