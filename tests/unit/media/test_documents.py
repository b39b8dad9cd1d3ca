import io
from pathlib import Path

import pypdf
import pytest
from reportlab.pdfgen.canvas import Canvas

from openclaw.media.documents import HTML, PDF, document_text
from openclaw.media.intake import decode_text, read_text


def make_pdf(path: Path, pages: list[str]) -> Path:
    canvas = Canvas(str(path))
    for words in pages:
        canvas.drawString(72, 700, words)
        canvas.showPage()
    canvas.save()
    return path


@pytest.mark.requirement("M-9")
async def test_a_pdf_gives_its_words_page_by_page(tmp_path: Path) -> None:
    document = await document_text(
        make_pdf(tmp_path / "a.pdf", ["First page.", "Second page."]), PDF, 10_000
    )
    assert document.text == "First page.\n\nSecond page."
    assert document.note is None


async def test_a_long_pdf_is_cut_with_a_note(tmp_path: Path) -> None:
    document = await document_text(make_pdf(tmp_path / "a.pdf", ["word " * 10] * 20), PDF, 100)
    assert len(document.text or "") == 100
    assert document.note is not None
    assert document.note.startswith("cut: ")


async def test_an_encrypted_pdf_gives_a_note(tmp_path: Path) -> None:
    plain = make_pdf(tmp_path / "a.pdf", ["Secret."])
    writer = pypdf.PdfWriter(clone_from=plain)
    writer.encrypt("password", algorithm="RC4-128")
    locked = tmp_path / "b.pdf"
    with locked.open("wb") as file:
        writer.write(file)
    document = await document_text(locked, PDF, 10_000)
    assert document.text is None
    assert document.note == "its text could not be extracted: it is encrypted"


@pytest.mark.parametrize("damage", [b"%PDF-1.7\n", b"%PDF-1.7\nrubbish" * 100])
async def test_a_broken_pdf_gives_a_note_and_never_a_failure(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "a.pdf"
    path.write_bytes(damage)
    document = await document_text(path, PDF, 10_000)
    assert document.text is None
    assert document.note is not None
    assert document.note.startswith("its text could not be extracted: ")


async def test_a_pdf_without_words_says_so(tmp_path: Path) -> None:
    writer = pypdf.PdfWriter()
    writer.add_blank_page(100, 100)
    buffer = io.BytesIO()
    writer.write(buffer)
    path = tmp_path / "a.pdf"
    path.write_bytes(buffer.getvalue())
    document = await document_text(path, PDF, 10_000)
    assert document.note == "it has 1 pages and no text in them (scanned images?)"


async def test_a_reader_that_takes_too_long_is_stopped(tmp_path: Path) -> None:
    document = await document_text(make_pdf(tmp_path / "a.pdf", ["x"]), PDF, 100, seconds=0.001)
    assert document.note == "its text could not be extracted: it took longer than 0.001 s"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1251"])
def test_text_is_read_in_the_character_set_it_was_written_in(encoding: str) -> None:
    words = "Съешь же ещё этих мягких французских булок, да выпей чаю. " * 5
    assert decode_text(words.encode(encoding)) == words


def test_text_is_cut_at_its_budget(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("ä" * 10, encoding="utf-8")
    assert read_text(path, 10) == ("ä" * 10, False)
    assert read_text(path, 9) == ("ä" * 9, True)


async def test_a_web_page_that_takes_its_parser_minutes_is_given_up(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text("<!--" * 250_000)
    found = await document_text(page, HTML, 1_000, seconds=1)
    assert found.text is None
    assert found.note is not None
    assert found.note.startswith("its text could not be extracted: ")
