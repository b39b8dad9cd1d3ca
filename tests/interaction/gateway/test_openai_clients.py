"""What programs that speak OpenAI's API really send, and that the gateway takes it.

The bodies are those of `llm` 0.36 and LiteLLM 1.83, recorded, and of Open WebUI, as its source
(`routers/openai.py`, `routers/tasks.py`) makes them.
"""

from typing import Any

import pytest
from tests.interaction.gateway.conftest import Open
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGA"
    "WjR9awAAAABJRU5ErkJggg=="
)
WEATHER = {
    "name": "get_weather",
    "description": "Weather of a city",
    "parameters": {
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "type": "object",
    },
}
TOOLS = [{"type": "function", "function": WEATHER}]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
USAGE = {"include_usage": True}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


CHATS: dict[str, dict[str, Any]] = {
    "llm": {"stream": True, "messages": [user("hi")], "stream_options": USAGE},
    "llm -c": {
        "stream": True,
        "messages": [user("hi"), {"role": "assistant", "content": "Hello."}, user("and now")],
        "stream_options": USAGE,
    },
    "llm -s -o": {
        "stream": False,
        "messages": [{"role": "system", "content": "be brief"}, user("hi")],
        "max_tokens": 50,
        "temperature": 0.2,
    },
    "llm -a": {
        "stream": True,
        "messages": [
            user(
                [
                    {"type": "text", "text": "what is it"},
                    {"type": "image_url", "image_url": {"url": PNG}},
                ]
            )
        ],
        "stream_options": USAGE,
    },
    "llm --schema": {
        "stream": True,
        "messages": [user("who?")],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "output", "schema": PERSON},
        },
        "stream_options": USAGE,
    },
    "litellm": {"messages": [user("hi")]},
    "litellm with settings": {
        "messages": [user("hi")],
        "max_tokens": 20,
        "seed": 3,
        "stop": ["END"],
        "temperature": 0.1,
        "top_p": 0.9,
    },
    "litellm by a pydantic model": {
        "messages": [user("who?")],
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "schema": {**PERSON, "title": "P", "additionalProperties": False},
                "name": "P",
                "strict": True,
            },
        },
    },
    "litellm as JSON": {"messages": [user("who?")], "response_format": {"type": "json_object"}},
    "open webui": {
        "stream": True,
        "messages": [
            {"role": "system", "content": "You are helpful."},
            user("hi"),
            {"role": "assistant", "content": "Hello."},
            user(
                [
                    {"type": "text", "text": "and this?"},
                    {"type": "image_url", "image_url": {"url": PNG}},
                ]
            ),
        ],
        "temperature": 0.7,
        "max_tokens": 200,
        "stop": ["###"],
        "logit_bias": {},
        "stream_options": USAGE,
    },
    "open webui's titles": {
        "messages": [user("### Task:\nGenerate a concise, 3-5 word title")],
        "stream": False,
        "max_tokens": 1000,
    },
}
RESPONSES: dict[str, dict[str, Any]] = {
    "litellm": {"input": "hi"},
    "open webui": {
        "stream": True,
        "instructions": "You are helpful.",
        "max_output_tokens": 200,
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [], "content": []},
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Hello."}],
            },
            {
                "type": "message",
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "and this?"},
                    {"type": "input_image", "image_url": PNG},
                ],
            },
        ],
        "tools": [{"type": "function", **WEATHER}],
    },
}


@pytest.mark.parametrize("program", CHATS)
async def test_a_chat_completion_of_this_program_is_answered(
    installation: Installation, opened: Open, program: str
) -> None:
    await answered(installation, opened, "/v1/chat/completions", CHATS[program])


@pytest.mark.parametrize("program", RESPONSES)
async def test_a_response_for_this_program_is_made(
    installation: Installation, opened: Open, program: str
) -> None:
    await answered(installation, opened, "/v1/responses", RESPONSES[program])


async def answered(
    installation: Installation, opened: Open, path: str, body: dict[str, Any]
) -> ScriptedModel:
    """The body is taken as it is, and the answer, streamed or whole, says what the model said."""
    async with scripted_model(default=Step(text='{"name": "Ada", "age": 36}')) as model:
        installation.configure(model.url)
        async with opened() as client:
            answer = await client.post(path, json={"model": "openclaw", **body})
    assert answer.status_code == 200, answer.text
    assert "Ada" in answer.text
    assert answer.headers["content-type"].startswith(
        "text/event-stream" if body.get("stream") else "application/json"
    )
    return model


@pytest.mark.parametrize(
    "extra",
    [{"content": None}, {"provider_specific_fields": {"refusal": None}}, {"content": ""}],
    ids=["llm", "litellm", "open webui"],
)
async def test_a_client_s_own_tool_is_called_and_its_result_taken_back(
    installation: Installation, opened: Open, extra: dict[str, Any]
) -> None:
    steps = [Step(calls=(("get_weather", {"city": "Paris"}),)), Step(text="It is sunny.")]
    async with scripted_model(steps) as model:
        installation.configure(model.url)
        async with opened() as client:
            asked = {"model": "openclaw", "messages": [user("The weather?")], "tools": TOOLS}
            first = await client.post("/v1/chat/completions", json=asked)
            [call] = first.json()["choices"][0]["message"]["tool_calls"]
            again = [
                *asked["messages"],
                {"role": "assistant", "tool_calls": [call], **extra},
                {"role": "tool", "tool_call_id": call["id"], "content": "sunny"},
            ]
            second = await client.post("/v1/chat/completions", json={**asked, "messages": again})
    assert second.json()["choices"][0]["message"]["content"] == "It is sunny."


async def test_what_the_gateway_does_not_have_is_not_found(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model() as model:
        installation.configure(model.url)
        async with opened() as client:
            answer = await client.post("/v1/embeddings", json={"input": ["x"]})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "invalid_request_error")
