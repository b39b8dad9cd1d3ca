"""Media and words of ours as the protocol's content blocks."""

import base64
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from acp import (
    RequestError,
    audio_block,
    embedded_text_resource,
    image_block,
    resource_block,
    resource_link_block,
    text_block,
    tool_content,
)
from acp.schema import (
    AudioContentBlock,
    ClientCapabilities,
    ContentToolCallContent,
    ElicitationFormSessionMode,
    ElicitationSchema,
    ElicitationUrlSessionMode,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
)
from pydantic import ValidationError

from openclaw.content import sanitise_label
from openclaw.core.content import Block, Media, Text
from openclaw.core.ids import random_id
from openclaw.core.tools import JsonObject, ToolResult
from openclaw.media.intake import decode_text
from openclaw.media.kinds import HEAD_BYTES, MAX_OUTBOUND_BYTES, looks_like_text

if TYPE_CHECKING:
    from acp.interfaces import Client

logger = logging.getLogger(__name__)

ContentBlock = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


def content_block(block: Block) -> ContentBlock:
    """One block; media that cannot be sent along are pointed to."""
    if isinstance(block, Text):
        return text_block(block.text)
    if isinstance(block, Media):
        return _media_block(block)
    return resource_link_block(block.name, block.uri, mime_type=block.mime_type)


def tool_blocks(result: ToolResult) -> list[ContentToolCallContent]:
    """What a tool gave, as a person is to see it: unframed where it is there unframed."""
    return tool_contents(map(content_block, result.outputs or result.blocks))


def tool_contents(blocks: Iterable[ContentBlock]) -> list[ContentToolCallContent]:
    """Content of a tool call."""
    made: list[Any] = [tool_content(block) for block in blocks]
    return made


def _media_block(media: Media) -> ContentBlock:
    name = media.name or (media.path.name if media.path else media.kind)
    if media.url is not None:
        return resource_link_block(name, media.url, mime_type=media.mime_type)
    data = _data(media) if media.kind in ("image", "audio") else None
    if data is not None:
        encoded = base64.b64encode(data).decode("ascii")
        make = image_block if media.kind == "image" else audio_block
        return make(encoded, media.mime_type)
    if media.path is not None:
        return resource_link_block(name, media.path.absolute().as_uri(), mime_type=media.mime_type)
    words = _words(media)
    if words is not None:
        uri = f"attachment://{quote(name)}"
        return resource_block(embedded_text_resource(uri, words, mime_type=media.mime_type))
    return text_block(f"[{media.mime_type} {name}, {len(media.data or b'')} bytes]")


def _words(media: Media) -> str | None:
    """What a text says that is nowhere in a file: a copy without secrets, for instance."""
    data = media.data or b""
    named = media.kind == "text" or media.mime_type in ("application/json", "application/xml")
    if not named or not looks_like_text(data[:HEAD_BYTES]) or len(data) > MAX_OUTBOUND_BYTES:
        return None
    return decode_text(data)


def _data(media: Media) -> bytes | None:
    if media.path is None:
        return media.data if len(media.data or b"") <= MAX_OUTBOUND_BYTES else None
    return _read(media.path)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes() if path.stat().st_size <= MAX_OUTBOUND_BYTES else None
    except OSError:
        logger.info("media is gone", extra={"path": str(path)})
        return None


_DECLINED: JsonObject = {"action": "decline"}
_MESSAGE_CHARS = 2000


@dataclass(frozen=True, slots=True)
class FormKinds:
    """Which questions a client can put to the person."""

    form: bool
    url: bool


def forms_of(client: ClientCapabilities | None) -> FormKinds | None:
    """What the client says that it can ask; None where it is nothing."""
    offered = client.elicitation if client is not None else None
    if offered is None or (offered.form is None and offered.url is None):
        return None
    return FormKinds(offered.form is not None, offered.url is not None)


class Forms:
    """Asks by way of one client."""

    def __init__(self, client: "Client", kinds: FormKinds) -> None:
        self._client = client
        self._kinds = kinds

    async def ask(self, session: str, server: str, params: JsonObject) -> JsonObject:
        """The person's answer, as MCP spells it; whatever cannot be asked is declined."""
        words = sanitise_label(str(params.get("message") or ""), _MESSAGE_CHARS)
        try:
            mode = self._mode(session, params)
            if mode is None:
                return _DECLINED
            answer = await self._client.create_elicitation(
                f"MCP server '{server}' asks: {words}", mode
            )
        except (RequestError, ConnectionError, ValidationError) as error:
            logger.warning("the client did not put a question of '%s': %s", server, error)
            return _DECLINED
        return answer.model_dump(
            by_alias=True, mode="json", exclude_none=True, include={"action", "content"}
        )

    def _mode(
        self, session: str, params: JsonObject
    ) -> ElicitationFormSessionMode | ElicitationUrlSessionMode | None:
        if params.get("mode") == "url":
            if not self._kinds.url:
                return None
            return ElicitationUrlSessionMode.model_validate(
                {
                    "sessionId": session,
                    "elicitationId": params.get("elicitationId") or random_id(),
                    "url": params.get("url"),
                }
            )
        if not self._kinds.form:
            return None
        schema = ElicitationSchema.model_validate(params.get("requestedSchema") or {})
        return ElicitationFormSessionMode(session_id=session, requested_schema=schema)
