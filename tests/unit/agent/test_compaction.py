"""Making room without parting a call from its result."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.agent_kit import FakeTools

from openclaw.agent import compaction
from openclaw.agent.budget import IMAGE_TOKENS, ToolSizes, cut_to, estimate
from openclaw.agent.transcript import (
    AssistantItem,
    Attachment,
    CallItem,
    Item,
    ResultItem,
    SummaryItem,
    UserItem,
)
from openclaw.core.content import Media


@st.composite
def conversations(draw: st.DrawFn) -> list[Item]:
    items: list[Item] = []
    for turn in range(draw(st.integers(1, 6))):
        items.append(UserItem("u" * draw(st.integers(0, 300))))
        for step in range(draw(st.integers(0, 3))):
            ids = [f"{turn}.{step}.{call}" for call in range(draw(st.integers(1, 3)))]
            items.append(AssistantItem("", tuple(CallItem(one, "t", "{}") for one in ids)))
            items.extend(ResultItem(one, "t", "r" * draw(st.integers(0, 900))) for one in ids)
        if draw(st.booleans()):
            items.append(AssistantItem("a" * draw(st.integers(0, 300))))
    return items


def whole(items: list[Item]) -> bool:
    """Whether every result has its call before it, and every call its result."""
    open_calls: list[str] = []
    for item in items:
        if isinstance(item, ResultItem):
            if item.call_id not in open_calls:
                return False
            open_calls.remove(item.call_id)
        elif open_calls:
            return False
        if isinstance(item, AssistantItem):
            open_calls = [call.id for call in item.calls]
    return not open_calls


@given(conversations(), st.integers(0, 2000))
def test_a_cut_never_parts_a_call_from_its_result(items: list[Item], keep: int) -> None:
    cut = compaction.cut_index(items, keep)
    assert whole(items[:cut])
    assert whole(items[cut:])
    assert items[cut:]


@given(conversations(), st.integers(0, 2000))
def test_what_is_kept_fits_unless_it_is_the_last_group(items: list[Item], keep: int) -> None:
    kept = items[compaction.cut_index(items, keep) :]
    groups = sum(not isinstance(item, ResultItem) for item in kept)
    assert groups == 1 or compaction.total_tokens(kept) <= keep


@given(conversations(), st.integers(0, 2000))
def test_trimming_keeps_every_item_and_the_persons_words(items: list[Item], room: int) -> None:
    out = compaction.trimmed(items, room)
    assert len(out) == len(items)
    assert whole(out)
    said = [item.text for item in items if isinstance(item, UserItem)]
    assert [item.text for item in out if isinstance(item, UserItem)] == said


@given(conversations(), st.integers(200, 4_000))
def test_trimming_wastes_no_more_than_a_tenth_of_the_room(items: list[Item], room: int) -> None:
    out = compaction.trimmed(items, room)
    if out != items:
        assert compaction.total_tokens(out) >= min(room, compaction.total_tokens(items)) * 0.9 - 30


def test_old_results_go_before_the_newest() -> None:
    items: list[Item] = [
        UserItem("look"),
        ResultItem("1", "t", "old " * 2_000),
        AssistantItem("next"),
        ResultItem("2", "t", "new " * 2_000),
    ]
    out = compaction.trimmed(items, 3_000)
    assert out[3] == items[3]
    assert len(out[1].text) < 4_000


def test_what_the_person_says_in_the_turn_is_kept_and_counted() -> None:
    order = UserItem("the order", seq=5)
    items: list[Item] = [UserItem("before", seq=1), order]
    items += [AssistantItem("step " * 100, seq=6 + n) for n in range(20)]
    cut = compaction.cut_index(items, 500, 5)
    assert cut > items.index(order)
    kept = [item for item in items[:cut] if compaction.is_from_turn(item, 5)]
    assert kept == [order]
    assert compaction.total_tokens([*kept, *items[cut:]]) <= 500


def test_the_oldest_images_are_left_out_first() -> None:
    image = Attachment(None, "pic", digest="d", mime_type="image/png")
    items: list[Item] = [UserItem("a", (image, image)), UserItem("b", (image,))]
    first, second = compaction.without_old_images(items, 2)
    assert isinstance(first, UserItem)
    assert [one.refused for one in first.attachments] == [compaction.LEFT_OUT, None]
    assert second == items[1]


def test_changed_files_and_the_plan_are_remembered_and_failures_are_not() -> None:
    items: list[Item] = [
        AssistantItem(
            "",
            (
                CallItem("1", "write", '{"path": "a.txt"}'),
                CallItem("2", "edit", '{"path": "b.txt"}'),
                CallItem("3", "update_plan", '{"plan": [{"step": "go", "status": "pending"}]}'),
            ),
        ),
        ResultItem("1", "write", "ok"),
        ResultItem("2", "edit", "no such file", is_error=True),
        ResultItem("3", "update_plan", "ok"),
    ]
    summary = compaction.summary_of(items, "notes", 500)
    assert summary.files == ("a.txt",)
    assert summary.plan == "- [pending] go"
    again = compaction.summary_of([summary, UserItem("more")], "other notes", 500)
    assert (again.files, again.plan) == (summary.files, summary.plan)


def test_trimming_cuts_the_longest_result_first() -> None:
    items: list[Item] = [ResultItem("1", "t", "short"), ResultItem("2", "t", "x" * 40_000)]
    out = compaction.trimmed(items, 1000)
    assert out[0] == items[0]
    assert compaction.total_tokens(out) <= 1000
    assert "characters left out" in out[1].text


def test_old_results_are_cut_until_what_is_left_fits() -> None:
    items: list[Item] = [ResultItem(str(n), "t", "x" * 40_000) for n in range(3)]
    items += [UserItem("go on"), AssistantItem("last step")]
    out = compaction.trimmed_old(items, 12_000)
    assert compaction.total_tokens(out) <= 12_000
    assert all("characters left out" in result.text for result in out[:2])
    assert out[3:] == items[3:]


def test_trimming_cuts_attached_texts_and_not_the_message() -> None:
    media = Media("text/plain", data=b"x", name="a.txt")
    item = UserItem("read this", (Attachment(media, "a.txt", "y" * 40_000), Attachment(media, "b")))
    (out,) = compaction.trimmed([item], 500)
    assert isinstance(out, UserItem)
    assert out.text == "read this"
    assert estimate(out.attachments[0].text or "") < 500


def test_nothing_to_cut_leaves_all_as_it_is() -> None:
    items: list[Item] = [UserItem("x" * 9000)]
    assert compaction.trimmed(items, 10) == items
    assert compaction.trimmed([], 10) == []
    assert compaction.cut_index([], 10) == 0


def test_the_text_to_be_summarised_marks_what_is_untrusted_and_keeps_its_bound() -> None:
    items: list[Item] = [
        SummaryItem("earlier"),
        UserItem("order", (Attachment(None, "pic"),)),
        AssistantItem("ok", (CallItem("1", "look", '{"a": 1}'),)),
        ResultItem("1", "look", "z" * 90_000),
    ]
    text = compaction.request_text(items, 800)
    assert estimate(text) <= 900
    assert "[earlier notes]\nearlier" in text
    assert "[the person]\norder\n[attached: pic]" in text
    assert '[called look {"a": 1}]' in text
    assert "[result of look: untrusted data]" in text
    assert "untrusted" in compaction.INSTRUCTIONS


def test_a_summary_without_a_model_says_what_was_asked_and_used() -> None:
    items: list[Item] = [
        SummaryItem("earlier"),
        UserItem("buy milk"),
        AssistantItem("", (CallItem("1", "shop", "{}"),)),
    ]
    summary = compaction.plain_summary(items, 500)
    assert "earlier" in summary
    assert "- buy milk" in summary
    assert "Tools used: shop." in summary
    assert "Tools" not in compaction.plain_summary([UserItem("x")], 500)


def test_images_and_calls_count() -> None:
    image = Attachment(None, "pic", mime_type="image/png")
    assert compaction.tokens_of(UserItem("", (image,))) > IMAGE_TOKENS
    busy = AssistantItem("", (CallItem("1", "t", "x" * 1000),))
    assert compaction.tokens_of(busy) > 200


def test_other_scripts_take_more_tokens_than_letters() -> None:
    assert estimate("日本語" * 100) > estimate("abc" * 100)
    assert estimate("") == 1


@given(st.text(max_size=60), st.integers(1, 50), st.integers(30, 500))
def test_a_cut_text_fits(part: str, times: int, tokens: int) -> None:
    text = part * times
    out = cut_to(text, tokens)
    assert estimate(out) <= max(tokens, 30) * 1.5 + 30
    assert out == text or "left out" in out


def test_a_definition_is_measured_once() -> None:
    tools = FakeTools()
    tools.add("a", description="word " * 100)
    (spec,) = tools.specs()
    sizes = ToolSizes()
    assert sizes.total([spec, spec]) == 2 * sizes.of(spec)
    assert sizes.of(spec) > 100
