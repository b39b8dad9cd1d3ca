"""Speech to text, where something that can do it is there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was said, or a note that says why that is not known."""

    text: str | None = None
    note: str | None = None


class Transcriber(Protocol):
    """Turns a sound file into words. A failure is a note, never an exception."""

    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        """The words of this file."""
        ...


class NoTranscriber:
    """Stands where no provider is configured or installed."""

    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        """A note that says so."""
        return Transcript(
            note="audio is kept but not transcribed: no transcription provider is set up"
        )
