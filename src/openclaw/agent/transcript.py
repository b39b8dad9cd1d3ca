"""Converts a session's entries to the conversation that the model sees, and back.

Every call has a result here. If the entries have none, the model reads that the call was not made,
was cancelled, or has an unknown outcome; it is never run again.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from openclaw.agent.port import CallItem
from openclaw.core.content import Media, ResourceLink, Text
from openclaw.core.tools import ToolResult
from openclaw.policy.dataflow.intent import Intent
from openclaw.sessions.records import Entry, EntryKind, NewEntry

UNKNOWN_OUTCOME = (
    "Outcome unknown: the program stopped while this call was running. It may or may not have "
    "happened. Do not repeat it without finding out first."
)
CANCELLED_CALL = (
    "Cancelled: the turn was stopped while this call was running. It may or may not have happened."
)
NOT_MADE = "This call was not made: the turn ended before it."
# Keys in a notice's data:
RESUMED = "resumed"  # a lost turn continues from there
TASK = "task"  # the handle by which the result of a call can be fetched
INTENT = "intent"  # what the user was understood to want: tools, and values for them
REFUSED = "refusedImages"  # images that a provider refused: they are not sent again
NOTE = "note"  # what the runtime tells the model

_ENDINGS = {
    EntryKind.TURN_CANCELLED: "[This turn was stopped before it was answered.]",
    EntryKind.TURN_ERROR: "[This turn ended with an error before it was answered.]",
    EntryKind.TURN_LOST: "[The program stopped during this turn; it was not answered.]",
}


@dataclass(frozen=True, slots=True)
class Attachment:
    """Media in a conversation: `media` until it is stored, then `digest`; a URL stays `media`.

    `refused` says why a provider would not take it.
    """

    media: Media | None
    label: str
    text: str | None = None
    digest: str | None = None
    mime_type: str = ""
    refused: str | None = None

    @property
    def is_image(self) -> bool:
        return (self.mime_type or (self.media.mime_type if self.media else "")).startswith("image/")


@dataclass(frozen=True, slots=True)
class UserItem:
    """What the person said. `typed` is what they wrote themselves, if `text` is not."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    seq: int = 0
    typed: str | None = None


@dataclass(frozen=True, slots=True)
class AssistantItem:
    """What the model said and called.

    `native` is the library's response, or its JSON, with what only its `maker` can use: signatures,
    ids and encrypted thoughts. `thinking` is for the user; no model gets it again as text.
    """

    text: str
    calls: tuple[CallItem, ...] = ()
    seq: int = 0
    native: Any = field(default=None, compare=False)
    maker: str = field(default="", compare=False)
    left_out: int = field(default=0, compare=False)  # calls that are too many for one answer
    thinking: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ResultItem:
    """The result of a call. `origin` says whose words these are; without it they are ours."""

    call_id: str
    name: str
    text: str
    attachments: tuple[Attachment, ...] = ()
    is_error: bool = False
    seq: int = 0
    origin: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SummaryItem:
    """Replaces every entry up to number `through`: a summary, the latest plan, changed files."""

    summary: str
    seq: int = 0
    through: int = 0
    plan: str = ""
    files: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        plan = f"## Plan, as last updated\n{self.plan}" if self.plan else ""
        listed = "\n".join(f"- {name}" for name in self.files)
        files = f"## Files changed so far\n{listed}" if listed else ""
        return "\n\n".join(part for part in (self.summary, plan, files) if part)


@dataclass(frozen=True, slots=True)
class NoteItem:
    """What the runtime tells the model: nobody else's words."""

    text: str
    seq: int = 0


Item = UserItem | AssistantItem | ResultItem | SummaryItem | NoteItem


def images_in(items: Iterable[Item]) -> list[Attachment]:
    with_media = (item for item in items if isinstance(item, UserItem | ResultItem))
    return [one for item in with_media for one in item.attachments if one.is_image]


# ---- to entries


def user_entry(item: UserItem, origin: str, workspace: Path | None = None) -> NewEntry:
    data = {"text": item.text, "origin": origin}
    data |= _not_none(cwd=workspace and str(workspace), typed=item.typed)
    return NewEntry(EntryKind.USER_MESSAGE, data | _media_json(item), item.text)


def _not_none(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def assistant_entry(item: AssistantItem, model: str) -> NewEntry:
    calls = [{"id": one.id, "name": one.name, "arguments": one.arguments} for one in item.calls]
    thinking = item.thinking if item.thinking.strip() else None
    data = {"text": item.text, "model": model, **_not_none(thinking=thinking, calls=calls or None)}
    if item.native is not None:
        data |= {"native": item.native, "maker": item.maker}
    return NewEntry(EntryKind.ASSISTANT_MESSAGE, data, item.text)


def call_entry(
    call: CallItem, arguments: Mapping[str, Any], within: str = "", label: str = ""
) -> NewEntry:
    """Says that a call is about to run, perhaps from the script of the call `within`."""
    data = {"name": call.name, "arguments": dict(arguments)}
    data |= _not_none(label=label or None, within=within or None)
    return NewEntry(EntryKind.TOOL_CALL, data, call.name, call_id=call.id)


def task_entry(call: CallItem, handle: Mapping[str, Any]) -> NewEntry:
    """Says that a call continues at its server, and how its result can be fetched."""
    return NewEntry(EntryKind.NOTICE, {TASK: dict(handle)}, call_id=call.id)


def open_tasks(entries: Sequence[Entry]) -> list[tuple[CallItem, Mapping[str, Any]]]:
    """Calls that continue at their servers, and whose results have not been fetched yet."""
    calls: dict[str, CallItem] = {}
    found: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        id = entry.call_id or ""
        if entry.kind is EntryKind.TOOL_CALL:
            arguments = json.dumps(entry.data.get("arguments", {}))
            calls[id] = CallItem(id, str(entry.data.get("name", "")), arguments)
        elif entry.kind is EntryKind.NOTICE and TASK in entry.data and id in calls:
            found[id] = entry.data[TASK]
        elif entry.kind is EntryKind.TOOL_RESULT:
            found.pop(id, None)
    return [(calls[id], handle) for id, handle in found.items()]


def summary_entry(item: SummaryItem, messages: Sequence[UserItem]) -> NewEntry:
    """A summary's entry; the person's `messages` follow it verbatim."""
    kept = [
        {"seq": one.seq, "text": one.text, "typed": one.typed, **_media_json(one)}
        for one in messages
    ]
    data = {
        "summary": item.summary,
        "through": item.through,
        "plan": item.plan,
        "files": list(item.files),
        "messages": kept,
    }
    return NewEntry(EntryKind.COMPACTION, data, item.text)


def refused_entry(digests: Sequence[str], reason: str) -> NewEntry:
    return NewEntry(EntryKind.NOTICE, {REFUSED: list(digests), "text": reason}, reason)


def intent_entry(intent: Intent | None) -> NewEntry:
    """Says what kinds of action the user was understood to want in this turn."""
    text = (intent or Intent()).sentence()
    return NewEntry(
        EntryKind.NOTICE, {INTENT: intent.to_json() if intent else [], "text": text}, text
    )


def note_entry(text: str, shown: str) -> NewEntry:
    """Tells the model something; the user is `shown` a line instead."""
    return NewEntry(EntryKind.NOTICE, {NOTE: text}, shown)


def resumed_entry(reason: str) -> NewEntry:
    """Says that another program continues a turn whose program died."""
    return NewEntry(EntryKind.NOTICE, {RESUMED: True, "text": reason}, reason)


def result_entry(
    item: ResultItem,
    details: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
) -> NewEntry:
    """A result's entry; `facts` are how long it took and what the person said, for display."""
    data: dict[str, Any] = {"name": item.name, "text": item.text, "isError": item.is_error}
    data |= {**(facts or {}), **_not_none(origin=item.origin and dict(item.origin))}
    return NewEntry(
        EntryKind.TOOL_RESULT,
        data | _media_json(item),
        item.text,
        call_id=item.call_id,
        details=dict(details) if details else None,
    )


def result_item(call: CallItem, result: ToolResult) -> ResultItem:
    words: list[str] = []
    attachments: list[Attachment] = []
    for block in result.blocks:
        match block:
            case Text():
                words.append(block.text)
            case ResourceLink():
                words.append(f"[resource {block.name}: {block.uri}]")
            case Media():
                label = media_label(block)
                attachments.append(Attachment(block, label, mime_type=block.mime_type))
    text = "\n".join(words)
    return ResultItem(
        call.id, call.name, text, tuple(attachments), result.is_error, origin=result.origin
    )


def media_label(media: Media) -> str:
    name = media.name or (media.path.name if media.path else "")
    return f"{media.kind}{name and f' {name}'} ({media.mime_type})"


def _media_json(item: UserItem | ResultItem) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for one in item.attachments:
        row = {"label": one.label, **_not_none(text=one.text)}
        if one.digest is not None:
            row |= {"mimeType": one.mime_type, "digest": one.digest}
        elif one.media is not None and one.media.url is not None:
            row |= {"mimeType": one.media.mime_type, "url": one.media.url}
        rows.append(row)
    return {"media": rows} if rows else {}


# ---- from entries


def items_from(entries: Sequence[Entry]) -> list[Item]:
    reader = _Reader()
    for entry in entries:
        reader.read(entry)
    return reader.finish()


def waiting_calls(entries: Sequence[Entry]) -> dict[str, CallItem]:
    """The calls that ended the last turn and that the sender has to run, by id."""
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
        self._of_scripts: dict[str, list[tuple[str, str]]] = {}
        self._refused: dict[str, str] = {}

    def read(self, entry: Entry) -> None:
        data: Any = entry.data
        match entry.kind:
            case EntryKind.COMPACTION:
                self._items.append(_summary(entry, data))
                self._items += [_said(one, one["seq"]) for one in data.get("messages", ())]
            case EntryKind.USER_MESSAGE:
                self._close()
                self._items.append(_said(data, entry.seq))
            case EntryKind.ASSISTANT_MESSAGE:
                self._close()
                text, calls = str(data.get("text", "")), tuple(_calls(data))
                native, maker = data.get("native"), str(data.get("maker", ""))
                self._answer = AssistantItem(text, calls, entry.seq, native, maker=maker)
                self._items.append(self._answer)
            case EntryKind.TOOL_CALL if entry.call_id:
                self._started.add(entry.call_id)
                if script := data.get("within"):
                    made = self._of_scripts.setdefault(script, [])
                    made.append((entry.call_id, str(data["name"])))
            case EntryKind.TOOL_RESULT if entry.call_id:
                self._take_result(_result(entry, data))
            case EntryKind.NOTICE:
                self._read_notice(entry.seq, data)
            case EntryKind.TURN_CANCELLED | EntryKind.TURN_ERROR | EntryKind.TURN_LOST:
                self._end_badly(entry.kind)
            case _:
                pass

    def _read_notice(self, seq: int, data: Mapping[str, Any]) -> None:
        if data.get(NOTE):
            self._close()
            self._items.append(NoteItem(str(data[NOTE]), seq))
        elif data.get(RESUMED):
            self._resume()
        elif data.get(REFUSED):
            self._refused |= dict.fromkeys(data[REFUSED], str(data.get("text", "")))

    def finish(self) -> list[Item]:
        self._close()
        return with_refusals(self._items, self._refused)

    def _end_badly(self, kind: EntryKind) -> None:
        self._close(CANCELLED_CALL if kind is EntryKind.TURN_CANCELLED else UNKNOWN_OUTCOME)
        if self._items and not isinstance(self._items[-1], AssistantItem):
            self._items.append(AssistantItem(_ENDINGS[kind], seq=self._items[-1].seq))

    def _resume(self) -> None:
        """Remove the note on the end of a lost turn, because it continues."""
        last = self._items[-1] if self._items else None
        if isinstance(last, AssistantItem) and last.text == _ENDINGS[EntryKind.TURN_LOST]:
            self._items.pop()

    def _take_result(self, result: ResultItem) -> None:
        """Keep it until its answer's calls are complete, or replace the note that it is missing."""
        if self._answer is not None:
            self._results[result.call_id] = result
            return
        for at, item in enumerate(self._items):
            if isinstance(item, ResultItem) and item.call_id == result.call_id:
                self._items[at] = result

    def _close(self, unfinished: str = UNKNOWN_OUTCOME) -> None:
        """Append the results of the last answer's calls, in order."""
        answer, self._answer = self._answer, None
        if answer is not None:
            for call in answer.calls:
                text = unfinished if call.id in self._started else NOT_MADE
                text += self._made_by_script(call.id)
                missing = ResultItem(call.id, call.name, text, is_error=True, seq=answer.seq)
                self._items.append(self._results.get(call.id, missing))
        self._results.clear()
        self._started.clear()
        self._of_scripts.clear()

    def _made_by_script(self, script: str) -> str:
        """Which calls an unfinished script had made, and which of them may have happened."""
        made = self._of_scripts.get(script, ())
        done = Counter(name for call_id, name in made if call_id in self._results)
        doubtful = Counter(name for call_id, name in made if call_id not in self._results)
        parts = [("These calls were made", done), ("These may or may not have happened", doubtful)]
        return "".join(f" {words}: {counted(names)}." for words, names in parts if names)


def counted(names: Counter[str]) -> str:
    return ", ".join(f"{name} ({n} times)" if n > 1 else name for name, n in names.items())


def with_refusals(items: Sequence[Item], refused: Mapping[str, str]) -> list[Item]:
    """The items with the images of these digests marked as refused, each with its reason."""
    return [_marked(item, refused) for item in items] if refused else list(items)


def _marked(item: Item, refused: Mapping[str, str]) -> Item:
    if not isinstance(item, UserItem | ResultItem):
        return item
    found = ((one, refused.get(one.digest or "", one.refused)) for one in item.attachments)
    return replace(item, attachments=tuple(replace(one, refused=why) for one, why in found))


def _said(data: Mapping[str, Any], seq: int) -> UserItem:
    attachments = tuple(map(_attachment, data.get("media", ())))
    return UserItem(str(data.get("text", "")), attachments, seq, data.get("typed"))


def _summary(entry: Entry, data: Mapping[str, Any]) -> SummaryItem:
    return SummaryItem(
        str(data.get("summary", entry.text)),
        entry.seq,
        int(data.get("through", 0)),
        str(data.get("plan", "")),
        tuple(map(str, data.get("files", ()))),
    )


def _calls(data: Mapping[str, Any]) -> Iterator[CallItem]:
    for call in data.get("calls", ()):
        yield CallItem(call["id"], call["name"], call["arguments"])


def _result(entry: Entry, data: Mapping[str, Any]) -> ResultItem:
    return ResultItem(
        entry.call_id or "",
        str(data.get("name", "")),
        str(data.get("text", "")),
        tuple(map(_attachment, data.get("media", ()))),
        bool(data.get("isError")),
        entry.seq,
        data.get("origin"),
    )


def _attachment(raw: Mapping[str, Any]) -> Attachment:
    mime_type, url = str(raw.get("mimeType", "")), raw.get("url")
    return Attachment(
        Media(mime_type, url=url) if url else None,
        str(raw.get("label", "attachment")),
        raw.get("text"),
        raw.get("digest"),
        mime_type,
    )
