"""Secrets in what a turn is given, says and leaves behind.

What a person writes loses the values that are known, in every form of them, before anything is made
of it: neither the transcript nor the model gets them. It does not lose what merely looks like a
credential, since a person may well mean to tell one. What a model writes loses both, wherever it is
shown or kept; a call itself is made with the arguments as they were given.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, cast

from openclaw.agent.context import InboundMedia, MessageContext
from openclaw.agent.transcript import AssistantItem
from openclaw.core.content import Block, Media, ResourceLink, Text
from openclaw.core.tools import JsonObject, ToolResult
from openclaw.secrets.tree import redacted_tree
from openclaw.sessions.model import storable

Redact = Callable[[str], str]

WITHHELD = "withheld, since a secret stands in it"
_NOTHING_TO_SHOW = "application/octet-stream"


class Redacts(Protocol):
    """What takes secrets out."""

    def redact(self, text: str, /, *, shapes: bool = True) -> str:
        """`text` without any secret that is known and, with `shapes`, what looks like one."""
        ...

    def holds(self, data: bytes, /) -> bool:
        """Whether a secret that is known stands in what is no text."""
        ...


def clean_message(context: MessageContext, redactor: Redacts) -> MessageContext:
    """A person's message without the secrets that are known."""
    text = redactor.redact(context.text, shapes=False)
    media = tuple(_clean_inbound(one, redactor) for one in context.media)
    return replace(context, text=text, media=media)


def _clean_inbound(one: InboundMedia, redactor: Redacts) -> InboundMedia:
    text = None if one.text is None else redactor.redact(one.text, shapes=False)
    data = one.media.data
    if data is None or not redactor.holds(data):
        return replace(one, text=text)
    note = f"{one.note}; {WITHHELD}" if one.note else WITHHELD
    return InboundMedia(Media(_NOTHING_TO_SHOW, data=b"", name=one.media.name), text, note)


def clean_answer(answer: AssistantItem, redact: Redact) -> AssistantItem:
    """What a model said and called, as it is kept."""
    calls = tuple(replace(call, arguments=redact(call.arguments)) for call in answer.calls)
    return replace(answer, text=redact(answer.text), calls=calls)


def clean_json(value: JsonObject, redact: Redact) -> JsonObject:
    """Arguments or details, as they are kept and shown."""
    return cast("JsonObject", redacted_tree(dict(value), redact))


def clean_result(result: ToolResult, redactor: Redacts) -> ToolResult:
    """What a tool gave, as the model and everybody else gets it."""
    return replace(
        result,
        blocks=tuple(_clean_block(block, redactor) for block in result.blocks),
        outputs=tuple(_clean_block(block, redactor) for block in result.outputs),
        details=clean_json(result.details, redactor.redact) if result.details else result.details,
    )


def _clean_block(block: Block, redactor: Redacts) -> Block:
    redact = redactor.redact
    match block:
        case Text():
            text = redact(storable(block.text))
            return block if text == block.text else replace(block, text=text)
        case ResourceLink():
            about = redact(block.description) if block.description else block.description
            return replace(block, uri=redact(block.uri), name=redact(block.name), description=about)
        case Media():
            if block.data is not None and redactor.holds(block.data):
                return Text(f"[{block.kind} ({block.mime_type}) that is {WITHHELD}]")
            name = redact(block.name) if block.name else block.name
            return block if name == block.name else replace(block, name=name)
