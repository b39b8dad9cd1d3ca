"""What a gateway holds after many turns: memory, descriptors, threads and asyncio tasks.

`python benchmarks/bench_leaks.py [--turns 20000] [--json]`. Each turn calls one MCP tool, in one of many
short sessions. Exits with 1 if the second half of the turns left more than a little behind.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
import httpx2
import psutil
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation

from openclaw.core.clock import random_id

_CLIENTS = 8
_TURNS_PER_SESSION = 20
_SAMPLES = 10
_MODEL = """
import anyio
from openclaw.testing.scripted_model import Step, scripted_model

async def serve():
    rules = (Step(when="note", role="user", calls=(("mcp_fake_note", {}),)),)
    async with scripted_model(rules=rules, default=Step(text="Noted.")) as model:
        async def forget():
            while True:
                await anyio.sleep(1)
                model.requests.clear()
        print(model.url, flush=True)
        await forget()

anyio.run(serve)
"""
_CLIENT = """
import sys
import anyio
import httpx2

url, token, turns, clients, per_session, name = sys.argv[1:]

async def ask(client, number):
    body = {"text": "note", "sessionKey": f"{name}-{client}-{number // int(per_session)}"}
    (await http.post("/api/messages", json=body)).raise_for_status()

async def work(client):
    for number in range(int(turns) // int(clients)):
        await ask(client, number)

async def main():
    global http
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(
        base_url=url, headers=headers, timeout=300, trust_env=False
    ) as http, anyio.create_task_group() as group:
        for client in range(int(clients)):
            group.start_soon(work, client)

anyio.run(main)
"""


@dataclass(frozen=True, slots=True)
class Sample:
    turns: int
    memory: float  # MB
    files: int
    threads: int
    tasks: int


@contextmanager
def model_process() -> Generator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", _MODEL], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def sample(turns: int) -> Sample:
    here = psutil.Process()
    return Sample(
        turns,
        here.memory_info().rss / 1e6,
        here.num_fds(),
        here.num_threads(),
        len(asyncio.all_tasks()),
    )


async def measure(turns: int) -> list[Sample]:
    """The gateway runs in this process, the model and the clients in others."""
    tool = {"name": "note", "inputSchema": {"type": "object"}, "does": {"text": "noted"}}
    found: list[Sample] = []
    with tempfile.TemporaryDirectory() as name, model_process() as url:
        installation = Installation(Path(name))
        limits = {"requestsPerMinute": 1_000_000}
        servers = {"fake": server_entry({"tools": [tool]})}
        installation.configure(url, servers, gateway={"limits": limits})
        async with installation.here() as info:
            share = turns // _SAMPLES
            for number in range(_SAMPLES + 1):
                count = str(share if number else 10 * _CLIENTS)  # first, what is made once
                words = [info.url, installation.token, count, str(_CLIENTS)]
                words += [str(_TURNS_PER_SESSION), random_id()]
                await anyio.run_process([sys.executable, "-c", _CLIENT, *words])
                async with httpx2.AsyncClient(
                    base_url=info.url, headers=installation.headers, trust_env=False
                ) as http:
                    while (await http.get("/api/turns")).json()["turns"]:  # noqa: ASYNC110
                        await anyio.sleep(0.1)
                await anyio.sleep(1)  # for connections that are being closed
                found.append(sample(number * share))
                print(found[-1], file=sys.stderr, flush=True)
    return found


def leaks(samples: list[Sample]) -> list[str]:
    middle, last = samples[_SAMPLES // 2], samples[-1]
    found = [f"{last.memory - middle.memory:.0f} MB"] if last.memory > 1.1 * middle.memory else []
    for name in ("files", "threads", "tasks"):
        more = getattr(last, name) - getattr(middle, name)
        found += [f"{more} {name}"] if more > 3 else []
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    wanted = parser.parse_args()
    samples = anyio.run(measure, wanted.turns)
    if wanted.json:
        print(json.dumps([asdict(one) for one in samples]))
    else:
        print(f"{'turns':>8} {'memory':>10} {'files':>6} {'threads':>8} {'tasks':>6}")
        for one in samples:
            print(
                f"{one.turns:>8} {one.memory:>7.0f} MB {one.files:>6} {one.threads:>8} {one.tasks:>6}"
            )
    found = leaks(samples)
    if found:
        print("the second half of the turns left behind:", ", ".join(found), file=sys.stderr)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
