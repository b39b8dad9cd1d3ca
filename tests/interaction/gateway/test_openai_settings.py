"""The settings of OpenAI's requests: honoured or refused, and never ignored."""

from typing import Any

import pytest
from tests.interaction.gateway.conftest import Open, chat
from tests.interaction.gateway.test_openai import DATA_URL, ECHO, named
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import Step, scripted_model

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}


async def test_settings_of_a_chat_completion_reach_the_model(
    installation: Installation, opened: Open
) -> None:
    given = {
        "max_tokens": 50,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": 7,
        "presence_penalty": 0.1,
    }
    async with scripted_model(default=Step(text="Yes.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            answer = await client.post("/v1/chat/completions", json=chat("x", **given))
            plain = await client.post("/v1/chat/completions", json=chat("x"))
    assert (answer.status_code, plain.status_code) == (200, 200)
    sent = model.requests[0].body
    assert (sent.get("max_tokens") or sent.get("max_completion_tokens")) == 50
    assert {key: sent[key] for key in given if key != "max_tokens"} == {
        key: value for key, value in given.items() if key != "max_tokens"
    }
    assert "temperature" not in model.requests[1].body


async def test_settings_of_a_response_reach_the_model(
    installation: Installation, opened: Open
) -> None:
    form = {"type": "json_schema", "name": "place", "schema": SCHEMA, "strict": True}
    body = {
        "model": "openclaw",
        "input": "Where?",
        "max_output_tokens": 60,
        "temperature": 0.1,
        "text": {"format": form},
    }
    async with scripted_model(default=Step(text='{"city":"Bonn"}')) as model:
        installation.configure(model.url)
        async with opened() as client:
            answer = await client.post("/v1/responses", json=body)
    assert answer.json()["output"][0]["content"][0]["text"] == '{"city":"Bonn"}'
    sent = model.requests[0].body
    assert (sent.get("max_tokens") or sent.get("max_completion_tokens")) == 60
    assert sent["temperature"] == 0.1
    assert sent["response_format"]["json_schema"]["schema"] == SCHEMA


@pytest.mark.parametrize("streamed", [False, True])
async def test_structured_output_is_json_alone_even_after_a_step_with_words(
    installation: Installation, opened: Open, streamed: bool
) -> None:
    steps = [
        Step(text="First I look.", calls=(("mcp_fake_echo", {"text": "x"}),)),
        Step(text='{"city": "Bonn"}'),
    ]
    form = {"type": "json_schema", "json_schema": {"name": "place", "schema": SCHEMA}}
    async with scripted_model(steps) as model:
        installation.configure(model.url, {"fake": server_entry({"tools": [ECHO]})})
        async with opened() as client:
            body = chat("Where?", response_format=form, stream=streamed)
            answer = await client.post("/v1/chat/completions", json=body)
    assert model.requests[0].body["response_format"]["json_schema"]["name"] == "place"
    if streamed:
        assert '"content":"{\\"city\\": \\"Bonn\\"}"' in answer.text
        assert "First I look" not in answer.text
    else:
        assert answer.json()["choices"][0]["message"]["content"] == '{"city": "Bonn"}'


async def test_an_answer_that_is_not_the_json_asked_for_is_an_error(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(text="Sure! Here it is.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            body = chat("Where?", response_format={"type": "json_object"})
            answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 503
    assert "is not the JSON that was asked for" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"logprobs": True}, "logprobs"),
        ({"logit_bias": {"1": 5}}, "logit_bias"),
        ({"modalities": ["audio"]}, "modalities"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"unheard_of": 1}, "unheard_of"),
        ({"n": 2}, "n"),
        ({"temperature": "hot"}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"response_format": {"type": "grammar"}}, "response_format"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format.json_schema.schema",
        ),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_what_is_not_honoured_is_refused_by_name(
    installation: Installation, opened: Open, given: dict[str, Any], field: str, streamed: bool
) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client:
        body = chat("x", stream=streamed, **given)
        answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == field


async def test_a_setting_that_the_provider_lacks_is_refused(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(text="Yes.")) as model:
        provider = {
            "baseUrl": model.url,
            "apiKey": "secret://env/ACME_KEY",
            "api": "anthropic-messages",
            "models": [{"id": "scripted"}],
        }
        installation.configure(model.url, models={"providers": {"acme": provider}})
        async with opened() as client:
            answer = await client.post("/v1/chat/completions", json=chat("x", seed=1))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "seed"
    assert model.requests == []


@pytest.mark.parametrize("role", ["assistant", "tool"])
async def test_an_order_that_was_answered_is_not_carried_out_again(
    installation: Installation, opened: Open, role: str
) -> None:
    messages = [{"role": "user", "content": "Delete it."}, {"role": role, "content": "Done."}]
    async with scripted_model(default=Step(text="Again.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            body = {"model": "openclaw", "messages": messages}
            answer = await client.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert model.requests == []


async def test_images_in_earlier_messages_reach_the_model(
    installation: Installation, opened: Open
) -> None:
    shown = [
        {"type": "text", "text": "A picture."},
        {"type": "image_url", "image_url": {"url": DATA_URL}},
    ]
    messages = [
        {"role": "user", "content": shown},
        {"role": "assistant", "content": "I see."},
        {"role": "user", "content": "What colour was it?"},
    ]
    async with scripted_model(default=Step(text="Red.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            body = {"model": "openclaw", "messages": messages}
            await client.post("/v1/chat/completions", json=body)
    parts = model.requests[0].body["messages"][-1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"]
    assert "user: A picture. [attachment 1]" in parts[0]["text"]


async def test_a_persons_separate_chats_stay_separate(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(text="Noted.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            for text in ("one", "two"):
                await client.post("/v1/chat/completions", json=chat(text, user="ada"))
    said = [m["content"] for m in model.requests[1].body["messages"] if m["role"] != "system"]
    assert said == ["two"]


async def test_usage_tells_cached_and_reasoning_tokens(
    installation: Installation, opened: Open
) -> None:
    step = Step(
        text="Yes.", input_tokens=100, output_tokens=20, cached_tokens=80, reasoning_tokens=15
    )
    async with scripted_model(default=step) as model:
        installation.configure(model.url)
        async with opened() as client:
            answer = await client.post("/v1/chat/completions", json=chat("x"))
            body = {"model": "openclaw", "input": "x"}
            response = await client.post("/v1/responses", json=body)
    usage = answer.json()["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] == 80
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 15
    usage = response.json()["usage"]
    assert usage["input_tokens_details"]["cached_tokens"] == 80
    assert usage["output_tokens_details"]["reasoning_tokens"] == 15


# ---- what follows a response


async def test_a_response_of_a_named_session_is_followed_by_its_id(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(text="Blue.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            body: dict[str, Any] = {"model": "openclaw", "input": "Colour?"}
            first = await client.post("/v1/responses", json=body, headers=named("mine"))
            body = {"model": "openclaw", "input": "Sure?"}
            body["previous_response_id"] = first.json()["id"]
            second = await client.post("/v1/responses", json=body)
    assert second.status_code == 200
    messages = [m for m in model.requests[1].body["messages"] if m["role"] != "system"]
    assert [m["content"] for m in messages] == ["Colour?", "Blue.", "Sure?"]


@pytest.mark.parametrize("given", ["resp_0123456789abcdef_0123456789abcdef", "nonsense"])
async def test_an_unknown_response_is_not_found(
    installation: Installation, opened: Open, given: str
) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client:
        body = {"model": "openclaw", "input": "x", "previous_response_id": given}
        followed = await client.post("/v1/responses", json=body)
        shown = await client.get(f"/v1/responses/{given}")
    assert (followed.status_code, shown.status_code) == (404, 404)


async def test_a_response_is_shown_by_its_id(installation: Installation, opened: Open) -> None:
    async with scripted_model(default=Step(text="Blue.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            body = {"model": "openclaw", "input": "Colour?"}
            given = (await client.post("/v1/responses", json=body)).json()
            shown = (await client.get(f"/v1/responses/{given['id']}")).json()
    assert (shown["id"], shown["status"]) == (given["id"], "completed")
    assert shown["output"] == given["output"]


async def test_a_model_is_shown_by_its_id(installation: Installation, opened: Open) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client:
        plain = await client.get("/v1/models/openclaw")
        agent = await client.get("/v1/models/openclaw/main")
        unknown = await client.get("/v1/models/gpt-4")
    assert (plain.json()["id"], agent.json()["id"]) == ("openclaw", "openclaw/main")
    assert unknown.status_code == 404
