"""One order's whole way: client, server, agent, model over HTTP, MCP server, and back."""

import pytest
from mcp_types import TextContent
from tests.interaction.mcp_server.conftest import BIN, Connect, Setup
from tests.support.gateway_kit import knows

from openclaw.testing.scripted_model import Step, scripted_model


@pytest.mark.requirement("US-2.2")
async def test_an_order_is_answered_with_what_a_real_server_said(
    setup: Setup, connect: Connect
) -> None:
    call = ("mcp_time_get_current_time", {"timezone": "Asia/Tokyo"})
    async with scripted_model([Step(calls=(call,)), Step(text="Done: {last}")]) as model:
        setup.configure(model.url, {"time": {"command": str(BIN / "mcp-server-time")}})
        knows(setup.state, BIN / "mcp-server-time")
        async with connect() as client:
            result = await client.call_tool("order_openclaw", {"message": "What time is it?"})
    assert not result.is_error
    [block] = result.content
    assert isinstance(block, TextContent)
    assert "Source: MCP Server" in block.text
    assert "From: time" in block.text
    assert '"timezone": "Asia/Tokyo"' in block.text
    assert model.requests[0].last_text == "What time is it?"
    assert model.requests[0].headers["authorization"] == "Bearer acme-key-0123456789"
