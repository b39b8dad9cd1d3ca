"""Reads untrusted documents, web pages and recordings in a process with limited memory and time.

Hostile files can crash or bloat their parser, and decoders and engines may break.

usage: python -m openclaw.media.parse_worker BYTES SECONDS document ENGINE PATH MAX_PAGES MAX_CHARACTERS
       python -m openclaw.media.parse_worker BYTES SECONDS speech ENGINE WEIGHTS PATH LANGUAGE

It prints one JSON object per line: for a document {"text", "pages", "read", "cut"}, for a recording
{"text", "until", "of"} with its seconds, as it goes; or {"error"}. LANGUAGE may be empty.
"""

import importlib
import itertools
import json
import os
import posixpath
import re
import sys
import zipfile
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree


def limit(memory_bytes: int, cpu_seconds: int) -> None:
    if sys.platform == "win32":
        return  # the caller's time limit applies there too
    import resource

    for what, amount in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(what, (amount, amount))


def main(argv: list[str]) -> int:
    memory, seconds, task, *rest = argv
    limit(int(memory), int(seconds))
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in answers(task, *rest):
        output.write(json.dumps(line) + "\n")
        output.flush()
    return 0


def answers(task: str, *arguments: str) -> Iterator[dict[str, Any]]:
    try:
        yield from (read_document if task == "document" else transcribe)(*arguments)
    except Exception as error:  # noqa: BLE001 (any failure of a parser on a strange file)
        yield {"error": _plain(error)}


# ---- documents


def read_document(
    engine: str, path: str, max_pages: str, characters: str
) -> Iterator[dict[str, Any]]:
    parts: list[str] = []
    pages = length = 0
    max_characters = int(characters)
    for total, page in _READERS[engine](path, int(max_pages)):
        text = page.replace("\r\n", "\n").replace("\r", "\n").strip()
        pages = total
        parts.append(text)
        length += len(text) + 2
        if length > max_characters:
            break
    whole = "\n\n".join(parts)
    cut = len(whole) > max_characters or len(parts) < pages
    yield {"text": whole[:max_characters], "pages": pages, "read": len(parts), "cut": cut}


def _plain(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    lowered = text.lower()
    if "password" in lowered or "encrypt" in lowered:
        return "it is encrypted"
    return text[:200]


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


# The text of Word, Excel and PowerPoint files, and of OpenDocument's. Entities are refused
# by expat's own limits; memory and time are bounded by the process.

Parts = Iterator[tuple[int, str]]

_CHUNK = 20_000  # characters of a document without pages that are given at a time


def office_parts(path: str, limit: int) -> Parts:
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
    """Every element, at its start and end; the caller clears it."""
    with archive.open(name) as file:
        yield from ElementTree.iterparse(file, ("start", "end"))  # noqa: S314 - in a limited process


def _paragraphs(archive: zipfile.ZipFile, name: str) -> Iterator[str]:
    """The lines of a text; a table's row is one line."""
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
    """Lines in pieces; until the end, the count is one more than the pieces so far."""
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
    """The file that each relation of the workbook leads to."""
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
    """One line for each row that has a value, with its cells in their columns."""
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


_TITLE_CHARS = 300
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+\n")


def _web_page(path: str, limit: int) -> Parts:
    """Its content as Markdown, or as plain text if its elements nest too deep."""
    from bs4 import BeautifulSoup
    from markdownify import MarkdownConverter

    with open(path, encoding="utf-8") as file:  # noqa: PTH123 - pathlib takes longer to import
        page = BeautifulSoup(file, "html.parser")
    title = ""
    if page.title is not None and page.title.string:
        title = " ".join(page.title.extract().get_text().split())[:_TITLE_CHARS]
    try:
        body = MarkdownConverter(heading_style="ATX", strip=["img"], bullets="-").convert_soup(page)
    except RecursionError:
        body = page.get_text("\n")
    heading = f"# {title}\n\n" if title else ""
    yield 1, heading + _BLANK_LINES.sub("\n\n", body).strip()


_READERS = {
    "pdfium": _pdfium_pages,
    "pypdf": _pypdf_pages,
    "office": office_parts,
    "html": _web_page,
}


# ---- recordings

SAMPLE_RATE = 16_000
_PIECE_SECONDS = 25  # the small recogniser was made for short utterances
_SEARCH_SECONDS = 5  # how far back from a piece's end to look for a pause
_WINDOW = SAMPLE_RATE // 10


def decode(path: str) -> Any:
    """The recording as one channel of `SAMPLE_RATE`."""
    np: Any = importlib.import_module("numpy")

    try:
        av: Any = importlib.import_module("av")
    except ImportError:
        raise ValueError(
            "no decoder is installed; install the extra `speech` or `whisper`"
        ) from None
    try:
        with av.open(path, mode="r", metadata_errors="ignore") as container:
            resampler = av.AudioResampler(format="fltp", rate=SAMPLE_RATE)
            got = itertools.chain(container.decode(audio=0), [None])  # None flushes the resampler
            frames = (frame for one in got for frame in resampler.resample(one))
            pieces = [frame.to_ndarray().mean(axis=0) for frame in frames]  # of its channels
    except (av.FFmpegError, IndexError) as error:
        raise ValueError(f"it cannot be decoded ({error})") from None
    return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)


def pieces_of(samples: Any) -> Iterator[tuple[Any, int]]:
    np: Any = importlib.import_module("numpy")

    start, size = 0, _PIECE_SECONDS * SAMPLE_RATE
    while start < len(samples):
        end = min(start + size, len(samples))
        if end < len(samples):
            search = samples[end - _SEARCH_SECONDS * SAMPLE_RATE : end]
            loudness = np.abs(search).reshape(-1, _WINDOW).mean(axis=1)
            end += (int(loudness.argmin()) + 1) * _WINDOW - len(search)
        yield samples[start:end], end
        start = end


def moonshine(weights: str, samples: Any, language: str) -> Iterator[tuple[str, float]]:
    api: Any = importlib.import_module("moonshine_voice.moonshine_api")
    engine: Any = importlib.import_module("moonshine_voice.transcriber")
    with engine.Transcriber(model_path=weights, model_arch=api.ModelArch.BASE) as transcriber:
        for piece, end in pieces_of(samples):
            found = transcriber.transcribe_without_streaming(piece.tolist(), SAMPLE_RATE)
            yield " ".join(line.text for line in found.lines), end / SAMPLE_RATE


def whisper(weights: str, samples: Any, language: str) -> Iterator[tuple[str, float]]:
    library: Any = importlib.import_module("faster_whisper")
    model = library.WhisperModel(weights, device="cpu", compute_type="int8", local_files_only=True)
    segments, _ = model.transcribe(samples, language=language or None)
    for segment in segments:
        yield segment.text, segment.end


_RECOGNISERS = {"moonshine": moonshine, "whisper": whisper}


def transcribe(engine: str, weights: str, path: str, language: str) -> Iterator[dict[str, Any]]:
    samples = decode(path)
    seconds = len(samples) / SAMPLE_RATE
    if not seconds:
        raise ValueError("it has no sound in it")
    for text, until in _RECOGNISERS[engine](weights, samples, language):
        yield {"text": text.strip(), "until": until, "of": seconds}
    yield {"text": "", "until": seconds, "of": seconds}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
