"""Requests as typed values: bodies, and attachments that came inside them."""

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
import orjson
from starlette.requests import Request

from openclaw.agent.port import InboundMedia
from openclaw.core.content import Media
from openclaw.core.errors import InvalidRequest
from openclaw.media import kinds
from openclaw.media.files import OrderFiles, order_files
from openclaw.media.intake import Reader, decode
from openclaw.media.kinds import HEAD_BYTES, mismatch
from openclaw.media.transcription import Transcriber

Json = dict[str, Any]

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,", re.ASCII)
_NAME_CHARS = 120


async def json_body(request: Request) -> Json:
    """The body, which has to be a JSON object of JSON content type."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # A form of another site's page can be posted without a preflight; JSON cannot.
        raise InvalidRequest("the body has to be application/json", field="Content-Type")
    raw = await request.body()
    try:
        body: Any = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise InvalidRequest("the body is not a JSON object")
    return cast("Json", body)


def text_field(body: Mapping[str, Any], name: str) -> str | None:
    """A text, or None where it is missing or null."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRequest("has to be a string", field=name)
    return value


def flag(body: Mapping[str, Any], name: str, default: bool = False) -> bool:
    """A yes or no."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidRequest("has to be true or false", field=name)
    return value


def objects(value: Any, name: str) -> list[Json]:
    """A list of objects, or nothing."""
    items = cast("list[Any]", value if isinstance(value, list) else [value])
    if value is None:
        return []
    if not all(isinstance(item, dict) for item in items):
        raise InvalidRequest("has to be a list of objects", field=name)
    return items


class Attachments:
    """Takes what came with a message: checks it, keeps it while `stack` is open, reads it."""

    def __init__(self, root: Path, stack: ExitStack, transcriber: Transcriber) -> None:
        self._root = root
        self._stack = stack
        self._files: OrderFiles | None = None
        self._reader = Reader(transcriber)
        self._taken: list[InboundMedia] = []

    @property
    def taken(self) -> Sequence[InboundMedia]:
        """Everything so far, in order."""
        return tuple(self._taken)

    async def take_url(self, url: Any, field: str, name: str | None = None) -> None:
        """A `data:` URL; others are refused, since we fetch nothing on a client's word."""
        found = _DATA_URL.match(url) if isinstance(url, str) else None
        if found is None:
            raise InvalidRequest("has to be a data: URL with base64", field=field)
        await self.take(found[1], str(url)[found.end() :], field, name)

    async def take(self, mime_type: str, data: str, field: str, name: str | None = None) -> None:
        """Base64 with its type."""
        if len(self._taken) >= kinds.MAX_IMAGES + kinds.MAX_FILES:
            raise InvalidRequest("has too many attachments", field=field)
        known = kinds.normalise(mime_type)
        if known not in kinds.FILE_TYPES + kinds.IMAGE_TYPES:
            raise InvalidRequest(f"{mime_type!r} is not taken", field=field)
        path = await anyio.to_thread.run_sync(self._store, known, data, field)
        shown = "".join(c for c in (name or "") if c.isprintable()).strip(" ./\\")[:_NAME_CHARS]
        media = Media(known, path=path, name=shown or f"attachment{path.suffix}")
        reading = await self._reader.read(path, known)
        self._taken.append(InboundMedia(media, reading.text, reading.note))

    def take_read(self, media: InboundMedia) -> None:
        """What a front end of ours has read already."""
        self._taken.append(media)

    def _store(self, mime_type: str, data: str, field: str) -> Path:
        pieces = decode(data, field=field, limit=kinds.MAX_INBOUND_BYTES)
        first = next(pieces)
        found = mismatch(mime_type, first[:HEAD_BYTES])
        if found is not None:
            raise InvalidRequest(
                f"is declared as {mime_type}, but the content is {found}", field=field
            )
        if self._files is None:  # most messages have no attachment and need no directory
            self._files = self._stack.enter_context(order_files(self._root))
        return self._files.save(chain((first,), pieces), mime_type)
