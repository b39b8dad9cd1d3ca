"""Turns events into the protocol's session updates. Sends nothing itself."""

import base64
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import quote

import acp
from acp import schema
from acp.interfaces import Client
from pydantic import ValidationError

from openclaw.agent import transcript
from openclaw.agent.port import Reply
from openclaw.agent.redaction import RedactedTurn
from openclaw.content.frame import unframed_in_place
from openclaw.content.labels import sanitise_label
from openclaw.core import events
from openclaw.core.clock import random_id
from openclaw.core.content import Block, Media, Text, text_of
from openclaw.core.questions import DECLINED, Answer, AskedCall, Form, Question, form_answer
from openclaw.core.tools import JsonObject
from openclaw.media.intake import decode_text
from openclaw.media.kinds import HEAD_BYTES, MAX_OUTBOUND_BYTES, looks_like_text
from openclaw.media.stored_files import read_regular
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.records import Entry, EntryKind

logger = logging.getLogger(__name__)

ContentBlock = (
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
)


def content_block(block: Block) -> ContentBlock:
    if isinstance(block, Text):
        return acp.text_block(block.text)
    if isinstance(block, Media):
        return _media_block(block)
    return acp.resource_link_block(block.name, block.uri, mime_type=block.mime_type)


def tool_contents(blocks: Iterable[ContentBlock]) -> list[schema.ContentToolCallContent]:
    contents: list[Any] = [acp.tool_content(block) for block in blocks]
    return contents


def _media_block(media: Media) -> ContentBlock:
    name = media.name or (media.path.name if media.path else media.kind)
    if media.url is not None:
        return acp.resource_link_block(name, media.url, mime_type=media.mime_type)
    data = _data(media) if media.kind in ("image", "audio") else None
    if data is not None:
        encoded = base64.b64encode(data).decode("ascii")
        make = acp.image_block if media.kind == "image" else acp.audio_block
        return make(encoded, media.mime_type)
    if media.path is not None:
        return acp.resource_link_block(
            name, media.path.absolute().as_uri(), mime_type=media.mime_type
        )
    words = _words(media)
    if words is not None:
        uri = f"attachment://{quote(name)}"
        return acp.resource_block(acp.embedded_text_resource(uri, words, mime_type=media.mime_type))
    return acp.text_block(f"[{media.mime_type} {name}, {len(media.data or b'')} bytes]")


def _words(media: Media) -> str | None:
    """The content of a text that isn't in a file, such as a copy without secrets."""
    data = media.data or b""
    named = media.kind == "text" or media.mime_type in ("application/json", "application/xml")
    if not named or not looks_like_text(data[:HEAD_BYTES]) or len(data) > MAX_OUTBOUND_BYTES:
        return None
    return decode_text(data)


def _data(media: Media) -> bytes | None:
    if media.path is None:
        return media.data if len(media.data or b"") <= MAX_OUTBOUND_BYTES else None
    data = read_regular(media.path, MAX_OUTBOUND_BYTES)
    if data is None:
        logger.info("media is gone or too large", extra={"path": str(media.path)})
    return data


_MESSAGE_CHARS = 2000


async def put_form(
    client: Client, forms: schema.ElicitationCapabilities, session: str, form: Form
) -> Answer:
    """The user's answer to a server; anything that can't be asked is declined."""
    words = sanitise_label(form.message, _MESSAGE_CHARS)
    by_url = form.url is not None
    if (forms.url if by_url else forms.form) is None:
        return DECLINED
    try:
        mode = _url_mode(session, form) if by_url else _form_mode(session, form)
        answer = await client.create_elicitation(f"MCP server '{form.server}' asks: {words}", mode)
    except (acp.RequestError, ConnectionError, ValidationError) as error:
        logger.warning("the client did not ask a question from '%s': %s", form.server, error)
        return DECLINED
    included = {"action", "content"}
    return form_answer(answer.model_dump(by_alias=True, mode="json", include=included))


def _url_mode(session: str, form: Form) -> schema.ElicitationUrlSessionMode:
    elicitation = form.elicitation_id or random_id()
    fields = {"sessionId": session, "elicitationId": elicitation, "url": form.url}
    return schema.ElicitationUrlSessionMode.model_validate(fields)


def _form_mode(session: str, form: Form) -> schema.ElicitationFormSessionMode:
    wanted = schema.ElicitationSchema.model_validate(form.schema or {})
    return schema.ElicitationFormSessionMode(session_id=session, requested_schema=wanted)


Update = Any  # one of the SDK's session updates
ToolEvent = events.ToolStarted | events.ToolProgress | events.ToolFinished

_KINDS: Mapping[str, schema.ToolKind] = {
    "read": "read",
    "attach": "read",
    "list": "search",
    "search": "search",
    "write": "edit",
    "edit": "edit",
    "exec": "execute",
    "web_fetch": "fetch",
    "sessions_list": "read",
    "session_history": "read",
    "tool_search": "search",
}


def kind_of(name: str) -> schema.ToolKind:
    return _KINDS.get(name, "other")


def locations(name: str, arguments: JsonObject, cwd: Path) -> list[schema.ToolCallLocation] | None:
    """The file that one of our own tools is about, so that an editor can follow."""
    path = arguments.get("path")
    if name not in _KINDS or not isinstance(path, str) or not path:
        return None
    return [schema.ToolCallLocation(path=str(cwd / path))]


def call_content(question: Question) -> list[Any] | None:
    """The whole call for the user who decides; fenced, since editors render Markdown."""
    if not question.body:
        return None
    longest = max(map(len, re.findall("`+", question.body)), default=0)
    fence = "`" * max(3, longest + 1)
    return tool_contents([acp.text_block(f"{fence}\n{question.body}\n{fence}")])


class Translator:
    """Turns the events of one turn into updates, and remembers what the client was shown."""

    def __init__(self, redactor: Redactor, cwd: Path) -> None:
        self._outgoing = RedactedTurn(redactor)
        self._redact = redactor.redact
        self._cwd = cwd
        self._announced: set[str] = set()
        self._written = ""  # of the answer, since the last finished block

    def updates(self, event: events.Event) -> list[Update]:
        return self._shown(self._outgoing.events(event))

    def asking(self, question: Question) -> list[Update]:
        call, content = question.call, call_content(question)
        held = self._shown(self._outgoing.held())
        return [*held, self._announce(call.id, call, question.title, "pending", content)]

    def closing(self, reply: Reply) -> list[Update]:
        """The part of the answer that wasn't streamed, and media for the person."""
        return [
            *self._shown(self._outgoing.held()),
            *self._rest(self._redact(reply.text)),
            *(acp.update_agent_message(content_block(media)) for media in reply.media),
        ]

    def _shown(self, redacted: Iterable[events.Event]) -> list[Update]:
        return [update for event in redacted for update in self._updates(event)]

    def _updates(self, event: events.Event) -> list[Update]:
        match event:
            case events.TextDelta():
                self._written += event.text
                return _said(event.text)
            case events.ThinkingDelta():
                return _thought(event.text)
            case events.BlockReply():
                return self._rest(text_of(event.blocks))
            case events.ToolStarted() | events.ToolProgress() | events.ToolFinished():
                planned = self._planned(event)
                return [self._tool(event)] if planned is None else planned
            case events.Notice(level="warning" | "error"):
                if event == events.STARTS_OVER:
                    self._written = ""  # so that the new text isn't taken for its continuation
                return _thought(f"{self._redact(event.message)}\n")
            case _:
                return []

    def _rest(self, text: str) -> list[Update]:
        written, self._written = self._written, ""
        rest = text.removeprefix(written)
        return _said(rest) if rest.strip() else []

    def _planned(self, event: ToolEvent) -> list[Update] | None:
        """The plan that a call sets, shown instead of the call; None for other calls."""
        if event.name != events.PLAN_TOOL or event.call_id in self._announced:
            return None  # one that the person was asked about is shown as a call
        if not isinstance(event, events.ToolStarted):
            return []
        plan = events.plan_of(event.name, event.arguments)
        return [] if plan is None else [plan_update(plan, self._redact)]

    def _tool(self, event: ToolEvent) -> Update:
        match event:
            case events.ToolStarted():
                if event.call_id in self._announced:
                    return acp.update_tool_call(event.call_id, status="in_progress")
                return self._announce(event.call_id, event, event.label, "in_progress")
            case events.ToolProgress():
                message = tool_contents([acp.text_block(event.message)])
                return acp.update_tool_call(event.call_id, status="in_progress", content=message)
            case events.ToolFinished():
                status = "failed" if event.result.is_error else "completed"
                # For a person to see: unframed if available.
                blocks = event.result.outputs or event.result.blocks
                content = tool_contents(map(content_block, blocks))
                return acp.update_tool_call(event.call_id, status=status, content=content)

    def _announce(
        self,
        id: str,
        call: events.ToolStarted | AskedCall,
        label: str,
        status: Literal["pending", "in_progress"],
        content: list[Any] | None = None,
    ) -> Update:
        self._announced.add(id)
        return acp.start_tool_call(
            id,
            label or call.name,
            kind=kind_of(call.name),
            status=status,
            content=content,
            locations=locations(call.name, call.arguments, self._cwd),
            raw_input=dict(call.arguments),
        )


def plan_update(plan: Iterable[events.PlanStep], redact: Callable[[str], str] = str) -> Update:
    return acp.update_plan(
        acp.plan_entry(redact(step.step), priority=step.priority, status=step.status)
        for step in plan
    )


def _said(text: str) -> list[Update]:
    return [acp.update_agent_message_text(text)] if text else []


def _thought(text: str) -> list[Update]:
    return [acp.update_agent_thought_text(text)] if text else []


def replay(entries: Sequence[Entry], media: Mapping[str, bytes] | None = None) -> Iterator[Update]:
    """Everything that was said and done, in order, as a client would have seen it.

    `media` are attachments by digest; missing ones are only named.
    """
    # Summaries are left out: a client is shown the conversation itself.
    history = [entry for entry in entries if entry.kind is not EntryKind.COMPACTION]
    calls: dict[str, transcript.CallItem] = {}
    for item in transcript.items_from(history):
        if isinstance(item, transcript.AssistantItem):
            calls.update((call.id, call) for call in item.calls)
        yield from _updates(item, calls, media or {})


def _updates(
    item: transcript.Item, calls: dict[str, transcript.CallItem], media: Mapping[str, bytes]
) -> Iterator[Update]:
    match item:
        case transcript.UserItem():
            if item.text:
                yield acp.update_user_message_text(item.text)
            for attachment in item.attachments:
                yield acp.update_user_message(_attached(attachment, media))
        case transcript.AssistantItem() if item.text.strip():
            yield acp.update_agent_message_text(item.text)
        case transcript.ResultItem():
            call = calls.get(item.call_id)
            yield _plan(item, call) or _tool_call(item, call, media)
        case _:
            return


def _plan(item: transcript.ResultItem, call: transcript.CallItem | None) -> Update | None:
    arguments = _arguments(call)
    if item.is_error or not isinstance(arguments, dict):
        return None
    plan = events.plan_of(item.name, cast("JsonObject", arguments))
    return None if plan is None else plan_update(plan)


def _tool_call(
    item: transcript.ResultItem, call: transcript.CallItem | None, media: Mapping[str, bytes]
) -> Update:
    words = [acp.text_block(unframed_in_place(item.text))] if item.text else []
    shown: list[ContentBlock] = [
        *words,
        *(_attached(attachment, media) for attachment in item.attachments),
    ]
    return acp.start_tool_call(
        item.call_id,
        item.name,
        kind=kind_of(item.name),
        status="failed" if item.is_error else "completed",
        content=tool_contents(shown),
        raw_input=_arguments(call),
    )


def _arguments(call: transcript.CallItem | None) -> object:
    try:
        return json.loads(call.arguments) if call is not None else None
    except ValueError:
        return None


def _attached(attachment: transcript.Attachment, media: Mapping[str, bytes]) -> ContentBlock:
    data = media.get(attachment.digest or "")
    if data is not None:
        return content_block(Media(attachment.mime_type, data=data))
    if attachment.media is not None:
        return content_block(attachment.media)
    return acp.text_block(f"[{attachment.label}]")
