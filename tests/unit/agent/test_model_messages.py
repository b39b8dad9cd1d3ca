"""Between the conversation and the library's messages."""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
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
from tests.support.agent_kit import FakeTools

from openclaw.agent.model_messages import (
    answer_from,
    definitions,
    messages_from,
    stored_native,
)
from openclaw.agent.transcript import (
    AssistantItem,
    Attachment,
    CallItem,
    ResultItem,
    SummaryItem,
    UserItem,
)
from openclaw.secrets.redactor import Redactor

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1"
IMAGE = Attachment(None, "image a.png", digest="d1", mime_type="image/png")


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
        {},
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


def test_an_answer_goes_back_as_it_came_to_its_maker_alone() -> None:
    thought = ThinkingPart("hm", signature="s", provider_name="p", id="rs_1")
    native = ModelResponse(parts=[thought, TextPart("x")], provider_name="p", timestamp=NOW)
    stored = stored_native(native, Redactor())
    for given in (native, stored):
        item = AssistantItem("x", native=given, maker="a")
        (own,) = messages_from([item], {}, "a")
        assert own.parts == native.parts
        for other in ("b", None):
            (plain,) = messages_from([item], {}, other)
            assert plain.parts == [TextPart("x")]


def test_only_what_is_signed_is_stored_and_nothing_with_a_secret_in_it() -> None:
    redactor = Redactor()
    redactor.register("hunter2-hunter2")
    thought = ThinkingPart("hunter2-hunter2", signature="s")
    assert stored_native(ModelResponse(parts=[TextPart("x", id="msg_1")]), redactor) is None
    assert stored_native(ModelResponse(parts=[thought]), redactor) is None


@pytest.mark.parametrize("name", ["fs.read", "", "a b", "2fa", "é", "x" * 300, "-a"])
def test_names_and_ids_are_made_acceptable_once(name: str) -> None:
    call = ToolCallPart(name, "{}", f"functions.{name}:0")
    answer = answer_from(ModelResponse(parts=[call]), set())
    (made,) = answer.calls
    assert re.fullmatch("[A-Za-z_][A-Za-z0-9_-]{0,63}", made.name)
    assert re.fullmatch("[A-Za-z0-9_-]{1,40}", made.id)
    (part,) = answer.native.parts
    assert (part.tool_name, part.tool_call_id) == (made.name, made.id)
    # A session that was recorded before with the model's own name works again.
    old = CallItem(f"functions.{name}:0", name, "{}")
    for item in (AssistantItem("", (old,)), ResultItem(old.id, name, "ok")):
        (message,) = messages_from([item], {})
        (part,) = message.parts
        assert isinstance(part, ToolCallPart | ToolReturnPart)
        assert (part.tool_name, part.tool_call_id) == (made.name, made.id)


def test_an_answer_without_words_still_says_something() -> None:
    (message,) = messages_from([AssistantItem("")], {})
    assert message.parts == [TextPart("[no answer]")]


def test_broken_arguments_go_back_as_an_object() -> None:
    item = AssistantItem("", (CallItem("1", "t", "{bad"), CallItem("2", "t", "")))
    (message,) = messages_from([item], {})
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
    (message,) = messages_from([UserItem("look", (IMAGE,))], {"d1": PNG})
    (part,) = message.parts
    assert isinstance(part, UserPromptPart)
    assert part.content == ["look", BinaryImage(PNG, media_type="image/png")]


def test_an_image_that_is_not_sent_is_named_with_the_reason() -> None:
    damaged = replace(IMAGE, digest="d2")
    described = replace(IMAGE, digest="d3", text="a description")
    item = UserItem("", (IMAGE, damaged, described))
    (message,) = messages_from([item], {"d2": "it is damaged"})
    (part,) = message.parts
    assert isinstance(part, UserPromptPart)
    assert part.content == [
        "[image a.png: not shown]",
        "[image a.png: not shown: it is damaged]",
        "[image a.png]\na description",
    ]


def test_a_result_with_an_image_has_its_words_first() -> None:
    item = ResultItem("1", "t", "here", (IMAGE, Attachment(None, "sound")))
    shown, hidden = (
        messages_from([item], images)[0].parts[0] for images in ({"d1": PNG}, dict[str, bytes]())
    )
    assert isinstance(shown, ToolReturnPart)
    assert isinstance(hidden, ToolReturnPart)
    assert shown.content == [
        "here\n[sound: not shown]",
        BinaryImage(PNG, media_type="image/png"),
    ]
    assert hidden.content == "here\n[image a.png: not shown]\n[sound: not shown]"


def test_only_the_last_call_of_an_answer_that_was_cut_off_is_cut() -> None:
    def answered(*arguments: str, reason: Any = "length") -> list[bool]:
        parts = [ToolCallPart("t", given, str(n)) for n, given in enumerate(arguments)]
        answer = answer_from(ModelResponse(parts=parts, finish_reason=reason), set())
        return [call.cut for call in answer.calls]

    assert answered('{"a": 1}', '{"a": "tex') == [False, True]
    assert answered('{"a": 1}', "") == [False, True]
    assert answered('{"a": 1}') == [False]
    assert answered('{"a": ', reason="stop") == [False]


def test_schemas_pass_untouched() -> None:
    schema: dict[str, Any] = {"type": "object", "title": "T", "$defs": {"x": {}}, "x-odd": [1]}
    tools = FakeTools()
    tools.add("t", schema=schema)
    (definition,) = definitions(tools.specs(), ())
    assert definition.parameters_json_schema == schema
    assert definition.strict is False
