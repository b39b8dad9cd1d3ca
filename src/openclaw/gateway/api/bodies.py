"""Requests as typed values: bodies, and attachments that came inside them."""

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import orjson
from starlette.requests import Request

from openclaw.core.content import InboundMedia
from openclaw.core.errors import InvalidRequest
from openclaw.media import kinds
from openclaw.media.files import OrderFiles, order_files
from openclaw.media.intake import Intake
from openclaw.media.transcription import Transcriber

Json = dict[str, Any]

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,", re.ASCII)
_TAKEN = kinds.FILE_TYPES + kinds.IMAGE_TYPES


async def json_body(request: Request) -> Json:
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
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidRequest("has to be a string", field=name)
    return value


def flag(body: Mapping[str, Any], name: str, default: bool = False) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise InvalidRequest("has to be true or false", field=name)
    return value


def objects(value: Any, name: str) -> list[Json]:
    items = cast("list[Any]", value if isinstance(value, list) else [value])
    if value is None:
        return []
    if not all(isinstance(item, dict) for item in items):
        raise InvalidRequest("has to be a list of objects", field=name)
    return items


class Attachments:
    def __init__(self, root: Path, stack: ExitStack, transcriber: Transcriber) -> None:
        self._root = root
        self._stack = stack
        self._kept: OrderFiles | None = None
        self._intake = Intake(transcriber, self._files)
        self._taken: list[InboundMedia] = []

    @property
    def taken(self) -> Sequence[InboundMedia]:
        return tuple(self._taken)

    async def take_url(self, url: Any, field: str, name: str | None = None) -> None:
        """A `data:` URL; others are refused, since we fetch nothing on a client's word."""
        found = _DATA_URL.match(url) if isinstance(url, str) else None
        if found is None:
            raise InvalidRequest("has to be a data: URL with base64", field=field)
        await self.take(found[1], str(url)[found.end() :], field, name)

    async def take(
        self,
        mime_type: str,
        data: str,
        field: str,
        name: str | None = None,
        *,
        of_object: bool = False,
    ) -> None:
        """Base64 with its type; `of_object` if both are fields of their own."""
        if len(self._taken) >= kinds.MAX_IMAGES + kinds.MAX_FILES:
            raise InvalidRequest("has too many attachments", field=field)
        media = await self._intake.store(
            data, mime_type, _TAKEN, field=field, name=name, of_object=of_object
        )
        self._taken.append(await self._intake.read(media))

    def take_read(self, media: InboundMedia) -> None:
        self._taken.append(media)

    def _files(self) -> OrderFiles:
        if self._kept is None:  # most messages have no attachment and need no directory
            self._kept = self._stack.enter_context(order_files(self._root))
        return self._kept
