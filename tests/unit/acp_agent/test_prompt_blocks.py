"""A client's prompt as the agent takes it."""

import base64
from pathlib import Path
from typing import Any

import pytest
from acp import (
    embedded_blob_resource,
    embedded_text_resource,
    image_block,
    resource_block,
    resource_link_block,
    text_block,
)
from tests.support.pictures import tiny_image

from openclaw.acp_agent.session import receive
from openclaw.core.content import InboundMedia
from openclaw.core.errors import InvalidRequest
from openclaw.media.stored_files import OrderFiles
from openclaw.media.transcription import NoTranscriber

PNG = tiny_image()


async def read(tmp_path: Path, *blocks: Any) -> tuple[str, tuple[InboundMedia, ...]]:
    return await receive(blocks, OrderFiles(tmp_path), NoTranscriber())


def blob(data: bytes, uri: str = "file:///x/data.bin", mime_type: str | None = None) -> Any:
    encoded = base64.b64encode(data).decode()
    return resource_block(embedded_blob_resource(uri, encoded, mime_type=mime_type))


@pytest.mark.parametrize(
    ("blocks", "text"),
    [
        ([text_block("One."), text_block("Two.")], "One.\nTwo."),
        ([text_block("One. "), text_block("Two.")], "One. Two."),
        ([text_block(""), text_block("Two.")], "Two."),
        (
            [text_block("See"), resource_link_block("a.py", "file:///a.py")],
            "See [@a.py](file:///a.py)",
        ),
        (
            [
                text_block("See "),
                resource_link_block("", "file:///x/b%20c.py"),
                text_block(", please"),
            ],
            "See [@b c.py](file:///x/b%20c.py), please",
        ),
    ],
)
async def test_words_and_mentions_become_one_text(
    tmp_path: Path, blocks: list[Any], text: str
) -> None:
    assert await read(tmp_path, *blocks) == (text, ())


async def test_embedded_text_is_an_attachment_whatever_its_type_is_called(tmp_path: Path) -> None:
    resource = embedded_text_resource("file:///x/main.rs", "fn main() {}", mime_type="text/rust")
    text, (media,) = await read(tmp_path, resource_block(resource))
    assert (media.media.name, media.text) == ("main.rs", "fn main() {}")
    assert text == "[@main.rs](file:///x/main.rs)"


@pytest.mark.parametrize(
    ("data", "declared", "found"),
    [
        (PNG, "text/plain", "image/png"),
        (b"a,b\n1,2\n", "text/csv", "text/csv"),
        (b"plain words", None, "text/plain"),
        (b"\x00\x01\x02\x03" * 9, "application/x-thing", "application/x-thing"),
    ],
)
async def test_a_blob_is_what_it_is_and_not_what_it_is_called(
    tmp_path: Path, data: bytes, declared: str | None, found: str
) -> None:
    _, (media,) = await read(tmp_path, blob(data, mime_type=declared))
    assert media.media.mime_type == found


async def test_what_cannot_be_read_is_kept_with_a_note(tmp_path: Path) -> None:
    _, (media,) = await read(tmp_path, blob(b"\x00\x01" * 20))
    assert (media.text, media.note) == (None, "content not extracted")


async def test_attachments_share_one_budget_of_words(tmp_path: Path) -> None:
    long = "x" * 150_000
    blocks = [resource_block(embedded_text_resource(f"file:///{name}", long)) for name in "abc"]
    _, received = await read(tmp_path, *blocks)
    assert [len(one.text or "") for one in received] == [150_000, 50_000, 0]
    assert [one.note for one in received] == [
        None,
        "cut to 50000 characters",
        "left out: the other attachments fill the text budget",
    ]


@pytest.mark.parametrize("kind", ["an image", "a blob"])
async def test_a_broken_image_is_refused(tmp_path: Path, kind: str) -> None:
    encoded = base64.b64encode(PNG[:18]).decode()
    block = blob(PNG[:18]) if kind == "a blob" else image_block(encoded, "image/png")
    with pytest.raises(
        InvalidRequest, match=r"prompt\[0\]: cannot be shown to a model: its header"
    ):
        await read(tmp_path, block)


async def test_a_prompt_without_anything_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="prompt: is empty"):
        await read(tmp_path)
