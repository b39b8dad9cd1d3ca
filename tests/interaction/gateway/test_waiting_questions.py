"""A gateway shows and answers the questions that wait, and carries on where nobody else would."""

from typing import Any

import anyio
import httpx2
import pytest
from tests.interaction.gateway.conftest import Open
from tests.interaction.gateway.test_asking import events_of
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import Step, scripted_model

WRITE = ("write", {"path": "a.txt", "content": "b"})
RULES = [
    Step(when="does not allow this call", text="Then not."),
    Step(when="write", role="user", calls=(WRITE,)),  # the message, and the note on the answer
    Step(role="tool", text="It said {last}"),
]


async def until(client: httpx2.AsyncClient, path: str, wanted: str) -> str:
    with anyio.fail_after(60):
        while wanted not in (text := (await client.get(path)).text):  # noqa: ASYNC110 - in the gateway
            await anyio.sleep(0.02)
    return text


async def waiting(client: httpx2.AsyncClient) -> list[dict[str, Any]]:
    return (await client.get("/api/questions")).json()["questions"]


@pytest.mark.parametrize(("action", "written"), [("accept", True), ("decline", False)])
async def test_an_answered_schedule_carries_on_by_itself(
    installation: Installation, opened: Open, action: str, written: bool
) -> None:
    async with scripted_model(rules=RULES) as model:
        installation.configure(model.url, tools={"ask": ["write"]})
        async with opened() as client:
            job = {"when": "hourly", "message": "write", "name": "j"}
            assert (await client.post("/api/cron", json=job)).status_code == 200
            await client.post("/api/cron/j/run", json={})
            await until(client, "/api/questions", "Write a.txt?")
            (question,) = await waiting(client)
            assert (question["sessionKey"], question["origin"]) == ("cron:j", "cron")
            assert (await client.get("/api/status")).json()["questions"] == 1
            await until(client, "/metrics", "openclaw_questions_waiting 1")
            path = f"/api/questions/{question['id']}"
            answer = {"action": action, "reason": "Not today."}
            assert (await client.post(path, json=answer)).status_code == 200
            shown = await until(
                client, "/api/sessions/cron:j", "Wrote 1 bytes" if written else "Then not."
            )
            assert ("Not today." in shown) is not written
            assert await waiting(client) == []
            assert (await client.get(path)).json()["state"] != "open"
    assert (installation.state / "workspace" / "a.txt").exists() is written


async def test_another_session_carries_on_with_its_next_message_or_when_told_to(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        installation.configure(model.url, tools={"ask": ["write"]})
        async with opened() as client:
            for session in ("next", "now"):
                body = {"text": "write", "stream": False, "sessionKey": session}
                reply = (await client.post("/api/messages", json=body)).json()
                path = f"/api/questions/{reply['questions'][0]}"
                answer = {"action": "accept", "continue": session == "now"}
                turn = (await client.post(path, json=answer)).json()["turn"]
                assert (turn is None) is (session == "next")
            await until(client, "/api/sessions/now", "Wrote 1 bytes")
            assert "Wrote" not in (await client.get("/api/sessions/next")).text
            body = {"text": "go on", "stream": False, "sessionKey": "next"}
            assert "Wrote" not in (await client.post("/api/messages", json=body)).text


async def test_a_question_that_a_stopping_gateway_asks_waits_in_the_store(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        installation.configure(model.url, tools={"ask": ["write"]})
        async with opened() as client, anyio.create_task_group() as tasks:
            asked = anyio.Event()

            async def ask() -> None:
                body = {"text": "write", "questions": True, "detached": True, "sessionKey": "s"}
                async for name, _ in events_of(client, body):
                    if name == "question":
                        asked.set()

            tasks.start_soon(ask)
            await asked.wait()
            assert await waiting(client) == []
            tasks.cancel_scope.cancel()
        async with opened() as client:
            (question,) = await waiting(client)
    assert (question["title"], question["sessionKey"]) == ("Write a.txt?", "s")
