"""OpenAI's own client against the gateway, over a real socket."""

import base64
from typing import Any

import anyio
import httpx2
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from tests.interaction.gateway.conftest import Open, chat
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import Step, scripted_model

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ECHO = {"name": "echo", "inputSchema": {"type": "object"}}
DATA_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def sdk(client: httpx2.AsyncClient, installation: Installation) -> Any:
    """The client, untyped: what it is given here is often wrong on purpose."""
    return AsyncOpenAI(base_url=f"{client.base_url}/v1", api_key=installation.token, max_retries=0)


async def test_a_chat_completion_is_answered_by_the_agent(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model([Step(text="Hello.", input_tokens=7, output_tokens=3)]) as model:
        installation.configure(model.url)
        async with opened() as client, sdk(client, installation) as openai:
            answer = await openai.chat.completions.create(**chat("Hi"))
    assert answer.choices[0].message.content == "Hello."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (7, 3)
    assert model.requests[0].last_text == "Hi"


async def test_streamed_pieces_make_up_the_same_text_as_the_whole_answer(
    installation: Installation, opened: Open
) -> None:
    call = ("mcp_fake_echo", {"text": "x"})
    steps = [Step(text="First I look.", calls=(call,)), Step(text="It says x.")]
    async with scripted_model([*steps, *steps]) as model:
        installation.configure(model.url, {"fake": server_entry({"tools": [ECHO]})})
        async with opened() as client, sdk(client, installation) as openai:
            whole = await openai.chat.completions.create(**chat("Look"))
            pieces: list[str] = []
            usage: Any = None
            stream = await openai.chat.completions.create(
                **chat("Look"), stream=True, stream_options={"include_usage": True}
            )
            async for chunk in stream:
                usage = chunk.usage or usage
                pieces += [choice.delta.content or "" for choice in chunk.choices]
    assert whole.choices[0].message.content == "First I look.\n\nIt says x."
    assert "".join(pieces) == "First I look.\n\nIt says x."
    assert usage.total_tokens == 30


async def test_a_session_key_continues_a_conversation_and_no_key_begins_one(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(text="Noted.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            for text in ("one", "two", "three"):
                await client.post("/v1/chat/completions", json=chat(text), headers=named("me"))
            await client.post("/v1/chat/completions", json=chat("alone"))

    def said(number: int) -> list[Any]:
        messages = model.requests[number].body["messages"]
        return [m["content"] for m in messages if m["role"] != "system"]

    assert said(2) == ["one", "Noted.", "two", "Noted.", "three"]
    assert said(3) == ["alone"]


async def test_without_a_session_what_was_said_before_comes_along(
    installation: Installation, opened: Open
) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "I am Ada."},
        {"role": "assistant", "content": "Hello Ada."},
        {"role": "user", "content": "Who am I?"},
    ]
    async with scripted_model(default=Step(text="Ada.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            await client.post(
                "/v1/chat/completions", json={"model": "openclaw", "messages": messages}
            )
    text = model.requests[0].last_text
    assert text.endswith("[Message]\nWho am I?")
    assert "user: I am Ada.\n\nassistant: Hello Ada." in text
    assert "[Instructions for this request]\nBe brief." in text


async def completed(openai: Any, streamed: bool) -> str:
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": DATA_URL}},
    ]
    order = {"model": "openclaw/main", "messages": [{"role": "user", "content": content}]}
    answer = await openai.chat.completions.create(**order, stream=streamed)
    if not streamed:
        return answer.choices[0].message.content
    return "".join([chunk.choices[0].delta.content or "" async for chunk in answer])


async def responded(openai: Any, streamed: bool) -> str:
    content = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": DATA_URL, "detail": "auto"},
    ]
    order = {"model": "openclaw/main", "input": [{"role": "user", "content": content}]}
    if not streamed:
        return (await openai.responses.create(**order)).output_text
    async with openai.responses.stream(**order) as stream:
        async for _ in stream:
            pass
        return (await stream.get_final_response()).output_text


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("ask", [completed, responded])
async def test_an_image_reaches_the_model(
    installation: Installation, opened: Open, ask: Any, streamed: bool
) -> None:
    async with scripted_model(default=Step(text="A dot.")) as model:
        installation.configure(model.url)
        async with opened() as client, sdk(client, installation) as openai:
            assert await ask(openai, streamed) == "A dot."
    parts = model.requests[0].body["messages"][-1]["content"]
    assert {"type": "image_url", "image_url": {"url": DATA_URL}} in [
        {"type": p["type"], "image_url": {"url": p.get("image_url", {}).get("url")}} for p in parts
    ]
    assert {"type": "text", "text": "What is this?"} in parts
    assert list((installation.state / "tmp").iterdir()) == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_response_is_answered_and_followed_by_its_id(
    installation: Installation, opened: Open, streamed: bool
) -> None:
    async with scripted_model(default=Step(text="Blue.")) as model:
        installation.configure(model.url)
        async with opened() as client, sdk(client, installation) as openai:
            if streamed:
                stream = await openai.responses.create(
                    model="openclaw", input="Colour?", stream=True
                )
                events: list[Any] = [event async for event in stream]
                deltas = "".join(e.delta for e in events if e.type == "response.output_text.delta")
                assert deltas == "Blue."
                assert [e.sequence_number for e in events] == list(range(len(events)))
                first = events[-1].response
            else:
                first = await openai.responses.create(model="openclaw", input="Colour?")
            assert first.status == "completed"
            assert first.output_text == "Blue."
            await openai.responses.create(
                model="openclaw", input="Sure?", previous_response_id=first.id
            )
    messages = [m for m in model.requests[1].body["messages"] if m["role"] != "system"]
    assert [m["content"] for m in messages] == ["Colour?", "Blue.", "Sure?"]


async def test_the_agents_are_listed_as_models(installation: Installation, opened: Open) -> None:
    agents = {"list": [{"id": "main"}, {"id": "research"}]}
    installation.configure("http://127.0.0.1:9", agents=agents)
    async with opened() as client, sdk(client, installation) as openai:
        names = [model.id async for model in openai.models.list()]
    assert names == ["openclaw", "openclaw/main", "openclaw/research"]


async def test_what_is_wrong_with_a_request_is_said_in_the_shape_that_clients_read(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client, sdk(client, installation) as openai:
        with pytest.raises(NotFoundError, match="there is no agent 'nobody'"):
            await openai.chat.completions.create(
                model="openclaw/nobody", messages=[{"role": "user", "content": "x"}]
            )
        with pytest.raises(NotFoundError, match="there is no model 'gpt-4'"):
            await openai.chat.completions.create(
                model="gpt-4", messages=[{"role": "user", "content": "x"}]
            )
        with pytest.raises(BadRequestError, match="has no user message") as caught:
            await openai.chat.completions.create(
                model="openclaw", messages=[{"role": "system", "content": "x"}]
            )
        assert caught.value.param == "messages"
        far = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
        with pytest.raises(BadRequestError, match="has to be a data: URL"):
            await openai.chat.completions.create(
                model="openclaw",
                messages=[{"role": "user", "content": [far]}],
            )
        answer = await client.post("/v1/chat/completions", content=b"{")
        assert answer.status_code == 400


async def test_a_model_that_fails_ends_a_stream_with_the_error(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(status=401, message="bad key")) as model:
        installation.configure(model.url)
        async with opened() as client:
            answer = await client.post("/v1/chat/completions", json=chat("x", stream=True))
            whole = await client.post("/v1/chat/completions", json=chat("x"))
    assert "refused the key" in answer.text
    assert answer.text.endswith("data: [DONE]\n\n")
    assert whole.status_code == 503
    assert "refused the key" in whole.json()["error"]["message"]


async def test_a_client_that_goes_away_stops_its_turn(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model([Step(hang=True)], default=Step(text="Here.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            async with anyio.create_task_group() as group:
                group.start_soon(post, client, chat("never"), "k")
                await until(lambda: len(model.requests) == 1)
                group.cancel_scope.cancel()
            answer = await client.post(
                "/v1/chat/completions", json=chat("again"), headers=named("k")
            )
            kinds = await entry_kinds(client, "k")
    assert answer.json()["choices"][0]["message"]["content"] == "Here."
    assert "turn_cancelled" in kinds


async def post(client: httpx2.AsyncClient, body: dict[str, Any], key: str) -> None:
    await client.post("/v1/chat/completions", json=body, headers=named(key))


def named(key: str) -> dict[str, str]:
    return {"x-openclaw-session-key": key}


async def entry_kinds(client: httpx2.AsyncClient, key: str) -> list[str]:
    answer = await client.get(f"/api/sessions/{key}")
    return [entry["kind"] for entry in answer.json()["entries"]]


async def until(condition: Any) -> None:
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110 (the model keeps no event of ours)
            await anyio.sleep(0.01)
