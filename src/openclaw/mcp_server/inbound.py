"""Attachments of an order: checked, stored, and turned into what the agent can use."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openclaw.agent.port import InboundMedia
from openclaw.core.errors import InvalidRequest, ToolFailure
from openclaw.media import kinds
from openclaw.media.files import OrderFiles
from openclaw.media.intake import Intake
from openclaw.media.transcription import Transcriber

if TYPE_CHECKING:
    from openclaw.net.client import GuardedClient

SESSION_KEY_LENGTH = 512
_TYPES: dict[str, tuple[type, str]] = {
    "string": (str, "a string"),
    "array": (list, "an array"),
    "object": (dict, "an object"),
}


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file or image as it came: still base64, still only declared to be what it says."""

    field: str
    mime_type: str
    filename: str | None
    _given: dict[str, Any]

    def take(self) -> str:
        """The base64, once: it is taken out of the order, so that nothing keeps it in memory."""
        return self._given.pop("data")


@dataclass(frozen=True, slots=True)
class Order:
    message: str
    session_key: str | None
    images: tuple[Attachment, ...]
    files: tuple[Attachment, ...]


def read_order(schema: Mapping[str, Any], arguments: Mapping[str, Any] | None) -> Order:
    """The order that these arguments are; InvalidRequest where the schema refuses them."""
    given = dict(arguments or {})
    _check(schema, given, "")
    session_key = given.get("sessionKey")
    if session_key is not None and not 0 < len(session_key) <= SESSION_KEY_LENGTH:
        raise InvalidRequest(
            f"must have 1 to {SESSION_KEY_LENGTH} characters, has {len(session_key)}",
            field="sessionKey",
        )
    if not (given["message"].strip() or given.get("images") or given.get("files")):
        raise InvalidRequest("is empty", field="message")
    return Order(
        message=given["message"],
        session_key=session_key,
        images=_attachments(given, "images"),
        files=_attachments(given, "files"),
    )


def _attachments(given: Mapping[str, Any], field: str) -> tuple[Attachment, ...]:
    return tuple(
        Attachment(f"{field}[{index}]", item["mimeType"], item.get("filename"), item)
        for index, item in enumerate(given.get(field) or ())
    )


def _check(schema: Mapping[str, Any], value: Any, path: str) -> None:
    kind, name = _TYPES[schema["type"]]
    if not isinstance(value, kind):
        raise InvalidRequest(f"must be {name}, not {_name_of(value)}", field=path or "arguments")
    if isinstance(value, list):
        for index, item in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            _check(schema["items"], item, f"{path}[{index}]")
    elif isinstance(value, dict):
        _check_object(schema, value, path)  # pyright: ignore[reportUnknownArgumentType]


def _check_object(schema: Mapping[str, Any], value: Mapping[str, Any], path: str) -> None:
    prefix = f"{path}." if path else ""
    for required in schema.get("required", ()):
        if required not in value:
            raise InvalidRequest("is required", field=prefix + required)
    known: Mapping[str, Any] = schema["properties"]
    for key in (
        known.keys() & value.keys()
    ):  # the schema admits further keys and says nothing of them
        _check(known[key], value[key], prefix + key)


def _name_of(value: Any) -> str:
    if value is None:
        return "null"
    names = (bool, "a boolean"), (int | float, "a number"), (str, "a string"), (list, "an array")
    return next((name for kind, name in names if isinstance(value, kind)), "an object")


async def receive(
    order: Order, files: OrderFiles, transcriber: Transcriber
) -> tuple[InboundMedia, ...]:
    """Take the order's attachments. InvalidRequest names the item; nothing is read before all are checked."""
    _check_count("images", order.images, kinds.MAX_IMAGES)
    _check_count("files", order.files, kinds.MAX_FILES)
    intake = Intake(transcriber, lambda: files)
    wanted = [(item, kinds.IMAGE_TYPES) for item in order.images]
    wanted += [(item, kinds.FILE_TYPES) for item in order.files]
    stored = [
        await intake.store(
            item.take(), item.mime_type, allowed, field=item.field, name=item.filename
        )
        for item, allowed in wanted
    ]
    taken = [await intake.read(media) for media in stored]
    return tuple(InboundMedia(one.media, one.text, one.note) for one in taken)


def _check_count(field: str, items: Sequence[Attachment], limit: int) -> None:
    if len(items) > limit:
        raise InvalidRequest(f"has {len(items)} items; at most {limit} are taken", field=field)


SECONDS = 30.0  # the person waits for the answer meanwhile

OpenClient = Callable[[], AbstractAsyncContextManager["GuardedClient"]]


def open_guarded() -> AbstractAsyncContextManager["GuardedClient"]:
    """A client for one URL; loaded only when one is fetched."""
    from openclaw.net.client import GuardedClient

    return GuardedClient(total_timeout=SECONDS)


async def fetch_guarded(
    url: str, limit: int, open_client: OpenClient = open_guarded
) -> tuple[bytes, str | None]:
    """The body and its declared type; an error of ours where it cannot or may not be had."""
    async with open_client() as client:
        fetched = await client.fetch(url, max_bytes=limit)
    if fetched.status != 200:
        raise ToolFailure(f"its address answered with HTTP {fetched.status}")
    return fetched.body, fetched.mime_type or None
