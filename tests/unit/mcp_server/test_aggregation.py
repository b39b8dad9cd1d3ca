import base64
import os
from dataclasses import replace
from pathlib import Path

import pytest

from openclaw.core.content import Media
from openclaw.core.errors import ToolFailure
from openclaw.mcp.revisions import V2024_11_05, V2025_03_26, V2025_11_25, Revision
from openclaw.mcp_server.aggregation import OutboundRules, render
from openclaw.media.kinds import MIB
from openclaw.secrets.redactor import Redactor

PNG = b"\x89PNG\r\n\x1a\n" + bytes(16)
WAV = b"RIFF\x24\0\0\0WAVEfmt "
NEW, OLD = V2025_11_25, V2024_11_05


def rules(*directories: Path, audio: str = "auto") -> OutboundRules:
    return OutboundRules(directories, audio)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.requirement("M-12")
async def test_an_image_is_an_image_block() -> None:
    blocks, left_out = await render([Media("image/png", data=PNG)], rules(), NEW)
    assert blocks == [{"type": "image", "data": encoded(PNG), "mimeType": "image/png"}]
    assert left_out == []


@pytest.mark.requirement("M-13")
@pytest.mark.parametrize(
    ("mode", "revision", "kind"),
    [
        ("auto", NEW, "audio"),
        ("auto", V2025_03_26, "audio"),
        ("auto", OLD, "resource"),
        ("audio", OLD, "audio"),
        ("resource", NEW, "resource"),
    ],
)
async def test_sound_is_sent_as_the_client_can_take_it(
    mode: str, revision: Revision, kind: str
) -> None:
    [block], _ = await render([Media("audio/wav", data=WAV)], rules(audio=mode), revision)
    assert block["type"] == kind


@pytest.mark.requirement("M-14")
async def test_a_document_is_a_resource_with_its_name_as_the_address(tmp_path: Path) -> None:
    path = tmp_path / "annual report.pdf"
    path.write_bytes(b"%PDF-1.7\n")
    [block], _ = await render([Media("application/pdf", path=path)], rules(tmp_path), NEW)
    assert block["type"] == "resource"
    assert block["resource"] == {
        "uri": "attachment://annual%20report.pdf",
        "mimeType": "application/pdf",
        "blob": encoded(b"%PDF-1.7\n"),
    }


async def test_a_text_file_is_a_resource_with_text() -> None:
    [block], _ = await render([Media("text/csv", data=b"a,b", name="t.csv")], rules(), NEW)
    assert block["type"] == "resource"
    assert block["resource"] == {
        "uri": "attachment://t.csv",
        "mimeType": "text/csv",
        "text": "a,b",
    }


async def test_what_has_no_name_is_numbered_by_its_place() -> None:
    items = [Media("image/png", data=PNG), Media("application/zip", data=b"PK\x03\x04")]
    blocks, _ = await render(items, rules(), NEW)
    assert blocks[1]["resource"]["uri"] == "attachment://attachment-2.zip"


async def test_content_that_is_not_the_image_it_claims_to_be_is_not_sent_as_one() -> None:
    blocks, _ = await render([Media("image/png", data=b"PK\x03\x04")], rules(), NEW)
    assert blocks[0]["resource"]["mimeType"] == "application/octet-stream"


async def test_nothing_leaves_from_outside_the_directories(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    secret = outside / "secret.png"
    secret.write_bytes(PNG)
    (inside / "link.png").symlink_to(secret)
    os.mkfifo(inside / "pipe.png")
    paths = [secret, inside / "link.png", inside / ".." / "out" / "secret.png", inside / "pipe.png"]
    paths += [inside / "missing.png", inside]
    blocks, left_out = await render(
        [Media("image/png", path=path) for path in paths], rules(inside), NEW
    )
    assert blocks == []
    assert left_out == [
        "[secret.png was left out: it is outside the workspace]",
        "[link.png was left out: it is outside the workspace]",
        "[secret.png was left out: it is outside the workspace]",
        "[pipe.png was left out: it is not a regular file]",
        "[missing.png was left out: the file cannot be read (No such file or directory)]",
        "[in was left out: it is not a regular file]",
    ]


@pytest.mark.requirement("M-6")
async def test_what_is_too_large_is_left_out_with_the_sizes() -> None:
    items = [Media("image/png", data=PNG + bytes(size * MIB)) for size in (20, 19, 19, 19, 1)]
    blocks, left_out = await render(items, rules(), NEW)
    assert len(blocks) == 3
    assert left_out == [
        "[attachment-1.png was left out: it is 20.0 MB, and the limit for one item is 20.0 MB]",
        "[attachment-4.png was left out: the answer's media would exceed 50.0 MB]",
    ]


async def test_a_url_is_fetched_or_left_out() -> None:
    asked: list[str] = []

    async def fetch(url: str, limit: int) -> tuple[bytes, str | None]:
        asked.append(url)
        if "bad" in url:
            raise ToolFailure("the address is private")
        return PNG, "image/png"

    allowed = OutboundRules((), "auto", fetch=fetch)
    items = [Media("image/png", url=f"https://{name}.example/") for name in ("good", "bad")]
    blocks, left_out = await render(items, allowed, NEW)
    assert [block["type"] for block in blocks] == ["image"]
    assert left_out == ["[attachment-2.png was left out: the address is private]"]
    assert asked == ["https://good.example/", "https://bad.example/"]


async def test_a_file_that_got_a_secret_after_it_was_handed_over_leaves_without_it(
    tmp_path: Path,
) -> None:
    secrets = Redactor()
    secrets.register("sesame-7f3a9c21d4e8")
    text, image = tmp_path / "a.txt", tmp_path / "b.png"
    text.write_text("key sesame-7f3a9c21d4e8")
    image.write_bytes(PNG + b"sesame-7f3a9c21d4e8")
    items = [Media("text/plain", path=text), Media("image/png", path=image)]
    knowing = replace(rules(tmp_path), secrets=secrets)
    [block], [cleaned, withheld] = await render(items, knowing, NEW)
    assert block["resource"]["text"] == "key [REDACTED]"
    assert cleaned == (
        "[a.txt: secrets in it were replaced by [REDACTED]; the file itself is unchanged]"
    )
    assert withheld.startswith("[b.png was left out: it contains a secret")
