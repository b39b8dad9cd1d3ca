"""Streams of OpenAI's interfaces that are broken off, cut, or left."""

import json
from typing import Any

import anyio
import pytest
from tests.interaction.gateway.conftest import Open, chat
from tests.interaction.gateway.test_openai import named, sdk
from tests.support.gateway_kit import Installation
from tests.support.loop_time import pass_time

from openclaw.testing.scripted_model import Step, scripted_model

MARK = "[The connection to the model broke. The answer starts over.]"


def pieces(answer: str) -> tuple[str, str]:
    """The text of a streamed chat completion, and why it ended."""
    lines = [line[6:] for line in answer.split("\n") if line.startswith("data: {")]
    choices = [json.loads(line)["choices"][0] for line in lines]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    return text, choices[-1]["finish_reason"]


async def test_a_chat_stream_says_that_its_beginning_is_void_after_a_retry(
    installation: Installation, opened: Open
) -> None:
    steps = [Step(text="Berlin is the capital of", cut_after=3), Step(text="Paris it is.")]
    async with scripted_model(steps) as model:
        installation.configure(model.url)
        async with opened() as client:
            answer = await client.post("/v1/chat/completions", json=chat("x", stream=True))
    before, _, after = pieces(answer.text)[0].partition(MARK)
    assert "Berlin is the capital of".startswith(before.strip())
    assert after.strip() == "Paris it is."


async def test_a_retry_that_repeats_the_beginning_goes_on_from_it(
    installation: Installation, opened: Open
) -> None:
    text = "Paris is the capital of France."
    async with scripted_model([Step(text=text, cut_after=3), Step(text=text)]) as model:
        installation.configure(model.url)
        async with opened() as client:
            answer = await client.post("/v1/chat/completions", json=chat("x", stream=True))
    assert pieces(answer.text)[0] == text


async def test_a_response_stream_begins_a_new_item_after_a_retry(
    installation: Installation, opened: Open
) -> None:
    steps = [Step(text="Berlin is the capital of", cut_after=3), Step(text="Paris it is.")]
    async with scripted_model(steps) as model:
        installation.configure(model.url)
        async with opened() as client, sdk(client, installation) as openai:
            stream = await openai.responses.create(model="openclaw", input="x", stream=True)
            events: list[Any] = [event async for event in stream]
    done = [e.item for e in events if e.type == "response.output_item.done"]
    assert [item.status for item in done] == ["incomplete", "completed"]
    assert done[1].content[0].text == "Paris it is."
    assert events[-1].response.output_text == "Paris it is."


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_that_the_provider_cut_ends_with_length(
    installation: Installation, opened: Open, streamed: bool
) -> None:
    async with scripted_model(default=Step(text="Once upon", finish="length")) as model:
        installation.configure(model.url)
        async with opened() as client:
            body = chat("x", stream=streamed, max_tokens=2)
            answer = await client.post("/v1/chat/completions", json=body)
            response = await client.post("/v1/responses", json={"model": "openclaw", "input": "x"})
    if streamed:
        assert pieces(answer.text) == ("Once upon", "length")
    else:
        choice = answer.json()["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("Once upon", "length")
    assert response.json()["status"] == "incomplete"
    assert response.json()["incomplete_details"] == {"reason": "max_output_tokens"}


async def test_a_limit_is_told_even_if_text_was_streamed_before_it(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(text="Once upon a time there", delay=0.4)) as model:
        installation.configure(
            model.url, agents={"list": [{"id": "main", "limits": {"timeoutMs": 60_000}}]}
        )
        async with opened() as client:
            body, lines = chat("x", stream=True), list[str]()
            async with client.stream(
                "POST", "/v1/chat/completions", json=body, headers=named("k")
            ) as answer:
                async for line in answer.aiter_lines():
                    lines.append(line)
                    if "Once" in line:
                        pass_time(60)
            kept = (await client.get("/api/sessions/k")).json()["entries"]
    text, reason = pieces("\n".join(lines))
    begun, _, told = text.partition("\n\n")
    assert begun
    assert "Once upon a time there".startswith(begun)
    assert told.startswith("I stopped: this turn reached its time limit")
    assert reason == "length"
    assert [e["text"] for e in kept if e["kind"] == "assistant_message"] == [text]


async def test_what_a_client_saw_before_it_went_away_stays_in_the_transcript(
    installation: Installation, opened: Open
) -> None:
    story = Step(text="Once upon a time there was a long story.", delay=0.3)
    async with scripted_model([story], default=Step(text="Go on.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            body = chat("Tell", stream=True)
            async with client.stream(
                "POST", "/v1/chat/completions", json=body, headers=named("k")
            ) as answer:
                with anyio.fail_after(60):
                    async for line in answer.aiter_lines():
                        if "Once" in line:
                            break
            await client.post("/v1/chat/completions", json=chat("And?"), headers=named("k"))
    said = [m["content"] for m in model.requests[1].body["messages"] if m["role"] == "assistant"]
    assert len(said) == 1
    assert said[0].startswith("Once upo")
    assert said[0].endswith("[The answer was stopped here.]")
