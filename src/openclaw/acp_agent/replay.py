"""A stored conversation as the updates that show it again."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import cast

from acp import (
    start_tool_call,
    text_block,
    update_agent_message_text,
    update_user_message,
    update_user_message_text,
)

from openclaw.acp_agent.blocks import ContentBlock, content_block, tool_contents
from openclaw.acp_agent.updates import Update, kind_of, plan_update
from openclaw.agent.transcript import (
    AssistantItem,
    Attachment,
    CallItem,
    Item,
    ResultItem,
    UserItem,
    items_from,
)
from openclaw.core.plan import plan_of
from openclaw.core.tools import JsonObject
from openclaw.sessions.model import Entry, EntryKind

_FRAME = re.compile(
    r'(?:This is [^\n]*\n)?<<<EXTERNAL_UNTRUSTED_CONTENT id="(?P<id>[\w-]+)">>>\n'
    r"Source: [^\n]*\nFrom: [^\n]*\n---\n(?P<body>.*?)\n"
    r'<<<END_EXTERNAL_UNTRUSTED_CONTENT id="(?P=id)">>>',
    re.DOTALL,
)


def replay(entries: Sequence[Entry]) -> Iterator[Update]:
    """Everything that was said and done, in order, as a client would have seen it."""
    # The summaries stand for what is all there: a client is shown the conversation itself.
    said = [entry for entry in entries if entry.kind is not EntryKind.COMPACTION]
    calls: dict[str, CallItem] = {}
    for item in items_from(said):
        if isinstance(item, AssistantItem):
            calls.update((call.id, call) for call in item.calls)
        yield from _updates(item, calls)


def unframed(text: str) -> str:
    """Text without the frames that are meant for the model."""
    return _FRAME.sub(lambda found: found["body"], text)


def _updates(item: Item, calls: dict[str, CallItem]) -> Iterator[Update]:
    match item:
        case UserItem():
            if item.text:
                yield update_user_message_text(item.text)
            for attachment in item.attachments:
                yield update_user_message(_attached(attachment))
        case AssistantItem() if item.text.strip():
            yield update_agent_message_text(item.text)
        case ResultItem():
            yield _plan(item, calls.get(item.call_id)) or _tool_call(item, calls.get(item.call_id))
        case _:
            return


def _plan(item: ResultItem, call: CallItem | None) -> Update | None:
    arguments = _arguments(call)
    if item.is_error or not isinstance(arguments, dict):
        return None
    plan = plan_of(item.name, cast("JsonObject", arguments))
    return None if plan is None else plan_update(plan)


def _tool_call(item: ResultItem, call: CallItem | None) -> Update:
    words = [text_block(unframed(item.text))] if item.text else []
    shown: list[ContentBlock] = [*words, *map(_attached, item.attachments)]
    return start_tool_call(
        item.call_id,
        item.name,
        kind=kind_of(item.name),
        status="failed" if item.is_error else "completed",
        content=tool_contents(shown),
        raw_input=_arguments(call),
    )


def _arguments(call: CallItem | None) -> object:
    try:
        return json.loads(call.arguments) if call is not None else None
    except ValueError:
        return None


def _attached(attachment: Attachment) -> ContentBlock:
    media = attachment.media
    if media is not None and (media.path is None or media.path.exists()):
        return content_block(media)
    return text_block(f"[{attachment.label}]")
