"""`list` and `search`: finding things in the workspace."""

import json
import os
import stat
import sys
from collections.abc import Set

import anyio
import anyio.to_thread

from openclaw.agent.tools.base import FLAG, WHOLE, Arguments, FunctionTool, quoted, schema
from openclaw.agent.tools.files import KeptResults
from openclaw.agent.tools.search_worker import PathGlob
from openclaw.agent.tools.workspace import Workspace, identity
from openclaw.config.paths import CLOEXEC, DIRECTORY, NOFOLLOW
from openclaw.content.frame import WORKSPACE_FILE
from openclaw.core.errors import ToolFailure
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSpec

MAX_ENTRIES = 1000
MAX_DEPTH = 8
MAX_MATCHES = 200
SEARCH_SECONDS = 20.0  # a pattern that takes longer is a bad one: its process is ended

_NO_ANSWER = "The search ended without a result; try a narrower one."

_LIST = ToolSpec(
    name="list",
    description="List a workspace directory: directories end in /, files show their size.",
    input_schema=schema(
        [],
        path="The workspace by default.",
        depth={**WHOLE, "description": "Levels; default 1."},
        glob="Such as **/*.py",
    ),
    label="List",
    read_only=True,
    destructive=False,
)
_SEARCH = ToolSpec(
    name="search",
    description="Search the workspace's text files, line by line, for a Python regular expression.",
    input_schema=schema(
        ["pattern"],
        pattern="",
        path="Directory or file.",
        glob="Such as **/*.py",
        literal={**FLAG, "description": "Plain text, no expression."},
        ignore_case=FLAG,
    ),
    label="Search",
    read_only=True,
    destructive=False,
)


def listing_tools(workspace: Workspace, kept: KeptResults) -> list[FunctionTool]:
    """The tools that find things. `search` looks also into results that were cut."""

    async def list_(arguments: Arguments, context: CallContext) -> ToolResult:
        path, glob = arguments.text("path", "."), arguments.text("glob", "")
        depth = arguments.whole("depth", MAX_DEPTH if glob else 1, least=1, most=MAX_DEPTH)
        return await anyio.to_thread.run_sync(_list, workspace, path, depth, glob)

    async def search(arguments: Arguments, context: CallContext) -> ToolResult:
        path = arguments.text("path", ".")
        whole = kept.find(path, context)
        request = {
            "root": str(workspace.root if whole is None else whole.place.root),
            "private": [str(path) for path in workspace.private] if whole is None else [],
            "path": path if whole is None else whole.name,
            "pattern": arguments.text("pattern"),
            "glob": arguments.text("glob", ""),
            "literal": arguments.flag("literal"),
            "ignore_case": arguments.flag("ignore_case"),
            "most": MAX_MATCHES,
            "fold": whole is not None,
        }
        found = await _search(request)
        text, note = found
        return (
            quoted(text, WORKSPACE_FILE, f"search in {path}", note=note)
            if whole is None
            else whole.shown(text, note)
        )

    return [FunctionTool(_LIST, list_), FunctionTool(_SEARCH, search)]


def _list(workspace: Workspace, path: str, depth: int, glob: str) -> ToolResult:
    wanted = PathGlob(glob) if glob else None
    lines: list[str] = []
    with workspace.open_directory(path) as (directory, relative):
        prefix = "" if relative == "." else f"{relative}/"
        complete = _list_into(lines, workspace.private_ids(), directory, prefix, depth, wanted)
    note = f"[only the first {MAX_ENTRIES}; list a directory below, or give a glob]"
    text = "\n".join(lines) or "(nothing)"
    return quoted(text, WORKSPACE_FILE, f"names in {path}", note="" if complete else note)


def _list_into(
    lines: list[str],
    private: Set[tuple[int, int]],
    directory: int,
    prefix: str,
    depth: int,
    wanted: PathGlob | None,
) -> bool:
    """Add what is in `directory`; False once there is too much."""
    for name in sorted(os.listdir(directory)):
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except OSError:
            continue  # gone meanwhile
        if identity(status) in private:
            continue
        line = _described(prefix + name, status)
        if wanted is None or wanted.matches(prefix + name):
            if len(lines) >= MAX_ENTRIES:
                return False
            lines.append(line)
        deeper = depth > 1 and stat.S_ISDIR(status.st_mode)
        if deeper and not _list_below(lines, private, directory, name, prefix, depth - 1, wanted):
            return False
    return True


def _list_below(
    lines: list[str],
    private: Set[tuple[int, int]],
    directory: int,
    name: str,
    prefix: str,
    depth: int,
    wanted: PathGlob | None,
) -> bool:
    flags = os.O_RDONLY | DIRECTORY | NOFOLLOW | CLOEXEC
    try:
        below = os.open(name, flags, dir_fd=directory)
    except OSError:
        return True  # gone or changed meanwhile, or not ours to read
    try:
        return _list_into(lines, private, below, f"{prefix}{name}/", depth, wanted)
    finally:
        os.close(below)


def _described(path: str, status: os.stat_result) -> str:
    shown = path.encode("utf-8", "replace").decode("utf-8")
    if stat.S_ISDIR(status.st_mode):
        return f"{shown}/"
    if stat.S_ISLNK(status.st_mode):
        return f"{shown} (link)"
    if stat.S_ISREG(status.st_mode):
        return f"{shown} ({status.st_size} bytes)"
    return f"{shown} (special)"


async def _search(request: JsonObject) -> tuple[str, str]:
    """Search in a process of its own, which a pattern may keep busy and which can be ended."""
    command = [sys.executable, "-I", "-m", "openclaw.agent.tools.search_worker"]
    asked = json.dumps(request).encode()
    try:
        with anyio.fail_after(SEARCH_SECONDS):
            done = await anyio.run_process(command, input=asked, check=False, env={})
    except TimeoutError:
        raise ToolFailure(
            f"The search took longer than {SEARCH_SECONDS:.0f} s and was stopped; use a simpler "
            "pattern, `literal`, or a narrower `path` or `glob`."
        ) from None
    except ExceptionGroup as gone:  # it died before it had read the request
        raise ToolFailure(_NO_ANSWER) from gone
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise ToolFailure(_NO_ANSWER) from None
    if "error" in answer:
        raise ToolFailure(answer["error"])
    return answer["text"], answer["note"]
