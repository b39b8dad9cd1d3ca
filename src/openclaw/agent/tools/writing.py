"""`write` and `edit`: changing workspace files, whole or not at all."""

import anyio.to_thread

from openclaw.agent.tools.base import Arguments, FunctionTool, said, schema
from openclaw.agent.tools.workspace import Stamp, Workspace
from openclaw.core.errors import ToolFailure
from openclaw.core.tools import CallContext, ToolResult, ToolSpec

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
    """The tools that change files."""

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
