"""Questions that arise in the gateway reach the person, wherever that person sits."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from tests.interaction.cli import test_chat
from tests.interaction.gateway.conftest import Open
from tests.support import disguised_call
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.loop_time import pass_time
from tests.support.mcp_server_kit import fake_tool

from openclaw.agent.port import MessageContext, TurnListener
from openclaw.core.errors import InvalidRequest
from openclaw.core.events import TextDelta
from openclaw.core.questions import ONCE, Answer, AskedCall, Question
from openclaw.gateway.pending_questions import PendingQuestions
from openclaw.runtime.gateway_client import GatewayClient
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

# What these say of a person at a terminal holds with a gateway behind it as well.
model = test_chat.model
test_a_server_asks = test_chat.test_a_server_asks_the_person_and_gets_the_answer
test_declining = test_chat.test_a_question_may_be_declined_or_left_and_then_the_turn_be_stopped
test_permission = test_chat.test_a_tool_that_needs_permission_is_asked_about
test_disguise = test_chat.test_the_call_that_runs_is_shown_to_its_end_before_it_can_be_allowed
test_a_single_message = test_chat.test_a_single_message_asks_at_a_terminal_too
test_nobody_there = test_chat.test_without_a_terminal_a_server_is_told_that_nobody_answers


@pytest.fixture
async def environ(
    home: Path, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[dict[str, str]]:
    """The same as there, with a gateway that has to have done the work."""
    monkeypatch.chdir(home)
    environ = test_chat.configured(home, model)
    installation = Installation(home / ".openclaw")
    async with installation.here(**environ) as info:
        yield environ
        answer = await GatewayClient(info.url, installation.state).request("GET", "/api/sessions")
    assert sum(row["entries"] for row in answer["sessions"]) > 0


SCHEMA: dict[str, Any] = {"type": "object", "properties": {"colour": {"type": "string"}}}
ASKING = {
    "tools": [fake_tool("ask", elicit={"message": "Which one?", "requestedSchema": SCHEMA})],
}
RULES = [
    Step(when="ask me", role="user", calls=(("mcp_fake_ask", {}),)),
    Step(when="write", role="user", calls=(("write", {"path": "a.txt", "content": "b"}),)),
    Step(role="tool", text="It said {last}"),
]


async def events_of(
    client: httpx2.AsyncClient, body: dict[str, Any]
) -> AsyncIterator[tuple[str, Any]]:
    async with client.stream("POST", "/api/messages", json=body) as answer:
        name = ""
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                name = line[7:]
            elif line.startswith("data: "):
                yield name, json.loads(line[6:])


@pytest.mark.parametrize("discover", ["refuse", "answer"])
async def test_a_question_is_an_event_and_its_answer_a_request(
    installation: Installation, opened: Open, discover: str
) -> None:
    spec = {**ASKING, "discover": discover}
    async with scripted_model(rules=RULES) as model:
        installation.configure(model.url, servers={"fake": server_entry(spec)})
        async with opened() as client:
            seen: list[tuple[str, Any]] = []
            async for name, data in events_of(client, {"text": "ask me", "questions": True}):
                seen.append((name, data))
                if name == "question":
                    answer = {"action": "accept", "content": {"colour": "red"}}
                    path = f"/api/questions/{data['id']}"
                    assert (await client.post(path, json=answer)).status_code == 200
                    assert (await client.post(path, json=answer)).status_code == 404
    named = dict(seen)
    question = named["question"]
    assert (question["kind"], question["server"]) == ("elicitation", "fake")
    assert (question["text"], question["schema"]) == ("Which one?", SCHEMA)
    assert named["question_closed"] == {"id": question["id"], "why": "answered"}
    assert '"colour": "red"' in named["reply"]["text"]


async def test_a_question_shows_the_call_that_runs(
    installation: Installation, opened: Open
) -> None:
    rules = [
        Step(when="write", role="user", calls=(("write", disguised_call.ARGUMENTS),)),
        Step(role="tool", text="It said {last}"),
    ]
    seen: list[Any] = []
    asked: list[Question] = []

    async def ask(request: Question) -> Answer:
        asked.append(request)
        return Answer(ONCE)

    async with scripted_model(rules=rules) as model:
        installation.configure(model.url, tools={"ask": ["write"]})
        async with opened() as client:
            async for name, data in events_of(client, {"text": "write", "questions": True}):
                if name == "question":
                    seen.append(data)
                    answer = {"action": "decline"}
                    await client.post(f"/api/questions/{data['id']}", json=answer)
        async with installation.here() as info:
            ours = GatewayClient(info.url, installation.state)
            await ours.reply(MessageContext("write", "s"), TurnListener(ask=ask))
    (question,), (request,) = seen, asked
    assert question["text"] == disguised_call.TITLE
    assert (question["title"], question["body"]) == (disguised_call.TITLE, disguised_call.BODY)
    assert (request.title, request.body) == (disguised_call.TITLE, disguised_call.BODY)
    written = installation.state / "workspace" / disguised_call.ARGUMENTS["path"]
    assert written.read_text() == disguised_call.CONTENT


async def test_a_person_says_for_how_long_or_why_not(
    installation: Installation, opened: Open
) -> None:
    answers = [
        {"action": "decline", "choice": "no", "reason": "not today"},
        {"action": "accept", "choice": "always"},
    ]
    replies: list[str] = []
    async with scripted_model(rules=RULES) as model:
        installation.configure(model.url, tools={"ask": ["write"]})
        async with opened() as client:
            for _ in range(3):
                body = {"text": "write", "questions": True}
                async for name, data in events_of(client, body):
                    if name == "question":
                        assert [one["id"] for one in data["choices"]] == [
                            "once",
                            "session",
                            "always",
                            "no",
                        ]
                        answer = answers.pop(0)
                        await client.post(f"/api/questions/{data['id']}", json=answer)
                    if name == "reply":
                        replies.append(data["text"])
    assert "They say: not today" in replies[0]
    assert all("Wrote 1 bytes" in text for text in replies[1:])  # the last one without a question
    config = json.loads((installation.state / "openclaw.json").read_text())
    assert config["tools"]["approved"] == ["write"]


async def test_a_client_that_cannot_be_asked_is_not(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        installation.configure(
            model.url, servers={"fake": server_entry(ASKING)}, tools={"ask": ["write"]}
        )
        async with opened() as client:
            asked = dict([event async for event in events_of(client, {"text": "ask me"})])
            wrote = await client.post("/api/messages", json={"text": "write", "stream": False})
    assert "question" not in asked
    assert '"decline"' in asked["reply"]["text"]
    assert "Waiting for your answer: Write a.txt?" in wrote.json()["text"]


async def test_a_client_that_leaves_takes_its_question_along(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        installation.configure(model.url, tools={"ask": ["write"]})
        async with opened() as client:
            left = ""
            async for name, data in events_of(client, {"text": "write", "questions": True}):
                if name == "question":
                    left = data["id"]
                    break
            with anyio.fail_after(60):
                while (await client.get("/api/turns")).json()["turns"]:  # noqa: ASYNC110 - in the gateway
                    await anyio.sleep(0.01)
            late = await client.post(f"/api/questions/{left}", json={"action": "accept"})
    assert left
    assert late.status_code == 404
    assert not (installation.state / "workspace" / "a.txt").exists()


@pytest.mark.parametrize(
    "body", [{}, {"action": "perhaps"}, {"action": "accept", "content": [1]}, {"action": 1}]
)
async def test_an_answer_that_is_none_is_refused(
    installation: Installation, opened: Open, body: dict[str, Any]
) -> None:
    async with scripted_model() as model:
        installation.configure(model.url)
        async with opened() as client:
            assert (await client.post("/api/questions/x", json=body)).status_code == 400


async def test_two_turns_at_one_server_are_not_asked_for_each_other(
    installation: Installation, opened: Open
) -> None:
    """A question that comes by itself does not say whose it is."""
    spec = {"discover": "refuse", "tools": [*ASKING["tools"], fake_tool("wait", hang=True)]}
    rules = [Step(when="wait", role="user", calls=(("mcp_fake_wait", {}),)), *RULES]
    seen: dict[str, Any] = {}
    async with scripted_model(rules=rules) as model:
        installation.configure(model.url, servers={"fake": server_entry(spec)})
        async with opened() as client, anyio.create_task_group() as tasks:
            waiting = anyio.Event()

            async def wait() -> None:
                body = {"text": "wait", "questions": True, "sessionKey": "other"}
                async for name, _ in events_of(client, body):
                    assert name != "question"
                    if name == "tool_started":
                        waiting.set()

            tasks.start_soon(wait)
            await waiting.wait()
            body = {"text": "ask me", "questions": True, "sessionKey": "mine"}
            seen = dict([event async for event in events_of(client, body)])
            tasks.cancel_scope.cancel()
    assert "question" not in seen
    assert '"decline"' in seen["reply"]["text"]


async def test_a_question_waits_for_as_long_as_the_user_needs() -> None:
    questions, told = PendingQuestions(), list[str]()
    call = AskedCall("c", "write", "Write", {})
    async with anyio.create_task_group() as tasks:

        def tell(name: str, event: dict[str, Any]) -> None:
            told.append(name)
            if name == "question":
                tasks.start_soon(answer, event["id"])

        async def answer(id: str) -> None:
            pass_time(30 * 24 * 3600)
            await anyio.wait_all_tasks_blocked()
            questions.answer(id, "accept", Answer(""))

        assert await questions.put(tell, Question("Write a.txt?", "", (call,))) == Answer(ONCE)
    assert told == ["question", "question_closed"]


async def test_a_front_end_answers_calls_and_forms_through_the_gateway(
    installation: Installation,
) -> None:
    async def answer(question: Question) -> Answer:
        if question.form is None:
            return Answer(ONCE)
        assert (question.form.server, question.form.schema) == ("fake", SCHEMA)
        return Answer("accept", content={"colour": "red"})

    async with scripted_model(rules=RULES) as model:
        installation.configure(
            model.url, servers={"fake": server_entry(ASKING)}, tools={"ask": ["write"]}
        )
        async with installation.here() as info:
            client = GatewayClient(info.url, installation.state)
            told = await client.reply(MessageContext("ask me", "s"), TurnListener(ask=answer))
            late = await client.reply(MessageContext("write", "s"), TurnListener(ask=answer))
    assert '"colour": "red"' in told.text
    assert "Wrote 1 bytes" in late.text


async def test_a_secret_that_only_the_gateway_knows_does_not_leave_it(
    installation: Installation,
) -> None:
    key = "acme-key-0123456789"
    said: list[str] = []
    async with scripted_model(default=Step(text=f"The key is {key}, is it not?")) as model:
        installation.configure(model.url)
        async with installation.here() as info:
            client = GatewayClient(info.url, installation.state)
            heard = TurnListener(
                on_event=lambda event: said.append(
                    event.text if isinstance(event, TextDelta) else ""
                )
            )
            reply = await client.reply(MessageContext("hi", "s"), heard)
    assert reply.text == "The key is [REDACTED], is it not?"
    assert "".join(said) == reply.text
    assert os.environ.get("ACME_KEY") != key


async def test_what_is_no_text_is_refused_before_it_is_sent(tmp_path: Path) -> None:
    client = GatewayClient("http://127.0.0.1:9", tmp_path)
    with pytest.raises(InvalidRequest, match="cannot be sent to the gateway"):
        await client.request("POST", "/api/messages", {"text": "caf\udce9"})
