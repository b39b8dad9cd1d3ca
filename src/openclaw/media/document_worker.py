"""Extracts a document's text. Runs in a process of its own, because hostile files kill or bloat it.

usage: python -m openclaw.media.document_worker ENGINE PATH MAX_PAGES MAX_CHARACTERS

It prints one JSON object: {"text", "pages", "read", "cut"} or {"error"}.
"""

import importlib
import json
import posixpath
import re
import sys
import zipfile
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree


def _pdfium_pages(path: str, limit: int) -> Iterator[tuple[int, str]]:
    pdfium: Any = importlib.import_module("pypdfium2")  # it has no types

    document = pdfium.PdfDocument(path)
    count = len(document)
    for index in range(min(count, limit)):
        page = document[index]
        textpage = page.get_textpage()
        yield count, textpage.get_text_bounded()
        textpage.close()
        page.close()


def _pypdf_pages(path: str, limit: int) -> Iterator[tuple[int, str]]:
    import pypdf

    reader = pypdf.PdfReader(path, strict=False)
    if reader.is_encrypted and not reader.decrypt(""):
        raise ValueError("it is encrypted")
    count = len(reader.pages)
    for index in range(min(count, limit)):
        yield count, reader.pages[index].extract_text()


def extract(engine: str, path: str, max_pages: int, max_characters: int) -> dict[str, Any]:
    parts: list[str] = []
    pages = length = 0
    for total, page in _ENGINES[engine](path, max_pages):
        text = page.replace("\r\n", "\n").replace("\r", "\n").strip()
        pages = total
        parts.append(text)
        length += len(text) + 2
        if length > max_characters:
            break
    whole = "\n\n".join(parts)
    cut = len(whole) > max_characters or len(parts) < pages
    return {"text": whole[:max_characters], "pages": pages, "read": len(parts), "cut": cut}


def main(argv: list[str]) -> int:
    """Do what the arguments say; a failure is an answer, not a traceback."""
    engine, path, max_pages, max_characters = argv
    try:
        answer = extract(engine, path, int(max_pages), int(max_characters))
    except Exception as error:  # noqa: BLE001 (any failure of a parser on a strange file)
        answer = {"error": _plain(error)}
    sys.stdout.write(json.dumps(answer))
    return 0


def _plain(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    lowered = text.lower()
    if "password" in lowered or "encrypt" in lowered:
        return "it is encrypted"
    return text[:200]


# The text of Word, Excel and PowerPoint files, and of OpenDocument's. Only for the limited process.
#
# Entities are refused by expat's own limits; memory and time are bounded by the process.

Parts = Iterator[tuple[int, str]]

_CHUNK = 20_000  # characters of a document without pages that are given at a time


def office_parts(path: str, limit: int) -> Parts:
    """How many parts there are, and the text of each: slides, sheets, or pieces of a document."""
    with zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        if "word/document.xml" in names:
            yield from _pieces(_paragraphs(archive, "word/document.xml"))
        elif "xl/workbook.xml" in names:
            yield from _sheets(archive, names, limit)
        elif "ppt/presentation.xml" in names:
            yield from _slides(archive, names, limit)
        elif "content.xml" in names and "mimetype" in names:
            yield from _pieces(_paragraphs(archive, "content.xml"))
        else:
            raise ValueError("it is an archive, not a document")


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _elements(archive: zipfile.ZipFile, name: str) -> Iterator[tuple[str, ElementTree.Element]]:
    """Every element, with `start` and `end`; what has ended is forgotten by whoever reads it."""
    with archive.open(name) as file:
        yield from ElementTree.iterparse(file, ("start", "end"))  # noqa: S314 - in a limited process


def _paragraphs(archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    """The lines of a text; the cells of a table's row are one line."""
    words: list[str] = []
    cells: list[str] | None = None
    for event, element in _elements(archive, name):
        kind = _local(element.tag)
        if event == "start":
            if kind in ("tr", "table-row"):
                cells = []
            continue
        if kind == "t":
            words.append(element.text or "")
        elif kind in ("tab", "br", "line-break"):
            words.append("\t" if kind == "tab" else "\n")
        elif kind in ("p", "h"):
            text = "".join(words or element.itertext())
            words = []
            if cells is None:
                yield text
            else:
                cells.append(text)
            element.clear()
        elif kind in ("tr", "table-row") and cells is not None:
            yield " | ".join(cells)
            cells = None
            element.clear()


def _pieces(lines: Iterator[str]) -> Parts:
    """Lines in pieces; the count is one more than was given, until the end."""
    piece: list[str] = []
    count = size = 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size > _CHUNK:
            count += 1
            yield count + 1, "\n".join(piece)
            piece, size = [], 0
    yield count + 1, "\n".join(piece)


def _slides(archive: zipfile.ZipFile, names: set[str], limit: int) -> Parts:
    slides = sorted(
        (name for name in names if re.fullmatch(r"ppt/slides/slide\d+\.xml", name)),
        key=lambda name: int(re.sub(r"\D", "", name)),
    )
    for number, name in enumerate(slides[:limit], 1):
        text = "\n".join(line for line in _paragraphs(archive, name) if line.strip())
        yield len(slides), f"# Slide {number}\n{text}"


def _sheets(archive: zipfile.ZipFile, names: set[str], limit: int) -> Parts:
    shared = [*_strings(archive)] if "xl/sharedStrings.xml" in names else []
    targets = _targets(archive)
    sheets = [
        (element.attrib.get("name", ""), value)
        for event, element in _elements(archive, "xl/workbook.xml")
        if event == "end" and _local(element.tag) == "sheet"
        for key, value in element.attrib.items()
        if _local(key) == "id"
    ]
    for title, relation in sheets[:limit]:
        rows = _rows(archive, targets[relation], shared) if relation in targets else ()
        yield len(sheets), "\n".join([f"# Sheet {title}", *rows])


def _targets(archive: zipfile.ZipFile) -> dict[str, str]:
    """Which file each relation of the workbook leads to."""
    return {
        element.attrib["Id"]: posixpath.normpath(
            posixpath.join("xl", element.attrib["Target"]).removeprefix("/")
        )
        for event, element in _elements(archive, "xl/_rels/workbook.xml.rels")
        if event == "end" and "Id" in element.attrib
    }


def _strings(archive: zipfile.ZipFile) -> Iterator[str]:
    for event, element in _elements(archive, "xl/sharedStrings.xml"):
        if event == "end" and _local(element.tag) == "si":
            yield "".join(one.text or "" for one in element.iter() if _local(one.tag) == "t")
            element.clear()


def _rows(archive: zipfile.ZipFile, name: str, shared: list[str]) -> Iterator[str]:
    """One line for each row that has a value, its cells where their columns are."""
    for event, element in _elements(archive, name):
        if event == "end" and _local(element.tag) == "row":
            cells: list[str] = []
            for cell in element:
                column = _column(cell.attrib.get("r", ""))
                if column is not None:
                    cells += [""] * min(column - len(cells), 256)
                cells.append(_value(cell, shared))
            if any(cells):
                yield "\t".join(cells).rstrip("\t")
            element.clear()


def _column(reference: str) -> int | None:
    letters = re.match(r"[A-Z]{1,3}", reference)
    if letters is None:
        return None
    number = 0
    for letter in letters[0]:
        number = number * 26 + ord(letter) - 64
    return number - 1


def _value(cell: ElementTree.Element, shared: list[str]) -> str:
    text = "".join(one.text or "" for one in cell.iter() if _local(one.tag) in ("v", "t"))
    if cell.attrib.get("t") == "s" and text.isdecimal() and int(text) < len(shared):
        return shared[int(text)]
    return " ".join(text.split())


_ENGINES = {"pdfium": _pdfium_pages, "pypdf": _pypdf_pages, "office": office_parts}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
