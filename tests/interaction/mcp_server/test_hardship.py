"""Large messages, lagging and dying clients, killed servers, and libraries that print."""

import base64
import json
import os
import signal
import sqlite3
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from tests.interaction.mcp_server.conftest import BIN, Connect, Setup
from tests.support import line_wire
from tests.support.line_wire import Wire

from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

MB = 1 << 20
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
# A whole image; what follows it is ignored by whoever decodes it.
PNG_HEAD = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def order(number: int, **arguments: Any) -> dict[str, Any]:
    params = {"name": "order_openclaw", "arguments": {"message": "go", **arguments}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def image(size: int) -> dict[str, str]:
    data = base64.b64encode(PNG_HEAD + os.urandom(size - len(PNG_HEAD)))
    return {"data": data.decode(), "mimeType": "image/png"}


def wired(setup: Setup, **environ: str) -> AbstractAsyncContextManager[Wire]:
    return line_wire.wired([str(BIN / "openclaw"), "mcp-server"], setup.environ | environ)


def words(answer: dict[str, Any]) -> str:
    return answer["result"]["content"][0]["text"]


async def test_a_small_order_is_answered_while_a_huge_one_is_worked_on(setup: Setup) -> None:
    slow = Step(text="All seen.", when="look", delay=0.5)
    async with scripted_model(rules=[slow], default=Step(text="Here.")) as model:
        setup.configure(model.url, {})
        async with wired(setup) as wire:
            huge = order(2, message="look", images=[image(8 * MB) for _ in range(3)])
            await wire.send(HELLO, READY)
            assert (await wire.answer())["id"] == 1
            await wire.send(huge, order(3))
            answers = [await wire.answer(), await wire.answer()]
    assert [(one["id"], words(one)) for one in answers] == [(3, "Here."), (2, "All seen.")]


async def test_everything_sent_at_once_at_the_start_is_answered(setup: Setup) -> None:
    async with scripted_model(default=Step(text="Here.")) as model:
        setup.configure(model.url, {})
        async with wired(setup) as wire:
            attached = [image(6 * MB) for _ in range(3)]
            listing = {"jsonrpc": "2.0", "id": "list", "method": "tools/list"}
            await wire.send(HELLO, READY, order(2), order(3, images=attached), listing, order(4))
            answers = {one["id"]: one for one in [await wire.answer() for _ in range(5)]}
    assert answers["list"]["result"]["tools"][0]["name"] == "order_openclaw"
    assert [words(answers[number]) for number in (2, 3, 4)] == ["Here."] * 3
    seen = [json.dumps(request.body).count("data:image/png") for request in model.requests]
    assert sorted(seen) == [0, 0, 3]


async def test_a_client_that_stops_reading_gets_everything_when_it_reads_again(
    setup: Setup,
) -> None:
    steps = [Step(calls=(("attach", {"path": "big.bin"}),)), Step(text="Sent.")]
    rules = [Step(text="Sent.", role="tool")]
    async with scripted_model(rules=rules, default=steps[0]) as model:
        setup.configure(model.url, {})
        (setup.workspace / "big.bin").write_bytes(os.urandom(10 * MB))
        async with wired(setup) as wire:
            await wire.send(HELLO, READY, *(order(number) for number in range(2, 6)))
            while len(model.requests) < 8:  # noqa: ASYNC110 (another process has no event of ours)
                await anyio.sleep(0.01)
            answers = [await wire.answer() for _ in range(5)]
    assert [one["id"] for one in answers[:1]] == [1]
    for answer in answers[1:]:
        text, attached = answer["result"]["content"]
        assert text["text"] == "Sent."
        assert len(attached["resource"]["blob"]) > 13 * MB


async def test_a_client_that_never_reads_again_does_not_keep_the_server(setup: Setup) -> None:
    rules = [Step(text="Sent.", role="tool")]
    attach = Step(calls=(("attach", {"path": "big.bin"}),))
    async with scripted_model(rules=rules, default=attach) as model:
        setup.configure(model.url, {})
        (setup.workspace / "big.bin").write_bytes(os.urandom(10 * MB))
        async with wired(setup) as wire:
            await wire.send(HELLO, READY, order(2), order(3))
            while len(model.requests) < 4:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            await wire.stdin.aclose()
            with anyio.fail_after(60):  # 1 s is the promise; the machine may be busy
                await wire.process.wait()


async def test_a_client_that_dies_leaves_a_session_that_goes_on(
    setup: Setup, connect: Connect
) -> None:
    async with scripted_model([Step(hang=True)], default=Step(text="Here.")) as model:
        setup.configure(model.url, {})
        async with wired(setup) as wire:
            await wire.send(HELLO, READY, order(2, message="never", sessionKey="k"))
            while not model.requests:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            await wire.stdin.aclose()
            with anyio.fail_after(60):
                await wire.process.wait()
        assert wire.process.returncode == 0
        async with connect() as client:
            answer = await client.call_tool(
                "order_openclaw", {"message": "again", "sessionKey": "k"}
            )
    assert answer.content[0].model_dump()["text"] == "Here."
    assert await turns(setup, "k") == ["cancelled", "ok"]
    assert list((setup.state / "tmp").iterdir()) == []


async def test_a_killed_server_leaves_nothing_that_the_next_one_trips_over(
    setup: Setup, connect: Connect
) -> None:
    async with scripted_model([Step(hang=True)], default=Step(text="Here.")) as model:
        setup.configure(model.url, {"time": {"command": str(BIN / "mcp-server-time")}})
        async with wired(setup) as wire:
            await wire.send(
                HELLO, READY, order(2, message="never", sessionKey="k", images=[image(MB)])
            )
            while not model.requests:  # noqa: ASYNC110
                await anyio.sleep(0.01)
            family = psutil.Process(wire.process.pid).children(recursive=True)
            assert family
            wire.process.send_signal(signal.SIGKILL)
            await wire.process.wait()
        assert len(list((setup.state / "tmp").iterdir())) == 1
        _, alive = psutil.wait_procs(family, timeout=60)
        assert alive == []
        async with connect() as client:
            answer = await client.call_tool(
                "order_openclaw", {"message": "again", "sessionKey": "k"}
            )
    assert answer.content[0].model_dump()["text"] == "Here."
    assert (await turns(setup, "k"))[1:] == ["ok"]
    assert list((setup.state / "tmp").iterdir()) == []


async def turns(setup: Setup, key: str) -> list[str]:
    """How the session's turns ended, in order."""
    with closing(sqlite3.connect(setup.state / "sessions.db")) as database:
        rows = database.execute(
            "SELECT state FROM turns JOIN sessions ON session = row WHERE key = ? ORDER BY first_seq",
            (key,),
        )
        return [state for (state,) in rows]


PRINTING = """
import os, subprocess, sys

print("printed")
sys.stdout.write("written\\n")
os.write(1, b"raw\\n")
os.system("echo from a child")


def tools(context):
    print("printed again", flush=True)
    subprocess.run(["echo", "again"])
    return []
"""


@pytest.mark.requirement("O-1")
async def test_whatever_a_library_prints_stays_off_the_wire(setup: Setup, tmp_path: Path) -> None:
    site = tmp_path / "site"
    information = site / "loud-1.0.dist-info"
    information.mkdir(parents=True)
    (site / "loud.py").write_text(PRINTING)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[openclaw.tools]\nloud = loud:tools\n")
    async with scripted_model(default=Step(text="Here.")) as model:
        setup.configure(model.url, {})
        async with wired(setup, PYTHONPATH=str(site)) as wire:
            await wire.send(HELLO, READY, order(2))
            assert [(await wire.answer())["id"] for _ in range(2)] == [1, 2]
            await wire.stdin.aclose()
            with pytest.raises(anyio.IncompleteRead):
                await wire.answer()
