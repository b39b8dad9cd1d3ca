"""What clients see of the tool, and every kind of attachment that it takes."""

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.support.pictures import tiny_image

from openclaw.core.errors import InvalidRequest
from openclaw.mcp_server.order_tool import TOOLS
from openclaw.mcp_server.orders import checked_order, receive
from openclaw.media.kinds import FILE_TYPES, IMAGE_TYPES, MIB
from openclaw.media.stored_files import OrderFiles
from openclaw.media.transcription import NoTranscriber

PNG = tiny_image()
TAR = bytes(257) + b"ustar\x0000" + bytes(250)
IMAGES = {
    "image/jpeg": tiny_image("JPEG"),
    "image/png": PNG,
    "image/gif": b"GIF89a\1\0\1\0\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0;",
    "image/webp": b"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0/\0\0\0\0\x07\x10\x11\x11\x88\x88\xfe\x07\0",
}
FILES = {
    "application/pdf": b"%PDF-1.4\n%%EOF",
    "text/plain": b"words",
    "text/markdown": b"# words",
    "text/html": b"<p>words</p>",
    "text/csv": b"a,b",
    "application/json": b"{}",
    "audio/mpeg": b"ID3\x03" + bytes(32),
    "audio/wav": b"RIFF\x24\0\0\0WAVEfmt " + bytes(32),
    "audio/ogg": b"OggS\0\2" + bytes(40),
    "audio/mp4": b"\0\0\0\x18ftypM4A " + bytes(32),
    "audio/aac": b"\xff\xf1\x50\x80" + bytes(32),
    "audio/flac": b"fLaC" + bytes(32),
    "audio/opus": b"OggS\0\2" + bytes(22) + b"OpusHead" + bytes(16),
    "video/mp4": b"\0\0\0\x18ftypisom" + bytes(32),
    "video/webm": b"\x1aE\xdf\xa3" + bytes(8) + b"webm" + bytes(16),
    "video/quicktime": b"\0\0\0\x14ftypqt  " + bytes(32),
    "video/x-msvideo": b"RIFF\x24\0\0\0AVI LIST" + bytes(32),
    "application/zip": b"PK\3\4" + bytes(32),
    "application/gzip": b"\x1f\x8b\x08\0" + bytes(32),
    "application/x-tar": TAR,
    "application/x-compressed-tar": b"\x1f\x8b\x08\0" + bytes(32),
}


def _order(field: str, mime_type: str, data: bytes) -> dict[str, Any]:
    item = {"mimeType": mime_type, "data": base64.b64encode(data).decode()}
    return {"message": "look", field: [item]}


async def _received(tmp_path: Path, order: dict[str, Any]) -> list[str]:
    items = await receive(order, OrderFiles(tmp_path), NoTranscriber())
    return [item.media.mime_type for item in items]


@pytest.mark.requirement("M-1")
@pytest.mark.parametrize("mime_type", IMAGE_TYPES)
async def test_every_kind_of_image_is_taken(tmp_path: Path, mime_type: str) -> None:
    order = _order("images", mime_type, IMAGES[mime_type])
    assert await _received(tmp_path, order) == [mime_type]


@pytest.mark.requirement("M-2")
@pytest.mark.parametrize("mime_type", FILE_TYPES)
async def test_every_kind_of_file_is_taken(tmp_path: Path, mime_type: str) -> None:
    order = _order("files", mime_type, FILES[mime_type])
    assert await _received(tmp_path, order) == [mime_type]


@pytest.mark.requirement("M-3")
@pytest.mark.parametrize("mime_type", ["image/svg+xml", "application/x-msdownload", "nonsense"])
async def test_every_other_kind_is_refused(tmp_path: Path, mime_type: str) -> None:
    for field in ("images", "files"):
        with pytest.raises(InvalidRequest, match=rf"{field}\[0\]"):
            await _received(tmp_path, _order(field, mime_type, b"x"))


@pytest.mark.requirement("M-4")
async def test_15_mb_are_taken_and_no_byte_more(tmp_path: Path) -> None:
    most = _order("files", "text/plain", b"x" * (15 * MIB))
    assert await _received(tmp_path, most) == ["text/plain"]
    more = _order("files", "text/plain", b"x" * (15 * MIB + 1))
    with pytest.raises(InvalidRequest, match="15"):
        await _received(tmp_path, more)


@pytest.mark.requirement("M-5")
@pytest.mark.parametrize(("field", "most"), [("images", 10), ("files", 5)])
async def test_ten_images_and_five_files_are_taken_and_no_more(
    tmp_path: Path, field: str, most: int
) -> None:
    kind, data = ("image/png", PNG) if field == "images" else ("text/plain", b"words")
    encoded = base64.b64encode(data).decode()

    def order(count: int) -> dict[str, Any]:
        items = [{"data": encoded, "mimeType": kind} for _ in range(count)]
        return checked_order(TOOLS["openclaw"]["inputSchema"], {"message": "look", field: items})

    assert await _received(tmp_path, order(most)) == [kind] * most
    with pytest.raises(InvalidRequest, match=f"{field}.*{most}"):
        await _received(tmp_path, order(most + 1))


def _properties(name: str) -> dict[str, Any]:
    tool = TOOLS[name]
    assert tool["name"] == f"order_{name}"
    assert tool["inputSchema"]["required"] == ["message"]
    return tool["inputSchema"]["properties"]


@pytest.mark.requirement("O-2")
def test_the_tool_takes_a_message_a_session_key_images_and_files() -> None:
    properties = _properties("openclaw")
    assert {key: value["type"] for key, value in properties.items()} == {
        "message": "string",
        "sessionKey": "string",
        "images": "array",
        "files": "array",
    }
    for media in ("images", "files"):
        item = properties[media]["items"]
        assert item["required"] == ["data", "mimeType"]
        assert set(item["properties"]) == {"data", "mimeType", "filename"}
    assert "max 10, 15MB each" in properties["images"]["description"]
    assert "max 5, 15MB each" in properties["files"]["description"]
    assert TOOLS["openclaw"]["description"].startswith(
        "Send a message to OpenClaw and receive a response. The message will be processed as if "
        "typed by a user."
    )


@pytest.mark.requirement("O-11")
def test_the_older_name_takes_text_alone() -> None:
    assert set(_properties("clawdbot")) == {"message", "sessionKey"}
    assert TOOLS["clawdbot"]["description"] == (
        "Send a message to Clawdbot and receive a response. The message will be processed as if "
        "typed by a user."
    )
