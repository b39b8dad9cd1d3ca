"""The official conformance suite against the gateway's `/mcp`, its tools played by orders.

What does not apply to a server with one tool stands in `conformance.json`, with the reason: the suite
must fail there and nowhere else.
"""

import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import TextContent
from tests.e2e.conftest import NodePackages
from tests.support.conformance_bridge import RULES, bridged
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.mcp_server_kit import fake_tool

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

SUITE = "@modelcontextprotocol/conformance/dist/index.js"


SERVER = server_entry(
    {
        "tools": [
            fake_tool("act", text="acted"),
            fake_tool("round", text="the first of two rounds"),
            fake_tool("brief", sleep=4, text="computed"),
            fake_tool("fail", sleep=4, text="will fail"),
            fake_tool("slow", sleep=60, text="computed"),
        ]
    }
)


@pytest.fixture
async def address(tmp_path: Path) -> AsyncGenerator[str]:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    installation = Installation(state)
    async with scripted_model(rules=RULES, default=Step(text="Heard: {last}")) as model:
        installation.configure(
            model.url,
            {"fake": SERVER},
            tools={"ask": ["mcp_fake_act", "mcp_fake_round"]},
            mcpServer={"taskAfterMs": 3000},
        )
        async with installation.here() as info, bridged(info.url, installation.headers) as url:
            async with Client(url) as client:
                await client.call_tool("order_openclaw", {"message": "Load everything."})
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
        [*command, "--timeout", "60000", "-o", str(results)], check=False
    )
    assert b"=== SUMMARY ===" in done.stdout
    found = verdicts(results)
    assert set(found) == await listed(node_packages)
    assert {name: ids for name, ids in found.items() if ids} == expected


async def test_the_server_takes_orders_there_too(address: str) -> None:
    async with Client(address) as client:
        answer = await client.call_tool("order_openclaw", {"message": "Hello."})
    assert answer.content == [TextContent(type="text", text="Heard: Hello.")]
