"""Hundreds of tools of real servers: what a request carries, and that it stays the same."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from tests.support.fake_server import server_entry

from openclaw.agent.budget import estimate
from openclaw.agent.toolpath.search import MOST_AT_FIRST, RARE
from openclaw.testing.scripted_model import Step, scripted_model

_CONTEXT = 200_000
_SCHEMA = {
    "type": "object",
    "properties": {
        "customer_id": {"type": "string", "description": "Which customer it is about."},
        "invoice_id": {"type": "string", "description": "Which of the customer's invoices."},
    },
    "required": ["customer_id"],
}


def server(count: int, what: str) -> dict[str, Any]:
    text = f"Does something with the {what} of the account and returns it as JSON, number "
    tools = [
        {"name": f"{what}_{number}", "description": f"{text}{number}.", "inputSchema": _SCHEMA}
        for number in range(count)
    ]
    return server_entry({"tools": tools})


async def test_a_first_request_with_five_hundred_tools_carries_at_most_four_thousand_tokens(
    home: Path,
) -> None:
    steps = [Step(calls=(("list", {}),)), Step(calls=(("list", {}),)), Step(text="done")]
    async with scripted_model(steps) as model:
        entry = {"id": "m", "contextWindow": _CONTEXT}
        provider = {"baseUrl": f"{model.url}/v1", "apiKey": "k-0123456789", "models": [entry]}
        servers = {"shop": server(300, "invoice"), "desk": server(198, "ticket")}
        config = {
            "models": {"providers": {"acme": provider}},
            "mcp": {"servers": servers | {"time": server(2, "clock")}},
        }
        state = home / ".openclaw"
        state.mkdir(mode=0o700)
        (state / "openclaw.json").write_text(json.dumps(config))
        (state / "openclaw.json").chmod(0o600)
        # A turn waits for a server that has answered before, however busy the machine is.
        await anyio.run_process([sys.executable, "-m", "openclaw", "mcp", "probe"], cwd=home)
        command = [sys.executable, "-m", "openclaw", "agent", "Find the invoices of a customer"]
        done = await anyio.run_process(command, check=False, cwd=home, stderr=subprocess.PIPE)
    assert done.stdout.decode().strip() == "done", done.stderr
    sent = [json.dumps(request.body["tools"], separators=(",", ":")) for request in model.requests]
    assert len(sent) == 3
    assert len(set(sent)) == 1
    assert estimate(sent[0]) <= MOST_AT_FIRST
    names = {tool["function"]["name"] for tool in json.loads(sent[0])}
    ours = {"read", "write", "edit", "list", "search", "web_fetch", "exec", "remember", "skill"}
    assert ours <= names
    assert {"mcp_time_clock_0", "mcp_time_clock_1", "tool_search", "run_code"} <= names
    assert len([name for name in names if name.startswith("mcp_shop_")]) >= 3
    search = next(t for t in json.loads(sent[0]) if t["function"]["name"] == "tool_search")
    for name in RARE - names:
        assert name in search["function"]["description"]
