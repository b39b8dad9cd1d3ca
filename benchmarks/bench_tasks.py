"""Orders as tasks: what open ones cost a gateway that is asked about each of them every second, and
how soon a client gets its handle.

python benchmarks/bench_tasks.py [polls] [handles] [--tasks N] [--seconds N]
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.task_client import HttpTaskClient

from openclaw.testing.scripted_model import Step, scripted_model

# Orders that wait for a person: nothing else of them costs anything.
ASKED = server_entry({"tools": [{"name": "act", "inputSchema": {"type": "object"}}]})
WAITS = Step(role="user", calls=(("mcp_fake_act", {}),))

_CONNECTIONS = 20
_AFTER = 300  # milliseconds after which an order becomes a task, where handles are measured
_META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {
        "extensions": {"io.modelcontextprotocol/tasks": {}}
    },
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
}


def new_installation(model_url: str, after: int) -> Installation:
    installation = Installation(Path(tempfile.mkdtemp(prefix="openclaw-bench-")))
    limits = {"maxConcurrent": 1000}  # the number of requests a minute is as it is by default
    installation.configure(
        model_url,
        {"fake": ASKED},
        mcpServer={"taskAfterMs": after},
        gateway={"limits": limits},
        tools={"ask": ["mcp_fake_act"]},
    )
    return installation


def _poll(task: str, token: str) -> bytes:
    params = {"taskId": task, "_meta": _META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": params}).encode()
    head = (
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n"
        f"authorization: Bearer {token}\r\nuser-agent: bench\r\nmcp-protocol-version: 2026-07-28\r\n"
        f"mcp-method: tasks/get\r\nmcp-name: {task}\r\n"
        f"content-length: {len(body)}\r\ncontent-type: application/json\r\n\r\n"
    )
    return head.encode() + body


async def _share(process: psutil.Process, seconds: float) -> float:
    before, began = process.cpu_times(), time.monotonic()
    await anyio.sleep(seconds)
    after = process.cpu_times()
    used = after.user + after.system - before.user - before.system
    return used / (time.monotonic() - began)


async def _keep_polling(url: str, polls: list[bytes], counts: dict[str, int]) -> None:
    """One connection: each of its tasks once a second, evenly."""
    port = int(url.rpartition(":")[2])
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        answers, due = BufferedByteReceiveStream(stream), anyio.current_time()
        while True:
            for poll in polls:
                due += 1 / len(polls)
                await anyio.sleep_until(due)
                await stream.send(poll)
                head = await answers.receive_until(b"\r\n\r\n", 65536)
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await answers.receive_exactly(int(length))
                counts["answered" if head.startswith(b"HTTP/1.1 200") else "refused"] += 1


async def polls(args: argparse.Namespace) -> None:
    async with scripted_model(rules=[WAITS]) as model:
        installation = new_installation(model.url, 1)
        async with installation.process() as started:
            url = (await installation.running()).url
            async with httpx2.AsyncClient(
                base_url=url, trust_env=False, headers=installation.headers, timeout=120
            ) as http:
                client = HttpTaskClient(http)
                tasks: list[str] = []

                async def order(number: int) -> None:
                    handle = await client.order("Wait.", arguments={"sessionKey": f"s{number}"})
                    tasks.append(handle["taskId"])

                for first in range(0, args.tasks, 50):
                    async with anyio.create_task_group() as group:
                        for number in range(first, min(first + 50, args.tasks)):
                            group.start_soon(order, number)
            gateway = psutil.Process(started.pid)
            await anyio.sleep(3)
            await anyio.sleep(args.settle)
            idle = await _share(gateway, args.seconds)
            counts, polled = {"answered": 0, "refused": 0}, 0.0
            async with anyio.create_task_group() as group:
                for at in range(_CONNECTIONS):
                    mine = [_poll(task, installation.token) for task in tasks[at::_CONNECTIONS]]
                    if mine:
                        group.start_soon(_keep_polling, url, mine, counts)
                await anyio.sleep(2)
                counts.update(answered=0, refused=0)
                polled = await _share(gateway, args.seconds)
                group.cancel_scope.cancel()
            rate = counts["answered"] / args.seconds
            print(
                f"{args.tasks} open tasks: {idle:.1%} of a core; polled, {rate:.0f} a second: "
                f"{polled:.1%}; refused {counts['refused']}"
            )


async def handles(args: argparse.Namespace) -> None:
    """From the decision to the handle; the very first order of a gateway on its own."""
    async with scripted_model(default=Step(text="Late.", delay=60)) as model:
        installation = new_installation(model.url, _AFTER)
        async with installation.process():
            url = (await installation.running()).url
            async with httpx2.AsyncClient(
                base_url=url, trust_env=False, headers=installation.headers, timeout=120
            ) as http:
                client = HttpTaskClient(http)
                taken: list[float] = []
                for number in range(min(args.tasks, 60)):
                    began = time.perf_counter()
                    handle = await client.order("Wait.", arguments={"sessionKey": f"s{number}"})
                    taken.append((time.perf_counter() - began) * 1000 - _AFTER)
                    assert handle["resultType"] == "task"
            first, rest = taken[0], sorted(taken[1:])
            print(
                f"handle: first {first:.0f} ms (with loading the server), then median "
                f"{statistics.median(rest):.1f} ms, most {rest[-1]:.1f} ms; goal 50 ms"
            )


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="*", choices=["polls", "handles"])
    parser.add_argument("--tasks", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--settle", type=float, default=15, help="seconds until turns have begun")
    args = parser.parse_args()
    for one in args.what or ["polls", "handles"]:
        await {"polls": polls, "handles": handles}[one](args)


if __name__ == "__main__":
    anyio.run(main)
