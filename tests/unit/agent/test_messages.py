"""Between the conversation and the library's messages."""

from pathlib import Path
from typing import Any

from pydantic_ai.messages import (
    BinaryImage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from openclaw.agent.messages import MAX_IMAGE_BYTES, answer_from, definitions, messages_from
from openclaw.agent.transcript import (
    AssistantItem,
    Attachment,
    CallItem,
    ResultItem,
    SummaryItem,
    UserItem,
)
from openclaw.core.content import Media
from openclaw.testing.agent_kit import FakeTools

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1"
IMAGE = Attachment(Media("image/png", data=PNG, name="a.png"), "image a.png")


def nothing(path: Path) -> None:
    return None


def test_items_become_requests_and_responses_in_turn() -> None:
    messages = messages_from(
        [
            SummaryItem("long ago"),
            UserItem("hello"),
            AssistantItem("", (CallItem("1", "t", "{}"), CallItem("2", "t", "{}"))),
            ResultItem("1", "t", "one"),
            ResultItem("2", "t", "two", is_error=True),
            AssistantItem("bye"),
        ],
        images=True,
        read_bytes=nothing,
    )
    assert [type(message) for message in messages] == [
        ModelRequest,
        ModelResponse,
        ModelRequest,
        ModelResponse,
    ]
    results = messages[2].parts
    assert [part.outcome for part in results if isinstance(part, ToolReturnPart)] == [
        "success",
        "failed",
    ]
    assert isinstance(messages[0].parts[1], UserPromptPart)
    assert messages[0].parts[1].content == "hello"


def test_an_answer_of_this_turn_goes_back_as_it_came() -> None:
    native = ModelResponse(parts=[ThinkingPart("hm", signature="s"), TextPart("x")])
    messages = messages_from([AssistantItem("x", native=native)], images=False, read_bytes=nothing)
    assert messages == [native]


def test_an_answer_without_words_still_says_something() -> None:
    (message,) = messages_from([AssistantItem("")], images=False, read_bytes=nothing)
    assert message.parts == [TextPart("[no answer]")]


def test_broken_arguments_go_back_as_an_object() -> None:
    item = AssistantItem("", (CallItem("1", "t", "{bad"), CallItem("2", "t", "")))
    (message,) = messages_from([item], images=False, read_bytes=nothing)
    calls = [part.args for part in message.parts if isinstance(part, ToolCallPart)]
    assert calls == ['{"unparsed": "{bad"}', "{}"]


def test_a_call_with_an_id_that_was_seen_before_gets_one_of_its_own() -> None:
    parts = [
        ToolCallPart("t", {"a": 1}, "x"),
        ToolCallPart("t", "{bad", "x"),
        ToolCallPart("t", None, ""),
    ]
    response = ModelResponse(parts=parts)
    taken = {"x"}
    answer = answer_from(response, taken)
    assert [call.id for call in answer.calls] == ["x-2", "x-3", "-2"]
    assert [part.tool_call_id for part in parts] == ["x-2", "x-3", "-2"]
    assert [call.arguments for call in answer.calls] == ['{"a": 1}', "{bad", "{}"]
    assert taken == {"x", "x-2", "x-3", "-2"}


def test_images_are_shown_where_they_can_be() -> None:
    (message,) = messages_from([UserItem("look", (IMAGE,))], images=True, read_bytes=nothing)
    (part,) = message.parts
    assert isinstance(part, UserPromptPart)
    assert part.content == ["look", BinaryImage(PNG, media_type="image/png")]


def test_an_image_that_is_gone_or_too_large_is_named() -> None:
    gone = Attachment(Media("image/png", path=Path("/gone.png")), "image gone.png")
    large = Attachment(
        Media("image/png", data=b"x" * (MAX_IMAGE_BYTES + 1)), "image large.png", "a description"
    )
    (message,) = messages_from([UserItem("", (gone, large))], images=True, read_bytes=nothing)
    (part,) = message.parts
    assert isinstance(part, UserPromptPart)
    assert part.content == ["[image gone.png: not shown]", "[image large.png]\na description"]


def test_a_result_with_an_image_has_its_words_first() -> None:
    item = ResultItem("1", "t", "here", (IMAGE, Attachment(None, "sound")))
    shown, hidden = (
        messages_from([item], images=images, read_bytes=nothing)[0].parts[0]
        for images in (True, False)
    )
    assert isinstance(shown, ToolReturnPart)
    assert isinstance(hidden, ToolReturnPart)
    assert shown.content == [
        "here\n[sound: not shown]",
        BinaryImage(PNG, media_type="image/png"),
    ]
    assert hidden.content == "here\n[image a.png: not shown]\n[sound: not shown]"


def test_schemas_pass_untouched() -> None:
    schema: dict[str, Any] = {"type": "object", "title": "T", "$defs": {"x": {}}, "x-odd": [1]}
    tools = FakeTools()
    tools.add("t", schema=schema)
    (definition,) = definitions(tools.specs())
    assert definition.parameters_json_schema == schema
    assert definition.strict is False
