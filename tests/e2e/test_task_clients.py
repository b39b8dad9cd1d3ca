"""Orders as tasks, given by programs of other makers."""

import json
import os
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from tests.e2e.conftest import NodePackages
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.mcp_server_kit import fake_tool
from tests.support.task_client import YES

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

SCRIPT = Path(__file__).parent / "node" / "task_client.mjs"
RULES = (
    Step(role="user", calls=(("mcp_fake_act", {"place": "Bern"}),)),
    Step(role="tool", text="It said {last}"),
)


async def test_ext_tasks_and_the_typescript_sdk_see_a_task_to_its_end_with_a_question(
    tmp_path: Path, node_packages: NodePackages
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    installation = Installation(tmp_path / "state")
    # It is run beside the packages: that is where Node looks for what it imports.
    script = node_packages.modules.parent / f"task_client.{os.getpid()}.mjs"
    script.write_text(SCRIPT.read_text())
    try:
        async with scripted_model(rules=RULES) as model:
            server = server_entry({"tools": [fake_tool("act", text="done")]})
            installation.configure(model.url, {"fake": server}, tools={"ask": ["mcp_fake_act"]})
            async with installation.process():
                url = f"{(await installation.running()).url}/mcp"
                command = [str(node_packages.node), str(script), url, installation.token, "Act."]
                with anyio.fail_after(120):
                    ran = await anyio.run_process(command, check=False)
    finally:
        script.unlink()
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["era"] == "modern"
    assert told["seen"][:3] == ["tools/call", "tasks/get", "tasks/update"]
    assert "Bern" in told["asked"][0]
    assert "done" in told["result"]["content"][0]["text"]


class _Handle(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str
    poll_interval_ms: int


class _TaskParams(types.RequestParams):
    task_id: str


class _UpdateParams(_TaskParams):
    input_responses: dict[str, Any]


class _GetTask(types.Request[_TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    name_param = "taskId"


class _UpdateTask(types.Request[_UpdateParams, Literal["tasks/update"]]):
    method: Literal["tasks/update"] = "tasks/update"
    name_param = "taskId"


class _Shown(types.Result):
    status: str
    result: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = None


class _Tasks(ClientExtension):
    """What the Python SDK leaves to the program: polling a task, and answering it."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.seen: list[str] = []

    def claims(self) -> list[ResultClaim[_Handle]]:
        return [ResultClaim(result_type="task", model=_Handle, resolve=self._resolve)]

    async def _resolve(self, handle: _Handle, context: ClaimContext) -> types.CallToolResult:
        about = _TaskParams(task_id=handle.task_id)
        while True:
            shown = await context.session.send_request(_GetTask(params=about), _Shown)
            self.seen.append(shown.status)
            if shown.result is not None:
                return types.CallToolResult.model_validate(shown.result)
            if shown.status == "input_required":
                answers = dict.fromkeys(shown.input_requests or {}, YES)
                params = _UpdateParams(task_id=handle.task_id, input_responses=answers)
                await context.session.send_request(_UpdateTask(params=params), types.EmptyResult)
            await anyio.sleep(0.05)


async def _asked(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    raise AssertionError("the question is in the task")


async def test_the_python_sdk_sees_a_task_to_its_end_with_a_question(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    installation = Installation(tmp_path / "state")
    tasks = _Tasks()
    async with scripted_model(rules=RULES) as model:
        server = server_entry({"tools": [fake_tool("act", text="done")]})
        installation.configure(model.url, {"fake": server}, tools={"ask": ["mcp_fake_act"]})
        async with installation.process():
            url = f"{(await installation.running()).url}/mcp"
            async with (
                httpx2.AsyncClient(
                    headers=installation.headers, trust_env=False, timeout=60
                ) as http,
                Client(
                    streamable_http_client(url, http_client=http),
                    extensions=[tasks],
                    elicitation_callback=_asked,
                ) as client,
            ):
                result = await client.call_tool("order_openclaw", {"message": "Act."})
    assert "input_required" in tasks.seen
    assert tasks.seen[-1] == "completed"
    assert "done" in str(result.content)
