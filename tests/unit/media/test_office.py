"""Word, Excel, PowerPoint and OpenDocument files as text."""

import zipfile
from pathlib import Path

import pytest

from openclaw.media.documents import OFFICE, document_text

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
S = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'


def archive(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, text in files.items():
            made.writestr(name, text)
    return path


def word(path: Path, body: str) -> Path:
    text = f"<w:document {W}><w:body>{body}</w:body></w:document>"
    return archive(path, **{"[Content_Types].xml": "<x/>", "word/document.xml": text})


def workbook(path: Path, rows: str) -> Path:
    sheets = f'<sheets {R}><sheet name="Costs" sheetId="1" r:id="rId1"/></sheets>'
    relation = '<Relationship Id="rId1" Target="worksheets/sheet1.xml"/>'
    return archive(
        path,
        **{
            "xl/workbook.xml": f"<workbook {S}>{sheets}</workbook>",
            "xl/_rels/workbook.xml.rels": f"<Relationships>{relation}</Relationships>",
            "xl/sharedStrings.xml": f"<sst {S}><si><t>Item</t></si><si><r><t>Ca</t></r><r><t>bles</t></r></si></sst>",
            "xl/worksheets/sheet1.xml": f"<worksheet {S}><sheetData>{rows}</sheetData></worksheet>",
        },
    )


async def test_a_letter_gives_its_lines_and_its_tables_rows(tmp_path: Path) -> None:
    cells = "".join(f"<w:tc><w:p><w:r><w:t>{one}</w:t></w:r></w:p></w:tc>" for one in "ab")
    body = (
        "<w:p><w:r><w:t>Dear </w:t></w:r><w:r><w:t>Ada,</w:t><w:br/><w:t>hello</w:t></w:r></w:p>"
        f"<w:tbl><w:tr>{cells}</w:tr></w:tbl><w:p><w:r><w:t>Bye</w:t></w:r></w:p>"
    )
    document = await document_text(word(tmp_path / "a.docx", body), OFFICE, 10_000)
    assert document.text == "Dear Ada,\nhello\na | b\nBye"
    assert document.note is None


async def test_a_long_document_is_cut_and_says_so(tmp_path: Path) -> None:
    body = "<w:p><w:r><w:t>words and words</w:t></w:r></w:p>" * 5_000
    document = await document_text(word(tmp_path / "a.docx", body), OFFICE, 1_000)
    assert len(document.text or "") == 1_000
    assert document.note is not None
    assert "cut" in document.note


async def test_a_workbook_gives_each_row_with_its_columns(tmp_path: Path) -> None:
    rows = (
        '<row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="inlineStr"><is><t>Sum</t></is></c></row>'
        '<row r="2"><c r="A2" t="s"><v>1</v></c><c r="C2"><f>1+1</f><v>2</v></c></row><row r="3"/>'
    )
    document = await document_text(workbook(tmp_path / "a.xlsx", rows), OFFICE, 10_000)
    assert document.text == "# Sheet Costs\nItem\t\tSum\nCables\t\t2"


async def test_slides_come_in_their_order(tmp_path: Path) -> None:
    files = {
        f"ppt/slides/slide{n}.xml": f"<s {A}><a:p><a:r><a:t>Part {n}</a:t></a:r></a:p></s>"
        for n in (10, 2, 1)
    }
    path = archive(tmp_path / "a.pptx", **{"ppt/presentation.xml": "<p/>", **files})
    document = await document_text(path, OFFICE, 10_000)
    assert document.text == "# Slide 1\nPart 1\n\n# Slide 2\nPart 2\n\n# Slide 3\nPart 10"


async def test_open_documents_are_read_too(tmp_path: Path) -> None:
    content = '<o xmlns:text="t"><text:h>Title</text:h><text:p>One <text:span>two</text:span></text:p></o>'
    path = archive(tmp_path / "a.odt", **{"mimetype": "x", "content.xml": content})
    document = await document_text(path, OFFICE, 10_000)
    assert document.text == "Title\nOne two"


@pytest.mark.parametrize(
    "entity", ["".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 20}">' for n in range(1, 12))]
)
async def test_a_document_that_would_grow_without_end_is_given_up(
    tmp_path: Path, entity: str
) -> None:
    text = f'<!DOCTYPE x [<!ENTITY l0 "lol">{entity}]><x><p>&l11;</p></x>'
    path = archive(tmp_path / "a.docx", **{"word/document.xml": text})
    document = await document_text(path, OFFICE, 10_000)
    assert not document.text
    assert document.note is not None


async def test_an_archive_is_no_document(tmp_path: Path) -> None:
    document = await document_text(archive(tmp_path / "a.zip", a="x"), OFFICE, 10_000)
    assert document.note == "its text could not be extracted: it is an archive, not a document"
