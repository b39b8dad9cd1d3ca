"""`read` and `attach`: workspace files for the model and for the person."""

import io
import mimetypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import anyio.to_thread

from openclaw.agent.tools.base import Arguments, FunctionTool, quoted, said, schema
from openclaw.agent.tools.search_worker import MAX_LINE_CHARS, folded
from openclaw.agent.tools.shown_text import as_shown
from openclaw.agent.tools.workspace import Stamp, Workspace
from openclaw.content.frame import MCP_SERVER, WORKSPACE_FILE
from openclaw.core.content import Media, Text
from openclaw.core.errors import ToolFailure
from openclaw.core.tools import CallContext, ToolResult, ToolSpec, Untrusted
from openclaw.mcp_client.bridge.oversized_results import Kept, directory_for, from_name
from openclaw.media.kinds import (
    HEAD_BYTES,
    MAX_INBOUND_BYTES,
    MAX_OUTBOUND_BYTES,
    in_mb,
    is_image,
    looks_like_text,
    sniff,
)

# They are read and searched like files of the workspace, never written, and what comes out of them is
# framed as the server's, as the result itself was.


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One of them: the directory that it is in, its name there, and how it is to be shown."""

    place: Workspace
    name: str
    kept: Kept

    def shown(self, text: str, note: str) -> ToolResult:
        """Words of it as a result, which is as untrusted as the first time."""
        kept = self.kept
        details = {"untrusted": True, "source": "mcp_server", "server": kept.server}
        return ToolResult(
            blocks=(Text(text),),
            outputs=(Text(text),),
            details={**details, "wrapped": True},
            untrusted=Untrusted(
                MCP_SERVER, kept.server, mode=kept.mode, guarded=kept.guarded, note=note
            ),
        )


class KeptResults:
    def __init__(self, root: Path | None) -> None:
        self._root = root

    def find(self, path: str, context: CallContext) -> KeptFile | None:
        """The kept result that this path names; None where it names none of this session."""
        if self._root is None or not path.startswith("/"):
            return None
        directory = directory_for(self._root, context.agent, context.session)
        asked = Path(path)
        kept = from_name(asked.name)
        if kept is None or asked.parent not in (directory, directory.resolve()):
            return None
        return KeptFile(Workspace(directory), asked.name, kept)


MAX_LINES = 2000
MAX_CHARS = 64_000
"""Of one answer: about 16,000 tokens. The model reads on with `offset`."""

MAX_FILE_BYTES = 32 * 1024 * 1024
"""Text beyond this is better searched than read."""

_READ = ToolSpec(
    name="read",
    description=(
        "Read a file of the workspace. Text comes as it is, ready to be copied into edit, at most "
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
        text, note = _lines(file, head, offset, limit)
        return quoted(text, WORKSPACE_FILE, path, note=note)


def _read_kept(whole: KeptFile, offset: int, limit: int) -> ToolResult:
    with whole.place.open_file(whole.name) as (file, status, _):
        if status.st_size > MAX_FILE_BYTES:
            size = in_mb(status.st_size)
            raise ToolFailure(f"The result has {size}; use search to look into it.")
        return whole.shown(*_lines(file, b"", offset, limit, fold=True))


def _image(file: BinaryIO, path: str, kind: str, size: int) -> ToolResult:
    if size > MAX_INBOUND_BYTES:
        raise ToolFailure(
            f"The image '{path}' has {in_mb(size)}; {in_mb(MAX_INBOUND_BYTES)} is the most."
        )
    shown = Media(kind, data=file.read(MAX_INBOUND_BYTES), name=Path(path).name)
    # The model looks at it; only attach hands something to the person.
    return ToolResult(blocks=(Text(f"The image '{path}':"), shown))


def _lines(
    file: BinaryIO, head: bytes, offset: int, limit: int, *, fold: bool = False
) -> tuple[str, str]:
    """The lines, and where they stand in the file unless they are the whole of it."""
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
    last = offset - 1 + len(taken)
    if not total:
        return "(the file is empty)", ""
    more = f"; go on with offset={last + 1}" if last < total else ""
    whole = last == total and offset == 1
    return "".join(taken), "" if whole else f"[lines {offset} to {last} of {total}{more}]"


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


MAX_BYTES = 16 * 1024 * 1024
_PATH = {"type": "string", "description": "Path relative to the workspace."}

_WRITE = ToolSpec(
    name="write",
    description=(
        "Write a text file into the workspace: a new one, or a new content for the old one. "
        "Missing directories are made. To change a part of a file use edit."
    ),
    input_schema=schema(
        ["path", "content"],
        path=_PATH,
        content={"type": "string", "description": "The whole new content."},
    ),
    label="Write",
    read_only=False,
    destructive=True,
)
_EDIT = ToolSpec(
    name="edit",
    description=(
        "Replace a piece of a workspace file. `old_text` must be in the file exactly, with its "
        "spaces and line breaks, and only once unless `all` is true."
    ),
    input_schema=schema(
        ["path", "old_text", "new_text"],
        path=_PATH,
        old_text={"type": "string", "description": "The piece as it is now."},
        new_text={"type": "string", "description": "The piece as it shall be."},
        all={"type": "boolean", "description": "Replace every occurrence."},
    ),
    label="Edit",
    read_only=False,
    destructive=True,
)


def writing_tools(workspace: Workspace) -> list[FunctionTool]:
    async def write(arguments: Arguments, context: CallContext) -> ToolResult:
        path, content = arguments.text("path"), _encoded(arguments.text("content"))
        relative = await anyio.to_thread.run_sync(workspace.replace_file, path, content)
        return said(f"Wrote {len(content)} bytes to '{relative}'.")

    async def edit(arguments: Arguments, context: CallContext) -> ToolResult:
        path, old = arguments.text("path"), arguments.text("old_text")
        new, everywhere = arguments.text("new_text"), arguments.flag("all")
        return await anyio.to_thread.run_sync(_edit, workspace, path, old, new, everywhere)

    return [FunctionTool(_WRITE, write), FunctionTool(_EDIT, edit)]


def _edit(workspace: Workspace, path: str, old: str, new: str, everywhere: bool) -> ToolResult:
    if not old:
        raise ToolFailure("`old_text` is empty; use write to make a file.")
    if old == new:
        raise ToolFailure("`old_text` and `new_text` are the same: nothing would change.")
    with workspace.open_file(path) as (file, status, _):
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ToolFailure(f"'{path}' is too large to edit.")
    before, after = _fit_line_ends(content, _encoded(old), _encoded(new))
    if before not in content and (found := as_shown(content, before, after)) is not None:
        before, after = found
    count = content.count(before)
    if count == 0:
        raise ToolFailure(f"`old_text` is not in '{path}'; read the file and copy it exactly.")
    if count > 1 and not everywhere:
        raise ToolFailure(
            f"`old_text` is {count} times in '{path}'; give more of the text around it, "
            "or set `all` to replace every one."
        )
    changed = content.replace(before, after)
    relative = workspace.replace_file(path, changed, expected=Stamp.of(status))
    places = "one place" if count == 1 else f"{count} places"
    return said(f"Changed '{relative}' in {places}.")


def _fit_line_ends(content: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Models write plain line feeds: let them match a file that has Windows line ends."""
    if old in content or b"\r\n" not in content or b"\r" in old:
        return old, new
    return old.replace(b"\n", b"\r\n"), new.replace(b"\n", b"\r\n")


def _encoded(text: str) -> bytes:
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolFailure("The text contains half a character (a lone surrogate).") from None
    if len(content) > MAX_BYTES:
        raise ToolFailure(f"That is {len(content)} bytes; {MAX_BYTES} is the most for one file.")
    return content
