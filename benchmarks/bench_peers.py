"""OpenClaw beside the other clients that install from the registries: the same jobs, the same server.

`python benchmarks/bench_peers.py [commands] [lives] [calls] [--json]`. The first run installs the peers into `.cache/peers`.
Every client talks to `echo_server.py` over stdio. OpenClaw's bridge does more on each call than any
other (policy, redaction, framing, detection, a line in the audit log); the others hand the result
over as it came.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from pathlib import Path

from bench_mcp_server import BIN, until_initialized
from harness import Comparison, Contender, compare, report
from peers.contenders import NODE, PEERS, Peer, Worker, node_packages

CALLS, IN_FLIGHT, BATCH = 200, 64, 1000
LARGE = 10_000_000
SERVERS, SLOW = 20, "0.5"
PATIENCE = 5.0


@contextlib.contextmanager
def at_work(peer: Peer, servers: int = 1, *arguments: str) -> Generator[Worker]:
    worker = Worker(peer)
    try:
        worker.open(servers, *arguments)
        yield worker
    finally:
        worker.close()


def cold(peer: Peer) -> Callable[[], float]:
    """From nothing to the answer of the first call."""

    def run() -> float:
        started = time.perf_counter()
        with at_work(peer) as worker:
            worker.do("one_at_a_time", calls=1, arguments={"n": 1})
            return time.perf_counter() - started

    return run


def several(peer: Peer) -> Callable[[], float]:
    """Until all of several slow servers are connected, without the start of the process."""

    def run() -> float:
        worker = Worker(peer)
        try:
            return worker.open(SERVERS, SLOW)
        finally:
            worker.close()

    return run


def killed(peer: Peer) -> Callable[[], float]:
    def run() -> float:
        with at_work(peer) as worker:
            worker.do("one_at_a_time", calls=1, arguments={"n": 1})
            return worker.do("after_a_kill", pid=worker.server_pid(), patience=PATIENCE)

    return run


def memory(peer: Peer, *, loaded: bool) -> Callable[[], float]:
    def run() -> float:
        with at_work(peer) as worker:
            if loaded:
                worker.do("in_flight", calls=BATCH, width=IN_FLIGHT)
                worker.do("large", size=LARGE)
            return worker.memory()

    return run


def calls() -> list[Comparison]:
    """Those that share one connection for each client."""
    with contextlib.ExitStack() as stack:
        workers = [(peer, stack.enter_context(at_work(peer))) for peer in PEERS]

        def each(job: str, **asked: object) -> list[Contender]:
            return [
                Contender(peer.name, lambda worker=worker: worker.do(job, **asked))
                for peer, worker in workers
            ]

        return [
            compare(
                "A tool call, one at a time (p50)",
                each("one_at_a_time", calls=CALLS, arguments={"n": 1}),
                rounds=9,
            ),
            compare(
                f"A tool call with {IN_FLIGHT} in flight (time a call)",
                each("in_flight", calls=BATCH, width=IN_FLIGHT),
                rounds=7,
            ),
            compare(f"A result of {LARGE // 10**6} MB", each("large", size=LARGE), rounds=5),
        ]


def lives() -> list[Comparison]:
    """Those that start each client anew."""

    def each(make: Callable[[Peer], Callable[[], float]]) -> list[Contender]:
        return [Contender(peer.name, make(peer)) for peer in PEERS]

    return [
        compare("From nothing to the first answer of a server's tool", each(cold), rounds=7),
        compare(
            f"{SERVERS} servers that take {SLOW} s each, all connected",
            each(several),
            rounds=3,
            warmup=0,
        ),
        compare("From the kill of a server to the next answer", each(killed), rounds=3, warmup=0),
        compare(
            "Memory with one idle server",
            each(lambda peer: memory(peer, loaded=False)),
            rounds=3,
            warmup=0,
            unit="MB",
        ),
        compare(
            f"Memory after {BATCH} calls and a result of {LARGE // 10**6} MB",
            each(lambda peer: memory(peer, loaded=True)),
            rounds=3,
            warmup=0,
            unit="MB",
        ),
    ]


def commands() -> list[Comparison]:
    """The programs themselves, beside the original on Node."""
    original = [str(NODE), str(node_packages("openclaw") / "node_modules/openclaw/openclaw.mjs")]
    own = str(BIN / "openclaw")
    with tempfile.TemporaryDirectory() as directory:
        environ = {**os.environ, "HOME": directory, "OPENCLAW_STATE_DIR": f"{directory}/state"}

        def runs(name: str, *command: str) -> Contender:
            return Contender(
                name,
                lambda: (
                    subprocess.run(
                        command, env=environ, check=True, stdout=subprocess.DEVNULL, timeout=120
                    )
                    and None
                ),
            )

        return [
            compare(
                "`--version`",
                [
                    runs("python -c pass", sys.executable, "-c", "pass"),
                    runs("original openclaw (Node)", *original, "--version"),
                    runs("openclaw", own, "--version"),
                ],
                rounds=7,
            ),
            compare(
                "An MCP server for clients: from its start to the answer of initialize",
                [
                    until_initialized(
                        "Node SDK's smallest server",
                        str(NODE),
                        str(Path(__file__).with_name("hello.mjs")),
                        str(node_packages("sdk")),
                    ),
                    until_initialized(
                        "original openclaw (Node), mcp serve", *original, "mcp", "serve"
                    ),
                    until_initialized("openclaw mcp-server", own, "mcp-server"),
                ],
                rounds=5,
            ),
        ]


PARTS = {"commands": commands, "lives": lives, "calls": calls}


def comparisons() -> list[Comparison]:
    named = [name for name in PARTS if name in sys.argv[1:]]
    return [found for name in named or PARTS for found in PARTS[name]()]


if __name__ == "__main__":
    report(comparisons())
