"""What the agent and its tools produced, as content blocks of an MCP answer."""

import mimetypes
import os
import stat
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import anyio.to_thread
import pybase64

from openclaw.config.paths import CLOEXEC, NONBLOCK
from openclaw.core.content import Block, Media, ResourceLink, Text
from openclaw.core.errors import OpenClawError, ToolFailure
from openclaw.mcp.revisions import Revision
from openclaw.media import kinds
from openclaw.media.kinds import HEAD_BYTES, looks_like_text, sniff
from openclaw.media.stored_files import CLEANED, WITHHELD, cleaned

if TYPE_CHECKING:
    from openclaw.net.guarded_client import GuardedClient
    from openclaw.secrets.redactor import Redactor

_FETCH_SECONDS = 30.0  # the person waits for the answer meanwhile

Json = dict[str, Any]
Fetch = Callable[[str, int], Awaitable[tuple[bytes, str | None]]]  # takes a URL and a limit


async def fetch_guarded(
    url: str, limit: int, client: "GuardedClient | None" = None
) -> tuple[bytes, str | None]:
    from openclaw.net.guarded_client import GuardedClient

    async with client or GuardedClient(total_timeout=_FETCH_SECONDS) as opened:
        fetched = await opened.fetch(url, max_bytes=limit)
    if fetched.status != 200:
        raise ToolFailure(f"its address answered with HTTP {fetched.status}")
    return fetched.body, fetched.mime_type or None


@dataclass(frozen=True, slots=True)
class OutboundRules:
    directories: tuple[Path, ...]
    audio: str  # auto, audio or resource
    secrets: "Redactor | None" = None  # None if media was redacted before
    fetch: Fetch = fetch_guarded


class LeftOut(OpenClawError):
    """Raised when something cannot be sent; the answer says so in words."""


async def render(
    items: Sequence[Media], rules: OutboundRules, revision: Revision
) -> tuple[list[Json], list[str]]:
    blocks: list[Json] = []
    left_out: list[str] = []
    room = kinds.MAX_RESPONSE_BYTES
    knows_audio = rules.audio == "auto" and revision.audio
    audio_as_block = knows_audio or rules.audio == "audio"
    for number, item in enumerate(items, 1):
        try:
            loaded, mime_type = await _load(item, rules, room)
            data = await _clean(loaded, item, rules.secrets)
        except LeftOut as error:
            name = _name(item, number, item.mime_type)
            left_out.append(f"[{name} was left out: {error.message}]")
            continue
        if data != loaded:
            left_out.append(f"[{_name(item, number, mime_type)}: {CLEANED}]")
        room -= len(data)
        blocks.append(_block(item, number, data, mime_type, audio_as_block))
    return blocks, left_out


async def _load(item: Media, rules: OutboundRules, room: int) -> tuple[bytes, str]:
    limit, declared = min(kinds.MAX_OUTBOUND_BYTES, room), item.mime_type
    if item.data is not None:
        data = item.data
    elif item.path is not None:
        data = await anyio.to_thread.run_sync(_read_inside, item.path, rules.directories, limit)
    elif item.url is None:
        raise LeftOut("there is nothing in it")
    else:
        try:
            data, fetched_type = await rules.fetch(item.url, limit)
        except OpenClawError as error:
            raise LeftOut(error.message) from None
        declared = fetched_type or declared
    _check_size(len(data), limit)
    return data, _true_type(declared, data)


async def _clean(data: bytes, item: Media, secrets: "Redactor | None") -> bytes:
    """Redact a file, which may have changed since it was handed over."""
    if secrets is None or item.data is not None:
        return data
    clean = await anyio.to_thread.run_sync(cleaned, data, secrets)
    if clean is None:
        raise LeftOut(WITHHELD)
    return clean


def _check_size(size: int, limit: int) -> None:
    if size > kinds.MAX_OUTBOUND_BYTES:
        most = kinds.in_mb(kinds.MAX_OUTBOUND_BYTES)
        raise LeftOut(f"it is {kinds.in_mb(size)}, and the limit for one item is {most}")
    if size > limit:
        raise LeftOut(f"the answer's media would exceed {kinds.in_mb(kinds.MAX_RESPONSE_BYTES)}")


def _read_inside(path: Path, directories: Sequence[Path], limit: int) -> bytes:
    """The file's bytes, if the file that was opened is inside one of the directories."""
    try:
        fd = os.open(path, os.O_RDONLY | NONBLOCK | CLOEXEC)
    except OSError as error:
        raise LeftOut(f"the file cannot be read ({error.strerror})") from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise LeftOut("it is not a regular file")
        real = path.resolve()
        inside = any(real.is_relative_to(directory.resolve()) for directory in directories)
        # If the path was swapped between opening and resolving it, this is another file.
        if not inside or not os.path.samestat(status, real.stat(follow_symlinks=False)):
            raise LeftOut("it is outside the workspace")
        _check_size(status.st_size, limit)
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(limit + 1)
    finally:
        os.close(fd)


def _true_type(declared: str, data: bytes) -> str:
    declared = kinds.normalise(declared)
    sniffed = sniff(data[:HEAD_BYTES])
    if sniffed is None or declared == sniffed:
        return declared
    if declared in ("", "application/octet-stream") or sniffed in kinds.IMAGE_TYPES:
        return sniffed
    return "application/octet-stream" if declared in kinds.IMAGE_TYPES else declared


def _block(item: Media, number: int, data: bytes, mime_type: str, audio_as_block: bool) -> Json:
    """A content block, its keys in the order in which the SDK writes them."""
    kind = mime_type.partition("/")[0]
    if mime_type in kinds.IMAGE_TYPES or (kind == "audio" and audio_as_block):
        return {"data": _base64(data), "mimeType": mime_type, "type": kind}
    uri = f"attachment://{quote(_name(item, number, mime_type))}"
    is_text = kind == "text" or mime_type in ("application/json", "application/xml")
    if is_text and looks_like_text(data[:HEAD_BYTES]):
        from openclaw.media.intake import decode_text

        resource = {"mimeType": mime_type, "text": decode_text(data), "uri": uri}
    else:
        resource = {"blob": _base64(data), "mimeType": mime_type, "uri": uri}
    return {"resource": resource, "type": "resource"}


def _base64(data: bytes) -> str:
    return pybase64.b64encode_as_string(data)


def _name(item: Media, number: int, mime_type: str) -> str:
    name = item.name or (item.path.name if item.path is not None else "")
    shown = "".join(char for char in name if char.isprintable() and char not in "/\\").strip()
    extension = kinds.EXTENSIONS.get(mime_type) or mimetypes.guess_extension(mime_type) or ""
    return shown[:120] or f"attachment-{number}{extension}"


NO_RESPONSE = "(No response)"


def combine(parts: list[str]) -> str:
    """Join the parts in order, without duplicates: parts that a later one contains, apart from spacing."""
    trimmed = [part.replace("\r\n", "\n").strip() for part in parts]
    folded = [" ".join(part.split()) for part in trimmed]
    kept = [
        trimmed[index]
        for index, words in enumerate(folded)
        if words and not any(words in later for later in folded[index + 1 :])
    ]
    return "\n\n".join(kept) or NO_RESPONSE


class AnswerCollector:
    """Collects, in order, what block replies, tool results and the final answer contribute."""

    def __init__(self, *, all_tool_text: bool = False) -> None:
        self._all_tool_text = all_tool_text
        self._parts: list[str] = []
        self.media: list[Media] = []

    def add_reply(self, blocks: tuple[Block, ...]) -> None:
        for block in blocks:
            if isinstance(block, Text):
                self._parts.append(block.text)
            elif isinstance(block, Media) and block not in self.media:
                self.media.append(block)

    def add_tool_output(self, outputs: tuple[Block, ...]) -> None:
        """A tool's output: its media, and text that is addressed to the person."""
        for block in outputs:
            if isinstance(block, ResourceLink):
                block = Text(f"{block.name}: {block.uri}")
            if isinstance(block, Media) or block.addressed or self._all_tool_text:
                self.add_reply((block,))

    def text(self) -> str:
        return combine(self._parts)
