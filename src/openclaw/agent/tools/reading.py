"""`read` and `attach`: workspace files for the model and for the person."""

import io
import mimetypes
import os
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread

from openclaw.agent.tools.base import Arguments, FunctionTool, said, schema
from openclaw.agent.tools.folding import MAX_LINE_CHARS, folded
from openclaw.agent.tools.kept import KeptFile, KeptResults
from openclaw.agent.tools.workspace import Workspace
from openclaw.core.content import Media, Text
from openclaw.core.errors import ToolFailure
from openclaw.core.tools import CallContext, ToolResult, ToolSpec
from openclaw.media.kinds import MAX_INBOUND_BYTES, MAX_OUTBOUND_BYTES, in_mb
from openclaw.media.signature import HEAD_BYTES, is_image, looks_like_text, sniff

MAX_LINES = 2000
MAX_CHARS = 64_000
"""Of one answer: about 16,000 tokens. The model reads on with `offset`."""

MAX_FILE_BYTES = 32 * 1024 * 1024
"""Text beyond this is better searched than read."""

_READ = ToolSpec(
    name="read",
    description=(
        "Read a file of the workspace. Text comes as it is, at most "
        f"{MAX_LINES} lines at once: go on with `offset`. Images are shown to you."
    ),
    input_schema=schema(
        ["path"],
        path={"type": "string", "description": "Path relative to the workspace."},
        offset={"type": "integer", "minimum": 1, "description": "First line, counted from 1."},
        limit={"type": "integer", "minimum": 1, "maximum": MAX_LINES, "description": "Lines."},
    ),
    label="Read",
    read_only=True,
    destructive=False,
)
_ATTACH = ToolSpec(
    name="attach",
    description=(
        "Hand a file of the workspace to the user together with your answer, for instance an "
        "image, a document or an archive that you made."
    ),
    input_schema=schema(
        ["path"],
        path={"type": "string", "description": "Path relative to the workspace."},
        name={"type": "string", "description": "File name to show, if not the file's own."},
    ),
    label="Attach",
    read_only=True,
    destructive=False,
)


def reading_tools(workspace: Workspace, kept: KeptResults) -> list[FunctionTool]:
    """The tools that hand a file on as it is. `read` opens also results that were cut."""

    async def read(arguments: Arguments, context: CallContext) -> ToolResult:
        path = arguments.text("path")
        offset = arguments.whole("offset", 1, least=1, most=2**53)
        limit = arguments.whole("limit", MAX_LINES, least=1, most=MAX_LINES)
        whole = kept.find(path, context)
        if whole is not None:
            return await anyio.to_thread.run_sync(_read_kept, whole, offset, limit)
        return await anyio.to_thread.run_sync(_read, workspace, path, offset, limit)

    async def attach(arguments: Arguments, context: CallContext) -> ToolResult:
        path, name = arguments.text("path"), arguments.text("name", "")
        return await anyio.to_thread.run_sync(_attach, workspace, path, name)

    return [FunctionTool(_READ, read), FunctionTool(_ATTACH, attach)]


def _read(workspace: Workspace, path: str, offset: int, limit: int) -> ToolResult:
    with workspace.open_file(path) as (file, status, _):
        head = file.read(HEAD_BYTES)
        file.seek(0)
        kind = sniff(head)
        if kind is not None and is_image(kind):
            return _image(file, path, kind, status.st_size)
        if not looks_like_text(head):
            what = kind or "binary data"
            raise ToolFailure(f"'{path}' is {what}, not text; attach hands it to the user.")
        if status.st_size > MAX_FILE_BYTES:
            raise ToolFailure(f"'{path}' has {in_mb(status.st_size)}; use search to look into it.")
        return said(_lines(file, head, offset, limit))


def _read_kept(whole: KeptFile, offset: int, limit: int) -> ToolResult:
    with whole.place.open_file(whole.name) as (file, status, _):
        if status.st_size > MAX_FILE_BYTES:
            size = in_mb(status.st_size)
            raise ToolFailure(f"The result has {size}; use search to look into it.")
        return whole.shown(_lines(file, b"", offset, limit, fold=True))


def _image(file: BinaryIO, path: str, kind: str, size: int) -> ToolResult:
    if size > MAX_INBOUND_BYTES:
        raise ToolFailure(
            f"The image '{path}' has {in_mb(size)}; {in_mb(MAX_INBOUND_BYTES)} is the most."
        )
    shown = Media(kind, data=file.read(MAX_INBOUND_BYTES), name=Path(path).name)
    # The model looks at it; only attach hands something to the person.
    return ToolResult(blocks=(Text(f"The image '{path}':"), shown))


def _lines(file: BinaryIO, head: bytes, offset: int, limit: int, *, fold: bool = False) -> str:
    encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    taken: list[str] = []
    room, total = MAX_CHARS, 0
    lines = io.TextIOWrapper(file, encoding, errors="replace", newline="")
    try:
        for total, line in enumerate(folded(lines) if fold else lines, 1):
            if total < offset or len(taken) == limit or room < 0:
                continue
            cut = len(line) > MAX_LINE_CHARS and not fold
            shown = line[:MAX_LINE_CHARS] + "[…]\n" if cut else line
            room -= len(shown)
            if room >= 0:
                taken.append(shown)
    finally:
        lines.detach()
    if offset > max(1, total):
        raise ToolFailure(f"The file has {total} lines; give a smaller `offset`.")
    return _with_place("".join(taken), offset, offset - 1 + len(taken), total)


def _with_place(text: str, first: int, last: int, total: int) -> str:
    """The text, and where it stands in the file unless it is the whole."""
    if last == total and first == 1:
        return text or "(the file is empty)"
    more = f"; go on with offset={last + 1}" if last < total else ""
    end = "" if text.endswith("\n") else "\n"
    return f"{text}{end}[lines {first} to {last} of {total}{more}]"


def _attach(workspace: Workspace, path: str, name: str) -> ToolResult:
    with workspace.open_file(path) as (file, status, relative):
        if status.st_size > MAX_OUTBOUND_BYTES:
            raise ToolFailure(
                f"'{path}' has {in_mb(status.st_size)}; {in_mb(MAX_OUTBOUND_BYTES)} is the most."
            )
        kind = mime_type(file.read(HEAD_BYTES), relative)
    shown = Path(name).name or Path(relative).name
    media = Media(kind, path=workspace.root / relative, name=shown)
    said_so = Text(f"'{shown}' ({kind}) goes to the user with your answer.")
    return ToolResult(blocks=(said_so,), outputs=(media,), details={"size": status.st_size})


def mime_type(head: bytes, name: str) -> str:
    """What a file is: by its content, and where that says little, by its name."""
    found = sniff(head)
    named, compression = mimetypes.guess_type(os.path.basename(name))  # noqa: PTH119 - a name
    if compression == "gzip" and found == "application/gzip":
        return "application/x-compressed-tar" if named == "application/x-tar" else found
    if found is not None and not (looks_like_text(head) and named and named.startswith("text/")):
        generic = found in ("application/zip", "audio/ogg", "video/mp4")
        return named if generic and named and compression is None else found
    if looks_like_text(head):
        return (
            named
            if named and (named.startswith("text/") or named == "application/json")
            else "text/plain"
        )
    return "application/octet-stream"
