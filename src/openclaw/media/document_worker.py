"""Extracts a document's text. Runs in a process of its own, because hostile files kill or bloat it.

usage: python -m openclaw.media.document_worker ENGINE PATH MAX_PAGES MAX_CHARACTERS

It prints one JSON object: {"text", "pages", "read", "cut"} or {"error"}.
"""

import importlib
import json
import sys
from collections.abc import Iterator
from typing import Any


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


def _office_parts(path: str, limit: int) -> Iterator[tuple[int, str]]:
    from openclaw.media.office import office_parts

    return office_parts(path, limit)


_ENGINES = {"pdfium": _pdfium_pages, "pypdf": _pypdf_pages, "office": _office_parts}


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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
