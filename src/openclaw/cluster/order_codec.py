"""Orders and their answers as bytes, so that they can go from one machine to another."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from openclaw.agent.event_codec import (
    error_from,
    error_json,
    inbound_from,
    message_json,
    reply_from,
    reply_json,
)
from openclaw.agent.port import ClientResult, InboundMedia, MessageContext, Reply
from openclaw.core.content import Block, Media, Text
from openclaw.core.errors import InvalidRequest
from openclaw.core.tools import ToolResult
from openclaw.media.files import OrderFiles
from openclaw.media.kinds import in_mb
from openclaw.models.options import options_from, options_json

MOST_MEDIA_BYTES = 64 * 1024 * 1024
"""What the media of one order, and of one answer, may have together."""


def has_media(body: bytes) -> bool:
    return b'"media":[]' not in body


@dataclass(frozen=True, slots=True)
class Carried:
    """An order as it arrived. `streams`: somebody reads along; `callbacks`: and wants whole blocks."""

    context: MessageContext
    streams: bool
    callbacks: bool


def order_bytes(context: MessageContext, *, streams: bool, callbacks: bool) -> bytes:
    """An order with everything that it needs. Reads files: not for the event loop."""
    left = MOST_MEDIA_BYTES
    media: list[InboundMedia] = []
    for one in context.media:
        whole = held(one.media, left)
        if whole is None:
            raise InvalidRequest(
                f"the attachments are larger than {in_mb(MOST_MEDIA_BYTES)} together", field="media"
            )
        left -= len(whole.data or b"")
        media.append(replace(one, media=whole))
    body = message_json(replace(context, media=tuple(media)))
    body |= {
        "options": options_json(context.options),
        "results": [asdict(one) for one in context.results],
        "streams": streams,
        "callbacks": callbacks,
    }
    return orjson.dumps(body)


def order_from(body: bytes, files: OrderFiles | None) -> Carried:
    """The order back, its media in files of its own. Writes them: not for the event loop."""
    item: dict[str, Any] = orjson.loads(body)
    media = tuple(_placed(inbound_from(one), files) for one in item["media"])
    context = MessageContext(
        text=item["text"],
        session_key=item["sessionKey"],
        agent_id=item["agent"],
        media=media,
        origin=item["origin"],
        idempotency_key=item["idempotencyKey"],
        prompt_calls=item["promptCalls"],
        workspace=Path(item["workspace"]) if item["workspace"] else None,
        model=item["model"],
        thinking=item.get("thinking"),
        scope=item.get("scope"),
        options=options_from(item.get("options")),
        results=tuple(ClientResult(**one) for one in item.get("results", ())),
    )
    return Carried(context, item["streams"], item["callbacks"])


def _placed(one: InboundMedia, files: OrderFiles | None) -> InboundMedia:
    media = one.media
    if media.data is None or files is None:
        return one
    path = files.save([media.data], media.mime_type)
    return replace(one, media=Media(media.mime_type, path=path, name=media.name))


def answer_bytes(result: Reply | BaseException) -> bytes:
    if isinstance(result, Reply):
        media = blocks_held(result.media)
        kept = tuple(block for block in media if isinstance(block, Media))
        notes = [block.text for block in media if isinstance(block, Text)]
        text = "\n\n".join([result.text, *notes]) if notes else result.text
        return orjson.dumps({"reply": reply_json(replace(result, media=kept, text=text))})
    return orjson.dumps({"error": error_json(result)})


def answer_from(body: bytes) -> Reply:
    item: dict[str, Any] = orjson.loads(body)
    if "reply" in item:
        return reply_from(item["reply"])
    raise error_from(item["error"])


def result_held(result: ToolResult) -> ToolResult:
    blocks, outputs = blocks_held(result.blocks), blocks_held(result.outputs)
    return replace(result, blocks=blocks, outputs=outputs)


def blocks_held(blocks: Sequence[Block], most: int = MOST_MEDIA_BYTES) -> tuple[Block, ...]:
    """Blocks with their media in them; what is too large or gone is named instead."""
    left = most
    found: list[Block] = []
    for block in blocks:
        if not isinstance(block, Media):
            found.append(block)
            continue
        whole = held(block, left)
        if whole is None:
            name = block.name or (block.path.name if block.path else block.kind)
            found.append(Text(f"[{name} is too large to be sent along, or is gone]"))
            continue
        left -= len(whole.data or b"")
        found.append(whole)
    return tuple(found)


def held(media: Media, most: int) -> Media | None:
    """Media with its bytes where it was a file; None where these are more than `most`, or gone."""
    if media.path is None:
        return media if len(media.data or b"") <= most else None
    try:
        if media.path.stat().st_size > most:
            return None
        data = media.path.read_bytes()
    except OSError:
        return None
    return Media(media.mime_type, data=data, name=media.name or media.path.name)
