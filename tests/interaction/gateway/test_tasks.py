"""Orders as tasks at the gateway's `/mcp`, and the questions on their way."""

import json
from typing import Any

import anyio
import httpx2
import pytest
from tests.interaction.gateway.conftest import Open
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation, documented
from tests.support.mcp_server_kit import fake_tool
from tests.support.task_client import ASKED, TASKS, YES, HttpTaskClient, RpcError

from openclaw.core.clock import SystemClock
from openclaw.gateway.tokens import TokenFile
from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"colour": {"type": "string"}}}
SERVER = server_entry(
    {
        "tools": [
            fake_tool("act", text="done"),
            fake_tool("slow", sleep=600),
            fake_tool("ask", elicit={"message": "Which one?", "requestedSchema": SCHEMA}),
        ]
    }
)
RULES = [
    Step(
        when="Act twice.",
        role="user",
        calls=(("mcp_fake_act", {"n": 1}), ("mcp_fake_act", {"n": 2})),
    ),
    Step(when="allows this call", role="user", calls=(("mcp_fake_act", {"place": "Bern"}),)),
    Step(when="Act.", role="user", calls=(("mcp_fake_act", {"place": "Bern"}),)),
    Step(when="Ask.", role="user", calls=(("mcp_fake_ask", {}),)),
    Step(when="Wait.", role="user", calls=(("mcp_fake_slow", {}),)),
    Step(when="Fail.", role="user", status=400),
    Step(role="user", text="Heard: {last}"),
    Step(role="tool", text="It said {last}"),
]


def configure(installation: Installation, url: str, after: int = 60_000) -> None:
    settings = {"tools": {"ask": ["mcp_fake_act"]}, "mcpServer": {"taskAfterMs": after}}
    installation.configure(url, {"fake": SERVER}, **settings)


def said(result: dict[str, Any]) -> str:
    return "".join(block["text"] for block in result["content"] if block["type"] == "text")


async def test_an_order_that_is_answered_soon_is_no_task(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url)
        async with opened() as http:
            answer = await HttpTaskClient(http).order("Hello.")
    assert (answer["resultType"], said(answer)) == ("complete", "Heard: Hello.")


async def test_a_task_asks_is_answered_and_gives_its_result(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url)
        async with opened() as http:
            client = HttpTaskClient(http)
            handle = await client.order("Act.")
            waiting = await client.get(handle["taskId"])
            again = await client.get(handle["taskId"])
            await client.answer(waiting)
            ended = await client.until(handle["taskId"])
            await client.request("tasks/cancel", taskId=handle["taskId"])
            later = await client.get(handle["taskId"])
    assert handle["resultType"] == "task"
    assert handle["ttlMs"] > 0
    assert handle["pollIntervalMs"] > 0
    assert waiting["status"] == "input_required"
    assert waiting["inputRequests"] == again["inputRequests"]
    (question,) = waiting["inputRequests"].values()
    assert question["method"] == "elicitation/create"
    assert "Bern" in question["params"]["message"]
    assert (ended["status"], ended["resultType"]) == ("completed", "complete")
    assert "done" in said(ended["result"])
    assert later["status"] == "completed"


async def test_a_task_whose_client_cannot_ask_waits_for_an_answer_from_elsewhere(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url, after=1)
        async with opened() as http:
            client = HttpTaskClient(http, {"extensions": {TASKS: {}}})
            handle = await client.order("Act.")
            with anyio.fail_after(60):
                while not (listed := (await http.get("/api/questions")).json()["questions"]):  # noqa: ASYNC110 - in the gateway
                    await anyio.sleep(0.02)
            waiting = await client.get(handle["taskId"])
            (question,) = listed
            path = f"/api/questions/{question['id']}"
            assert (await http.post(path, json={"action": "accept"})).status_code == 200
            ended = await client.until(handle["taskId"])
    assert waiting["status"] == "working"
    assert "Bern" in question["body"]
    assert ended["status"] == "completed"
    assert "done" in said(ended["result"])


async def test_questions_are_answered_one_by_one(installation: Installation, opened: Open) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url)
        async with opened() as http:
            client = HttpTaskClient(http)
            handle = await client.order("Act twice.")
            seen: set[str] = set()
            while (task := await client.until(handle["taskId"], "input_required"))[
                "status"
            ] == "input_required":
                key = next(iter(task["inputRequests"]))
                assert key not in seen
                seen.add(key)
                responses = {key: YES, "never-asked": YES}
                await client.request(
                    "tasks/update", taskId=handle["taskId"], inputResponses=responses
                )
    assert (task["status"], len(seen)) == ("completed", 2)


@pytest.mark.parametrize("wrong", [{"action": "accept", "content": "yes"}, {}, [1], 5])
async def test_an_answer_that_is_none_is_refused_and_the_task_still_waits(
    installation: Installation, opened: Open, wrong: Any
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url)
        async with opened() as http:
            client = HttpTaskClient(http)
            id = (await client.order("Act."))["taskId"]
            (key,) = (await client.until(id, "input_required"))["inputRequests"]
            with pytest.raises(RpcError) as refused:
                await client.request("tasks/update", taskId=id, inputResponses={key: wrong})
            waiting = await client.get(id)
            await client.request("tasks/update", taskId=id, inputResponses={key: YES})
            ended = await client.until(id)
    assert refused.value.code == -32602
    assert (waiting["status"], ended["status"]) == ("input_required", "completed")


async def test_an_id_that_is_no_text_is_that_of_no_task(
    installation: Installation, opened: Open
) -> None:
    class Raw(HttpTaskClient):
        async def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
            headers = {
                "accept": "application/json, text/event-stream",
                "content-type": "application/json",
                "mcp-protocol-version": "2026-07-28",
                "mcp-method": "tasks/get",
            }
            answer = await self._http.post("/mcp", content=json.dumps(message), headers=headers)
            return answer.json()

    installation.configure("http://127.0.0.1:9")
    async with opened() as http:
        with pytest.raises(RpcError) as refused:
            await Raw(http).get("\ud800")
    assert refused.value.code == -32602


async def test_whoever_cannot_be_asked_does_not_have_an_order_carried_out_again(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(text="done")) as model:
        installation.configure(model.url)
        token = TokenFile(installation.state, SystemClock()).add("laptop", ["orders"]).reveal()
        async with opened() as http:
            with pytest.raises(RpcError) as refused:
                await HttpTaskClient(http, {}, token).order("Go.", requestState="a.1.b")
    assert refused.value.code == -32602
    assert not model.requests


async def test_a_task_is_cancelled_with_its_turn(installation: Installation, opened: Open) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url, after=1)
        async with opened() as http:
            client = HttpTaskClient(http)
            handle = await client.order("Wait.", arguments={"sessionKey": "s"})
            await client.request("tasks/cancel", taskId=handle["taskId"])
            ended = await client.until(handle["taskId"])
            turns = (await http.get("/api/turns")).json()["turns"]
    assert (ended["status"], turns) == ("cancelled", [])


async def test_an_order_that_fails_is_a_completed_task_with_an_error(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url, after=1)
        async with opened() as http:
            client = HttpTaskClient(http)
            handle = await client.order("Fail.")
            ended = await client.until(handle["taskId"])
    assert ended["status"] == "completed"
    assert ended["result"]["isError"] is True


async def stored_task(http: httpx2.AsyncClient, id: str, status: str) -> dict[str, Any]:
    """The task under `/api` as soon as it has this status there."""
    with anyio.fail_after(60):
        while (task := (await http.get(f"/api/tasks/{id}")).json())["status"] != status:  # noqa: ASYNC110 - polled
            await anyio.sleep(0.05)
    return task


async def test_the_api_lists_shows_and_cancels_tasks(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url, after=1)
        async with opened() as http:
            client = HttpTaskClient(http)
            id = (await client.order("Act."))["taskId"]
            shown = await stored_task(http, id, "input_required")
            (row,) = (await http.get("/api/tasks")).json()["tasks"]
            cancelled = (await http.post(f"/api/tasks/{id}/cancel")).json()
            ended = await stored_task(http, id, "cancelled")
            again = (await http.post(f"/api/tasks/{id}/cancel")).json()
            missing = await http.get("/api/tasks/task-nobody")
    assert (row["id"], row["status"], row["title"]) == (id, "input_required", "Act.")
    assert "questions" not in row
    (question,) = shown["questions"].values()
    assert "Bern" in question["params"]["message"]
    assert shown.keys() == documented("Task") > row.keys()
    assert (cancelled["cancelled"], ended["status"]) == (True, "cancelled")
    assert again["cancelled"] is False
    assert missing.status_code == 404


async def test_a_deleted_session_takes_its_tasks_along(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url, after=1)
        async with opened() as http:
            client = HttpTaskClient(http)
            for key in ("gone", "stays"):
                handle = await client.order("Fail.", arguments={"sessionKey": key})
                await client.until(handle["taskId"])
            deleted = await http.delete("/api/sessions/gone")
            rows = (await http.get("/api/tasks")).json()["tasks"]
    assert deleted.status_code == 200
    assert [row["sessionKey"] for row in rows] == ["stays"]


async def test_a_task_is_read_by_its_reader_alone(installation: Installation, opened: Open) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url, after=1)
        tokens = TokenFile(installation.state, SystemClock())
        mine, other = (tokens.add(name, ["admin"]).reveal() for name in ("mine", "other"))
        async with opened() as http:
            client = HttpTaskClient(http, token=mine)
            handle = await client.order("Act.")
            same = await HttpTaskClient(http, token=mine).until(handle["taskId"], "input_required")
            stranger = HttpTaskClient(http, token=other)
            for method in ("tasks/get", "tasks/cancel", "tasks/update"):
                with pytest.raises(RpcError) as refused:
                    await stranger.request(method, taskId=handle["taskId"], inputResponses={})
                assert refused.value.code == -32602
            with pytest.raises(RpcError) as plain:
                await HttpTaskClient(http, {}, mine).get(handle["taskId"])
    assert same["status"] == "input_required"
    assert plain.value.code == -32021
    assert plain.value.data["requiredCapabilities"]["extensions"] == {TASKS: {}}


async def test_a_wrong_name_in_the_header_is_refused(
    installation: Installation, opened: Open
) -> None:
    class Misnamed(HttpTaskClient):
        async def _exchange(self, message: dict[str, Any]) -> dict[str, Any]:
            self._token["mcp-name"] = "another"
            return await super()._exchange(message)

    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url)
        async with opened() as http:
            with pytest.raises(RpcError) as refused:
                await Misnamed(http).get("some")
    assert refused.value.code == -32020


async def test_a_client_without_tasks_is_asked_by_results(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url, after=1)
        async with opened() as http:
            client = HttpTaskClient(http, ASKED)
            asked = await client.order("Act.")
            key, question = next(iter(asked["inputRequests"].items()))
            state = asked["requestState"]
            wrong = (
                {"requestState": state[:-1] + ("0" if state[-1] != "0" else "1")},
                {"requestState": state, "arguments": {"sessionKey": "x"}},
                {"requestState": "task-unknown.1.2"},
            )
            for more in wrong:
                with pytest.raises(RpcError) as refused:
                    await client.order("Act.", inputResponses={key: YES}, **more)
                assert refused.value.code == -32602
            answer = await client.order("Act.", inputResponses={key: YES}, requestState=state)
            replayed = await client.order("Act.", inputResponses={key: YES}, requestState=state)
            elicited = await client.order("Ask.")
            (theirs,) = elicited["inputRequests"].values()
            key = next(iter(elicited["inputRequests"]))
            state = elicited["requestState"]
            declined = await client.order(
                "Ask.", inputResponses={key: {"action": "decline"}}, requestState=state
            )
    assert asked["resultType"] == "input_required"
    assert "Bern" in question["params"]["message"]
    assert said(answer) == said(replayed)
    assert "done" in said(answer)
    assert theirs["params"]["message"] == "MCP server 'fake' asks: Which one?"
    assert "decline" in said(declined)


async def test_without_either_what_needs_consent_waits_for_it(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url)
        async with opened() as http:
            answer = await HttpTaskClient(http, {}).order("Act.")
    assert "Waiting for your answer: Act (fake/act)?" in said(answer)


async def test_a_subscriber_is_told_of_every_change(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url)
        async with opened() as http:
            client, listener = HttpTaskClient(http), HttpTaskClient(http)
            handle = await client.order("Act.")
            wanted = {"taskIds": [handle["taskId"], "unknown"]}

            async def listen() -> None:
                await listener.request("subscriptions/listen", notifications=wanted)

            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                await until_told(listener, "input_required")
                await client.answer(await client.get(handle["taskId"]))
                await until_told(listener, "completed")
                group.cancel_scope.cancel()
    first, last = listener.notifications[0], listener.notifications[-1]
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["notifications"]["taskIds"] == [handle["taskId"]]
    assert last["params"]["taskId"] == handle["taskId"]
    assert "done" in said(last["params"]["result"])
    assert last["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == 1


async def until_told(listener: HttpTaskClient, status: str) -> None:
    with anyio.fail_after(60):
        while not any(  # noqa: ASYNC110 - told by another task of the server's
            one["params"].get("status") == status for one in listener.notifications
        ):
            await anyio.sleep(0.02)


async def test_who_declares_no_tasks_may_not_subscribe_to_them(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url)
        async with opened() as http:
            with pytest.raises(RpcError) as refused:
                await HttpTaskClient(http, {}).request(
                    "subscriptions/listen", notifications={"taskIds": ["x"]}
                )
    assert refused.value.code == -32021


async def test_a_gateway_that_was_killed_leaves_a_task_that_says_so(
    installation: Installation,
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url, after=1)
        async with installation.process() as process:
            info = await installation.running()
            async with httpx2.AsyncClient(
                base_url=info.url, headers=installation.headers, trust_env=False, timeout=60
            ) as http:
                client = HttpTaskClient(http)
                handle = await client.order("Wait.")
                await client.until_doing(handle["taskId"], "mcp_fake_slow")
            process.kill()
            await process.wait()
        async with (
            installation.here() as info,
            httpx2.AsyncClient(
                base_url=info.url, headers=installation.headers, trust_env=False, timeout=60
            ) as http,
        ):
            ended = await HttpTaskClient(http).get(handle["taskId"])
    assert ended["status"] == "failed"
    assert "may or may not have happened: mcp_fake_slow" in ended["error"]["message"]


async def test_many_polls_are_no_flood(installation: Installation, opened: Open) -> None:
    """Ten polls count as one request."""
    async with scripted_model(rules=RULES) as model:
        settings = {"ask": ["mcp_fake_act"]}
        limits = {"limits": {"requestsPerMinute": 100}}  # and ten at once
        installation.configure(model.url, {"fake": SERVER}, tools=settings, gateway=limits)
        async with opened() as http:
            client = HttpTaskClient(http)
            task = (await client.order("Act."))["taskId"]
            await client.until(task, "input_required")
            for _ in range(40):
                assert (await client.get(task))["status"] == "input_required"


async def test_an_order_with_an_attachment_goes_on_after_a_question(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(installation, model.url, after=1)
        async with opened() as http:
            client = HttpTaskClient(http, ASKED)
            file = {"data": "aGk=", "mimeType": "text/plain"}
            asked = await client.order("Act.", arguments={"files": [file]})
            key, state = next(iter(asked["inputRequests"])), asked["requestState"]
            answer = await client.order(
                "Act.",
                arguments={"files": [file]},
                inputResponses={key: YES},
                requestState=state,
            )
    assert "done" in said(answer)
