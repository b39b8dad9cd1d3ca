"""Converts a server's answer to a tool result. A failure is a result too.

Every result is marked as untrusted; the tool path redacts and frames it.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, unquote

import orjson
import pybase64

from openclaw.config.paths import private_directory
from openclaw.content.frame import MCP_SERVER, Mode
from openclaw.core.clock import random_id
from openclaw.core.content import Block, Media, ResourceLink, Text
from openclaw.core.errors import OperatorFacing
from openclaw.core.file_names import FileName, OwnDirectory
from openclaw.core.tools import ToolResult, Untrusted, json_list, json_object, json_objects
from openclaw.mcp_client.errors import CallFailed, TimedOut
from openclaw.media.images import BadImage, is_markup, measure

DEFAULT_LIMIT = 200_000
_MIME = re.compile(r"[A-Za-z0-9][\w.+-]{0,126}/[A-Za-z0-9][\w.+-]{0,126}")
_UNKNOWN_MIME = "application/octet-stream"
_NOTHING = "(the tool gave no content)"


@dataclass(frozen=True)
class Rendering:
    """Whose results these are, and how to show them to the model (see `Untrusted`)."""

    server: str
    tool: str
    limit: int = DEFAULT_LIMIT
    mode: Mode = "frame"
    guarded: bool = False

    @cached_property
    def details(self) -> Mapping[str, Any]:
        """For front ends and logs; never part of a prompt."""
        return {
            "untrusted": True,
            "source": "mcp_server",
            "server": self.server,
            "tool": self.tool,
            "wrapped": True,
        }

    @cached_property
    def untrusted(self) -> Untrusted:
        return Untrusted(
            MCP_SERVER, self.server, mode=self.mode, guarded=self.guarded, limit=self.limit
        )


class _Parts:
    def __init__(self, *words: str) -> None:
        self.words = list(words)
        self.outputs: list[Block] = []

    @property
    def media(self) -> list[Media]:
        """What the model may see; media with only an address is fetched when it is delivered."""
        return [part for part in self.outputs if isinstance(part, Media) and part.data is not None]


def render_result(raw: Mapping[str, Any], how: Rendering) -> ToolResult:
    parts = _Parts()
    for item in json_objects(raw.get("content")):
        _take(item, parts)
    structured = raw.get("structuredContent")
    if structured is not None:
        _take_structured(structured, parts)
    return _finish(parts, how, is_error=raw.get("isError") is True, structured=structured)


def render_resource(raw: Mapping[str, Any], how: Rendering) -> ToolResult:
    parts = _Parts()
    for item in json_objects(raw.get("contents")):
        _take_resource({"resource": item}, parts)
    return _finish(parts, how, is_error=False)


def render_failure(error: CallFailed, how: Rendering) -> ToolResult:
    """A failed call as a result; its text may be the server's."""
    message = error.message
    if isinstance(error, TimedOut):
        message = f"Tool call timed out after {error.seconds * 1000:.0f}ms"
    return _finish(_Parts(message), how, is_error=True)


def _finish(
    parts: _Parts, how: Rendering, *, is_error: bool, structured: object = None
) -> ToolResult:
    words = "\n".join(parts.words)
    if is_error:
        words = f"MCP tool error ({how.server}/{how.tool}): {words or 'no message'}"
    return ToolResult(
        blocks=(Text(words or _NOTHING), *parts.media),
        outputs=tuple(parts.outputs),
        is_error=is_error,
        details=how.details,
        untrusted=how.untrusted,
        structured=structured,
    )


def _take(item: Mapping[str, Any], parts: _Parts) -> None:
    kind = item.get("type")
    if kind == "text":
        text = _string(item.get("text"))
        parts.words.append(text)
        parts.outputs.append(Text(text, addressed=_for_the_person(item)))
    elif kind in ("image", "audio"):
        _take_media(str(kind), item, parts)
    elif kind == "resource":
        _take_resource(item, parts)
    elif kind == "resource_link":
        _take_link(item, parts)
    else:
        parts.words.append("[Content of a kind that is not supported]")


def _take_media(kind: str, item: Mapping[str, Any], parts: _Parts) -> None:
    mime = _declared(item.get("mimeType"))
    data = _decoded(item.get("data"))
    if data is None:
        parts.words.append(f"[External {kind} whose data cannot be read: {mime}]")
        return
    if kind == "image" and not (mime := _image_type(mime, data, parts)):
        return
    parts.words.append(f"[External {kind} from this server: {mime}, {len(data)} bytes]")
    parts.outputs.append(Media(mime, data=data))


def _image_type(mime: str, data: bytes, parts: _Parts) -> str | None:
    """The image's real type; None if it can't be shown, which the text then says."""
    try:
        return measure(data).mime_type
    except BadImage as bad:
        parts.words.append(f"[External image that is not shown: {mime}, {len(data)} bytes: {bad}]")
    if is_markup(data):
        text = data.decode("utf-8", "replace")
        parts.words.append(text)
        parts.outputs.append(Text(text))
    return None


def _take_resource(item: Mapping[str, Any], parts: _Parts) -> None:
    resource = json_object(item.get("resource"))
    uri = _string(resource.get("uri"))
    declared = resource.get("mimeType")
    mime = _declared(declared, unknown="text/plain")
    if isinstance(resource.get("text"), str):
        text = _string(resource.get("text"))
        parts.words += [f"[Resource {uri} ({mime})]", text]
        parts.outputs.append(Text(text, addressed=_for_the_person(item)))
        return
    mime = _declared(declared)
    data = _decoded(resource.get("blob"))
    parts.words.append(f"[Resource {uri}] {binary_placeholder(mime)}")
    if data is not None and mime.lower().startswith("image/"):
        mime = _image_type(mime, data, parts) or ""
    if data is not None and mime:
        parts.outputs.append(Media(mime, data=data, name=uri))


def _take_link(item: Mapping[str, Any], parts: _Parts) -> None:
    uri = _string(item.get("uri"))
    name = _string(item.get("title")) or _string(item.get("name")) or uri
    about = _string(item.get("description"))
    declared = _string(item.get("mimeType"))
    mime = _declared(declared) if declared else None
    kind = f" ({mime})" if mime else ""
    parts.words.append(f"[Resource link {name}: {uri}{kind}]" + (f" {about}" if about else ""))
    if _for_the_person(item) and uri.startswith(("https://", "http://")):
        parts.outputs.append(Media(mime or "", url=uri, name=uri))
    else:
        parts.outputs.append(ResourceLink(uri, name, mime, about or None))


_JSON_STARTS = frozenset("{[-0123456789tfn")


def _take_structured(value: object, parts: _Parts) -> None:
    """Add the structured result as JSON, unless the server already gave it as text."""
    try:
        words = orjson.dumps(value).decode()
    except (TypeError, RecursionError, orjson.JSONEncodeError):
        parts.words.append("[Structured content that cannot be written as JSON]")
        return
    texts = [block.text for block in parts.outputs if isinstance(block, Text)]
    # Many servers wrap what is no object, so that it is one.
    inner = list(cast(dict[str, object], value).values()) if isinstance(value, dict) else []
    candidates: list[object] = [value, *inner] if len(inner) == 1 else [value]
    if not any(_says_the_same(texts, candidate) for candidate in candidates):
        parts.words.append(words)
        parts.outputs.append(Text(words))


def _says_the_same(texts: list[str], value: object) -> bool:
    """Whether one text says it, or for a list, one text for each item."""
    if any(_is_written(text, value) for text in texts):
        return True
    items = cast("list[object]", value) if isinstance(value, list) else []
    return bool(items) and len(items) == len(texts) and all(map(_is_written, texts, items))


def _is_written(text: str, value: object) -> bool:
    if isinstance(value, str):
        return text == value
    if text.lstrip()[:1] not in _JSON_STARTS:
        return False
    try:
        return bool(orjson.loads(text) == value)
    except (orjson.JSONDecodeError, RecursionError):
        return False


def binary_placeholder(mime: str) -> str:
    """The text that stands for binary content."""
    return f"[Binary content: {mime}]"


def mime_type(value: object, *, unknown: str = _UNKNOWN_MIME) -> str:
    """The MIME type that a server declared, if it is valid."""
    return _declared(value, unknown=unknown).lower()


def _declared(value: object, *, unknown: str = _UNKNOWN_MIME) -> str:
    """The same, in its original case: a secret in it must stay recognisable for redaction."""
    bare = value.partition(";")[0].strip() if isinstance(value, str) else ""
    return bare if _MIME.fullmatch(bare) else unknown


def _for_the_person(item: Mapping[str, Any]) -> bool:
    annotations = item.get("annotations")
    return annotations is not None and "user" in json_list(json_object(annotations).get("audience"))


def _decoded(value: object) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        return pybase64.b64decode(value, validate=True)
    except ValueError:
        return None


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


# Results that were too long for the model are stored whole, so that it can read on.
#
# Each session has its own directory. A file's name says whose text is in it and how to show it:
# whoever reads it later must not take it for ours.

_NAME = re.compile(
    r"mcp-(?P<server>.{1,160})-\w+\.(?P<mode>frame|datamark)(?P<guarded>\.guarded)?\.txt"
)
_SESSION = re.compile(r"[0-9a-f]{32}")
_SERVER_CHARS = 40
_QUOTED_CHARS = 160
_MOST_QUOTED = 12  # characters for one of four bytes

MAX_FILES = 64
MAX_BYTES = 64 * 1024 * 1024
MAX_SESSIONS = 200
"""What one session may store, and how many sessions may: no server can fill the disk."""


def directory_for(root: OwnDirectory, agent: str, session: str) -> OwnDirectory:
    digest = sha256(f"{agent}\0{session}".encode()).hexdigest()[:32]
    return root.subdirectory(FileName(digest))


def keep(
    words: str, whose: Untrusted, root: OwnDirectory | None, agent: str, session: str
) -> Path | None:
    """Write all of it to a file; a full disk costs the rest, not the result."""
    if root is None:
        return None
    directory = directory_for(root, agent, session)
    path = directory / new_name(whose)
    data = words.encode("utf-8", "backslashreplace")
    try:
        private_directory(directory.path)
        if not make_room(directory.path, len(data)):
            return None
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(data)
    except (OSError, OperatorFacing):
        return None
    return path


def make_room(directory: Path, size: int) -> bool:
    """Delete the session's oldest files until this one fits; False if it is too large.

    Also deletes the oldest sessions beyond the limit.
    """
    if size > MAX_BYTES:
        return False
    files = _by_age(directory)
    total = sum(status.st_size for _, status in files)
    while files and (len(files) >= MAX_FILES or total + size > MAX_BYTES):
        oldest, status = files.pop(0)
        oldest.unlink(missing_ok=True)
        total -= status.st_size
    sessions = (path for path, _ in _by_age(directory.parent) if _SESSION.fullmatch(path.name))
    others = [path for path in sessions if path != directory]
    for other in others[: max(0, len(others) - MAX_SESSIONS + 1)]:
        shutil.rmtree(other, ignore_errors=True)
    return True


def _by_age(directory: Path) -> list[tuple[Path, os.stat_result]]:
    files: list[tuple[Path, os.stat_result]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # another process may delete it as well
                files.append((Path(entry.path), entry.stat(follow_symlinks=False)))
    return sorted(files, key=lambda pair: pair[1].st_mtime_ns)


def new_name(whose: Untrusted) -> FileName:
    server = quote(whose.sender[:_SERVER_CHARS], safe="").replace(".", "%2E") or "%00"
    if len(server) > _QUOTED_CHARS:  # no character is cut in two
        server = quote(whose.sender[: _QUOTED_CHARS // _MOST_QUOTED], safe="").replace(".", "%2E")
    guarded = ".guarded" if whose.guarded else ""
    return FileName(f"mcp-{server}-{random_id()}.{whose.mode}{guarded}.txt")


def from_name(name: str) -> Untrusted | None:
    """What a file's name says about it; None if it isn't a stored result."""
    parts = _NAME.fullmatch(name)
    if parts is None:
        return None
    mode: Mode = "datamark" if parts["mode"] == "datamark" else "frame"
    guarded = parts["guarded"] is not None
    return Untrusted(MCP_SERVER, unquote(parts["server"]), mode, guarded)
