"""The official conformance suite against our protocol layer, and against the gateway's `/mcp`.

The first has the suite's own tools. At the second, orders play them; what does not apply to a server
with one tool is in `conformance.json`, with the reason: the suite must fail there and nowhere else.
"""

import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import TextContent
from tests.e2e.conftest import NodePackages
from tests.support.conformance_bridge import RULES, TOOLS, bridged
from tests.support.conformance_server import suite_listening
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.mcp_server_kit import fake_tool

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

SUITE = "@modelcontextprotocol/conformance/dist/index.js"
REVISIONS = ("2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")  # those that the suite knows
NOTHING_CHECKED = {
    "tasks-status-notifications"
}  # the suite says that its check is yet to be written

SERVER = server_entry(
    {
        "tools": [
            fake_tool("act", text="acted"),
            fake_tool("round", text="the first of two rounds"),
            fake_tool("brief", sleep=4, text="computed"),
            fake_tool("fail", sleep=4, text="will fail"),
            fake_tool("slow", sleep=60, text="computed"),
            *TOOLS,
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


@dataclass(frozen=True)
class Verdicts:
    """The checks of every scenario that failed or warned, and the scenarios that checked nothing."""

    problems: dict[str, list[str]]
    empty: set[str]
    ran: set[str]


def verdicts(results: Path) -> Verdicts:
    problems, empty, ran = dict[str, list[str]](), set[str](), set[str]()
    for directory in results.iterdir():
        name = re.sub(r"-\d{4}-\d\d-\d\dT.*", "", directory.name).removeprefix("server-")
        checks: list[dict[str, Any]] = json.loads((directory / "checks.json").read_text())
        bad = sorted({one["id"] for one in checks if one["status"] in ("FAILURE", "WARNING")})
        own = [one for one in checks if one["id"] != "wire-schema-valid"]
        ran.add(name)
        if bad:
            problems[name] = bad
        elif not any(one["status"] == "SUCCESS" for one in own):
            empty.add(name)
    return Verdicts(problems, empty, ran)


async def judged(packages: NodePackages, address: str, results: Path, *options: str) -> Verdicts:
    command = [*packages.script(SUITE), "server", "--url", address, "--suite", "all", *options]
    done = await anyio.run_process(
        [*command, "--timeout", "60000", "-o", str(results)], check=False
    )
    assert b"=== SUMMARY ===" in done.stdout
    return verdicts(results)


async def listed(packages: NodePackages) -> set[str]:
    """The server scenarios that the suite says it has."""
    done = await anyio.run_process([*packages.script(SUITE), "list"])
    servers = done.stdout.decode().partition("Server scenarios")[2].partition("\n\n")[0]
    return set(re.findall(r"^  - (\S+)", servers, re.MULTILINE))


async def test_our_protocol_layer_passes_every_scenario_of_the_suite(
    tmp_path: Path, node_packages: NodePackages
) -> None:
    """The suite's own tools on `ServerConnection` and the ASGI adapter; a warning is a failure."""
    async with suite_listening() as address:
        found = await judged(node_packages, address, tmp_path / "results")
    assert found.problems == {}
    assert found.ran == await listed(node_packages)
    assert found.empty == NOTHING_CHECKED


@pytest.mark.parametrize("revision", REVISIONS)
async def test_our_protocol_layer_passes_what_a_revision_has(
    tmp_path: Path, node_packages: NodePackages, revision: str
) -> None:
    async with suite_listening() as address:
        options = ("--spec-version", revision)
        found = await judged(node_packages, address, tmp_path / "results", *options)
    assert found.problems == {}
    assert found.ran


async def test_the_gateway_fails_only_what_does_not_apply_to_it(
    address: str, tmp_path: Path, node_packages: NodePackages
) -> None:
    reasons: dict[str, dict[str, list[str]]] = json.loads(
        Path(__file__).with_name("conformance.json").read_text()
    )
    found = await judged(node_packages, address, tmp_path / "results")
    assert found.ran == await listed(node_packages)
    assert found.problems == {
        name: ids for group in reasons.values() for name, ids in group.items() if ids
    }
    assert found.empty == {
        name for group in reasons.values() for name, ids in group.items() if not ids
    }


async def test_the_server_takes_orders_there_too(address: str) -> None:
    async with Client(address) as client:
        answer = await client.call_tool("order_openclaw", {"message": "Hello."})
    assert answer.content == [TextContent(type="text", text="Heard: Hello.")]
