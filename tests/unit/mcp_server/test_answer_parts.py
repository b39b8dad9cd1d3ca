import pytest

from openclaw.core.content import Media, ResourceLink, Text
from openclaw.mcp_server.aggregation import AnswerCollector, combine


@pytest.mark.requirement("O-6")
@pytest.mark.parametrize(
    ("parts", "answer"),
    [
        ([], "(No response)"),
        (["", "  \n "], "(No response)"),
        (["Hello."], "Hello."),
        (["  Hello.\r\n"], "Hello."),
        (["First.", "Second."], "First.\n\nSecond."),
        (["Same.", "Same."], "Same."),
        (["Same  thing.", "Same\nthing."], "Same\nthing."),
        (["Part", "Part and more"], "Part and more"),
        (["Long answer", "Long"], "Long answer\n\nLong"),
        (["a\n\n    code  here"], "a\n\n    code  here"),
    ],
)
def test_parts_become_one_answer(parts: list[str], answer: str) -> None:
    assert combine(parts) == answer


@pytest.mark.requirement("O-8")
def test_tool_text_belongs_to_the_answer_only_when_it_is_addressed_to_the_person() -> None:
    collector = AnswerCollector()
    collector.add_tool_output((Text("raw"), Text("for you", addressed=True)))
    collector.add_reply((Text("Done."),))
    assert collector.text() == "for you\n\nDone."


def test_all_tool_text_belongs_to_the_answer_where_that_was_configured() -> None:
    collector = AnswerCollector(all_tool_text=True)
    collector.add_tool_output((Text("raw"), ResourceLink("file:///a", "a")))
    collector.add_reply((Text("Done."),))
    assert collector.text() == "raw\n\na: file:///a\n\nDone."


@pytest.mark.requirement("M-16")
def test_media_is_collected_once_wherever_it_came_from() -> None:
    picture, sound = Media("image/png", data=b"p"), Media("audio/wav", data=b"s")
    collector = AnswerCollector()
    collector.add_tool_output((picture,))
    collector.add_reply((Text("Here."), picture, sound))
    assert collector.media == [picture, sound]
