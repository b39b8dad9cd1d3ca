"""Removes secrets from a turn's input, output and stored entries.

Known secrets, in every form, are removed from a person's message before the transcript or the model
gets it. What merely looks like a credential stays: they may mean to give one. Both are removed from
a model's output wherever it is shown or stored, but its calls are made with the original arguments.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

from openclaw.agent.port import MessageContext, OnBlockReply
from openclaw.agent.transcript import AssistantItem
from openclaw.core.content import Block, InboundMedia, Media, ResourceLink, Text
from openclaw.core.events import BlockReply, Event, TextDelta, ThinkingDelta
from openclaw.core.tools import JsonObject, ToolResult
from openclaw.media.kinds import MAX_OUTBOUND_BYTES
from openclaw.media.stored_files import CLEANED, WITHHELD, cleaned, read_regular
from openclaw.secrets.redactor import Redactor, redacted_tree
from openclaw.secrets.streaming import DeltaRedactor
from openclaw.sessions.records import storable

Redact = Callable[[str], str]

WITHHELD_NOTE = "withheld because it contains a secret"
_NOTHING_TO_SHOW = "application/octet-stream"
_PLAYED = ("image/", "audio/", "video/")


def clean_message(context: MessageContext, redactor: Redactor) -> MessageContext:
    text = redactor.redact(context.text, shapes=False)
    typed = None if context.typed is None else redactor.redact(context.typed, shapes=False)
    media = tuple(_clean_inbound(one, redactor) for one in context.media)
    return replace(context, text=text, typed=typed, media=media)


def _clean_inbound(one: InboundMedia, redactor: Redactor) -> InboundMedia:
    text = None if one.text is None else redactor.redact(one.text, shapes=False)
    data = one.media.data
    if data is None or not redactor.holds(data):
        return replace(one, text=text)
    note = f"{one.note}; {WITHHELD_NOTE}" if one.note else WITHHELD_NOTE
    return InboundMedia(Media(_NOTHING_TO_SHOW, data=b"", name=one.media.name), text, note)


def clean_answer(answer: AssistantItem, redact: Redact) -> AssistantItem:
    calls = tuple(replace(call, arguments=redact(call.arguments)) for call in answer.calls)
    thinking = redact(answer.thinking)
    return replace(answer, text=redact(answer.text), calls=calls, thinking=thinking)


def clean_json(value: JsonObject, redact: Redact) -> JsonObject:
    return cast("JsonObject", redacted_tree(dict(value), redact))


def clean_result(result: ToolResult, redactor: Redactor) -> ToolResult:
    """The result without secrets. Reads its files, and says which were changed or withheld.

    A text file with a secret is sent as a copy without it. Any other file with a secret is withheld.
    """
    # `blocks` and `outputs` mostly have the same texts, so each text is redacted once. It is looked
    # up by identity, because hashing a long text takes as long as reading it.
    words: dict[int, str] = {}
    others: dict[Block, Block | None] = {}
    notes: list[str] = []

    def clean(block: Block) -> Block | None:
        if not isinstance(block, Text):
            if block not in others:
                others[block] = _clean_other(block, redactor, notes)
            return others[block]
        if (text := words.get(id(block.text))) is None:
            text = words[id(block.text)] = redactor.redact(storable(block.text))
        return block if text == block.text else replace(block, text=text)

    blocks = tuple([clean(block) or _withheld(block) for block in result.blocks])
    outputs = tuple([kept for block in result.outputs if (kept := clean(block)) is not None])
    if notes:
        added = tuple(Text(redactor.redact(note)) for note in notes)
        # If no output is left, the tool's claim that it handed something over is not true.
        nothing = bool(result.outputs) and not outputs
        result = replace(result, is_error=result.is_error or nothing)
        blocks = added if nothing else blocks + added
        outputs += tuple(replace(note, addressed=True) for note in added)
    details = result.details
    if not redactor.found_clean(details):
        details = clean_json(details, redactor.redact)
    untrusted = result.untrusted
    if untrusted is not None and (sender := redactor.redact(untrusted.sender)) != untrusted.sender:
        untrusted = replace(untrusted, sender=sender)
    same = blocks == result.blocks and outputs == result.outputs
    if same and details == result.details and untrusted is result.untrusted:
        return result
    structured = result.structured
    if blocks != result.blocks:  # otherwise it has no secrets: the text has the same values
        structured = redacted_tree(structured, redactor.redact)
    return replace(
        result,
        blocks=blocks,
        outputs=outputs,
        details=details,
        untrusted=untrusted,
        structured=structured,
    )


def _withheld(block: Block) -> Text:
    what = f"{block.kind} ({block.mime_type})" if isinstance(block, Media) else "part"
    return Text(f"[{what} that is {WITHHELD_NOTE}]")


def _clean_other(block: Media | ResourceLink, redactor: Redactor, notes: list[str]) -> Block | None:
    redact = redactor.redact
    if isinstance(block, ResourceLink):
        about = redact(block.description) if block.description else block.description
        mime = _clean_type(block.mime_type, redact) if block.mime_type else None
        uri, name = redact(block.uri), redact(block.name)
        return replace(block, uri=uri, name=name, mime_type=mime, description=about)
    media = block if block.path is None else _clean_file(block, block.path, redactor, notes)
    if media is None:
        return None
    data = media.data
    if data is not None and (data := _clean_data(media, data, redactor)) is None:
        return None
    return replace(
        media,
        data=data,
        mime_type=_clean_type(media.mime_type, redact),
        name=redact(media.name) if media.name else media.name,
        url=redact(media.url) if media.url else media.url,
    )


def _clean_type(mime_type: str, redact: Redact) -> str:
    return mime_type if redact(mime_type) == mime_type else _NOTHING_TO_SHOW


def _clean_data(media: Media, data: bytes, redactor: Redactor) -> bytes | None:
    try:
        clean = redactor.redact(data.decode(), shapes=False).encode()
    except UnicodeDecodeError:
        clean = data
    # Changing an image or a sound would break it.
    changed = clean != data and media.mime_type.lower().startswith(_PLAYED)
    return None if changed or redactor.holds(clean) else clean


def _clean_file(media: Media, path: Path, redactor: Redactor, notes: list[str]) -> Media | None:
    data = read_regular(path, MAX_OUTBOUND_BYTES)
    if data is None:  # sending it will report why
        return media
    name = media.name or path.name
    clean = cleaned(data, redactor)
    if clean is None:
        notes.append(f"['{name}' is withheld: {WITHHELD}]")
        return None
    if clean == data:
        return media
    notes.append(f"['{name}' is sent as a copy: {CLEANED}]")
    return Media(media.mime_type, data=clean, name=name)


class RedactedTurn:
    """Removes secrets from what a turn streams; text that was held back comes before later events."""

    def __init__(self, redactor: Redactor) -> None:
        self.redact = redactor.redact
        self._words = DeltaRedactor(redactor)
        self._thoughts = DeltaRedactor(redactor)

    def events(self, event: Event) -> list[Event]:
        match event:
            case ThinkingDelta():
                return _unless_empty(ThinkingDelta(self._thoughts.feed(event.text)))
            case TextDelta():
                thoughts = _unless_empty(ThinkingDelta(self._thoughts.finish()))
                return [*thoughts, *_unless_empty(TextDelta(self._words.feed(event.text)))]
            case BlockReply():
                return [*self.held(), BlockReply(self._blocks(event.blocks))]
            case _:
                return [*self.held(), event]

    def held(self) -> list[Event]:
        """What was held back because it might have been the start of a secret."""
        thoughts = _unless_empty(ThinkingDelta(self._thoughts.finish()))
        return [*thoughts, *_unless_empty(TextDelta(self._words.finish()))]

    def redacting(self, on_block_reply: OnBlockReply) -> OnBlockReply:
        return lambda blocks: on_block_reply(self._blocks(blocks))

    def _blocks(self, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
        return tuple(
            replace(one, text=self.redact(one.text)) if isinstance(one, Text) else one
            for one in blocks
        )


def _unless_empty(piece: TextDelta | ThinkingDelta) -> list[Event]:
    return [piece] if piece.text else []
