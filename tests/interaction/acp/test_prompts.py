"""What a client sends, and what it is told while the agent works."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp import (
    RequestError,
    audio_block,
    embedded_blob_resource,
    embedded_text_resource,
    image_block,
    resource_block,
    resource_link_block,
    text_block,
)
from acp.schema import (
    ClientCapabilities,
    ElicitationCapabilities,
    ElicitationFormCapabilities,
    HttpHeader,
    HttpMcpServer,
    McpServerStdio,
    SseMcpServer,
)
from tests.support.fake_http_server import FakeHttpServer
from tests.support.mcp_server_kit import fake_tool

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

Stdio = Callable[[str, dict[str, Any]], McpServerStdio]
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ECHO = {"tools": [fake_tool("echo", text="the server's words")]}


async def test_the_agent_says_what_it_can_do(installation: Any, connect: Any) -> None:
    async with connect() as (agent, _):
        answer = await agent.initialize(protocol_version=1)
    able = answer.agent_capabilities
    assert answer.protocol_version == 1
    assert able.load_session
    assert (able.mcp_capabilities.http, able.mcp_capabilities.sse) == (True, True)
    prompts = able.prompt_capabilities
    assert (prompts.image, prompts.audio, prompts.embedded_context) == (True, True, True)


@pytest.mark.requirement("O-13")
async def test_thoughts_words_and_a_tool_call_of_the_clients_server_are_streamed(
    installation: Any, connect: Any, stdio: Stdio
) -> None:
    steps = [
        Step(text="Looking.", thinking="Hm.", calls=(("mcp_mine_echo", {"a": 1}),)),
        Step(text="There it is."),
    ]
    async with scripted_model(steps) as model, connect() as (agent, person):
        installation.configure(model.url)
        session = await agent.new_session(
            cwd=str(installation.cwd), mcp_servers=[stdio("mine", ECHO)]
        )
        answer = await agent.prompt(session_id=session.session_id, prompt=[text_block("Look.")])
    assert answer.stop_reason == "end_turn"
    assert (answer.usage.input_tokens, answer.usage.output_tokens) == (20, 10)
    assert person.text("agent_thought_chunk") == "Hm."
    assert person.text() == "Looking.There it is."
    (call,) = person.of("tool_call")
    assert (call.title, call.status, call.raw_input) == ("MCP: mine/echo", "in_progress", {"a": 1})
    done = person.of("tool_call_update")[-1]
    assert (done.tool_call_id, done.status) == (call.tool_call_id, "completed")
    assert [one.content.text for one in done.content] == ["the server's words"]
    assert person.of("session_info_update")[0].title == "Look."
    # The model sees the same words framed.
    assert "EXTERNAL_UNTRUSTED_CONTENT" in model.requests[1].last_text


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_a_client_may_bring_a_remote_server(
    installation: Any, connect: Any, transport: str
) -> None:
    steps = [Step(calls=(("mcp_far_echo", {}),)), Step(text="Done.")]
    far = FakeHttpServer(ECHO)
    async with far.running(), scripted_model(steps) as model, connect() as (agent, person):
        installation.configure(model.url)
        headers = [HttpHeader(name="X-Team", value="blue")]
        server = (
            HttpMcpServer(type="http", name="far", url=far.url, headers=headers)
            if transport == "http"
            else SseMcpServer(type="sse", name="far", url=far.sse_url, headers=headers)
        )
        session = await agent.new_session(cwd=str(installation.cwd), mcp_servers=[server])
        await agent.prompt(session_id=session.session_id, prompt=[text_block("Go.")])
    assert person.of("tool_call_update")[-1].status == "completed"
    assert "the server's words" in model.requests[1].last_text


async def test_a_server_that_is_dead_costs_its_tools_and_not_the_prompt(
    installation: Any, connect: Any, stdio: Stdio
) -> None:
    servers = [
        McpServerStdio(name="gone", command="/nonexistent/server", args=[], env=[]),
        stdio("crash", {"faults": {"exitAtStart": 3}}),
        stdio("mine", ECHO),
    ]
    async with scripted_model([Step(text="Still here.")]) as model, connect() as (agent, person):
        installation.configure(model.url)
        session = await agent.new_session(cwd=str(installation.cwd), mcp_servers=servers)
        answer = await agent.prompt(session_id=session.session_id, prompt=[text_block("Hi.")])
    assert (answer.stop_reason, person.text()) == ("end_turn", "Still here.")
    assert [name for name in model.requests[0].tools if name.startswith("mcp_")] == [
        "mcp_mine_echo"
    ]


async def test_an_image_reaches_the_model_and_can_be_asked_about_later(
    installation: Any, connect: Any
) -> None:
    steps = [Step(text="A dot."), Step(text="Still a dot.")]
    async with scripted_model(steps) as model, connect() as (agent, _):
        installation.configure(model.url)
        session = await agent.new_session(cwd=str(installation.cwd))
        image = image_block(base64.b64encode(PNG).decode(), "image/png")
        await agent.prompt(session_id=session.session_id, prompt=[text_block("What?"), image])
        await agent.prompt(session_id=session.session_id, prompt=[text_block("Sure?")])
    for request in model.requests:
        assert base64.b64encode(PNG).decode() in json.dumps(request.body)


async def test_resources_and_recordings_are_read_into_the_prompt(
    installation: Any, connect: Any
) -> None:
    blob = base64.b64encode(b"a,b\n1,2\n").decode()
    sound = base64.b64encode(b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(40)).decode()
    prompt = [
        text_block("Compare"),
        resource_link_block("notes.md", "file:///project/notes.md"),
        resource_block(embedded_text_resource("file:///project/main.py", "print('hello')")),
        resource_block(embedded_blob_resource("file:///project/table.csv", blob)),
        audio_block(sound, "audio/wav"),
    ]
    async with scripted_model([Step(text="Same.")]) as model, connect() as (agent, _):
        installation.configure(model.url, media={"transcription": {"provider": "off"}})
        session = await agent.new_session(cwd=str(installation.cwd))
        await agent.prompt(session_id=session.session_id, prompt=prompt)
    text = json.dumps(model.requests[0].body)
    assert "Compare [@notes.md](file:///project/notes.md) [@main.py]" in text
    assert "print('hello')" in text
    assert "a,b\\\\n1,2" in text or "a,b\\n1,2" in text
    assert "audio attachment.wav (audio/wav)" in text


@pytest.mark.parametrize(
    ("block", "told"),
    [
        (image_block("!!!", "image/png"), "prompt[0].data"),
        (image_block(base64.b64encode(PNG).decode(), "image/tiff"), "prompt[0].mimeType"),
        (image_block(base64.b64encode(b"MZ not a picture").decode(), "image/png"), "declared"),
        (text_block("  "), "prompt: is empty"),
    ],
)
async def test_a_prompt_that_cannot_be_taken_is_refused_with_the_reason(
    installation: Any, connect: Any, block: Any, told: str
) -> None:
    async with scripted_model([]) as model, connect() as (agent, _):
        installation.configure(model.url)
        session = await agent.new_session(cwd=str(installation.cwd))
        with pytest.raises(RequestError, match="prompt") as refused:
            await agent.prompt(session_id=session.session_id, prompt=[block])
    assert refused.value.code == -32602
    assert told in str(refused.value)
    assert model.requests == []


async def test_cancelling_stops_the_turn_and_says_so(
    installation: Any, connect: Any, stdio: Stdio
) -> None:
    slow = {"tools": [fake_tool("wait", hang=True)]}
    steps = [Step(calls=(("mcp_slow_wait", {}),)), Step(text="After all.")]
    async with scripted_model(steps) as model, connect() as (agent, person):
        installation.configure(model.url)
        session = await agent.new_session(
            cwd=str(installation.cwd), mcp_servers=[stdio("slow", slow)]
        )
        answers: list[Any] = []

        async def ask() -> None:
            prompt = [text_block("Wait.")]
            answers.append(await agent.prompt(session_id=session.session_id, prompt=prompt))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await person.seen("tool_call")
            with anyio.fail_after(60):
                await agent.cancel(session_id=session.session_id)
        assert [answer.stop_reason for answer in answers] == ["cancelled"]
        again = await agent.prompt(session_id=session.session_id, prompt=[text_block("Go on.")])
    assert (again.stop_reason, person.text()) == ("end_turn", "After all.")


async def test_the_agents_own_tools_work_in_the_clients_directory_and_say_where(
    installation: Any, connect: Any
) -> None:
    (installation.cwd / "notes.txt").write_text("buy milk")
    steps = [Step(calls=(("read", {"path": "notes.txt"}),)), Step(text="Milk.")]
    async with scripted_model(steps) as model, connect() as (agent, person):
        installation.configure(model.url)
        session = await agent.new_session(cwd=str(installation.cwd))
        await agent.prompt(session_id=session.session_id, prompt=[text_block("Notes?")])
    (call,) = person.of("tool_call")
    assert call.kind == "read"
    assert [Path(one.path) for one in call.locations] == [installation.cwd / "notes.txt"]
    assert "buy milk" in model.requests[1].last_text


async def test_the_models_plan_is_told_as_a_plan_also_when_it_is_loaded_again(
    installation: Any, connect: Any
) -> None:
    plan = [{"step": "Look", "status": "completed"}, {"step": "Tell", "status": "in_progress"}]
    steps = [Step(calls=(("update_plan", {"plan": plan}),)), Step(text="Seen.")]
    async with scripted_model(steps) as model, connect() as (agent, person):
        installation.configure(model.url)
        session = await agent.new_session(cwd=str(installation.cwd))
        await agent.prompt(session_id=session.session_id, prompt=[text_block("Go.")])
        (told,) = person.of("plan")
        person.updates.clear()
        await agent.load_session(cwd=str(installation.cwd), session_id=session.session_id)
        (again,) = person.of("plan")
    for update in (told, again):
        assert [(one.content, one.status) for one in update.entries] == [
            ("Look", "completed"),
            ("Tell", "in_progress"),
        ]
    assert person.of("tool_call") == []
    assert "1 of 2 steps" in model.requests[1].last_text


async def test_what_a_server_asks_is_put_to_the_person_where_the_client_can(
    installation: Any, connect: Any, stdio: Stdio
) -> None:
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}}
    spec = {"tools": [fake_tool("ask", elicit={"message": "Which?", "requestedSchema": schema})]}
    rules = [
        Step(role="user", calls=(("mcp_mine_ask", {}),)),
        Step(role="tool", text="It said {last}"),
    ]
    said: list[str] = []
    async with scripted_model(rules=rules) as model:
        installation.configure(model.url)
        for able in (True, False):
            async with connect() as (agent, person):
                if able:
                    can = ElicitationCapabilities(form=ElicitationFormCapabilities())
                    await agent.initialize(
                        protocol_version=1,
                        client_capabilities=ClientCapabilities(elicitation=can),
                    )
                session = await agent.new_session(
                    cwd=str(installation.cwd), mcp_servers=[stdio("mine", spec)]
                )
                await agent.prompt(session_id=session.session_id, prompt=[text_block("Go.")])
                said.append(person.text())
                assert person.forms == (["MCP server 'mine' asks: Which?"] if able else [])
    assert '"colour": "red"' in said[0]
    assert '"decline"' in said[1]


async def test_a_model_that_does_not_answer_is_an_error_in_words(
    installation: Any, connect: Any
) -> None:
    steps = [Step(status=401, message="bad key")]
    async with scripted_model(steps) as model, connect() as (agent, _):
        installation.configure(model.url)
        session = await agent.new_session(cwd=str(installation.cwd))
        with pytest.raises(RequestError, match="acme/scripted") as failed:
            await agent.prompt(session_id=session.session_id, prompt=[text_block("Hi.")])
    assert failed.value.code == -32603


async def test_a_limit_that_ends_a_turn_is_told_in_words_and_as_the_reason(
    installation: Any, connect: Any
) -> None:
    loop = Step(calls=(("list", {}),))
    agents = {"defaults": {"model": "acme/scripted", "limits": {"maxSteps": 1}}}
    async with scripted_model([loop, loop]) as model, connect() as (agent, person):
        installation.configure(model.url, agents=agents)
        session = await agent.new_session(cwd=str(installation.cwd))
        answer = await agent.prompt(session_id=session.session_id, prompt=[text_block("Go.")])
    assert answer.stop_reason == "max_turn_requests"
    assert person.text().strip()
