"""A chat that finds a gateway lets it answer, with the gateway's prompts and tools."""

import sys

import anyio
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.mcp_server_kit import fake_tool

from openclaw.testing.scripted_model import Step, scripted_model

GREETING = {
    "name": "greet",
    "arguments": [{"name": "who", "required": True}],
    "messages": [{"role": "user", "content": {"type": "text", "text": "greet them"}}],
}
SERVER = server_entry({"tools": [fake_tool("echo")], "prompts": [GREETING]})
TYPED = b"one\n/tools\n/model\n/help\n/fake:greet who=Ada\n/fake:greet\n"


async def test_a_chat_lets_the_gateway_answer(installation: Installation) -> None:
    async with scripted_model(default=Step(text="You said {last}")) as model:
        installation.configure(model.url, servers={"fake": SERVER})
        async with installation.here() as info:
            done = await anyio.run_process(
                [sys.executable, "-m", "openclaw", "chat"],
                input=TYPED,
                env=installation.environ(),
                check=False,
            )
            assert info.url
        asked = [request.last_text for request in model.requests]
    said, notes = done.stdout.decode(), done.stderr.decode()
    assert said.startswith("You said one\n")
    assert asked[0] == "one"
    assert "From: fake\n---\ngreet them\n" in asked[1]
    assert "mcp_fake_echo: " in notes
    assert "\n  read: " in notes
    assert "/fake:greet who=…" in notes
    assert "Error: /fake:greet needs who" in notes
    assert done.returncode == 1
