"""Files that a command line names, checked and read for the agent."""

import mimetypes
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread

from openclaw.agent.context import InboundMedia
from openclaw.core.content import Media
from openclaw.core.errors import InvalidRequest
from openclaw.media import kinds
from openclaw.media.documents import pdf_text
from openclaw.media.signature import HEAD_BYTES, looks_like_text, sniff
from openclaw.media.texts import read_text
from openclaw.media.transcription import Transcriber

TEXT_BUDGET = 200_000  # characters of all attachments together


async def read_attachments(
    images: Sequence[Path], files: Sequence[Path], transcriber: Transcriber
) -> tuple[InboundMedia, ...]:
    """The files as the agent takes them; InvalidRequest names the one that cannot be taken."""
    budget = TEXT_BUDGET
    read: list[InboundMedia] = []
    wanted = [(path, kinds.IMAGE_TYPES) for path in images]
    wanted += [(path, kinds.FILE_TYPES + kinds.IMAGE_TYPES) for path in files]
    for path, allowed in wanted:
        mime_type = await anyio.to_thread.run_sync(_check, path, allowed)
        media = Media(mime_type, path=path.absolute(), name=path.name)
        one = await _read(media, path, budget, transcriber)
        budget -= len(one.text or "")
        read.append(one)
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
    mime_type = _type_of(path, head)
    if mime_type not in allowed:
        known = ", ".join(allowed)
        raise InvalidRequest(f"is {mime_type}; taken are {known}", field=str(path))
    return mime_type


def _type_of(path: Path, head: bytes) -> str:
    found = sniff(head)
    if found is not None:
        return found
    named = kinds.normalise(mimetypes.guess_type(path.name)[0] or "")
    if not looks_like_text(head):
        return "application/octet-stream"
    return named if named in kinds.TEXT_TYPES else "text/plain"


async def _read(media: Media, path: Path, budget: int, transcriber: Transcriber) -> InboundMedia:
    if media.mime_type in kinds.IMAGE_TYPES:
        return InboundMedia(media)
    if media.mime_type == "application/pdf":
        document = await pdf_text(path, max(budget, 0))
        return InboundMedia(media, document.text or None, document.note)
    if media.mime_type in kinds.AUDIO_TYPES:
        transcript = await transcriber.transcribe(path, media.mime_type)
        return InboundMedia(media, transcript.text, transcript.note)
    if media.mime_type not in kinds.TEXT_TYPES:
        return InboundMedia(media, None, "its content is not read")
    if budget <= 0:
        return InboundMedia(media, None, "left out: the other attachments fill the text budget")
    text, cut = await anyio.to_thread.run_sync(read_text, path, budget)
    return InboundMedia(media, text, f"cut to {budget} characters" if cut else None)
