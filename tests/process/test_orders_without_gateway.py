"""What becomes of orders to `openclaw mcp-server` when their gateway is killed, and comes back."""

import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway_kit import Installation
from tests.support.line_wire import Wire, wired
from tests.support.mcp_server_kit import until

from openclaw.gateway.lock import running_gateway
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

pytestmark = pytest.mark.subprocess
COMMAND = [str(Path(sys.executable).with_name("openclaw")), "mcp-server"]
HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}


async def answered(wire: Wire, number: int, message: str) -> str:
    arguments = {"message": message}
    params = {"name": "order_openclaw", "arguments": arguments}
    call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    await wire.send(call)
    if message == "hang":
        return ""
    answer = await wire.answer()
    assert answer["id"] == number
    return answer["result"]["content"][0]["text"]


async def test_an_order_whose_gateway_is_killed_fails_and_is_never_given_again(
    tmp_path: Path,
) -> None:
    installation = Installation(tmp_path)
    async with scripted_model(
        rules=[Step(when="hang", hang=True)], default=Step(text="Here.")
    ) as model:
        installation.configure(model.url)
        async with wired(COMMAND, installation.environ()) as wire:
            await wire.send(HELLO)
            await wire.answer()
            async with installation.process() as gateway:
                await installation.running()
                assert await answered(wire, 2, "through it") == "Here."
                await answered(wire, 3, "hang")
                await until(lambda: _asked(model, "hang") == 1)
                gateway.send_signal(signal.SIGKILL)
                await gateway.wait()
                refused = (await wire.answer())["result"]
            await until(lambda: running_gateway(installation.paths.gateway_lock) is None)
            assert await answered(wire, 4, "without it") == "Here."
            async with installation.process():
                await installation.running()
                assert await answered(wire, 5, "through the next one") == "Here."
    assert refused["isError"]
    assert "may or may not have been carried out" in refused["content"][0]["text"]
    assert _asked(model, "hang") == 1


def _asked(model: ScriptedModel, words: str) -> int:
    return sum(words in str(request.body["messages"][-1]) for request in model.requests)
