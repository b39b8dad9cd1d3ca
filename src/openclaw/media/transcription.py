"""Speech to text, by whatever is there that can do it."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from openclaw.core.errors import OpenClawError
from openclaw.core.wire import describe

logger = logging.getLogger(__name__)

NOT_SET_UP = "audio is kept but not transcribed: no transcription provider is set up"


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was said, or a note that says why that is not known, or not all of it."""

    text: str | None = None
    note: str | None = None


class TranscriptionFailed(OpenClawError):
    """Raised by a provider that is there but could not do this recording."""


class Transcriber(Protocol):
    """Turns a sound file into words. A failure is a note, never an exception."""

    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        """The words of this file."""
        ...


class Provider(Protocol):
    """One way to turn sound into words."""

    @property
    def name(self) -> str:
        """As a person knows it."""
        ...

    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        """The words of this file; raises `TranscriptionFailed`."""
        ...


FindProvider = Callable[[], Awaitable[Provider | None]]


class NoTranscriber:
    """Stands where no provider is wanted."""

    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        """A note that says so."""
        return Transcript(note=NOT_SET_UP)


class FirstAvailable:
    """Takes the first provider that is there, looked for with each recording.

    The next is not tried when the first fails: a recording goes where its owner expects it to go.
    """

    def __init__(self, candidates: Sequence[FindProvider], none_found: str = NOT_SET_UP) -> None:
        self._candidates = candidates
        self._none_found = none_found

    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        """The words of this file, or a note."""
        try:
            provider = await self._provider()
            if provider is None:
                return Transcript(note=self._none_found)
            return await self._by(provider, path, mime_type)
        except OpenClawError as error:
            logger.warning("no provider of transcription: %s", describe(error))
            return Transcript(note=f"not transcribed: {describe(error)}")

    async def _provider(self) -> Provider | None:
        for find in self._candidates:
            provider = await find()
            if provider is not None:
                return provider
        return None

    async def _by(self, provider: Provider, path: Path, mime_type: str) -> Transcript:
        try:
            transcript = await provider.transcribe(path, mime_type)
        except TranscriptionFailed as error:
            logger.warning("%s could not transcribe a recording: %s", provider.name, error.message)
            return Transcript(note=f"not transcribed: {provider.name}: {error.message}")
        if not transcript.text and transcript.note is None:
            return Transcript(note=f"{provider.name} heard no words in it")
        note = f"transcribed by {provider.name}"
        return Transcript(
            transcript.text or None, f"{note}; {transcript.note}" if transcript.note else note
        )
