"""Orders as tasks, given by programs of other makers."""

import json
import os
from pathlib import Path

import anyio
import pytest
from tests.e2e.conftest import NodePackages
from tests.support.gateway_kit import House
from tests.support.mcp_server_kit import fake_tool

from openclaw.testing.fake_server import server_entry
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
    house = House(tmp_path / "state")
    # It is run beside the packages: that is where Node looks for what it imports.
    script = node_packages.modules.parent / f"task_client.{os.getpid()}.mjs"
    script.write_text(SCRIPT.read_text())
    try:
        async with scripted_model(rules=RULES) as model:
            server = server_entry({"tools": [fake_tool("act", text="done")]})
            house.configure(model.url, {"fake": server}, tools={"ask": ["mcp_fake_act"]})
            async with house.process():
                url = f"{(await house.running()).url}/mcp"
                command = [str(node_packages.node), str(script), url, house.token, "Act."]
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
