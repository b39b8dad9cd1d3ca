"""A server's request for a completion: refused unless configured, and then within its budget."""

from typing import Any

import pytest
from mcp_types import TextContent
from tests.interaction.mcp_server.conftest import Connect, Setup
from tests.support.fake_server import server_entry

from openclaw.testing.scripted_model import Step, scripted_model

TOOL: dict[str, Any] = {
    "name": "think",
    "inputSchema": {"type": "object"},
    "does": {"sampling": {}},
}
CALL: tuple[str, dict[str, Any]] = ("mcp_fake_think", {})


@pytest.mark.parametrize(
    ("settings", "answered"),
    [({}, False), ({"sampling": True}, True), ({"sampling": {"tokenBudget": 1}}, True)],
)
async def test_a_server_may_use_the_model_only_where_it_was_allowed_to(
    setup: Setup, connect: Connect, settings: dict[str, Any], answered: bool
) -> None:
    rules = [
        Step(when="Say something.", text="Plums."),
        Step(role="user", calls=(CALL,)),
        Step(role="tool", text="The tool said: {last}"),
    ]
    async with scripted_model(rules=rules) as model:
        servers = {"fake": server_entry({"tools": [TOOL]}, **settings)}
        setup.configure(model.url, servers, mcpServer={"toolResults": "all"})
        async with connect() as client:
            first = await client.call_tool("order_openclaw", {"message": "go"})
            second = await client.call_tool("order_openclaw", {"message": "go"})
    texts = [
        block.text
        for one in (first, second)
        for block in one.content[:1]
        if isinstance(block, TextContent)
    ]
    within_budget = settings.get("sampling") is True
    assert [("Plums." in text) for text in texts] == [answered, answered and within_budget]
    asked = [r for r in model.requests if r.last_text == "Say something."]
    assert len(asked) == sum([answered, answered and within_budget])
    assert all(not request.tools for request in asked)
    assert all(request.body["max_completion_tokens"] <= 50 for request in asked)
