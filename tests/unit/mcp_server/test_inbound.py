import base64
from pathlib import Path
from typing import Any

import pytest
from tests.support.pictures import tiny_image

from openclaw.core.errors import InvalidRequest
from openclaw.mcp_server.orders import receive
from openclaw.media.intake import TEXT_BUDGET, display_name
from openclaw.media.kinds import MIB
from openclaw.media.stored_files import OrderFiles
from openclaw.media.transcription import NoTranscriber

PNG = tiny_image()


Attachment = dict[str, str]


def attachment(data: bytes, mime_type: str, **more: str) -> Attachment:
    return {"data": base64.b64encode(data).decode(), "mimeType": mime_type, **more}


def order(*files: Attachment, images: tuple[Attachment, ...] = ()) -> dict[str, Any]:
    return {"message": "look", "images": images, "files": files}


async def test_an_image_is_stored_for_the_model_to_see(tmp_path: Path) -> None:
    image = attachment(PNG, "image/png", filename="../../x/holiday.png")
    [item] = await receive(order(images=(image,)), OrderFiles(tmp_path), NoTranscriber())
    assert item.media.mime_type == "image/png"
    assert item.media.name == "holiday.png"
    assert item.media.path is not None
    assert item.media.path.parent == tmp_path
    assert item.media.path.read_bytes() == PNG
    assert item.text is None


@pytest.mark.parametrize(
    ("mime_type", "data", "text"),
    [
        ("text/plain", "grüße".encode("latin-1"), "grüße"),
        ("text/markdown", b"# A", "# A"),
        ("text/csv", b"a,b\n1,2", "a,b\n1,2"),
        ("application/json", b'{"a": 1}', '{"a": 1}'),
        ("text/html", b"<script>alert(1)</script>", "<script>alert(1)</script>"),
    ],
)
async def test_text_files_come_as_text(
    tmp_path: Path, mime_type: str, data: bytes, text: str
) -> None:
    files = OrderFiles(tmp_path)
    [item] = await receive(order(attachment(data, mime_type)), files, NoTranscriber())
    assert item.text == text


async def test_the_text_of_all_files_stays_within_one_budget(tmp_path: Path) -> None:
    big = attachment(b"x" * (TEXT_BUDGET + 1), "text/plain")
    more = attachment(b"y", "text/plain")
    items = await receive(order(big, more), OrderFiles(tmp_path), NoTranscriber())
    assert [len(item.text or "") for item in items] == [TEXT_BUDGET, 0]
    assert items[0].note == f"cut to {TEXT_BUDGET} characters"
    assert items[1].note == "left out: the other attachments fill the text budget"


@pytest.mark.parametrize(
    ("mime_type", "data", "note"),
    [
        ("application/zip", b"PK\x03\x04" + bytes(30), "content not extracted"),
        ("video/webm", b"\x1aE\xdf\xa3", "content not extracted"),
        ("audio/wav", b"RIFF\x24\0\0\0WAVEfmt ", "no transcription provider is set up"),
    ],
)
async def test_what_cannot_be_read_is_kept_with_a_note(
    tmp_path: Path, mime_type: str, data: bytes, note: str
) -> None:
    files = OrderFiles(tmp_path)
    [item] = await receive(order(attachment(data, mime_type)), files, NoTranscriber())
    assert item.text is None
    assert item.note is not None
    assert note in item.note


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            order(images=tuple(attachment(PNG, "image/png") for _ in range(11))),
            "images: has 11 items; at most 10 are allowed",
        ),
        (
            order(*[attachment(b"x", "text/plain") for _ in range(6)]),
            "files: has 6 items; at most 5 are allowed",
        ),
        (
            order(images=(attachment(b"<svg/>", "image/svg+xml"),)),
            (
                "images[0].mimeType: 'image/svg+xml' is not supported; supported types: image/jpeg,"
                " image/png, image/gif, image/webp"
            ),
        ),
        (
            order(images=(attachment(b"GIF89a", "image/png"),)),
            "images[0]: is declared as image/png, but the content is image/gif",
        ),
        (
            order(images=(attachment(PNG[:45], "image/png"),)),
            "images[0]: cannot be shown to a model: it is damaged (image file is truncated)",
        ),
        (
            order(images=(attachment(PNG[:18], "image/png"),)),
            "images[0]: cannot be shown to a model: its header is cut off",
        ),
        (
            order(images=({"data": "!!!!", "mimeType": "image/png"},)),
            ("images[0].data: is not valid base64 (in the standard alphabet, with its padding)"),
        ),
        (
            order(attachment(b"PK\x03\x04" + bytes(16 * MIB), "application/zip")),
            "files[0].data: is 16.0 MB; the limit is 15.0 MB",
        ),
        (
            order({"data": "A" * (44 * MIB), "mimeType": "application/zip"}),
            "files[0].data: is 33.0 MB; the limit is 15.0 MB",
        ),
    ],
)
async def test_a_refused_attachment_is_named_with_the_reason(
    tmp_path: Path, bad: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        await receive(bad, OrderFiles(tmp_path), NoTranscriber())
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("a.png", "a.png"),
        ("/etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("a\x00b\x1b[31m.png", "ab[31m.png"),
        ("\u202egnp.exe", "gnp.exe"),
        ("x" * 300, "x" * 120),
        ("..", "attachment.png"),
        (".env", ".env"),
        ("", "attachment.png"),
        (None, "attachment.png"),
    ],
)
def test_a_given_name_is_shown_without_its_tricks(given: str | None, shown: str) -> None:
    assert display_name(given, Path("0123.png")) == shown
