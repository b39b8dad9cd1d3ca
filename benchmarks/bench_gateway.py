"""The gateway: how soon it is ready, what it costs idle and busy, and what it survives.

python benchmarks/bench_gateway.py [start] [idle] [load] [kill] [life] [--seconds N] [--kills N]
[--json]; without names all parts, or with --json those that take less than a minute.
"""

import argparse
import logging
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import httpx2
import orjson
import psutil
from harness import report
from tests.support import gateway_life
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation

from openclaw.agent.port import MessageContext
from openclaw.config.load import load_config
from openclaw.runtime.runtime import open_runtime
from openclaw.secrets.redactor import Redactor
from openclaw.testing.scripted_model import Step, scripted_model

SLOW = server_entry({"faults": {"startDelay": 30}})
IDLE = server_entry({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
NO_LIMIT = {"limits": {"requestsPerMinute": 10_000_000, "maxConcurrent": 1000}}


def new_installation() -> Installation:
    state = Path(tempfile.mkdtemp(prefix="openclaw-bench-"))
    return Installation(state)


async def until_ready(installation: Installation) -> str:
    """Asked by a client that costs next to nothing itself."""
    url = (await installation.running()).url
    port = int(url.rpartition(":")[2])
    while not (await _asked(port, b"GET /ready")).startswith(b"HTTP/1.1 200"):  # noqa: ASYNC110
        await anyio.sleep(0.005)
    return url


async def _asked(port: int, what: bytes, body: bytes = b"", token: str = "") -> bytes:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(
            b"%s HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            b"authorization: Bearer %s\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
            % (what, token.encode(), len(body), body)
        )
        return b"".join([piece async for piece in stream])


async def start(args: argparse.Namespace) -> str:
    """Beside a program that only imports what any such server imports, which is the machine's pace."""
    times: list[float] = []
    cpu: list[float] = []
    plain: list[float] = []
    for _ in range(7):
        plain.append(await _plain_start())
        installation = new_installation()
        installation.configure("http://127.0.0.1:9", {f"slow{n}": SLOW for n in range(20)})
        began = time.perf_counter()
        async with installation.process() as process:
            await until_ready(installation)
            times.append(time.perf_counter() - began)
            used = psutil.Process(process.pid).cpu_times()
            cpu.append(used.user + used.system)
            process.kill()
    ratio = statistics.median(one / other for one, other in zip(times, plain, strict=True))
    return (
        f"ready with 20 slow servers: median {statistics.median(times):.2f} s, "
        f"best {min(times):.2f} s (CPU {statistics.median(cpu):.2f} s); goal 1.5 s; "
        f"{ratio:.1f} times as long as to import uvicorn and starlette"
    )


async def _plain_start() -> float:
    began = time.perf_counter()
    await anyio.run_process([sys.executable, "-c", "import uvicorn, starlette"])
    return time.perf_counter() - began


async def idle(args: argparse.Namespace) -> str:
    five, twenty = await _idle(5, args.seconds), await _idle(20, args.seconds)
    return (
        f"idle with 5 idle servers: {five[0]:.2%} of a core, {five[1]:.0f} MB; goal 90 MB; "
        f"with 20: {twenty[0]:.2%} of a core, {twenty[1]:.0f} MB; goal 1 % and 150 MB"
    )


async def _idle(servers: int, seconds: float) -> tuple[float, float]:
    """The share of a core and the megabytes that a gateway takes that has nothing to do."""
    installation = new_installation()
    installation.configure("http://127.0.0.1:9", {f"idle{n}": IDLE for n in range(servers)})
    async with installation.process() as process:
        url = await until_ready(installation)
        async with httpx2.AsyncClient(
            base_url=url, trust_env=False, headers=installation.headers
        ) as client:
            while True:
                rows = (await client.get("/api/servers")).json()["servers"]
                if sum(row["state"] == "ready" for row in rows) == servers:
                    break
                await anyio.sleep(0.1)
        gateway = psutil.Process(process.pid)
        await anyio.sleep(3)
        before, began = gateway.cpu_times(), time.monotonic()
        await anyio.sleep(seconds if seconds < 60 else 20)
        after = gateway.cpu_times()
        share = (after.user + after.system - before.user - before.system) / (
            time.monotonic() - began
        )
        return share, gateway.memory_info().rss / 1e6


async def _together(count: int, one: Callable[[int], Coroutine[Any, Any, None]]) -> float:
    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        for number in range(count):
            group.start_soon(one, number)
    return time.perf_counter() - began


async def load(args: argparse.Namespace) -> str:
    """The same turns in this process and through the gateway, interleaved, 200 at once."""
    async with scripted_model(default=Step(text="Noted.")) as model:
        installation, other = new_installation(), new_installation()
        for one in (installation, other):
            one.configure(model.url, gateway=NO_LIMIT)
        env = other.environ()
        async with (
            open_runtime(load_config(None, env), env, Redactor()) as runtime,
            installation.process() as process,
        ):
            url = await until_ready(installation)
            port = int(url.rpartition(":")[2])
            rounds = 0

            async def direct(number: int) -> None:
                reply = await runtime.reply(MessageContext("hi", f"d{rounds}.{number}"))
                assert reply.text == "Noted."

            async def through(number: int) -> None:
                await _complete(port, installation.token, f"g{rounds}.{number}")

            gateway = psutil.Process(process.pid)
            rows: list[tuple[float, float, float, float]] = []
            for rounds in range(5):  # noqa: B007 - it names the sessions
                first = time.process_time()
                wall_d = await _together(200, direct)
                before, middle = gateway.cpu_times(), time.process_time()
                wall_g = await _together(200, through)
                after = gateway.cpu_times()
                cpu = after.user + after.system - before.user - before.system
                more = cpu + (time.process_time() - middle) - (middle - first)
                rows.append((wall_d / 200, wall_g / 200, cpu / 200, more / 200))
            rows = rows[1:]  # the first one imports
            here = statistics.median(r[0] for r in rows) * 1000
            there = statistics.median(r[1] for r in rows) * 1000
            more_ms = statistics.median(r[3] for r in rows) * 1000
            cpu_ms = statistics.median(r[2] for r in rows) * 1000
            alone_d = [await _alone(direct, 1000 + n) for n in range(50)]
            alone_g = [await _alone(through, 1000 + n) for n in range(50)]
            over = (statistics.median(alone_g) - statistics.median(alone_d)) * 1000
    return (
        f"200 turns at once: the gateway's CPU time {cpu_ms:.1f} ms a turn (goal 10 ms); "
        f"{here:.1f} ms a turn in process, {there:.1f} ms through the gateway; overhead {there - here:+.1f} ms, in CPU with the client "
        f"{more_ms:+.1f} ms; goal 10 ms; "
        f"one at a time, p50 {over:+.1f} ms; 1000 of 1000 answered"
    )


async def _complete(port: int, token: str, user: str) -> None:
    """One completion by a client that costs next to nothing itself."""
    order = {"model": "openclaw", "user": user, "messages": [{"role": "user", "content": "hi"}]}
    answer = await _asked(port, b"POST /v1/chat/completions", orjson.dumps(order), token)
    assert answer.startswith(b"HTTP/1.1 200"), answer
    assert b"Noted." in answer


async def _alone(one: Callable[[int], Awaitable[None]], number: int) -> float:
    began = time.perf_counter()
    await one(number)
    return time.perf_counter() - began


async def kill(args: argparse.Namespace) -> str:
    chance = random.Random(11)
    installation = new_installation()
    told: list[tuple[str, str]] = []
    starts: list[float] = []
    async with scripted_model(default=Step(text="Noted.", delay=0.02)) as model:
        installation.configure(model.url, gateway=NO_LIMIT)
        for number in range(args.kills):
            began = time.perf_counter()
            async with installation.process() as process:
                url = await until_ready(installation)
                starts.append(time.perf_counter() - began)
                async with anyio.create_task_group() as group:
                    for session in range(4):
                        group.start_soon(_keep_asking, installation, url, number, session, told)
                    before = len(told)
                    while len(told) < before + 3:  # noqa: ASYNC110
                        await anyio.sleep(0.01)
                    await anyio.sleep(chance.random() * 0.2)
                    process.kill()
                    await process.wait()
                    group.cancel_scope.cancel()
    entries = await gateway_life.check_transcripts(installation, told)
    return (
        f"killed {args.kills} times in the middle of turns: all {len(told)} acknowledged messages "
        f"are there ({entries} entries); a new gateway was ready after "
        f"{statistics.median(starts):.2f} s"
    )


async def _keep_asking(
    installation: Installation, url: str, kill: int, session: int, told: list[tuple[str, str]]
) -> None:
    async with httpx2.AsyncClient(
        trust_env=False, timeout=30, headers=installation.headers
    ) as client:
        for number in range(10_000):
            text = f"message {kill}.{session}.{number}"
            body = {"text": text, "sessionKey": f"s{session}", "stream": False}
            try:
                answer = await client.post(f"{url}/api/messages", json=body)
            except httpx2.HTTPError:
                return
            if answer.status_code == 200:
                told.append((f"s{session}", text))


async def life(args: argparse.Namespace) -> str:
    installation = new_installation()
    async with scripted_model(rules=gateway_life.RULES, default=gateway_life.DEFAULT) as model:
        gateway_life.configure(installation, model.url, 0)
        async with installation.process() as process:
            info = await installation.running()
            one = gateway_life.Life(installation, model.url, info, random.Random(3))
            await one.live(args.seconds / 10)  # warm: imports, pools, caches
            await one.rest()
            after = before = await gateway_life.holdings(installation, process.pid, 0)
            print(f"  at the beginning {before}", flush=True)
            for part in range(4):
                await one.live(args.seconds / 4)
                await one.rest()
                after = await gateway_life.holdings(installation, process.pid, before.processes)
                print(f"  after {part + 1} of 4 parts {after}", flush=True)
        entries = await gateway_life.check_transcripts(installation, one.told)
    doings = ", ".join(f"{count} x {name}" for name, count in sorted(one.done.items()))
    return (
        f"{args.seconds} s of life: {doings}; "
        f"descriptors of which there are more: {after.more_than(before) or 'none'}; "
        f"{len(one.told)} acknowledged messages, {entries} entries, none lost, none doubled"
    )


PARTS: dict[str, Callable[[argparse.Namespace], Awaitable[str]]] = {
    "start": start,
    "idle": idle,
    "load": load,
    "kill": kill,
    "life": life,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    logging.disable(logging.INFO)  # each turn has two lines
    parts = args.parts or (("start", "idle", "load") if args.json else PARTS)
    report([], notes=[anyio.run(PARTS[name], args) for name in parts])


if __name__ == "__main__":
    main()
