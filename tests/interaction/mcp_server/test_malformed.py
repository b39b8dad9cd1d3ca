"""Whatever is no message is answered, costs nothing but itself, and holds up no order."""

import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest
from tests.interaction.mcp_server.conftest import BIN, Setup
from tests.support import line_wire
from tests.support.line_wire import Wire

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

MB = 1 << 20
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
BY_THREADS = """
from openclaw.cli.commands.mcp_server import load_first
from openclaw.mcp_server.options import Options
from openclaw.mcp_server.order_tool import known_answers, offer_of
from openclaw.mcp_server.stdio import serve

serve(
    offer_of("openclaw"),
    known_answers("openclaw"),
    lambda: load_first("openclaw", Options()),
    by_threads=True,
)
"""
WAYS = {
    "watching": [str(BIN / "openclaw"), "mcp-server"],
    "by threads": [sys.executable, "-c", BY_THREADS],
}
both_ways = pytest.mark.parametrize("way", WAYS)


def ask(number: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def hello(version: str = "2025-11-25") -> dict[str, Any]:
    client = {"name": "t", "version": "1"}
    return ask("hello", "initialize", protocolVersion=version, capabilities={}, clientInfo=client)


def order(number: Any, message: str = "go") -> dict[str, Any]:
    return ask(number, "tools/call", name="order_openclaw", arguments={"message": message})


def wired(setup: Setup, way: str) -> AbstractAsyncContextManager[Wire]:
    return line_wire.wired(WAYS[way], setup.environ)


def code_of(answer: Any) -> tuple[Any, int]:
    return answer["id"], answer["error"]["code"]


def words(answer: Any) -> str:
    return answer["result"]["content"][0]["text"]


RUBBISH: Sequence[tuple[Any, tuple[Any, int]]] = [
    (b"not json", (None, -32700)),
    (b'{"jsonrpc":"2.0",', (None, -32700)),
    (b"\xff\xfe\x00", (None, -32700)),
    ([], (None, -32600)),
    ([ask(1, "ping")], (None, -32600)),
    (5, (None, -32600)),
    ("ping", (None, -32600)),
    ({"jsonrpc": "2.0", "id": 7}, (7, -32600)),
    ({"jsonrpc": "2.0", "id": 8, "method": "ping", "params": []}, (8, -32602)),
]


@both_ways
async def test_every_malformed_line_is_answered_and_no_order_is_lost(
    setup: Setup, way: str
) -> None:
    slow = Step(text="All done.", when="work", delay=1)
    async with scripted_model(rules=[slow], default=Step(text="Here.")) as model:
        setup.configure(model.url, {})
        async with wired(setup, way) as wire:
            await wire.send(hello(), READY, order("slow", "work"))
            assert (await wire.answer())["id"] == "hello"
            while not model.requests:  # noqa: ASYNC110 (another process has no event of ours)
                await anyio.sleep(0.01)
            await wire.send(*(line for line, _ in RUBBISH), order("small"))
            answers = await wire.answers(len(RUBBISH) + 2)
            await wire.stdin.aclose()
            assert await wire.process.wait() == 0
    rest = [one for one in answers if one["id"] in ("slow", "small")]
    told = [one for one in answers if one not in rest]
    assert [code_of(one) for one in told] == [code for _, code in RUBBISH]
    assert {one["id"]: words(one) for one in rest} == {"slow": "All done.", "small": "Here."}


@both_ways
async def test_malformed_lines_before_anything_else_are_answered_too(
    setup: Setup, way: str
) -> None:
    async with wired(setup, way) as wire:
        await wire.send(*(line for line, _ in RUBBISH))
        told = await wire.answers(len(RUBBISH))
        await wire.stdin.aclose()
        assert await wire.process.wait() == 0
    assert [code_of(one) for one in told] == [code for _, code in RUBBISH]


@pytest.mark.parametrize("first", [b"not json", b"{", b'{"jsonrpc":"2.0",', b"{'a': 1}", b'["a'])
async def test_rubbish_and_the_end_at_once_are_still_answered(setup: Setup, first: bytes) -> None:
    async with wired(setup, "watching") as wire:
        await wire.stdin.send(first + b"\nnor this")
        await wire.stdin.aclose()
        told = await wire.answers(2)
        assert await wire.process.wait() == 0
    assert [code_of(one) for one in told] == [(None, -32700)] * 2


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_a_batch_is_refused_where_the_revision_has_none_and_the_next_line_is_read(
    setup: Setup, version: str
) -> None:
    async with wired(setup, "watching") as wire:
        await wire.send(hello(version), READY)
        await wire.answer()
        await wire.send([ask(1, "ping")], ask(2, "ping"))
        assert code_of(await wire.answer()) == (None, -32600)
        assert (await wire.answer())["id"] == 2


async def test_a_batch_is_answered_by_a_batch_at_the_revision_that_has_them(setup: Setup) -> None:
    async with wired(setup, "watching") as wire:
        await wire.send(hello("2025-03-26"))
        await wire.answer()
        await wire.send([READY, ask(1, "tools/list"), 7, ask(2, "ping"), ask(3, "nope")])
        answers = {one["id"]: one for one in await wire.answer()}
        assert answers[1]["result"]["tools"][0]["name"] == "order_openclaw"
        assert answers[2]["result"] == {}
        assert code_of(answers[3]) == (3, -32601)
        assert code_of(answers[None]) == (None, -32600)


@both_ways
async def test_a_line_above_the_limit_is_refused_by_its_id_and_the_next_is_read(
    setup: Setup, way: str
) -> None:
    async with wired(setup, way) as wire:
        await wire.send(hello(), READY)
        await wire.answer()
        await wire.stdin.send(b'{"jsonrpc":"2.0","id":"huge","method":"tools/call","params":{"x":"')
        piece = b"x" * (8 * MB)
        for _ in range(49):
            await wire.stdin.send(piece)
        await wire.stdin.send(b'"}}\n')
        await wire.send(ask(2, "ping"))
        assert code_of(await wire.answer()) == ("huge", -32600)
        assert (await wire.answer())["id"] == 2


async def test_a_client_that_reads_no_answers_to_its_rubbish_does_not_keep_the_server(
    setup: Setup,
) -> None:
    async with wired(setup, "watching") as wire:
        await wire.send(hello(), READY)
        await wire.answer()
        for _ in range(30):
            await wire.stdin.send(b"[]\n" * 1000)
        await wire.stdin.aclose()
        with anyio.fail_after(60):
            await wire.process.wait()


async def test_a_malformed_answer_to_our_question_lets_the_order_go_on(setup: Setup) -> None:
    from tests.support.fake_server import server_entry
    from tests.support.mcp_server_kit import fake_tool

    asking = server_entry({"tools": [fake_tool("ask", elicit={"message": "Which?"})]})
    steps = [Step(calls=(("mcp_asker_ask", {}),)), Step(text="Went on.")]
    async with scripted_model(steps) as model:
        setup.configure(model.url, {"asker": asking})
        async with wired(setup, "watching") as wire:
            greeting = hello()
            greeting["params"]["capabilities"] = {"elicitation": {"form": {}}}
            await wire.send(greeting, READY, order(1))
            await wire.answer()
            question = await wire.answer()
            assert question["method"] == "elicitation/create"
            await wire.send({"jsonrpc": "2.0", "id": question["id"], "result": "what?"})
            assert words(await wire.answer()) == "Went on."
