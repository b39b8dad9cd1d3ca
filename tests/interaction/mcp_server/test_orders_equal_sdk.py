"""An order is answered with the same bytes whether or not the SDK takes it."""

import base64
import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from tests.interaction.mcp_server.conftest import BIN, Setup
from tests.support.fake_server import server_entry
from tests.support.fake_tools import silent_wav
from tests.support.line_wire import wired
from tests.support.mcp_server_kit import fake_tool, until

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN)
# The SDK answers this, and everything after it.
ODD = {"jsonrpc": "2.0", "id": "odd", "method": "resources/list"}
SCHEMA = {"type": "object", "properties": {"colour": {"type": "string"}}}
SERVER = {"tools": [fake_tool("ask", elicit={"message": "Which?", "requestedSchema": SCHEMA})]}
RULES = [
    Step(role="tool", text="Here: {last}"),
    Step(role="user", when="attach", calls=(("attach", {"path": "a.png"}),)),
    Step(role="user", when="play", calls=(("attach", {"path": "a.wav"}),)),
    Step(role="user", when="file", calls=(("attach", {"path": "a.csv"}),)),
    Step(role="user", when="ask", calls=(("mcp_fake_ask", {}),)),
    Step(role="user", when="signs", text='"é\u2028\U0001f600\\ \x7f\x1f </script>'),
]
ORDERS: dict[str, dict[str, Any]] = {
    "plain": {"message": "hi"},
    "signs": {"message": "signs \u2028 \\ é"},
    "image": {"message": "attach"},
    "sound": {"message": "play"},
    "text file": {"message": "file"},
    "question": {"message": "ask"},
    "empty": {"message": " "},
    "no message": {"sessionKey": "k"},
    "key": {"message": "hi", "sessionKey": ""},
    "more": {"message": "hi", "further": "x"},
    "attachments": {
        "message": "look",
        "images": [{"data": base64.b64encode(b"GIF89a").decode(), "mimeType": "image/png"}],
    },
    "type": {"message": "look", "files": [{"data": "", "mimeType": "image/svg+xml"}]},
    "base64": {"message": "look", "files": [{"data": "?", "mimeType": "text/plain"}]},
}


def hello(version: str, **capabilities: Any) -> list[dict[str, Any]]:
    info = {"name": "t", "version": "1"}
    if version == MODERN:
        asked = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
        return [{**asked, "params": {"_meta": envelope()}}]
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": info}
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    return [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, ready]


def envelope() -> dict[str, Any]:
    return {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}


def order(number: Any, version: str, **arguments: Any) -> dict[str, Any]:
    meta = {"progressToken": f"p{number}", **(envelope() if version == MODERN else {})}
    params = {"name": "order_openclaw", "arguments": arguments, "_meta": meta}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


async def said(setup: Setup, first: Sequence[Any], orders: Sequence[Any]) -> list[bytes]:
    """The lines of the answers, and before each the progress; frames have random names."""
    found: list[bytes] = []
    async with wired([str(BIN / "openclaw"), "mcp-server"], setup.environ) as wire:
        await wire.send(*first)
        for one in orders:
            await wire.send(one)
            while not found or json.dumps(one["id"]).encode() not in found[-1][:40]:
                found.append(await wire.line())
                if b'"method":"elicitation/create"' in found[-1]:
                    asked = json.loads(found[-1])["id"]
                    answer = {"action": "accept", "content": {"colour": "red"}}
                    await wire.send({"jsonrpc": "2.0", "id": asked, "result": answer})
    names = rb'(?<=[, ]id=\\")[0-9a-f]{16,}|"id":("openclaw-\d+"|\d)(?=,"method")'
    return [re.sub(names, b"*", line) for line in found]


@pytest.mark.parametrize("version", REVISIONS)
async def test_an_order_is_answered_as_the_sdk_answers_it(setup: Setup, version: str) -> None:
    orders = [order(f"n{n}", version, **one) for n, one in enumerate(ORDERS.values())]
    first = hello(version, elicitation={}, roots={})
    odd = {**ODD, "params": {"_meta": envelope()}} if version == MODERN else ODD
    async with scripted_model(rules=RULES, default=Step(text="Done.")) as model:
        servers = {"fake": server_entry(SERVER)}
        setup.configure(model.url, servers, mcpServer={"workspace": "agent"})
        (setup.workspace / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(16))
        (setup.workspace / "a.wav").write_bytes(base64.b64decode(silent_wav()))
        (setup.workspace / "a.csv").write_text("é,b")
        ours = await said(setup, first, orders)
        sdks = await said(setup, [*first, odd], orders)
    assert [line for line in sdks if b'"odd"' not in line] == ours
    assert len(ours) > len(orders)


async def test_what_concerns_an_order_reaches_it_also_after_the_sdk_took_over(
    setup: Setup,
) -> None:
    """A question that was asked before is answered, and another order is cancelled."""
    first = hello("2025-11-25", elicitation={})
    rules = [Step(role="tool", text="It was {last}"), RULES[4], Step(when="hang", hang=True)]
    async with scripted_model(rules=rules, default=Step(text="Done.")) as model:
        setup.configure(model.url, {"fake": server_entry(SERVER)})
        async with wired([str(BIN / "openclaw"), "mcp-server"], setup.environ) as wire:
            call = [order(n, "2025-11-25", message=words) for n, words in ((2, "ask"), (3, "hang"))]
            for one in call:
                del one["params"]["_meta"]
            await wire.send(*first, call[0])
            asked = (await wire.answers(2))[1]
            await wire.send(call[1])
            await until(lambda: len(model.requests) == 2)
            await wire.send(ODD)
            assert (await wire.answer())["id"] == "odd"
            result = {"action": "accept", "content": {"colour": "red"}}
            told = {"method": "notifications/cancelled", "params": {"requestId": 3}}
            await wire.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})
            answer = await wire.answer()
            await wire.send({"jsonrpc": "2.0", **told}, order(4, "2025-11-25", message="hi"))
            last = [await wire.answer(), await wire.answer()]
            await wire.stdin.aclose()
            with pytest.raises(anyio.IncompleteRead):
                await wire.answer()
    assert answer["id"] == 2
    assert "red" in answer["result"]["content"][0]["text"]
    assert last[-1]["id"] == 4  # behind its progress


ACCEPTED = b'"result":{"action":"accept","content":{"colour":"%b"}}'
DECLINE = '{\\"action\\": \\"decline\\"}'
ODD_ANSWERS = {
    "half a pair": (ACCEPTED % b"r\\ud800d", DECLINE),
    "a stray byte": (ACCEPTED % b"r\xffd", "r\\\\ufffdd"),  # it costs that character
    "also an error": (b'"error":{"code":1,"message":"no"},' + ACCEPTED % b"red", DECLINE),
    "no object": (b'"result":{"action":"accept","content":["red"]}', DECLINE),
}


@pytest.mark.parametrize("name", ODD_ANSWERS)
async def test_an_odd_answer_to_a_question_does_not_keep_its_order_waiting(
    setup: Setup, name: str
) -> None:
    said, understood = ODD_ANSWERS[name]
    rules = [Step(role="tool", text="It was {last}"), RULES[4]]
    one = order(2, "2025-11-25", message="ask")
    del one["params"]["_meta"]
    async with scripted_model(rules=rules) as model:
        setup.configure(model.url, {"fake": server_entry(SERVER)})
        async with wired([str(BIN / "openclaw"), "mcp-server"], setup.environ) as wire:
            await wire.send(*hello("2025-11-25", elicitation={}), one)
            asked = json.dumps((await wire.answers(2))[1]["id"]).encode()
            await wire.send(b'{"jsonrpc":"2.0","id":%b,%b}' % (asked, said))
            answer = await wire.answer()
    assert answer["id"] == 2
    assert understood in json.dumps(answer["result"]["content"][0]["text"])


async def test_an_order_goes_on_if_its_client_can_no_longer_be_asked(setup: Setup) -> None:
    rules = [Step(role="tool", text="It was {last}"), replace(RULES[4], delay=0.1)]
    lines = [*hello("2025-11-25", elicitation={}), order(2, "2025-11-25", message="ask")]
    command, pipe = [str(BIN / "openclaw"), "mcp-server"], subprocess.PIPE
    async with scripted_model(rules=rules) as model:
        setup.configure(model.url, {"fake": server_entry(SERVER)})
        with subprocess.Popen(command, env=setup.environ, stdin=pipe, stdout=pipe) as server:
            assert server.stdin is not None
            assert server.stdout is not None
            server.stdin.write(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
            server.stdin.flush()
            try:
                await until(lambda: len(model.requests) == 1)
                server.stdout.close()
                await until(lambda: len(model.requests) == 2)
            finally:
                server.stdin.close()
    assert "decline" in model.requests[1].last_text


async def test_an_order_can_be_cancelled_behind_a_request_for_the_sdk(setup: Setup) -> None:
    """All of it comes before the server is ready; the last order waits for the session."""
    hanging = order(2, "2025-11-25", message="hang", sessionKey="k")
    next_one = order(3, "2025-11-25", message="hi", sessionKey="k")
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": 2}}
    rules = [Step(when="hang", hang=True)]
    async with scripted_model(rules=rules, default=Step(text="Done.")) as model:
        setup.configure(model.url, {})
        async with wired([str(BIN / "openclaw"), "mcp-server"], setup.environ) as wire:
            told = {"jsonrpc": "2.0", **cancelled}
            await wire.send(*hello("2025-11-25"), hanging, ODD, told, next_one)
            found = [await wire.answer()]
            while found[-1].get("id") != 3:
                found.append(await wire.answer())
    assert 2 not in [one.get("id") for one in found]


@pytest.mark.parametrize("before", [(), (ODD,)])
@pytest.mark.parametrize("behind", [(), ({**ODD, "id": "behind"},)])
async def test_an_order_that_runs_when_the_client_hangs_up_is_answered_with_an_error(
    setup: Setup, before: Sequence[Any], behind: Sequence[Any]
) -> None:
    one = order(2, "2025-11-25", message="hi")
    del one["params"]["_meta"]
    async with scripted_model(default=Step(hang=True)) as model:
        setup.configure(model.url, {})
        async with wired([str(BIN / "openclaw"), "mcp-server"], setup.environ) as wire:
            await wire.send(*hello("2025-11-25"), *before)
            await wire.answers(1 + len(before))
            await wire.send(one)
            await until(lambda: len(model.requests) == 1)
            await wire.send(*behind)
            await wire.answers(len(behind))
            await wire.stdin.aclose()
            answer = await wire.answer()
            await wire.process.wait()
    assert answer["error"] == {"code": -32000, "message": "Connection closed"}
