"""Workspace files for the model and for the person: reading, changing, handing over."""

import contextlib
import io
import json
import mimetypes
import os
import re
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

import anyio
import anyio.to_thread

from openclaw.agent.tools import base
from openclaw.agent.tools.base import FLAG, WHOLE, Arguments, FunctionTool, quoted, said, spec
from openclaw.agent.tools.checkpoints import Checkpoints
from openclaw.agent.tools.search_worker import MAX_LINE_CHARS, PathGlob, folded
from openclaw.agent.tools.workspace import FoundEntry, ResolvedPath, Workspace, stamp
from openclaw.content.frame import WORKSPACE_FILE
from openclaw.content.sanitise import sanitise
from openclaw.core.content import Media, Text
from openclaw.core.errors import ToolFailure
from openclaw.core.file_names import OwnDirectory
from openclaw.core.tools import CallContext, JsonObject, ToolResult, Untrusted
from openclaw.mcp_client.bridge.results import directory_for, from_name
from openclaw.media import kinds
from openclaw.media.documents import OFFICE, PDF, text_of_bytes
from openclaw.media.intake import TEXT_BUDGET
from openclaw.policy.approval_text import Change
from openclaw.secrets.refs import REDACTED


def _as_server(stored: Untrusted, text: str, note: str) -> ToolResult:
    """The text of a tool result that was stored as a file, as its server's words again."""
    details = {"untrusted": True, "source": "mcp_server", "server": stored.sender, "wrapped": True}
    whose = replace(stored, note=note)
    return ToolResult((Text(text),), (Text(text),), details=details, untrusted=whose)


MAX_LINES = 2000
MAX_CHARS = 64_000  # of one answer: about 16,000 tokens; the model continues with `offset`
MAX_FILE_BYTES = 32 * 1024 * 1024  # text beyond this is better searched than read

_READ = spec(
    "read",
    "Read a workspace file: text as is, the text of a PDF, images as images. At most "
    f"{MAX_LINES} lines at once; continue with `offset`.",
    "path",
    path="Relative to the workspace.",
    offset={**WHOLE, "description": "First line, from 1."},
    limit={**WHOLE, "description": "Lines."},
)
_ATTACH = spec(
    "attach",
    "Give the user a workspace file together with your answer.",
    "path",
    path="",
    name="File name to show.",
)


def _read(
    place: Workspace, path: str, stored: Untrusted | None, offset: int, limit: int
) -> ToolResult | bytes:
    """The file as a result, or the bytes of a document, which another process reads."""
    with place.open_file(path) as (file, status, _):
        if stored is not None:
            _check_size(status, MAX_FILE_BYTES, "The result", _SEARCH_IT)
            return _as_server(stored, *_lines(file, b"", offset, limit, fold=True))
        head = file.read(kinds.HEAD_BYTES)
        file.seek(0)
        kind = kinds.sniff(head)
        if kind in kinds.IMAGE_TYPES:
            _check_size(status, kinds.MAX_INBOUND_BYTES, f"The image '{path}'")
            shown = Media(kind, data=file.read(kinds.MAX_INBOUND_BYTES), name=Path(path).name)
            # No outputs: the model looks at it, and only attach hands something to the person.
            return ToolResult(blocks=(Text(f"The image '{path}':"), shown))
        if kind in _DOCUMENTS and status.st_size <= MAX_FILE_BYTES:
            return file.read(MAX_FILE_BYTES)
        if not kinds.looks_like_text(head):
            what = kind or "binary data"
            raise ToolFailure(f"'{path}' is {what}, not text; attach hands it to the user.")
        _check_size(status, MAX_FILE_BYTES, f"'{path}'", _SEARCH_IT)
        text, note = _lines(file, head, offset, limit)
        return quoted(text, WORKSPACE_FILE, path, note=note)


def _check_size(status: os.stat_result, most: int, what: str, advice: str = "") -> None:
    if status.st_size > most:
        advice = advice or f"the limit is {kinds.in_mb(most)}"
        raise ToolFailure(f"{what} has {kinds.in_mb(status.st_size)}; {advice}.")


_SEARCH_IT = "use search to look inside"
_DOCUMENTS = {"application/pdf": PDF, "application/zip": OFFICE}


async def _document(content: bytes, path: str, offset: int) -> ToolResult:
    engines = _DOCUMENTS[kinds.sniff(content[: kinds.HEAD_BYTES]) or ""]
    document = await text_of_bytes(content, engines, TEXT_BUDGET)
    if not document.text:
        raise ToolFailure(f"'{path}': {document.note}; attach hands it to the user.")
    text, note = _lines(io.BytesIO(document.text.encode()), b"", offset, MAX_LINES, fold=True)
    notes = [f"[{document.note}]" if document.note else "", note]
    return quoted(text, WORKSPACE_FILE, path, note="\n".join(filter(None, notes)))


def _lines(
    file: BinaryIO, head: bytes, offset: int, limit: int, *, fold: bool = False
) -> tuple[str, str]:
    """The lines, and a note on which they are unless they are the whole file."""
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
    more = f"; continue with offset={last + 1}" if last < total else ""
    whole = last == total and offset == 1
    return "".join(taken), "" if whole else f"[lines {offset} to {last} of {total}{more}]"


def mime_type(head: bytes, name: str) -> str:
    """A file's type by its content or, if that says little, by its name."""
    found = kinds.sniff(head)
    named, compression = mimetypes.guess_type(os.path.basename(name))  # noqa: PTH119 - a name
    if compression == "gzip" and found == "application/gzip":
        return "application/x-compressed-tar" if named == "application/x-tar" else found
    textual = named is not None and named.startswith("text/")
    if kinds.looks_like_text(head) and (textual or found is None):
        return named if named and (textual or named == "application/json") else "text/plain"
    generic = found in ("application/zip", "audio/ogg", "video/mp4")
    return named if generic and named and not compression else found or "application/octet-stream"


MAX_BYTES = 16 * 1024 * 1024
MAX_PREVIEW_BYTES = 512 * 1024

_WRITE = spec(
    "write",
    "Create or overwrite a text file; creates directories. To change a part, use edit.",
    "path content",
    destroys=True,
    in_order=True,
    path="",
    content="",
)
_EDIT = spec(
    "edit",
    "Replace a part of a file, or several with `edits`, in order, all or none. `old_text` "
    "must match exactly, and only once unless `all` is true.",
    "path",
    destroys=True,
    in_order=True,
    path="",
    old_text="",
    new_text="",
    all=FLAG,
    edits={
        "type": "array",
        "items": base.schema(["old_text", "new_text"], old_text="", new_text="", all=FLAG),
    },
)
_MOVE = spec(
    "move",
    "Move or rename a file; creates directories.",
    "path to",
    destroys=True,
    in_order=True,
    path="",
    to="",
)
_DELETE = spec(
    "delete",
    "Delete a file, or a directory with everything in it. The person can undo it.",
    "path",
    destroys=True,
    in_order=True,
    path="",
)
_MOST_FILES = 2000
HIDDEN = REDACTED.encode()
_STANDS_FOR = (
    f"{REDACTED} stands for a secret that you are not shown. Use edit on the text around it."
)


def _edited(content: bytes, path: str, edit: Arguments) -> tuple[bytes, int]:
    """The new content, and how many places were changed."""
    old, new = edit.text("old_text"), edit.text("new_text")
    if not old:
        raise ToolFailure("`old_text` is empty; use write to make a file.")
    if old == new:
        raise ToolFailure("`old_text` and `new_text` are the same: nothing would change.")
    before, after = _fit_line_ends(content, _encoded(old), _encoded(new))
    if before not in content and (found := as_shown(content, before, after)) is not None:
        before, after = found
    count = content.count(before)
    if count == 0:
        hidden = f": {_STANDS_FOR}" if HIDDEN in before else ""
        hint = hidden or "; read the file and copy it exactly."
        raise ToolFailure(f"`old_text` is not in '{path}'{hint}")
    if count > 1 and not edit.flag("all"):
        raise ToolFailure(
            f"`old_text` occurs {count} times in '{path}'; include more surrounding text, "
            "or set `all` to replace every one."
        )
    if HIDDEN in after and HIDDEN not in before:
        raise ToolFailure(f"Nothing was changed: {_STANDS_FOR}")
    return content.replace(before, after), count


def _edits(arguments: Arguments) -> list[Arguments]:
    given: Any = arguments.all.get("edits")
    if given is None:
        return [arguments]
    if not isinstance(given, list) or "old_text" in arguments.all:
        raise ToolFailure("Give `edits` as a list, or `old_text` and `new_text`, not both.")
    items = cast("list[Any]", given)
    if not items or not all(isinstance(one, dict) for one in items):
        raise ToolFailure("Give `edits` as a list of objects with `old_text` and `new_text`.")
    return [Arguments(one) for one in items]


def preview(root: Path, name: str, arguments: JsonObject) -> Change | None:
    """What `write` or `edit` would do to an existing text file; None for everything else."""
    if name not in ("write", "edit"):
        return None
    given = Arguments(arguments)
    try:
        path = given.text("path")
        with Workspace(root).open_file(path) as (file, _, _):
            content = file.read(MAX_PREVIEW_BYTES + 1)
        if len(content) > MAX_PREVIEW_BYTES:
            return None
        if name == "write":
            after = _encoded(given.text("content"))
        else:
            after = content
            for one in _edits(given):
                after, _ = _edited(after, path, one)
        shown = frozenset({"content", "old_text", "new_text", "all", "edits"})
        return Change(content.decode(), after.decode(), shown)
    except (ToolFailure, OSError, UnicodeDecodeError):
        return None  # the call itself says what is wrong; the person sees its arguments


def _fit_line_ends(content: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes]:
    """Models write plain line feeds: let them match, and fit, a file that has Windows line ends."""
    if b"\r\n" not in content or (_ALONE.search(content) and old in content):
        return old, new
    return _ALONE.sub(b"\r\n", old), _ALONE.sub(b"\r\n", new)


_ALONE = re.compile(rb"(?<!\r)\n")  # a line feed that is a line's whole end


def _encoded(text: str) -> bytes:
    try:
        content = text.encode("utf-8")
    except UnicodeEncodeError:
        raise ToolFailure("The text contains an unpaired surrogate.") from None
    if len(content) > MAX_BYTES:
        raise ToolFailure(f"That is {len(content)} bytes; the limit for one file is {MAX_BYTES}.")
    return content


def as_shown(content: bytes, old: bytes, new: bytes) -> tuple[bytes, bytes] | None:
    """The text to find and its replacement, if `old` is in the file as `read` shows it.

    A frame changes markers, control tokens and invisible characters, and a model copies what it was
    shown. `old` has to begin and end outside of a changed part. If `new` keeps such a part, the
    original is restored; raises `ToolFailure` if it keeps only a piece of it.
    """
    try:
        text, wanted, put = content.decode(), old.decode(), new.decode()
    except UnicodeDecodeError:
        return None
    shown = sanitise(text)
    lines, seen = text.split("\n"), shown.split("\n")
    if shown == text or shown.count(wanted) != 1 or len(lines) != len(seen):
        return None
    before, _, after = shown.partition(wanted)
    first, last = before.count("\n"), len(seen) - 1 - after.count("\n")
    begin = _in_source(lines[first], seen[first], len(before.rpartition("\n")[2]))
    end = _in_source(lines[last], seen[last], len(seen[last]) - len(after.partition("\n")[0]))
    for line in range(first, last + 1):
        put = _put_back(put, lines[line], seen[line])
    found = "\n".join(lines[first : last + 1])
    return found[begin : len(found) - len(lines[last]) + end].encode(), put.encode()


def _in_source(source: str, seen: str, column: int) -> int:
    """Where a column of a line as it is shown is in the line itself."""
    head, tail = _same(source, seen)
    if column <= head:
        return column
    if column >= len(seen) - tail:
        return len(source) - len(seen) + column
    raise ToolFailure(
        "`old_text` begins or ends in text that is not shown as it is in the file; "
        "give the whole line."
    )


def _same(source: str, seen: str) -> tuple[int, int]:
    """How many characters at the beginning and at the end are shown as they are in the file."""
    most = min(len(source), len(seen))
    head = next((at for at in range(most) if source[at] != seen[at]), most)
    most -= head
    tail = next((at for at in range(most) if source[-1 - at] != seen[-1 - at]), most)
    return head, tail


def _put_back(put: str, source: str, seen: str) -> str:
    head, tail = _same(source, seen)
    altered, original = seen[head : len(seen) - tail], source[head : len(source) - tail]
    if altered and altered in put:
        return put.replace(altered, original, 1)
    if any(mark in altered and mark in put for mark in ("[control:", "[[MARKER_SANITIZED]]")):
        raise ToolFailure(
            f"`new_text` keeps a part of `{altered}`, which stands for other text in the file; "
            "keep it whole, leave it out, or write the whole file."
        )
    return put


MAX_ENTRIES = 1000
MAX_DEPTH = 8
MAX_MATCHES = 200
SEARCH_SECONDS = 20.0  # a pattern that takes longer is a bad one

_LIST = spec(
    "list",
    "List a workspace directory: directories end in /, files show their size.",
    path="The workspace by default.",
    depth={**WHOLE, "description": "Levels; default 1."},
    glob="Such as **/*.py",
)
_SEARCH = spec(
    "search",
    "Search the workspace's text files, line by line, for a Python regular expression.",
    "pattern",
    pattern="",
    path="Directory or file.",
    glob="Such as **/*.py",
    literal={**FLAG, "description": "Plain text, no expression."},
    ignore_case=FLAG,
)


def _described(found: FoundEntry) -> str:
    shown, mode = found.path.encode("utf-8", "replace").decode("utf-8"), found.status.st_mode
    if stat.S_ISDIR(mode):
        return f"{shown}/"
    if stat.S_ISLNK(mode):
        return f"{shown} (link)"
    if stat.S_ISREG(mode):
        return f"{shown} ({found.status.st_size} bytes)"
    return f"{shown} (special)"


async def _search(request: JsonObject) -> tuple[str, str]:
    """Search in a separate process, which can be killed if a pattern keeps it busy."""
    command = [sys.executable, "-I", "-m", "openclaw.agent.tools.search_worker"]
    asked = json.dumps(request).encode()
    try:
        with anyio.fail_after(SEARCH_SECONDS):
            done = await anyio.run_process(command, input=asked, check=False, env={})
        answer = json.loads(done.stdout)
    except TimeoutError:
        raise ToolFailure(
            f"The search took longer than {SEARCH_SECONDS:.0f} s and was stopped; use a simpler "
            "pattern, `literal`, or a narrower `path` or `glob`."
        ) from None
    except (ExceptionGroup, ValueError) as gone:  # it died, perhaps before it read the request
        raise ToolFailure("The search ended without a result; try a narrower one.") from gone
    if "error" in answer:
        raise ToolFailure(answer["error"])
    return answer["text"], answer["note"]


@dataclass(frozen=True, slots=True)
class FileTools:
    """The tools for the files of a workspace; `results` has the full text of cut results."""

    workspace: Workspace
    results: OwnDirectory | None
    checkpoints: Checkpoints | None

    def tools(self) -> list[FunctionTool]:
        blocking = (
            (_ATTACH, self.attach),
            (_WRITE, self.write),
            (_EDIT, self.edit),
            (_MOVE, self.move),
            (_DELETE, self.delete),
            (_LIST, self.list_),
        )
        others = [FunctionTool(spec, base.in_thread(run)) for spec, run in blocking]
        return [FunctionTool(_READ, self.read), *others, FunctionTool(_SEARCH, self.search)]

    def _place(self, path: str, context: CallContext) -> tuple[Workspace, str, Untrusted | None]:
        """Where a path leads: into the workspace, or to a result that is stored for this session.

        A stored result can be read and searched but not written.
        """
        if self.results is not None and path.startswith("/"):
            directory = directory_for(self.results, context.agent, context.session).path
            asked = Path(path)
            stored = from_name(asked.name)
            if stored is not None and asked.parent in (directory, directory.resolve()):
                return Workspace(directory), asked.name, stored
        return self.workspace, path, None

    async def read(self, arguments: Arguments, context: CallContext) -> ToolResult:
        path = arguments.text("path")
        offset = arguments.whole("offset", 1, least=1, most=2**53)
        limit = arguments.whole("limit", MAX_LINES, least=1, most=MAX_LINES)
        where = self._place(path, context)
        result = await anyio.to_thread.run_sync(_read, *where, offset, limit)
        return result if isinstance(result, ToolResult) else await _document(result, path, offset)

    def attach(self, arguments: Arguments, context: CallContext) -> ToolResult:
        path, name = arguments.text("path"), arguments.text("name", "")
        with self.workspace.open_file(path) as (file, status, relative):
            _check_size(status, kinds.MAX_OUTBOUND_BYTES, f"'{path}'")
            kind = mime_type(file.read(kinds.HEAD_BYTES), relative)
        shown = Path(name).name or Path(relative).name
        media = Media(kind, path=self.workspace.root / relative, name=shown)
        said_so = Text(f"'{shown}' ({kind}) will be sent to the user with your answer.")
        return ToolResult(blocks=(said_so,), outputs=(media,), details={"size": status.st_size})

    def _recording(
        self, context: CallContext, *changed: str
    ) -> contextlib.AbstractContextManager[None]:
        if self.checkpoints is None:
            return contextlib.nullcontext()
        return self.checkpoints.recording(context, self.workspace, changed)

    def write(self, arguments: Arguments, context: CallContext) -> ToolResult:
        path, content = arguments.text("path"), _encoded(arguments.text("content"))
        with self.workspace.changing(path, create_parents=True) as (spot,):
            before = HIDDEN
            if HIDDEN in content:
                with (
                    contextlib.suppress(ToolFailure),
                    self.workspace.open_file(path) as (file, _, _),
                ):
                    before = file.read(MAX_BYTES)
            if HIDDEN not in before:
                raise ToolFailure(f"Nothing was written: {_STANDS_FOR}")
            with self._recording(context, spot.relative):
                relative = self.workspace.replace_file(path, content)
        return said(f"Wrote {len(content)} bytes to '{relative}'.")

    def edit(self, arguments: Arguments, context: CallContext) -> ToolResult:
        path, edits = arguments.text("path"), _edits(arguments)
        with self.workspace.changing(path):
            relative, places = self._edit(path, edits, context)
        where = "one place" if places == 1 else f"{places} places"
        return said(f"Changed '{relative}' in {where}.")

    def _edit(self, path: str, edits: Sequence[Arguments], context: CallContext) -> tuple[str, int]:
        """The file's path in the workspace, and in how many places it was changed."""
        with self.workspace.open_file(path) as (file, status, relative):
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ToolFailure(f"'{path}' is too large to edit.")
        places = 0
        for number, one in enumerate(edits, 1):
            try:
                content, count = _edited(content, path, one)
            except ToolFailure as wrong:
                which = f"Edit {number}: " if len(edits) > 1 else ""
                raise ToolFailure(f"{which}{wrong.message}") from wrong
            places += count
        with self._recording(context, relative):
            return self.workspace.replace_file(path, content, expected=stamp(status)), places

    def move(self, arguments: Arguments, context: CallContext) -> ToolResult:
        path, to = arguments.text("path"), arguments.text("to")
        with self.workspace.changing(path, to, create_parents=True) as (source, target):
            status = source.status()
            if status is None or not stat.S_ISREG(status.st_mode):
                raise ToolFailure(f"'{path}' is not a workspace file; only files can be moved.")
            if not target.name or target.status() is not None:
                raise ToolFailure(f"'{to}' already exists; delete it or choose another name.")
            with self._recording(context, source.relative, target.relative):
                os.rename(
                    source.name,
                    target.name,
                    src_dir_fd=source.directory,
                    dst_dir_fd=target.directory,
                )
            return said(f"Moved '{source.relative}' to '{target.relative}'.")

    def delete(self, arguments: Arguments, context: CallContext) -> ToolResult:
        path = arguments.text("path")
        with self.workspace.changing(path) as (spot,):
            status = spot.status()
            if status is None or not spot.name:
                raise ToolFailure(f"There is no '{path}' in the workspace; use list to look.")
            folder = stat.S_ISDIR(status.st_mode)
            below = self._entries_in(spot, path) if folder else []
            with self._recording(context, spot.relative, *(entry.path for entry in below)):
                if folder:
                    shutil.rmtree(spot.name, dir_fd=spot.directory)
                else:
                    os.unlink(spot.name, dir_fd=spot.directory)
            files = sum(stat.S_ISREG(entry.status.st_mode) for entry in below)
            many = f" ({files} files)" if folder else ""
            return said(f"Deleted '{spot.relative}'{many}. The person can undo it with /undo.")

    def _entries_in(self, spot: ResolvedPath, path: str) -> list[FoundEntry]:
        entries: list[FoundEntry] = []
        for entry in self.workspace.walk(spot):
            if entry.private:
                raise ToolFailure(f"'{spot.relative}' has files of this program in it.")
            entries.append(entry)
            if len(entries) > _MOST_FILES:
                many = f"more than {_MOST_FILES} files"
                raise ToolFailure(f"'{path}' has {many}; delete fewer at once.")
        return entries

    def list_(self, arguments: Arguments, context: CallContext) -> ToolResult:
        path, glob = arguments.text("path", "."), arguments.text("glob", "")
        depth = arguments.whole("depth", MAX_DEPTH if glob else 1, least=1, most=MAX_DEPTH)
        wanted = PathGlob(glob) if glob else None
        with self.workspace.locate(path) as spot:
            found = (one for one in self.workspace.walk(spot, depth=depth) if not one.private)
            matching = (one for one in found if wanted is None or wanted.matches(one.path))
            lines = [_described(one) for one in islice(matching, MAX_ENTRIES + 1)]
        note = f"[only the first {MAX_ENTRIES}; list a directory below, or give a glob]"
        text = "\n".join(lines[:MAX_ENTRIES]) or "(nothing)"
        complete = len(lines) <= MAX_ENTRIES
        return quoted(text, WORKSPACE_FILE, f"names in {path}", note="" if complete else note)

    async def search(self, arguments: Arguments, context: CallContext) -> ToolResult:
        path = arguments.text("path", ".")
        place, name, stored = self._place(path, context)
        request = {
            "root": str(place.root),
            "private": [str(path) for path in place.private],
            "path": name,
            "pattern": arguments.text("pattern"),
            "glob": arguments.text("glob", ""),
            "literal": arguments.flag("literal"),
            "ignore_case": arguments.flag("ignore_case"),
            "most": MAX_MATCHES,
            "fold": stored is not None,
        }
        text, note = await _search(request)
        if stored is not None:
            return _as_server(stored, text, note)
        return quoted(text, WORKSPACE_FILE, f"search in {path}", note=note)
