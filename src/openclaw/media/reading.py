"""What can be read of files that come with one message: their words, within one budget for all."""

from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from openclaw.media import kinds
from openclaw.media.documents import pdf_text
from openclaw.media.signature import looks_like_text, sniff
from openclaw.media.texts import read_text
from openclaw.media.transcription import Transcriber

TEXT_BUDGET = 200_000
"""Characters of all attachments of a message together."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The words of a file, and what the model should know of them; neither for an image."""

    text: str | None = None
    note: str | None = None


class Reader:
    """Reads the attachments of one message, one after the other, until the budget is used up."""

    def __init__(self, transcriber: Transcriber, budget: int = TEXT_BUDGET) -> None:
        self._transcriber = transcriber
        self._budget = budget

    async def read(self, path: Path, mime_type: str) -> Reading:
        """The words of this file, whose type has been checked."""
        reading = await self._read(path, mime_type, max(self._budget, 0))
        self._budget -= len(reading.text or "")
        return reading

    async def _read(self, path: Path, mime_type: str, room: int) -> Reading:
        if mime_type in kinds.IMAGE_TYPES:
            return Reading()
        if mime_type == "application/pdf":
            document = await pdf_text(path, room)
            return Reading(document.text or None, document.note)
        if mime_type in kinds.AUDIO_TYPES:
            transcript = await self._transcriber.transcribe(path, mime_type)
            return Reading(transcript.text, transcript.note)
        if mime_type not in kinds.TEXT_TYPES:
            return Reading(note="its content is not read")
        if not room:
            return Reading(note="left out: the other attachments fill the text budget")
        text, cut = await anyio.to_thread.run_sync(read_text, path, room)
        return Reading(text, f"cut to {room} characters" if cut else None)


def actual_type(head: bytes, declared: str, otherwise: str) -> str:
    """What a file is by its first bytes; `declared` counts for kinds of text, which look alike.

    `otherwise` is for what is neither text nor anything known.
    """
    found = sniff(head)
    if found is not None:
        return found
    if looks_like_text(head):
        return declared if declared in kinds.TEXT_TYPES else "text/plain"
    return otherwise
