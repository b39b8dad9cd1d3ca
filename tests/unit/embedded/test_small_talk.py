import pytest

from openclaw.embedded.model_io import MAX_REPLY_TOKENS, fitted, talk_prompt, weight
from openclaw.embedded.runner import Prompt


def test_the_prompt_is_short_and_ends_with_the_message() -> None:
    prompt = talk_prompt("x" * 10_000, [], 5000)
    assert prompt.messages[0]["role"] == "system"
    assert prompt.messages[-1]["role"] == "user"
    assert len(prompt.messages[-1]["content"]) == 3000
    assert prompt.max_tokens == MAX_REPLY_TOKENS


def test_the_last_turns_are_remembered_and_cut() -> None:
    history = [("old", "old"), ("My name is Anna", "Hello Anna"), ("y" * 999, "z")]
    contents = [message["content"] for message in talk_prompt("hi", history, 50).messages]
    assert "My name is Anna" in contents
    assert "old" not in contents
    assert "y" * 300 in contents


def total(prompt: Prompt) -> int:
    return sum(weight(message["content"]) for message in prompt.messages)


def test_a_prompt_that_fits_stays_as_it_is() -> None:
    prompt = talk_prompt("hi", [], 50)
    assert fitted(prompt, 2048) is prompt


@pytest.mark.parametrize("text", ["word " * 600, "漢" * 3000, "🦀" * 3000])
@pytest.mark.parametrize("context", [256, 1024, 2048])
def test_a_prompt_that_is_too_long_is_cut_until_it_fits(text: str, context: int) -> None:
    prompt = fitted(talk_prompt(text, [("a" * 300, "b" * 300)], 100), context)
    assert total(prompt) + prompt.max_tokens <= context
    assert prompt.messages[-1]["content"]
    assert text.startswith(prompt.messages[-1]["content"])
