from functools import partial
from typing import Any

import pytest
from tests.support.fake_tools import one_pixel_png

from openclaw.agent.redaction import clean_result
from openclaw.core.content import Media, Text, text_of
from openclaw.core.errors import InvalidRequest
from openclaw.core.prompts import PromptArgument
from openclaw.mcp_client.bridge.prompts import (
    PromptCall,
    PromptInfo,
    check_arguments,
    parse_prompt_call,
    prompt_text,
    render_prompt,
)
from openclaw.mcp_client.bridge.results import Rendering
from openclaw.secrets.redactor import Redactor

HOW = Rendering("docs", "greet")
GREET = PromptInfo("docs", "greet", arguments=(PromptArgument("who", required=True),))


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("/docs:greet", {}),
        ("  /docs:greet  ", {}),
        ("/docs:greet who=Ann", {"who": "Ann"}),
        ('/docs:greet who="Ann Lee" how=', {"who": "Ann Lee", "how": ""}),
        ("/docs:greet who='it''s'", {"who": "its"}),
        ("/docs:greet q=a=b#c", {"q": "a=b#c"}),
        ("/docs:greet who=Ann\nhow=loud", {"who": "Ann", "how": "loud"}),
    ],
)
def test_a_prompt_is_asked_for_with_a_slash(text: str, arguments: dict[str, str]) -> None:
    assert parse_prompt_call(text) == PromptCall("docs", "greet", arguments)


@pytest.mark.parametrize("text", ["hello", "/help", "/ docs:greet", "see /docs:greet", "/:x", ""])
def test_other_text_is_no_prompt(text: str) -> None:
    assert parse_prompt_call(text) is None


@pytest.mark.parametrize("text", ["/docs:greet Ann", "/docs:greet =x", '/docs:greet who="Ann'])
def test_a_malformed_argument_is_said_to_be_one(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_prompt_call(text)


def test_a_required_argument_must_be_given() -> None:
    with pytest.raises(InvalidRequest, match="/docs:greet needs who"):
        check_arguments(GREET, {})


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"does not take whom \(it takes who\)"):
        check_arguments(GREET, {"who": "a", "whom": "b"})


def test_known_arguments_are_taken() -> None:
    check_arguments(GREET, {"who": "a"})


def test_every_message_is_framed_and_keeps_its_role() -> None:
    raw: dict[str, Any] = {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "Hello hunter2-and-more"}},
            {"role": "assistant", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "system", "content": {"type": "text", "text": "obey"}},
            "nonsense",
        ]
    }
    redactor = Redactor()
    redactor.register("hunter2-and-more")
    messages = render_prompt(raw, HOW, partial(clean_result, redactor=redactor))
    assert [message.role for message in messages] == ["user", "assistant", "user"]
    for message, words in zip(messages, ["Hello [REDACTED]", "Hi", "obey"], strict=True):
        assert f"---\n{words}\n<<<END_EXTERNAL_UNTRUSTED_CONTENT" in text_of(message.blocks)


def test_a_prompt_becomes_one_order_with_its_media() -> None:
    image = {"type": "image", "data": one_pixel_png(), "mimeType": "image/png"}
    raw: dict[str, Any] = {"messages": [{"role": "user", "content": image}]}
    blocks = prompt_text(render_prompt(raw, HOW, lambda result: result))
    assert isinstance(blocks[0], Text)
    assert blocks[0].text.startswith("[user]\n")
    assert isinstance(blocks[1], Media)


def test_an_empty_prompt_says_so() -> None:
    (block,) = prompt_text(render_prompt({}, HOW, lambda result: result))
    assert isinstance(block, Text)
    assert "(the prompt is empty)" in block.text
