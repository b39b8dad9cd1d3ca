"""A conversation as the model is to see it, made from a session's entries, and back.

Every call has a result here: one that the entries lack is told to the model as what it is, not made,
cancelled, or of unknown outcome, and is never run again.
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw.core.content import Block, Media, ResourceLink, Text
from openclaw.core.tools import ToolResult
from openclaw.sessions.model import Entry, EntryKind, NewEntry

INLINE_MEDIA_BYTES = 256 * 1024
"""Media without a file of its own is kept in the transcript up to this size."""

UNKNOWN_OUTCOME = (
    "Outcome unknown: the program stopped while this call was running. It may or may not have "
    "happened. Do not repeat it without finding out first."
)
CANCELLED_CALL = (
    "Cancelled: the person stopped the turn while this call was running. It may or may not have "
    "happened."
)
NOT_MADE = "This call was not made: the turn ended before it."
RESUMED = "resumed"
"""The key, in a notice's data, that says that a lost turn goes on from there."""

_ENDINGS = {
    EntryKind.TURN_CANCELLED: "[The person stopped this turn before it was answered.]",
    EntryKind.TURN_ERROR: "[This turn ended with an error before it was answered.]",
    EntryKind.TURN_LOST: "[The program stopped during this turn; it was not answered.]",
}


@dataclass(frozen=True, slots=True)
class Attachment:
    """Media in a conversation, with what is said about it in words."""

    media: Media | None
    label: str
    text: str | None = None


@dataclass(frozen=True, slots=True)
class UserItem:
    """What the person said."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    seq: int = 0


@dataclass(frozen=True, slots=True)
class CallItem:
    """A call as the model made it; `arguments` is the text it wrote, which may be no JSON at all."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class AssistantItem:
    """What the model said and called. `native` is its response as the library gave it, this turn."""

    text: str
    calls: tuple[CallItem, ...] = ()
    seq: int = 0
    native: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ResultItem:
    """What a call gave."""

    call_id: str
    name: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    is_error: bool = False
    seq: int = 0


@dataclass(frozen=True, slots=True)
class SummaryItem:
    """What stands for everything before it."""

    text: str
    seq: int = 0


Item = UserItem | AssistantItem | ResultItem | SummaryItem


# ---- to entries


def user_entry(item: UserItem, origin: str, workspace: Path | None = None) -> NewEntry:
    """The entry of a message from the person; `workspace` is the directory they chose for it."""
    data: dict[str, Any] = {"text": item.text, "origin": origin}
    if workspace is not None:
        data["cwd"] = str(workspace)
    if item.attachments:
        data["media"] = [_attachment_json(one) for one in item.attachments]
    return NewEntry(EntryKind.USER_MESSAGE, data, item.text)


def assistant_entry(item: AssistantItem, model: str) -> NewEntry:
    """The entry of an answer, with every call the model made in it."""
    data: dict[str, Any] = {"text": item.text, "model": model}
    if item.calls:
        data["calls"] = [
            {"id": call.id, "name": call.name, "arguments": call.arguments} for call in item.calls
        ]
    return NewEntry(EntryKind.ASSISTANT_MESSAGE, data, item.text)


def call_entry(call: CallItem, arguments: Mapping[str, Any]) -> NewEntry:
    """The entry that says that a call is about to run."""
    data = {"name": call.name, "arguments": dict(arguments)}
    return NewEntry(EntryKind.TOOL_CALL, data, call.name, call_id=call.id)


def resumed_entry(reason: str) -> NewEntry:
    """The entry that says that a turn whose program died goes on, by another one."""
    return NewEntry(EntryKind.NOTICE, {RESUMED: True, "text": reason}, reason)


def result_entry(item: ResultItem, details: Mapping[str, Any] | None = None) -> NewEntry:
    """The entry of what a call gave."""
    data: dict[str, Any] = {"name": item.name, "text": item.text, "isError": item.is_error}
    if item.attachments:
        data["media"] = [_attachment_json(one) for one in item.attachments]
    return NewEntry(
        EntryKind.TOOL_RESULT,
        data,
        item.text,
        call_id=item.call_id,
        details=dict(details) if details else None,
    )


def result_item(call: CallItem, result: ToolResult) -> ResultItem:
    """What the model is to see of a tool's result."""
    words: list[str] = []
    attachments: list[Attachment] = []
    for block in result.blocks:
        if isinstance(block, Media):
            attachments.append(Attachment(block, media_label(block)))
        else:
            words.append(_words(block))
    return ResultItem(call.id, call.name, "\n".join(words), tuple(attachments), result.is_error)


def _words(block: Block) -> str:
    if isinstance(block, Text):
        return block.text
    if isinstance(block, ResourceLink):
        return f"[resource {block.name}: {block.uri}]"
    return f"[{media_label(block)}]"


def media_label(media: Media) -> str:
    """What media is, in words."""
    name = media.name or (media.path.name if media.path else "")
    return (
        f"{media.kind} {name} ({media.mime_type})" if name else f"{media.kind} ({media.mime_type})"
    )


def _attachment_json(attachment: Attachment) -> dict[str, Any]:
    out: dict[str, Any] = {"label": attachment.label}
    if attachment.text is not None:
        out["text"] = attachment.text
    media = attachment.media
    if media is None:
        return out
    out["mimeType"] = media.mime_type
    if media.name:
        out["name"] = media.name
    if media.path is not None:
        out["path"] = str(media.path)
    elif media.url is not None:
        out["url"] = media.url
    elif media.data is not None and len(media.data) <= INLINE_MEDIA_BYTES:
        out["data"] = base64.b64encode(media.data).decode("ascii")
    return out


# ---- from entries


def items_from(entries: Sequence[Entry]) -> list[Item]:
    """The conversation that these entries hold, whole: every call with its result, in order."""
    reader = _Reader()
    for entry in entries:
        reader.read(entry)
    return reader.finish()


def waiting_calls(entries: Sequence[Entry]) -> dict[str, CallItem]:
    """The calls without a result with which the last turn ended well, by their ids."""
    calls: dict[str, CallItem] = {}
    for entry in entries:
        if entry.kind is EntryKind.ASSISTANT_MESSAGE:
            calls = {call.id: call for call in _calls(entry.data)}
        elif entry.kind is EntryKind.TOOL_RESULT:
            calls.pop(entry.call_id or "", None)
        elif entry.kind in (EntryKind.USER_MESSAGE, *_ENDINGS):
            calls = {}
    return calls


class _Reader:
    """Collects entries into items; results wait until their answer's calls are complete."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._answer: AssistantItem | None = None
        self._results: dict[str, ResultItem] = {}
        self._started: set[str] = set()
        self._ending = NOT_MADE

    def read(self, entry: Entry) -> None:
        """Take the next entry."""
        data: Any = entry.data
        match entry.kind:
            case EntryKind.COMPACTION:
                self._items.append(SummaryItem(str(data.get("summary", entry.text)), entry.seq))
            case EntryKind.USER_MESSAGE:
                self._close()
                media = tuple(map(_attachment, data.get("media", ())))
                self._items.append(UserItem(str(data.get("text", "")), media, entry.seq))
            case EntryKind.ASSISTANT_MESSAGE:
                self._close()
                calls = tuple(_calls(data))
                answer = AssistantItem(str(data.get("text", "")), calls, entry.seq)
                self._answer = answer
                self._items.append(answer)
            case EntryKind.TOOL_CALL if entry.call_id:
                self._started.add(entry.call_id)
            case EntryKind.TOOL_RESULT if entry.call_id:
                self._results[entry.call_id] = _result(entry, data)
            case EntryKind.NOTICE if data.get(RESUMED):
                self._go_on()
            case EntryKind.TURN_CANCELLED | EntryKind.TURN_ERROR | EntryKind.TURN_LOST:
                self._end_badly(entry.kind)
            case _:
                pass

    def finish(self) -> list[Item]:
        """Everything that was read."""
        self._close()
        return self._items

    def _end_badly(self, kind: EntryKind) -> None:
        self._close(CANCELLED_CALL if kind is EntryKind.TURN_CANCELLED else UNKNOWN_OUTCOME)
        if self._items and not isinstance(self._items[-1], AssistantItem):
            self._items.append(AssistantItem(_ENDINGS[kind], seq=self._items[-1].seq))

    def _go_on(self) -> None:
        """A turn that was lost goes on: what was said about its end no longer holds."""
        last = self._items[-1] if self._items else None
        if isinstance(last, AssistantItem) and last.text == _ENDINGS[EntryKind.TURN_LOST]:
            self._items.pop()

    def _close(self, unfinished: str = UNKNOWN_OUTCOME) -> None:
        """Put the results of the last answer's calls behind it, one for each, in its order."""
        answer, self._answer = self._answer, None
        if answer is not None:
            for call in answer.calls:
                text = unfinished if call.id in self._started else NOT_MADE
                missing = ResultItem(call.id, call.name, text, is_error=True, seq=answer.seq)
                self._items.append(self._results.get(call.id, missing))
        self._results.clear()
        self._started.clear()


def _calls(data: Mapping[str, Any]) -> Iterator[CallItem]:
    for call in data.get("calls", ()):
        arguments = call.get("arguments", "{}")
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        yield CallItem(str(call["id"]), str(call["name"]), text)


def _result(entry: Entry, data: Mapping[str, Any]) -> ResultItem:
    return ResultItem(
        entry.call_id or "",
        str(data.get("name", "")),
        str(data.get("text", "")),
        tuple(map(_attachment, data.get("media", ()))),
        bool(data.get("isError")),
        entry.seq,
    )


def _attachment(raw: Mapping[str, Any]) -> Attachment:
    label = str(raw.get("label", "attachment"))
    return Attachment(_media(raw), label, raw.get("text"))


def _media(raw: Mapping[str, Any]) -> Media | None:
    mime_type, name = raw.get("mimeType"), raw.get("name")
    if not mime_type:
        return None
    if "data" in raw:
        return Media(mime_type, data=base64.b64decode(raw["data"]), name=name)
    if "path" in raw:
        return Media(mime_type, path=Path(raw["path"]), name=name)
    return Media(mime_type, url=raw["url"], name=name) if "url" in raw else None
