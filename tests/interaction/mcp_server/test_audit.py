"""Every MCP tool call is written down: who, what, how long, how much, and never the words unasked."""

import json
from typing import Any

import pytest
from tests.interaction.mcp_server.conftest import Connect, Setup
from tests.support.fake_server import server_entry

from openclaw.testing.scripted_model import Step, scripted_model

TOOL = {"name": "say", "inputSchema": {"type": "object"}, "does": {"text": "pomegranate é"}}


@pytest.mark.requirement("US-5.2")
@pytest.mark.parametrize("bodies", [False, True])
async def test_a_call_is_on_record(setup: Setup, connect: Connect, bodies: bool) -> None:
    call = ("mcp_fake_say", {"word": "quince"})
    async with scripted_model([Step(calls=(call,)), Step(text="Done.")]) as model:
        servers = {"fake": server_entry({"tools": [TOOL]})}
        setup.configure(model.url, servers, audit={"bodies": bodies})
        async with connect() as client:
            await client.call_tool("order_openclaw", {"message": "go", "sessionKey": "k"})
    path = setup.state / "logs" / "audit.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    before, line = path.read_text().splitlines()
    begun: dict[str, Any] = json.loads(before)
    record: dict[str, Any] = json.loads(line)
    assert begun["outcome"] == "started"
    assert begun["call"] == record["call"]
    assert ("quince" in before) is bodies
    assert record["agent"] == "main"
    assert record["session"] == "k"
    assert record["server"] == "fake"
    assert record["tool"] == "say"
    assert record["outcome"] == "ok"
    assert record["durationMs"] > 0
    assert record["argumentBytes"] == len('{"word":"quince"}')
    assert record["resultBytes"] == len("pomegranate é".encode())
    assert ("quince" in line) is bodies
    assert ("pomegranate" in line) is bodies
