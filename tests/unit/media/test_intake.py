"""What can be read of the files that come with a message."""

from pathlib import Path

import pytest

from openclaw.media.intake import Reader, Reading, actual_type
from openclaw.media.transcription import NoTranscriber, Transcript

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


class Says:
    async def transcribe(self, path: Path, mime_type: str) -> Transcript:
        return Transcript(f"{path.name} as {mime_type}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("0123456789")
    return path


async def test_all_files_share_one_budget(path: Path) -> None:
    reader = Reader(NoTranscriber(), budget=14)
    readings = [await reader.read(path, "text/plain") for _ in range(3)]
    assert readings == [
        Reading("0123456789"),
        Reading("0123", "cut to 4 characters"),
        Reading(None, "left out: the other attachments fill the text budget"),
    ]


async def test_sound_is_transcribed_and_counts(path: Path) -> None:
    reader = Reader(Says(), budget=20)
    assert await reader.read(path, "audio/wav") == Reading("file as audio/wav")
    assert await reader.read(path, "text/plain") == Reading("012", "cut to 3 characters")


async def test_images_and_what_is_not_read_cost_nothing(path: Path) -> None:
    reader = Reader(NoTranscriber(), budget=10)
    assert await reader.read(path, "image/png") == Reading()
    assert await reader.read(path, "application/zip") == Reading(None, "its content is not read")
    assert await reader.read(path, "text/plain") == Reading("0123456789")


async def test_a_document_that_cannot_be_read_says_why(path: Path) -> None:
    reading = await Reader(NoTranscriber()).read(path, "application/pdf")
    assert reading.text is None
    assert reading.note


@pytest.mark.parametrize(
    ("head", "declared", "found"),
    [
        (PNG, "text/plain", "image/png"),
        (b"a,b\n", "text/csv", "text/csv"),
        (b"words", "application/zip", "text/plain"),
        (b"\0\1\2\3" * 9, "text/plain", "otherwise"),
    ],
)
def test_a_file_is_what_its_bytes_say(head: bytes, declared: str, found: str) -> None:
    assert actual_type(head, declared, otherwise="otherwise") == found
