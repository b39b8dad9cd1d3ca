"""The official conformance suite against our server, the same object, served over HTTP on loopback.

What does not apply to a server with one tool stands in `conformance.json`, with the reason: the suite
must fail there and nowhere else.
"""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from mcp import Client
from mcp_types import TextContent
from tests.e2e.conftest import NodePackages

from openclaw.agent.port import Agent
from openclaw.config.load import load_config
from openclaw.mcp_server.server import open_server
from openclaw.runtime.runtime import open_runtime
from openclaw.secrets.redactor import Redactor
from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

SUITE = "@modelcontextprotocol/conformance/dist/index.js"


@asynccontextmanager
async def served(state: Path) -> AsyncGenerator[str]:
    """Our server with a whole agent behind it, at an address."""
    environ = {"OPENCLAW_STATE_DIR": str(state)}

    @asynccontextmanager
    async def open_agent() -> AsyncGenerator[Agent]:
        async with open_runtime(load_config(None, environ), environ, Redactor()) as runtime:
            yield runtime.agent

    async with open_server("openclaw", open_agent) as server, anyio.create_task_group() as tasks:
        config = uvicorn.Config(server.streamable_http_app(), port=0, log_level="error")
        host = uvicorn.Server(config)
        tasks.start_soon(host.serve)
        with anyio.fail_after(20):
            while not host.started:  # noqa: ASYNC110 (it has no event for this)
                await anyio.sleep(0.01)
        yield f"http://127.0.0.1:{host.servers[0].sockets[0].getsockname()[1]}/mcp"
        host.should_exit = True


@pytest.fixture
async def address(tmp_path: Path) -> AsyncGenerator[str]:
    async with scripted_model(default=Step(text="Heard: {last}")) as model:
        provider = {"baseUrl": f"{model.url}/v1", "models": [{"id": "m"}]}
        config = {
            "models": {"providers": {"acme": provider}},
            "dataflow": {"mode": "off"},
            "agents": {"defaults": {"model": "acme/m", "workspace": str(tmp_path)}},
        }
        (tmp_path / "openclaw.json").write_text(json.dumps(config))
        async with served(tmp_path) as url:
            yield url


def verdicts(results: Path) -> dict[str, list[str]]:
    """The failed checks of every scenario that ran; none where it passed."""
    found: dict[str, list[str]] = {}
    for directory in results.iterdir():
        name = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", directory.name).removeprefix("server-")
        checks: list[dict[str, Any]] = json.loads((directory / "checks.json").read_text())
        found[name] = sorted(check["id"] for check in checks if check["status"] == "FAILURE")
    return found


async def listed(packages: NodePackages) -> set[str]:
    """The server scenarios that the suite says it has."""
    done = await anyio.run_process([*packages.script(SUITE), "list"])
    servers = done.stdout.decode().partition("Server scenarios")[2].partition("\n\n")[0]
    return set(re.findall(r"^  - (\S+)", servers, re.MULTILINE))


async def test_the_suite_fails_only_where_it_does_not_apply(
    address: str, tmp_path: Path, node_packages: NodePackages
) -> None:
    reasons: dict[str, dict[str, list[str]]] = json.loads(
        Path(__file__).with_name("conformance.json").read_text()
    )
    expected = {name: ids for group in reasons.values() for name, ids in group.items()}
    results = tmp_path / "results"
    command = [*node_packages.script(SUITE), "server", "--url", address, "--suite", "all"]
    done = await anyio.run_process(
        [*command, "--timeout", "20000", "-o", str(results)], check=False
    )
    assert b"=== SUMMARY ===" in done.stdout
    found = verdicts(results)
    assert set(found) == await listed(node_packages)
    assert {name: ids for name, ids in found.items() if ids} == expected


async def test_the_server_takes_orders_there_too(address: str) -> None:
    async with Client(address) as client:
        answer = await client.call_tool("order_openclaw", {"message": "Hello."})
    assert answer.content == [TextContent(type="text", text="Heard: Hello.")]
