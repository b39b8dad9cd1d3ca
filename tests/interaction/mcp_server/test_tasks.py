"""Orders as tasks over stdio: with a gateway they outlive the process, without one they end with it."""

from typing import Any

import pytest
from tests.interaction.mcp_server.conftest import BIN, Setup
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.mcp_server_kit import fake_tool
from tests.support.task_client import ASKED, YES, RpcError, stdio_task_client

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

SERVER = server_entry({"tools": [fake_tool("act", text="done"), fake_tool("slow", sleep=600)]})
RULES = [
    Step(when="Act.", role="user", calls=(("mcp_fake_act", {"place": "Bern"}),)),
    Step(when="Wait.", role="user", calls=(("mcp_fake_slow", {}),)),
    Step(role="tool", text="It said {last}"),
]
SERVE = [str(BIN / "openclaw"), "mcp-server"]


def configure(setup: Setup, url: str, after: int = 60_000) -> None:
    settings = {"tools": {"ask": ["mcp_fake_act"]}, "mcpServer": {"taskAfterMs": after}}
    setup.configure(url, {"fake": SERVER}, **settings)


def said(result: dict[str, Any]) -> str:
    return "".join(block["text"] for block in result["content"] if block["type"] == "text")


async def test_a_task_without_a_gateway_is_read_by_another_process_and_ends_with_its_own(
    setup: Setup,
) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(setup, model.url, after=1)
        async with stdio_task_client(SERVE, setup.environ) as reader:
            async with stdio_task_client(SERVE, setup.environ) as client:
                asked = await client.order("Act.")
                question = await reader.until(asked["taskId"], "input_required")
                await reader.answer(question)  # from another process
                answered = await client.until(asked["taskId"])
                waiting = await client.order("Wait.")
                await reader.until_doing(waiting["taskId"], "mcp_fake_slow")
                client.wire.process.kill()
                await client.wire.process.wait()
            failed = await reader.get(waiting["taskId"])
            kept = await reader.get(asked["taskId"])
            with pytest.raises(RpcError) as unknown:
                await reader.get("task-unknown")
    assert (answered["status"], kept["result"]) == ("completed", answered["result"])
    assert "done" in said(answered["result"])
    assert failed["status"] == "failed"
    assert "may or may not have happened: mcp_fake_slow" in failed["error"]["message"]
    assert unknown.value.code == -32602


async def test_a_task_is_cancelled_from_another_process(setup: Setup) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(setup, model.url, after=1)
        async with (
            stdio_task_client(SERVE, setup.environ) as client,
            stdio_task_client(SERVE, setup.environ) as other,
        ):
            handle = await client.order("Wait.")
            await other.request("tasks/cancel", taskId=handle["taskId"])
            ended = await other.until(handle["taskId"])
    assert ended["status"] == "cancelled"


async def test_a_client_that_leaves_ends_its_tasks_where_no_gateway_runs(setup: Setup) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(setup, model.url, after=1)
        async with stdio_task_client(SERVE, setup.environ) as client:
            handle = await client.order("Wait.")
            await client.wire.stdin.aclose()
            await client.wire.process.wait()
        async with stdio_task_client(SERVE, setup.environ) as reader:
            ended = await reader.get(handle["taskId"])
    assert ended["status"] == "failed"
    assert "was stopped" in ended["statusMessage"]


async def test_with_a_gateway_a_task_outlives_its_client_and_its_process(setup: Setup) -> None:
    async with scripted_model(rules=RULES) as model:
        configure(setup, model.url)
        async with Installation(setup.state).here():
            async with stdio_task_client(SERVE, setup.environ) as client:
                handle = await client.order("Act.")
                client.wire.process.kill()
                await client.wire.process.wait()
            async with stdio_task_client(SERVE, setup.environ) as later:
                await later.answer(await later.until(handle["taskId"], "input_required"))
                ended = await later.until(handle["taskId"])
    assert (ended["status"], "done" in said(ended["result"])) == ("completed", True)


@pytest.mark.parametrize("gateway", [True, False])
async def test_a_client_of_the_newest_revision_is_asked_by_results(
    setup: Setup, gateway: bool
) -> None:
    async def rounds() -> dict[str, Any]:
        async with stdio_task_client(SERVE, setup.environ, ASKED) as client:
            asked = await client.order("Act.", _meta={"progressToken": "p"})
            assert asked["resultType"] == "input_required"
            responses = dict.fromkeys(asked["inputRequests"], YES)
            state = asked["requestState"]
            told.extend(client.notifications)
            return await client.order("Act.", inputResponses=responses, requestState=state)

    told: list[dict[str, Any]] = []
    async with scripted_model(rules=RULES) as model:
        configure(setup, model.url)
        if gateway:
            async with Installation(setup.state).here():
                answer = await rounds()
        else:
            answer = await rounds()
    assert "done" in said(answer)
    assert told[0]["method"] == "notifications/progress"
    assert told[0]["params"]["progressToken"] == "p"
