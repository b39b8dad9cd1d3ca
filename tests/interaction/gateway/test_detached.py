"""Turns that go on without their client, and watching turns that run."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import anyio
import httpx2
import orjson
from tests.interaction.gateway.conftest import Open, chat
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

SLOWLY = Step(text="one two three four five six seven eight nine ten", delay=0.1)


async def events_of(answer: httpx2.Response) -> AsyncGenerator[tuple[str, Any]]:
    name = ""
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, orjson.loads(line[6:])


async def begin(client: httpx2.AsyncClient, key: str, until: str, **more: Any) -> str:
    """Begin a detached turn and go away once an event of this name has come; returns its id."""
    body = {"text": "Count", "sessionKey": key, "detached": True, **more}
    turn = ""
    async with client.stream("POST", "/api/messages", json=body) as answer:
        assert answer.status_code == 200, await answer.aread()
        async with aclosing(events_of(answer)) as events:
            async for name, data in events:
                turn = data.get("turn") or turn
                if name == until:
                    break
    return turn


async def followed(client: httpx2.AsyncClient, turn: str) -> list[tuple[str, Any]]:
    async with client.stream("GET", f"/api/turns/{turn}/events") as answer:
        assert answer.status_code == 200, await answer.aread()
        return [one async for one in events_of(answer)]


def written(events: list[tuple[str, Any]]) -> str:
    return "".join(data["text"] for name, data in events if name == "text_delta")


async def test_a_detached_turn_goes_on_and_is_followed_from_its_beginning(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=SLOWLY) as model:
        installation.configure(model.url)
        async with opened() as client:
            turn = await begin(client, "k", "text_delta")
            [running] = (await client.get("/api/turns")).json()["turns"]
            events = await followed(client, turn)
            late = await client.get(f"/api/turns/{turn}/events")
            stored = (await client.get("/api/sessions/k")).json()["entries"]
    assert (running["turn"], running["sessionKey"]) == (turn, "k")
    assert [events[0][0], events[-1][0]] == ["accepted", "reply"]
    assert (events[0][1]["text"], events[0][1]["attachments"]) == ("Count", [])
    assert written(events) == events[-1][1]["text"] == SLOWLY.text
    assert late.status_code == 404
    assert [entry["kind"] for entry in stored][-1] == "turn_finished"
    assert len(model.requests) == 1


async def test_a_detached_turn_is_stopped_by_who_wants_it_stopped(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(hang=True)) as model:
        installation.configure(model.url)
        async with opened() as client:
            turn = await begin(client, "k", "turn_started")
            await asked(model)
            assert (await client.post(f"/api/turns/{turn}/cancel")).json() == {"cancelled": 1}
            with anyio.fail_after(60):
                while (await client.get("/api/turns")).json()["turns"]:  # noqa: ASYNC110 (polls the gateway)
                    await anyio.sleep(0.01)
            kinds = [e["kind"] for e in (await client.get("/api/sessions/k")).json()["entries"]]
    assert "turn_cancelled" in kinds


async def test_what_fails_before_the_turn_ends_the_stream_with_the_error(
    installation: Installation, opened: Open
) -> None:
    installation.configure("http://127.0.0.1:9")
    async with opened() as client:
        body = {
            "text": "x",
            "detached": True,
            "media": [{"mimeType": "image/png", "data": "bm8="}],
        }
        answer = await client.post("/api/messages", json=body)
    assert "event: error" in answer.text
    assert "media[0]: is declared as image/png" in answer.text


async def test_the_same_turn_is_not_begun_twice(installation: Installation, opened: Open) -> None:
    async with scripted_model(default=Step(hang=True)) as model:
        installation.configure(model.url)
        async with opened() as client:
            turn = await begin(client, "k", "turn_started", idempotencyKey="same-1")
            again = await client.post(
                "/api/messages",
                json={"text": "x", "detached": True, "idempotencyKey": "same-1"},
            )
            await client.post(f"/api/turns/{turn}/cancel")
    assert again.status_code == 429
    assert again.json()["error"]["type"] == "Busy"


async def test_a_turn_of_any_client_is_watched_where_somebody_listens(
    installation: Installation, opened: Open
) -> None:
    started: Any = None
    seen: list[tuple[str, Any]] = []
    async with scripted_model(default=SLOWLY) as model:
        installation.configure(model.url)
        async with (
            opened() as client,
            client.stream("GET", "/api/events") as heard,
            aclosing(events_of(heard)) as events,
            anyio.create_task_group() as group,
        ):
            assert (await anext(events))[0] == "hello"

            async def complete() -> None:
                await client.post(
                    "/v1/chat/completions",
                    json=chat("Count"),
                    headers={"x-openclaw-session-key": "k"},
                )

            group.start_soon(complete)
            started = await until_event(events, "turn_started")
            seen = await followed(client, started["turn"])
            await until_event(events, "turn_finished")
    assert (started["session"], started["agent"]) == ("k", "main")
    assert written(seen) == SLOWLY.text
    assert seen[-1][0] == "reply"


async def test_a_turn_that_nobody_listens_to_is_not_kept_for_watchers(
    installation: Installation, opened: Open
) -> None:
    status = 0
    async with scripted_model([Step(hang=True)]) as model:
        installation.configure(model.url)
        async with opened() as client, anyio.create_task_group() as group:

            async def complete() -> None:
                await client.post(
                    "/v1/chat/completions",
                    json=chat("Count"),
                    headers={"x-openclaw-session-key": "k"},
                )

            group.start_soon(complete)
            await asked(model)
            [running] = (await client.get("/api/turns")).json()["turns"]
            status = (await client.get(f"/api/turns/{running['turn']}/events")).status_code
            await client.post(f"/api/turns/{running['turn']}/cancel")
    assert status == 404


async def until_event(events: AsyncIterator[tuple[str, Any]], wanted: str) -> Any:
    async for name, data in events:
        if name == wanted:
            return data
    raise AssertionError(f"no {wanted} came")


async def asked(model: ScriptedModel) -> None:
    with anyio.fail_after(60):
        while not model.requests:  # noqa: ASYNC110 (the model keeps no event of ours)
            await anyio.sleep(0.01)


async def test_only_those_who_can_answer_see_the_questions_and_the_first_answer_counts(
    installation: Installation, opened: Open
) -> None:
    rules = [
        Step(role="user", calls=(("write", {"path": "a.txt", "content": "b"}),)),
        Step(role="tool", text="Done."),
    ]
    seen: dict[str, list[tuple[str, Any]]] = {"one": [], "two": [], "onlooker": []}
    answers: list[httpx2.Response] = []
    both_asked = anyio.Event()

    async with scripted_model(rules=rules) as model:
        installation.configure(model.url, tools={"ask": ["write"]})
        async with opened() as client, anyio.create_task_group() as group:
            turn = await begin(client, "k", "accepted", questions=True)
            wrong = await client.get(f"/api/turns/{turn}/events?questions=maybe")
            assert wrong.status_code == 400

            async def watch(who: str, query: str) -> None:
                path = f"/api/turns/{turn}/events{query}"
                async with client.stream("GET", path) as answer:
                    async for name, data in events_of(answer):
                        seen[who].append((name, data))
                        if name == "question":
                            if not both_asked.is_set() and len(_asked_of(seen)) < 2:
                                continue
                            both_asked.set()
                            for action in ("accept", "decline"):
                                asked_for = f"/api/questions/{data['id']}"
                                answers.append(
                                    await client.post(asked_for, json={"action": action})
                                )

            group.start_soon(watch, "onlooker", "")
            group.start_soon(watch, "one", "?questions=true")
            group.start_soon(watch, "two", "?questions=true")
    assert (installation.state / "workspace" / "a.txt").read_text() == "b"
    assert [one.status_code for one in answers] == [200, 404]
    assert "already been answered" in answers[1].json()["error"]["message"]
    for who in ("one", "two"):
        closed = dict(seen[who])["question_closed"]
        assert closed == {"id": dict(seen[who])["question"]["id"], "why": "answered"}
    names = {name for name, _ in seen["onlooker"]}
    assert "reply" in names
    assert not names & {"question", "question_closed"}


def _asked_of(seen: dict[str, list[tuple[str, Any]]]) -> list[str]:
    return [who for who, events in seen.items() if any(name == "question" for name, _ in events)]
