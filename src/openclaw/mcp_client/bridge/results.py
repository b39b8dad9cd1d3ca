"""What a server answered, as a result that the model may read and a front end may show.

Everything a server says goes to the model inside one frame per result. Secrets are taken out before
that. A failure is a result as well.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import orjson
import pybase64

from openclaw.content import Detection, detect, frame
from openclaw.core.content import Block, Media, ResourceLink, Text
from openclaw.core.tools import ToolResult
from openclaw.mcp_client.bridge.oversized_results import Kept, Mode, make_room, new_name
from openclaw.mcp_client.errors import CallFailed, TimedOut
from openclaw.media.images import BadImage, is_markup, measure

DEFAULT_LIMIT = 200_000
_MIME = re.compile(r"[A-Za-z0-9][\w.+-]{0,126}/[A-Za-z0-9][\w.+-]{0,126}")
_UNKNOWN_MIME = "application/octet-stream"
_NOTHING = "(the tool gave no content)"


@dataclass(frozen=True, slots=True)
class Rendering:
    """How the results of one tool are rendered.

    `redact` takes secrets out; `holds_secret` finds them in what cannot be changed. `directory` is
    where the whole of a result that is longer than `limit` characters is kept; without one the rest
    is lost, and the model is told so. `guarded` results are withheld where they are suspicious.
    """

    server: str
    tool: str
    redact: Callable[[str], str] = str
    holds_secret: Callable[[bytes | str], bool] = lambda data: False
    directory: Path | None = None
    limit: int = DEFAULT_LIMIT
    mode: Mode = "frame"
    guarded: bool = False

    @property
    def details(self) -> dict[str, Any]:
        """What front ends and logs may know; it never enters a prompt."""
        return {
            "untrusted": True,
            "source": "mcp_server",
            "server": self.server,
            "tool": self.tool,
            "wrapped": True,
        }


@dataclass(slots=True)
class _Parts:
    """A result taken apart: words in order, media, and the same for front ends."""

    words: list[str] = field(default_factory=list[str])
    media: list[Media] = field(default_factory=list[Media])
    outputs: list[Block] = field(default_factory=list[Block])


@dataclass(frozen=True, slots=True)
class Rendered:
    """A result, and what detection said about its words."""

    result: ToolResult
    detection: Detection
    characters: int


def render_result(raw: Mapping[str, Any], how: Rendering) -> Rendered:
    """The answer to `tools/call`, framed. It may take a while for a large one."""
    parts = _Parts()
    for item in _objects(raw.get("content")):
        _take(item, parts, how)
    _take_structured(raw.get("structuredContent"), parts, how)
    is_error = raw.get("isError") is True
    return _finish(parts, how, is_error=is_error)


def render_resource(raw: Mapping[str, Any], how: Rendering) -> Rendered:
    """The answer to `resources/read`, framed."""
    parts = _Parts()
    for item in _objects(raw.get("contents")):
        _take_resource({"resource": item}, parts, how)
    return _finish(parts, how, is_error=False)


def render_failure(error: CallFailed, how: Rendering) -> Rendered:
    """A call that gave no result, as one."""
    message = error.message
    if isinstance(error, TimedOut):
        message = f"Tool call timed out after {error.seconds * 1000:.0f}ms"
    return render_words(message, how)


def render_words(message: str, how: Rendering) -> Rendered:
    """An error in words, framed, since they may be the server's."""
    parts = _Parts(words=[how.redact(message)])
    return _finish(parts, how, is_error=True)


def _finish(parts: _Parts, how: Rendering, *, is_error: bool) -> Rendered:
    words = "\n".join(parts.words)
    if is_error:
        words = f"MCP tool error ({how.server}/{how.tool}): {words or 'no message'}"
    elif not words:
        words = _NOTHING
    characters = len(words)
    details = how.details
    note = ""
    if characters > how.limit:
        path = _keep(words, how)
        note = _cut_note(characters, how.limit, path)
        words = words[: how.limit]
        details |= {"truncated": True, "characters": characters}
        details |= {"path": str(path)} if path is not None else {}
    detection = detect(words)
    if detection.suspicious:
        details["signals"] = list(detection.signals)
    framed = frame(words, sender=how.server, mode=how.mode) + note
    result = ToolResult(
        blocks=(Text(framed), *parts.media),
        outputs=tuple(_shortened(block, how.limit) for block in parts.outputs),
        is_error=is_error,
        details=details,
    )
    return Rendered(result, detection, characters)


def _cut_note(characters: int, limit: int, path: Path | None) -> str:
    kept = f" The whole is in the file {path}; `read` opens it." if path is not None else ""
    return f"\n(The result was cut: {limit} of {characters} characters are shown.{kept})"


def _keep(words: str, how: Rendering) -> Path | None:
    """Write the whole to a file of our own; a full disk costs the rest, not the result."""
    directory = how.directory
    if directory is None:
        return None
    path = directory / new_name(Kept(how.server, how.mode, how.guarded))
    data = words.encode("utf-8", "backslashreplace")
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not make_room(directory, len(data)):
            return None
        path.touch(mode=0o600, exist_ok=False)
        path.write_bytes(data)
    except OSError:
        return None
    return path


def _shortened(block: Block, limit: int) -> Block:
    if isinstance(block, Text) and len(block.text) > limit:
        return Text(block.text[:limit], addressed=block.addressed)
    return block


def _take(item: Mapping[str, Any], parts: _Parts, how: Rendering) -> None:
    kind = item.get("type")
    if kind == "text":
        _take_text(item, parts, how)
    elif kind in ("image", "audio"):
        _take_media(str(kind), item, parts, how)
    elif kind == "resource":
        _take_resource(item, parts, how)
    elif kind == "resource_link":
        _take_link(item, parts, how)
    else:
        parts.words.append("[Content of a kind that is not supported]")


def _take_text(item: Mapping[str, Any], parts: _Parts, how: Rendering) -> None:
    text = how.redact(_string(item.get("text")))
    parts.words.append(text)
    parts.outputs.append(Text(text, addressed=_for_the_person(item)))


def _take_media(kind: str, item: Mapping[str, Any], parts: _Parts, how: Rendering) -> None:
    mime = mime_type(how.redact(_string(item.get("mimeType"))))
    data = _decoded(item.get("data"))
    if data is None:
        parts.words.append(f"[External {kind} whose data cannot be read: {mime}]")
        return
    if kind == "image" and not (mime := _seen_as(mime, data, parts, how)):
        return
    if _gives_away(data, how):
        parts.words.append(_withheld(kind, mime, data))
        return
    media = Media(mime, data=data)
    parts.words.append(f"[External {kind} from this server is attached: {mime}, {len(data)} bytes]")
    parts.media.append(media)
    parts.outputs.append(media)


def _seen_as(mime: str, data: bytes, parts: _Parts, how: Rendering) -> str | None:
    """What the image really is; None where it is none to be shown, which the words then say."""
    try:
        return measure(data).mime_type
    except BadImage as bad:
        parts.words.append(f"[External image that is not shown: {mime}, {len(data)} bytes: {bad}]")
    if is_markup(data):
        text = how.redact(data.decode("utf-8", "replace"))
        parts.words.append(text)
        parts.outputs.append(Text(text))
    return None


def _take_resource(item: Mapping[str, Any], parts: _Parts, how: Rendering) -> None:
    resource = _object(item.get("resource"))
    uri = how.redact(_string(resource.get("uri")))
    declared = how.redact(_string(resource.get("mimeType")))
    mime = mime_type(declared, unknown="text/plain")
    if isinstance(resource.get("text"), str):
        text = how.redact(_string(resource.get("text")))
        parts.words += [f"[Resource {uri} ({mime})]", text]
        parts.outputs.append(Text(text, addressed=_for_the_person(item)))
        return
    mime = mime_type(declared)
    data = _without_secrets(_decoded(resource.get("blob")), how)
    if data is not None and how.holds_secret(data):
        parts.words.append(f"[Resource {uri}] {_withheld('file', mime, data)}")
        return
    parts.words.append(f"[Resource {uri}] {binary_placeholder(mime)}")
    if data is not None and mime.startswith("image/"):
        mime = _seen_as(mime, data, parts, how) or ""
    if data is not None and mime:
        media = Media(mime, data=data, name=_file_name(uri))
        parts.media.append(media)
        parts.outputs.append(media)


def _take_link(item: Mapping[str, Any], parts: _Parts, how: Rendering) -> None:
    uri = how.redact(_string(item.get("uri")))
    name = how.redact(_string(item.get("title")) or _string(item.get("name")) or uri)
    about = how.redact(_string(item.get("description")))
    declared = how.redact(_string(item.get("mimeType")))
    mime = mime_type(declared) if declared else None
    kind = f" ({mime})" if mime else ""
    parts.words.append(f"[Resource link {name}: {uri}{kind}]" + (f" {about}" if about else ""))
    if _for_the_person(item) and uri.startswith(("https://", "http://")):
        # Whoever hands it over fetches it then, through the guarded client.
        parts.outputs.append(Media(mime or "", url=uri, name=_file_name(uri)))
    else:
        parts.outputs.append(ResourceLink(uri, name, mime, about or None))


def _take_structured(value: object, parts: _Parts, how: Rendering) -> None:
    """Add the structured result as JSON, unless the server already gave it in words."""
    if value is None:
        return
    try:
        words = orjson.dumps(value).decode()
    except (TypeError, RecursionError, orjson.JSONEncodeError):
        parts.words.append("[Structured content that cannot be written as JSON]")
        return
    if not any(_says_the_same(block, value) for block in parts.outputs):
        parts.words.append(how.redact(words))
        parts.outputs.append(Text(how.redact(words)))


def _says_the_same(block: Block, value: object) -> bool:
    """Whether the words are this value as JSON, or all that is in it."""
    if not isinstance(block, Text):
        return False
    if isinstance(value, dict) and list(cast(dict[str, object], value).values()) == [block.text]:
        return True
    if not block.text.lstrip().startswith(("{", "[")):
        return False
    try:
        return bool(orjson.loads(block.text) == value)
    except (orjson.JSONDecodeError, RecursionError):
        return False


def binary_placeholder(mime: str) -> str:
    """What stands in words for content that has none."""
    return f"[Binary content: {mime}]"


def mime_type(value: object, *, unknown: str = _UNKNOWN_MIME) -> str:
    """The MIME type that a server gave, where it is one."""
    bare = value.partition(";")[0].strip() if isinstance(value, str) else ""
    return bare.lower() if _MIME.fullmatch(bare) else unknown


def _for_the_person(item: Mapping[str, Any]) -> bool:
    audience = _object(item.get("annotations")).get("audience")
    return isinstance(audience, list) and "user" in audience


def _decoded(value: object) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        return pybase64.b64decode(value, validate=True)
    except ValueError:
        return None


def _without_secrets(data: bytes | None, how: Rendering) -> bytes | None:
    """A file without secrets, where it is text; what is not text is left as it is."""
    try:
        return data if data is None else how.redact(data.decode()).encode()
    except UnicodeDecodeError:
        return data


def _gives_away(data: bytes, how: Rendering) -> bool:
    """Whether a secret stands in media, which cannot be mended."""
    return how.holds_secret(data) or _without_secrets(data, how) != data


def _withheld(kind: str, mime: str, data: bytes) -> str:
    return f"[External {kind} that is withheld, since a secret stands in it: {mime}, {len(data)} bytes]"


def _file_name(uri: str) -> str | None:
    name = uri.partition("?")[0].partition("#")[0].rstrip("/").rpartition("/")[2]
    return re.sub(r"[^\w. -]", "_", name)[:100] or None


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _object(value: object) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}


def _objects(value: object) -> list[Mapping[str, Any]]:
    items = cast(list[object], value) if isinstance(value, list) else []
    return [cast(Mapping[str, Any], item) for item in items if isinstance(item, dict)]
