"""Where an order of an MCP client works."""

from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.context import ClientRequestContext
from tests.interaction.mcp_server.conftest import Connect, Setup

from openclaw.testing.scripted_model import Step, scripted_model

RULES = [
    Step(when="write", role="user", calls=(("write", {"path": "a.txt", "content": "made here"}),)),
    Step(when="attach", role="user", calls=(("attach", {"path": "a.txt"}),)),
    Step(role="tool", text="Here it is."),
]


@pytest.mark.parametrize(
    ("allowed", "uri", "expected"),
    [
        ("roots", "{there}", "there"),
        ("roots", "file:///nowhere/at/all", "state/workspace"),
        ("roots", "{home}", "state/workspace"),
        ("roots", "https://a.example/there", "state/workspace"),
        ("roots", f"file:///{'a' * 5_000}", "state/workspace"),
        ("agent", "{there}", "state/workspace"),
    ],
)
async def test_an_order_works_in_the_clients_root_if_it_may(
    setup: Setup,
    connect: Connect,
    tmp_path: Path,
    home: Path,
    allowed: str,
    uri: str,
    expected: str,
) -> None:
    there = tmp_path / "there"
    there.mkdir()
    named = uri.format(there=there.as_uri(), home=home.as_uri())

    async def roots(context: ClientRequestContext) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root.model_validate({"uri": named})])

    async with scripted_model(rules=RULES) as model:
        setup.configure(model.url, {}, mcpServer={"workspace": allowed})
        async with connect(list_roots_callback=roots, mode="legacy") as client:
            await client.call_tool("order_openclaw", {"message": "write it"})
            answer: Any = await client.call_tool("order_openclaw", {"message": "attach it"})
    assert (tmp_path / expected / "a.txt").read_text() == "made here"
    assert "made here" in str(answer.content[1])
