"""A conversation whose turn was lost and goes on."""

from openclaw.agent.transcript import (
    UNKNOWN_OUTCOME,
    AssistantItem,
    CallItem,
    ResultItem,
    UserItem,
    assistant_entry,
    call_entry,
    items_from,
    open_tasks,
    resumed_entry,
    task_entry,
    user_entry,
)
from openclaw.sessions.records import Entry, EntryKind, NewEntry


def _entries(*new: NewEntry) -> list[Entry]:
    return [
        Entry(number, "t", one.kind, 0, one.data, one.text, one.call_id)
        for number, one in enumerate(new, 1)
    ]


def test_a_turn_that_goes_on_ends_with_the_persons_message_where_nothing_was_answered() -> None:
    lost = NewEntry(EntryKind.TURN_LOST)
    entries = _entries(user_entry(UserItem("hello"), "api"), lost, resumed_entry("gone"))
    assert items_from(entries) == [UserItem("hello", seq=1)]
    said = items_from(entries[:2])
    assert isinstance(said[-1], AssistantItem)
    assert "The program stopped during this turn" in said[-1].text


def test_a_call_of_unknown_outcome_is_told_so_in_a_turn_that_goes_on() -> None:
    call = CallItem("c1", "send_mail", "{}")
    entries = _entries(
        user_entry(UserItem("write to her"), "api"),
        assistant_entry(AssistantItem("", (call,)), "acme/one"),
        call_entry(call, {}),
        NewEntry(EntryKind.TURN_LOST),
        resumed_entry("gone"),
        NewEntry(EntryKind.TOOL_RESULT, {"text": UNKNOWN_OUTCOME, "isError": True}, call_id="c1"),
    )
    *_, answer, result = items_from(entries)
    assert isinstance(answer, AssistantItem)
    assert isinstance(result, ResultItem)
    assert (result.call_id, result.text, result.is_error) == ("c1", UNKNOWN_OUTCOME, True)


def test_a_notice_that_says_nothing_of_going_on_changes_nothing() -> None:
    notice = NewEntry(EntryKind.NOTICE, {"text": "by the way"})
    entries = _entries(user_entry(UserItem("hello"), "api"), notice)
    assert items_from(entries) == [UserItem("hello", seq=1)]
    assert items_from(_entries(resumed_entry("nothing before it"))) == []


def test_a_result_that_was_fetched_later_is_put_where_it_was_missed() -> None:
    """Whether the turn goes on, or another one has begun."""
    call, handle = CallItem("c1", "dig", '{"deep": true}'), {"id": "t1"}
    before = [
        user_entry(UserItem("dig"), "api"),
        assistant_entry(AssistantItem("", (call,)), "acme/one"),
        call_entry(call, {"deep": True}),
        task_entry(call, handle),
        NewEntry(EntryKind.TURN_LOST),
    ]
    fetched = NewEntry(EntryKind.TOOL_RESULT, {"name": "dig", "text": "gold"}, call_id="c1")
    asked = user_entry(UserItem("well?"), "api")
    assert open_tasks(_entries(*before)) == [(call, handle)]
    for after in ([resumed_entry("gone"), fetched], [asked, fetched]):
        entries = _entries(*before, *after)
        assert open_tasks(entries) == []
        results = [item.text for item in items_from(entries) if isinstance(item, ResultItem)]
        assert results == ["gold"]
