"""From a session's entries to a conversation in which every call has a result."""

from dataclasses import replace
from pathlib import Path

import pytest

from openclaw.agent.transcript import (
    CANCELLED_CALL,
    INTENT,
    NOT_MADE,
    UNKNOWN_OUTCOME,
    AssistantItem,
    Attachment,
    CallItem,
    Item,
    ResultItem,
    SummaryItem,
    UserItem,
    assistant_entry,
    call_entry,
    intent_entry,
    items_from,
    media_label,
    refused_entry,
    result_entry,
    result_item,
    summary_entry,
    user_entry,
)
from openclaw.core.content import Media, ResourceLink, Text
from openclaw.core.tools import ToolResult
from openclaw.policy.dataflow.intent import Intent
from openclaw.sessions.records import Entry, EntryKind, NewEntry

CALL = CallItem("c1", "pay", '{"amount": 1}')
OTHER = CallItem("c2", "look", "{}")


def entries(*new: NewEntry | EntryKind) -> list[Entry]:
    made: list[Entry] = []
    for seq, one in enumerate(new, start=1):
        entry = NewEntry(one) if isinstance(one, EntryKind) else one
        made.append(
            Entry(seq, "t", entry.kind, 0, entry.data, entry.text, entry.call_id, entry.details)
        )
    return made


def said(text: str = "do it") -> NewEntry:
    return user_entry(UserItem(text), "cli")


def called(*calls: CallItem) -> NewEntry:
    return assistant_entry(AssistantItem("", calls), "acme/m")


def test_a_conversation_comes_back_as_it_was() -> None:
    result = ResultItem("c1", "pay", "paid", is_error=True)
    items = items_from(
        entries(
            EntryKind.TURN_STARTED,
            said(),
            called(CALL),
            call_entry(CALL, {"amount": 1}),
            result_entry(result, {"untrusted": True}),
            assistant_entry(AssistantItem("Done."), "acme/m"),
            EntryKind.NOTICE,
            EntryKind.TURN_FINISHED,
        )
    )
    assert items == [
        UserItem("do it", seq=2),
        AssistantItem("", (CALL,), seq=3),
        ResultItem("c1", "pay", "paid", is_error=True, seq=5),
        AssistantItem("Done.", seq=6),
    ]


def test_results_stand_in_the_order_of_their_calls() -> None:
    items = items_from(
        entries(
            called(CALL, OTHER),
            result_entry(ResultItem("c2", "look", "second")),
            result_entry(ResultItem("c1", "pay", "first")),
        )
    )
    assert [item.text for item in items] == ["", "first", "second"]


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (EntryKind.TURN_LOST, UNKNOWN_OUTCOME),
        (EntryKind.TURN_ERROR, UNKNOWN_OUTCOME),
        (EntryKind.TURN_CANCELLED, CANCELLED_CALL),
    ],
)
def test_a_call_without_a_result_is_told_as_what_it_is(ending: EntryKind, text: str) -> None:
    items = items_from(entries(said(), called(CALL, OTHER), call_entry(CALL, {}), ending))
    assert [item.text for item in items[2:4]] == [text, NOT_MADE]
    assert isinstance(items[4], AssistantItem)
    assert items[4].text.startswith("[")


def test_a_turn_that_died_before_any_answer_is_closed() -> None:
    items = items_from(entries(said(), EntryKind.TURN_LOST, said("again")))
    assert [type(item) for item in items] == [UserItem, AssistantItem, UserItem]


def test_an_ending_without_a_beginning_adds_nothing() -> None:
    assert items_from(entries(EntryKind.TURN_LOST)) == []


def test_a_summary_stands_first() -> None:
    entry = NewEntry(EntryKind.COMPACTION, {"summary": "it was long"}, "it was long")
    assert items_from(entries(entry)) == [SummaryItem("it was long", 1)]


def test_media_come_back_by_digest_or_address() -> None:
    attachments = (
        Attachment(None, "one", digest="d1", mime_type="image/png"),
        Attachment(Media("image/png", url="https://x/y.png"), "two", mime_type="image/png"),
        Attachment(None, "three", "words"),
    )
    (item,) = items_from(entries(user_entry(UserItem("look", attachments), "cli")))
    assert isinstance(item, UserItem)
    assert item.attachments == attachments


def test_a_refused_image_stays_refused() -> None:
    image = Attachment(None, "one", digest="d1", mime_type="image/png")
    (item,) = items_from(
        entries(user_entry(UserItem("look", (image,)), "cli"), refused_entry(["d1"], "too large"))
    )
    assert isinstance(item, UserItem)
    assert item.attachments[0].refused == "too large"


def test_a_summary_comes_back_with_the_messages_that_it_carries() -> None:
    summary = SummaryItem("## Goal\nwin", 1, 7, "- [pending] a", ("a.txt",))
    order = UserItem("NEVER delete anything", seq=3)
    assert items_from(entries(summary_entry(summary, [order]))) == [summary, order]
    assert "## Plan, as last updated\n- [pending] a" in summary.text
    assert "- a.txt" in summary.text


def test_a_results_blocks_become_words_and_attachments() -> None:
    image = Media("image/png", data=b"x", name="shot.png")
    link = ResourceLink("file:///x", "x")
    result = ToolResult(blocks=(Text("a"), image, link))
    item = result_item(CALL, result)
    assert item.text == "a\n[resource x: file:///x]"
    label = "image shot.png (image/png)"
    assert item.attachments == (Attachment(image, label, mime_type="image/png"),)
    kept = Attachment(None, label, digest="d1", mime_type="image/png")
    saved = items_from(entries(called(CALL), result_entry(replace(item, attachments=(kept,)))))
    assert isinstance(saved[1], ResultItem)
    assert saved[1].attachments == (kept,)


def test_media_are_named_as_well_as_can_be() -> None:
    assert media_label(Media("audio/wav", data=b"x")) == "audio (audio/wav)"
    assert media_label(Media("image/png", path=Path("/x/a.png"))) == "image a.png (image/png)"


def test_details_never_enter_the_conversation() -> None:
    secret = "only-in-details"
    item = ResultItem("c1", "pay", "paid")
    items: list[Item] = items_from(entries(called(CALL), result_entry(item, {"x": secret})))
    assert secret not in repr(items)


def test_what_the_user_was_understood_to_want_is_kept_and_said() -> None:
    entry = intent_entry(Intent({"send_mail": ("ann@x.example",)}))
    assert entry.data[INTENT] == [{"tool": "send_mail", "values": ["ann@x.example"]}]
    assert entry.text == "What I understood you want: send_mail (ann@x.example)."
    assert intent_entry(None).data[INTENT] == []
