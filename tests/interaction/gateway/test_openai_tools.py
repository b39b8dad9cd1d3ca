"""Tools of the client's own: the model calls them, the client runs them and sends the results."""

from typing import Any

import pytest
from tests.interaction.gateway.conftest import Open, chat
from tests.interaction.gateway.test_openai import ECHO, named, sdk
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import Step, scripted_model

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
WEATHER = {
    "type": "function",
    "function": {"name": "weather", "description": "The weather.", "parameters": PARAMETERS},
}
CALL = ("weather", {"city": "Bonn"})


@pytest.mark.parametrize("key", [None, "mine"])
async def test_a_clients_tool_is_called_and_its_result_continues_the_turn(
    installation: Installation, opened: Open, key: str | None
) -> None:
    headers = named(key) if key else {}
    messages: list[Any] = [{"role": "user", "content": "Rain?"}]
    steps = [Step(text="I look.", calls=(CALL,)), Step(text="It rains.")]
    async with scripted_model(steps) as model:
        installation.configure(model.url)
        async with opened() as client, sdk(client, installation) as openai:
            order = {"model": "openclaw", "tools": [WEATHER], "extra_headers": headers}
            first = (await openai.chat.completions.create(messages=messages, **order)).choices[0]
            call = first.message.tool_calls[0]
            messages.append(first.message.model_dump(exclude_none=True))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "heavy rain"})
            second = (await openai.chat.completions.create(messages=messages, **order)).choices[0]
    assert first.finish_reason == "tool_calls"
    assert first.message.content == "I look."
    assert (call.function.name, call.function.arguments) == ("weather", '{"city": "Bonn"}')
    assert (second.message.content, second.finish_reason) == ("It rains.", "stop")
    assert "weather" in model.requests[0].tools
    sent = [m for m in model.requests[1].body["messages"] if m["role"] != "system"]
    assert [m["role"] for m in sent] == ["user", "assistant", "tool"]
    assert "heavy rain" in sent[2]["content"]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]


async def test_the_agents_own_calls_run_beside_the_clients(
    installation: Installation, opened: Open
) -> None:
    own = ("mcp_fake_echo", {"text": "x"})
    steps = [Step(calls=(own, CALL)), Step(text="Both.")]
    async with scripted_model(steps) as model:
        installation.configure(model.url, {"fake": server_entry({"tools": [ECHO]})})
        async with opened() as client:
            body = chat("Go", tools=[WEATHER])
            first = (await client.post("/v1/chat/completions", json=body)).json()
            message = first["choices"][0]["message"]
            result = {
                "role": "tool",
                "tool_call_id": message["tool_calls"][0]["id"],
                "content": "rain",
            }
            body = {
                "model": "openclaw",
                "tools": [WEATHER],
                "messages": [{"role": "user", "content": "Go"}, message, result],
            }
            second = (await client.post("/v1/chat/completions", json=body)).json()
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["weather"]
    assert second["choices"][0]["message"]["content"] == "Both."
    results = [m["content"] for m in model.requests[1].body["messages"] if m["role"] == "tool"]
    assert len(results) == 2
    assert not any("was not made" in result for result in results)


async def test_a_streamed_completion_tells_the_calls(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model([Step(calls=(CALL,))]) as model:
        installation.configure(model.url)
        async with opened() as client, sdk(client, installation) as openai:
            stream = await openai.chat.completions.create(
                **chat("Rain?"), tools=[WEATHER], stream=True
            )
            choices = [chunk.choices[0] async for chunk in stream]
    calls = [call for choice in choices for call in choice.delta.tool_calls or ()]
    assert [call.function.name for call in calls] == ["weather"]
    assert choices[-1].finish_reason == "tool_calls"


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_response_calls_a_clients_tool_and_takes_its_output(
    installation: Installation, opened: Open, streamed: bool
) -> None:
    tool = {"type": "function", "name": "weather", "parameters": PARAMETERS}
    async with scripted_model([Step(calls=(CALL,)), Step(text="It rains.")]) as model:
        installation.configure(model.url)
        async with opened() as client, sdk(client, installation) as openai:
            order: dict[str, Any] = {"model": "openclaw", "tools": [tool]}
            if streamed:
                async with openai.responses.stream(input="Rain?", **order) as stream:
                    async for _ in stream:
                        pass
                    first = await stream.get_final_response()
            else:
                first = await openai.responses.create(input="Rain?", **order)
            call = first.output[-1]
            shown = await openai.responses.retrieve(first.id)
            output = {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}
            second = await openai.responses.create(
                input=[output], previous_response_id=first.id, **order
            )
    assert (call.type, call.name) == ("function_call", "weather")
    assert (shown.output[-1].call_id, shown.output[-1].arguments) == (call.call_id, call.arguments)
    assert second.output_text == "It rains."
    assert model.requests[1].last_role == "tool"


async def test_a_tool_choice_reaches_the_model(installation: Installation, opened: Open) -> None:
    async with scripted_model(default=Step(calls=(CALL,))) as model:
        installation.configure(model.url)
        async with opened() as client:
            body = chat("Rain?", tools=[WEATHER], tool_choice="none")
            answer = await client.post(
                "/v1/chat/completions", json=chat("x", tools=[WEATHER], tool_choice="required")
            )
            assert answer.status_code == 200
            chosen = model.requests[0].body["tool_choice"]
            assert chosen == "required" or chosen["function"]["name"] == "weather"
            model.script.default = Step(text="No.")
            answer = await client.post("/v1/chat/completions", json=body)
    assert answer.json()["choices"][0]["message"]["content"] == "No."
    assert "weather" not in model.requests[1].tools


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tools": [WEATHER, WEATHER]}, "tools"),
        ({"tools": [WEATHER], "tool_choice": "other"}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools[0].name"),
    ],
)
async def test_tools_that_cannot_be_called_are_refused(
    installation: Installation, opened: Open, given: dict[str, Any], field: str
) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client:
        answer = await client.post("/v1/chat/completions", json=chat("x", **given))
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == field


async def test_a_result_that_no_call_waits_for_is_refused(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model([Step(calls=(CALL,)), Step(text="Rain.")]) as model:
        installation.configure(model.url)
        async with opened() as client:
            first = await client.post("/v1/chat/completions", json=chat("x", tools=[WEATHER]))
            call = first.json()["choices"][0]["message"]["tool_calls"][0]["id"]
            answers: list[int] = []
            for name in (call, call, f"{call}x", "call_0123_x", "call"):
                result = {"role": "tool", "tool_call_id": name, "content": "rain"}
                body = {"model": "openclaw", "messages": [result], "tools": [WEATHER]}
                answer = await client.post("/v1/chat/completions", json=body)
                answers.append(answer.status_code)
    assert answers == [200, 400, 400, 400, 400]
    assert len(model.requests) == 2
