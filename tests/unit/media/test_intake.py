"""What can be read of the files that come with a message."""

from pathlib import Path

import pytest

from openclaw.core.content import Media
from openclaw.media.documents import Extracted
from openclaw.media.intake import Intake, actual_type
from openclaw.media.transcription import NoTranscriber

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)


class Says:
    async def transcribe(self, path: Path, mime_type: str) -> Extracted:
        return Extracted(f"{path.name} as {mime_type}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_text("0123456789")
    return path


async def read(intake: Intake, path: Path, mime_type: str) -> tuple[str | None, str | None]:
    media = Media(mime_type, path=path)
    found = await intake.read(media)
    assert found.media is media
    return found.text, found.note


async def test_all_files_share_one_budget(path: Path) -> None:
    intake = Intake(NoTranscriber(), budget=14)
    assert [await read(intake, path, "text/plain") for _ in range(3)] == [
        ("0123456789", None),
        ("0123", "cut to 4 characters"),
        (None, "left out: the other attachments fill the text budget"),
    ]


async def test_sound_is_transcribed_and_counts(path: Path) -> None:
    intake = Intake(Says(), budget=20)
    assert await read(intake, path, "audio/wav") == ("file as audio/wav", None)
    assert await read(intake, path, "text/plain") == ("012", "cut to 3 characters")


async def test_images_and_what_is_not_read_cost_nothing(path: Path) -> None:
    intake = Intake(NoTranscriber(), budget=10)
    assert await read(intake, path, "image/png") == (None, None)
    assert await read(intake, path, "application/zip") == (None, "content not extracted")
    assert await read(intake, path, "text/plain") == ("0123456789", None)


async def test_a_document_that_cannot_be_read_says_why(path: Path) -> None:
    text, note = await read(Intake(NoTranscriber()), path, "application/pdf")
    assert text is None
    assert note


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
