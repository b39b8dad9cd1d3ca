"""A stored conversation, shown again."""

from openclaw.acp_agent.updates import replay
from openclaw.agent.transcript import (
    AssistantItem,
    Attachment,
    CallItem,
    ResultItem,
    UserItem,
    assistant_entry,
    call_entry,
    result_entry,
    user_entry,
)
from openclaw.content.frame import frame
from openclaw.sessions.records import Entry, EntryKind, NewEntry


def entries(*given: NewEntry) -> list[Entry]:
    return [
        Entry(seq, "t", one.kind, seq, one.data, one.text, one.call_id)
        for seq, one in enumerate(given, 1)
    ]


def test_everything_comes_in_order_and_a_call_comes_with_its_result() -> None:
    calls = (CallItem("1", "read", '{"path": "a"}'), CallItem("2", "read", "no JSON"))
    words = frame("hello", sender="docs")
    shown = list(
        replay(
            entries(
                user_entry(UserItem("Look."), "acp"),
                assistant_entry(AssistantItem("Looking.", calls), "m"),
                call_entry(calls[0], {"path": "a"}),
                result_entry(ResultItem("1", "read", words)),
                result_entry(ResultItem("2", "read", "It broke.", is_error=True)),
                assistant_entry(AssistantItem("Done."), "m"),
            )
        )
    )
    assert [one.session_update for one in shown] == [
        "user_message_chunk",
        "agent_message_chunk",
        "tool_call",
        "tool_call",
        "agent_message_chunk",
    ]
    first, second = shown[2:4]
    assert (first.status, first.raw_input) == ("completed", {"path": "a"})
    assert first.content[0].content.text == "hello"
    assert (second.status, second.raw_input) == ("failed", None)


def test_a_summary_is_for_the_model_alone() -> None:
    shown = replay(
        entries(
            NewEntry(EntryKind.COMPACTION, {"summary": "They spoke."}, "They spoke."),
            user_entry(UserItem("Hi."), "acp"),
        )
    )
    assert [one.content.text for one in shown] == ["Hi."]


def test_attachments_are_shown_where_they_are_still_there() -> None:
    attachments = (
        Attachment(None, "image a.png", digest="d1", mime_type="image/png"),
        Attachment(None, "image gone.png", digest="d2", mime_type="image/png"),
    )
    shown = list(replay(entries(user_entry(UserItem("", attachments), "acp")), {"d1": b"png"}))
    assert [one.content.type for one in shown] == ["image", "text"]
    assert shown[1].content.text == "[image gone.png]"
