"""Files that are made to hurt whoever reads them, and what becomes of them."""

import base64
import io
import os
import resource
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import psutil
import pytest
from pydantic_ai import BinaryImage
from pydantic_ai.messages import UserPromptPart

from openclaw.agent.attachments import SessionMedia
from openclaw.agent.model_messages import messages_from
from openclaw.agent.transcript import Attachment, UserItem
from openclaw.content.frame import frame_result
from openclaw.core.clock import SystemClock
from openclaw.core.content import Media, Text, text_of
from openclaw.core.errors import InvalidRequest
from openclaw.mcp_client.bridge.results import Rendering, render_resource, render_result
from openclaw.media.documents import PDF, document_text, output_of
from openclaw.media.images import STRICT_BYTES
from openclaw.media.kinds import mismatch, sniff
from openclaw.media.stored_files import OrderFiles
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.sqlite.store import open_sqlite_store

HOW = Rendering("files", "get")
MIB = 1024 * 1024


def pdf(*objects: bytes, root: int = 1) -> bytes:
    """A PDF of these objects, numbered from one."""
    body = bytearray(b"%PDF-1.7\n")
    places: list[int] = []
    for number, one in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    body += b"".join(b"%010d 00000 n \n" % place for place in places)
    body += b"trailer\n<</Size %d/Root %d 0 R>>\n" % (len(objects) + 1, root)
    return bytes(body + b"startxref\n%d\n%%%%EOF" % table)


def stream(data: bytes, filters: bytes = b"/FlateDecode") -> bytes:
    return b"<</Length %d/Filter[%s]>>stream\n%s\nendstream" % (len(data), filters, data)


CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
PAGES = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
PAGE = (
    b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R"
    b"/Resources<</Font<</F 5 0 R>>/XObject<</X 6 0 R>>>>>>"
)
FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"


def packed(size: int, times: int = 1) -> bytes:
    """Some kilobytes that become this many bytes."""
    piece = b"(x)Tj " * (MIB // 6)
    squeeze = zlib.compressobj(9)
    start = squeeze.compress(piece) + squeeze.flush(zlib.Z_FULL_FLUSH)
    again = squeeze.compress(piece) + squeeze.flush(zlib.Z_FULL_FLUSH)
    # The checksum at the end is wrong: whoever gets there has unpacked it all.
    data = start + again * (size // len(piece) - 1) + squeeze.flush()
    for _ in range(times - 1):
        data = zlib.compress(data, 9)
    return data


def form(inner: bytes) -> bytes:
    head = b"<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Length %d" % len(inner)
    return head + b"/Resources<</XObject<</X 6 0 R>>>>>>stream\n" + inner + b"\nendstream"


BOMBS: dict[str, Callable[[], bytes]] = {
    "a stream that becomes 2 GB": lambda: pdf(
        CATALOG, PAGES, PAGE, stream(packed(2048 * MIB)), FONT
    ),
    "a stream packed twice": lambda: pdf(
        CATALOG, PAGES, PAGE, stream(packed(1024 * MIB, 2), b"/FlateDecode/FlateDecode"), FONT
    ),
    "pages that are their own children": lambda: pdf(
        CATALOG, b"<</Type/Pages/Kids[2 0 R 2 0 R]/Count 2147483647>>"
    ),
    "a form that draws itself": lambda: pdf(
        CATALOG, PAGES, PAGE, stream(zlib.compress(b"/X Do")), FONT, form(b"/X Do /X Do /X Do")
    ),
    "arrays 100000 deep": lambda: pdf(CATALOG, PAGES, b"[" * 100_000 + b"]" * 100_000),
    "an object that refers to itself": lambda: pdf(b"1 0 R", b"2 0 R"),
    "a hundred thousand filters": lambda: pdf(
        CATALOG, PAGES, PAGE, stream(zlib.compress(b"x"), b"/FlateDecode" * 100_000), FONT
    ),
    "a length that lies": lambda: pdf(
        CATALOG, PAGES, PAGE, b"<</Length 999999999999>>stream\nBT ET\nendstream", FONT
    ),
}


@pytest.mark.parametrize("name", BOMBS)
async def test_a_pdf_bomb_is_a_note_or_bounded_text_and_costs_us_nothing(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(BOMBS[name]())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with anyio.fail_after(60):
        document = await document_text(path, PDF, 10_000, seconds=5)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert document.note is not None or document.text
    assert len(document.text or "") <= 10_000
    assert grown < 100 * MIB


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
async def test_a_pdf_that_was_cut_off_is_read_or_noted(tmp_path: Path, share: float) -> None:
    words = stream(zlib.compress(b"BT /F 9 Tf (Hello) Tj ET"))
    whole = pdf(CATALOG, PAGES, PAGE, words, FONT)
    path = tmp_path / "a.pdf"
    path.write_bytes(whole[: int(len(whole) * share)])
    document = await document_text(path, PDF, 10_000, seconds=5)
    assert document.note is not None or "Hello" in (document.text or "")


async def test_a_reader_is_told_nothing_of_our_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "sesame")
    waiting = tmp_path / "a.pdf"
    os.mkfifo(waiting)  # it reads this until it is ended
    before = set(psutil.Process().children())
    arguments = ["pypdf", str(waiting), "1", "9"]
    async with output_of("document", arguments, memory_bytes=1 << 30, cpu_seconds=5):
        (reader,) = set(psutil.Process().children()) - before
        # Until it opens the file, it may not have its command line and environment yet: the kernel
        # sets them a moment after the exec that ends our wait for the start.
        with anyio.fail_after(60):
            writing = await anyio.to_thread.run_sync(
                os.open, waiting, os.O_WRONLY, abandon_on_cancel=True
            )
        assert "openclaw.media.parse_worker" in reader.cmdline()
        assert reader.environ().keys() <= {"LC_CTYPE"}
    os.close(writing)


# Images


def bomb(width: int = 60_000, height: int = 60_000) -> bytes:
    """A PNG of a few hundred bytes that would be gigabytes of pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + crc

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n"
        + head
        + chunk(b"IDAT", zlib.compress(bytes(100)))
        + chunk(b"IEND", b"")
    )


def image(data: bytes, mime: str = "image/png") -> dict[str, Any]:
    encoded = base64.b64encode(data).decode()
    return {"content": [{"type": "image", "data": encoded, "mimeType": mime}]}


def test_an_image_bomb_of_a_server_is_told_and_never_handed_on() -> None:
    rendered = render_result(image(bomb()), HOW)
    assert [block for block in rendered.blocks if isinstance(block, Media)] == []
    assert rendered.outputs == ()
    assert "60000 x 60000 pixels; the limit is 100 megapixels" in text_of(rendered.blocks)


def test_an_image_bomb_in_a_resource_is_not_handed_on_either() -> None:
    blob = base64.b64encode(bomb()).decode()
    raw = {"contents": [{"uri": "a://1", "mimeType": "image/png", "blob": blob}]}
    rendered = render_resource(raw, HOW)
    assert [block for block in rendered.blocks if isinstance(block, Media)] == []
    assert "megapixels" in text_of(rendered.blocks)


async def test_however_an_image_bomb_came_no_model_gets_it(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(bomb())
    async with open_sqlite_store(tmp_path / "sessions.db", SystemClock()) as store:
        media = SessionMedia(store, await store.open_session("main", "s"), Redactor())
        for given in (Media("image/png", path=path), Media("image/png", data=bomb())):
            item = await media.save(UserItem("look", (Attachment(given, "image a"),)))
            (reason,) = (await media.images([item], STRICT_BYTES)).values()
            assert "megapixels" in str(reason)


def test_an_image_is_shown_as_what_it_is_and_not_as_what_it_is_called() -> None:
    gif = b"GIF89a" + struct.pack("<HH", 5, 5) + bytes(3) + b";"
    item = UserItem("look", (Attachment(None, "a", digest="d", mime_type="image/png"),))
    (message,) = messages_from([item], {"d": gif})
    (part,) = message.parts
    assert isinstance(part, UserPromptPart)
    (_, seen) = part.content
    assert isinstance(seen, BinaryImage)
    assert seen.media_type == "image/gif"
    rendered = render_result(image(gif, "image/png"), HOW)
    assert [b.mime_type for b in rendered.blocks if isinstance(b, Media)] == ["image/gif"]


SVG = b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"


@pytest.mark.parametrize("mime", ["image/svg+xml", "image/png"])
def test_svg_is_text_inside_the_frame_and_never_an_image(mime: str) -> None:
    rendered = frame_result(render_result(image(SVG, mime), HOW))
    assert all(isinstance(block, Text) for block in (*rendered.blocks, *rendered.outputs))
    words = text_of(rendered.blocks)
    at = words.index("<script>") if "<script>" in words else words.index("alert(1)")
    assert words.index("<<<EXTERNAL_UNTRUSTED_CONTENT") < at
    assert at < words.index("<<<END_EXTERNAL_UNTRUSTED_CONTENT")


# Archives and files that are two things at once


def archive(size: int = 100) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("../../evil.txt", bytes(size))
    return buffer.getvalue()


@pytest.mark.requirement("M-11")
def test_an_archive_is_kept_as_it_is_and_nothing_of_it_is_unpacked(tmp_path: Path) -> None:
    directory = tmp_path / "order"
    directory.mkdir()
    sent = archive(50 * MIB)
    path = OrderFiles(directory).save([sent], "application/zip")
    assert path.read_bytes() == sent
    assert [one.name for one in directory.rglob("*")] == [path.name]
    assert not list(tmp_path.rglob("evil.txt"))


@pytest.mark.parametrize(
    ("declared", "head", "found"),
    [
        ("image/png", b"GIF89a" + bytes(20), "image/gif"),
        ("application/pdf", b"PK\x03\x04" + bytes(20), "application/zip"),
        ("image/jpeg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "text"),
        ("text/plain", b"%PDF-1.7\n", "application/pdf"),
        ("text/csv", b"\x7fELF" + bytes(60), "application/x-executable"),
        ("image/png", b"MZ" + bytes(60), "application/x-msdownload"),
    ],
)
def test_a_file_is_judged_by_what_it_is(declared: str, head: bytes, found: str) -> None:
    assert mismatch(declared, head) == found


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"GIF89a" + bytes(7) + archive(), "image/gif"),  # a picture with an archive behind it
        (b"\x89PNG\r\n\x1a\n" + b"%PDF-1.7", "image/png"),  # a picture that readers take for a PDF
        (b"%PDF-1.7\n" + archive(), "application/pdf"),
    ],
)
def test_a_file_of_two_kinds_is_what_its_beginning_says(data: bytes, kind: str) -> None:
    assert sniff(data) == kind


def test_one_order_cannot_fill_the_disk(tmp_path: Path) -> None:
    files = OrderFiles(tmp_path, quota=MIB)
    files.save([bytes(MIB)], "text/plain")
    with pytest.raises(InvalidRequest, match="exceed"):
        files.save([b"x"], "text/plain")
