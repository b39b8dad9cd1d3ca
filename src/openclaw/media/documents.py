"""Extracts a document's text in a process that may crash, hang or bloat without harm to us."""

import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import anyio.abc
import anyio.to_thread


@asynccontextmanager
async def output_of(
    task: str, arguments: Sequence[str], *, memory_bytes: int, cpu_seconds: int
) -> AsyncGenerator[anyio.abc.ByteReceiveStream]:
    """What `parse_worker` prints, as it prints it; the process is always ended.

    It gets none of our environment, where keys may be, and can't write to any file.
    """
    limits = [str(memory_bytes), str(cpu_seconds)]
    # -P: in an untrusted directory, a folder called `openclaw` must not be taken for us.
    command = [sys.executable, "-P", "-m", "openclaw.media.parse_worker", *limits, task, *arguments]
    process: anyio.abc.Process | None = None
    # A start that is cancelled half-way would leave a process that nobody knows about.
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=None if sys.platform == "win32" else {},
            start_new_session=True,
        )
    assert process is not None
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()


logger = logging.getLogger(__name__)

MAX_PAGES = 500
SECONDS = 20.0
MEMORY_BYTES = 1 << 30
_OVERHEAD, _ESCAPED = 4096, 12  # bytes of JSON around the text, and for one character of it
PDF = ("pdfium", "pypdf")  # the first is six times as fast, the second survives more files
OFFICE = ("office",)
HTML = ("html",)


class Extracted(NamedTuple):
    """A file's text, if any, and a note about it."""

    text: str | None = None
    note: str | None = None


async def text_of_bytes(content: bytes, engines: Sequence[str], budget: int) -> Extracted:
    with tempfile.NamedTemporaryFile() as copy:
        await anyio.to_thread.run_sync(copy.write, content)
        copy.flush()
        return await document_text(Path(copy.name), engines, budget)


async def document_text(
    path: Path, engines: Sequence[str], budget: int, *, seconds: float = SECONDS
) -> Extracted:
    """Its text, or a note that says why there is none. Never raises because of the content."""
    reason = ""
    for engine in engines:
        answer = await _run(engine, path, budget, seconds)
        if "error" in answer:  # the next engine may be able to read it
            reason = answer["error"]
            logger.info("%s could not read a document: %s", engine, reason)
            if reason == "it is encrypted":
                break
            continue
        text, pages, read = answer["text"], answer["pages"], answer["read"]
        if not text.strip():
            scanned = f"it has {pages} pages and no text in them (scanned images?)"
            return Extracted(None, "it has no text" if engine in HTML else scanned)
        note = f"cut: {read} of {pages} pages, sheets or parts were read" if answer["cut"] else None
        return Extracted(text, note)
    return Extracted(None, f"its text could not be extracted: {reason}")


async def _run(engine: str, path: Path, budget: int, seconds: float) -> dict[str, Any]:
    """What the reader prints about the file: its text, or an `error`."""
    arguments = [engine, str(path), str(MAX_PAGES), str(budget)]
    limits = {"memory_bytes": MEMORY_BYTES, "cpu_seconds": int(seconds)}
    printed = bytearray()
    try:
        with anyio.fail_after(seconds):
            async with output_of("document", arguments, **limits) as output:
                async for piece in output:
                    printed += piece
                    if len(printed) > _OVERHEAD + budget * _ESCAPED:
                        # A file may have taken over the reader.
                        return {"error": "the reader printed too much"}
    except TimeoutError:
        return {"error": f"it took longer than {seconds:g} s"}
    try:
        return json.loads(printed)
    except ValueError:
        return {"error": "the reader crashed on it"}
