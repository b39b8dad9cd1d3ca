"""Large media through the server, both ways, against the plainest script that does the same.

The script reads a line, takes it apart with json and pybase64 and writes files; or reads files and
writes a line. Ours is a server that has answered before. Its model cannot see, so that the time is
that of taking the images in and not of sending them on.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench_mcp_server import BIN, HELLO, Peer, order
from harness import Comparison, Contender, compare, report

MB = 1 << 20
IMAGES, IMAGE_BYTES = 10, 15 * MB
FILES, FILE_BYTES = 3, 16 * MB
ROUNDS = 5

PLAIN_IN = """
import json, os, sys, tempfile, pybase64
with tempfile.TemporaryDirectory() as directory:
    for line in sys.stdin.buffer:
        order = json.loads(line)
        for number, image in enumerate(order["params"]["arguments"].get("images", ())):
            with open(os.path.join(directory, str(number)), "wb") as file:
                file.write(pybase64.b64decode(image["data"], validate=True))
        print(json.dumps({"jsonrpc": "2.0", "id": order["id"], "result": {}}), flush=True)
"""
PLAIN_OUT = """
import json, sys, pybase64
for line in sys.stdin.buffer:
    asked = json.loads(line)
    content = []
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            blob = pybase64.b64encode(file.read()).decode()
        resource = {"uri": "attachment://" + path, "mimeType": "application/octet-stream", "blob": blob}
        content.append({"type": "resource", "resource": resource})
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": content}}) + "\\n")
    sys.stdout.flush()
"""


def png(size: int) -> str:
    head = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ")
    return base64.b64encode(head + os.urandom(size - len(head))).decode()


class Raw:
    """A peer to which lines are written and from which lines are read, and nothing else."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        assert peer.process.stdin is not None
        assert peer.process.stdout is not None
        self._stdin, self._stdout = peer.process.stdin, peer.process.stdout

    def ask(self, line: bytes) -> bytes:
        writer = threading.Thread(target=self._write, args=(line,))
        writer.start()
        answer = self._stdout.readline()
        writer.join()
        return answer

    def _write(self, line: bytes) -> None:
        self._stdin.write(line)
        self._stdin.flush()

    def peak(self) -> float:
        """The most memory that the process ever had, in MB."""
        status = Path(f"/proc/{self.peer.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) / 1024

    def forget_peak(self) -> float:
        """Start anew; what it has now, in MB."""
        Path(f"/proc/{self.peer.process.pid}/clear_refs").write_text("5")
        return self.peak()


@contextmanager
def server(script: dict[str, Any], state: Path) -> Generator[Raw]:
    """Our server, warm, with a model that says what the script tells it to."""
    (state / "script.json").write_text(json.dumps(script))
    model = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "openclaw.testing.scripted_model",
            "--script",
            state / "script.json",
        ],
        stdout=subprocess.PIPE,
    )
    assert model.stdout is not None
    url = model.stdout.readline().decode().strip()
    provider = {"baseUrl": f"{url}/v1", "models": [{"id": "m", "input": ["text"]}]}
    config = {
        "models": {"providers": {"acme": provider}},
        "dataflow": {"mode": "off"},
        "agents": {"defaults": {"model": "acme/m", "workspace": str(state)}},
    }
    (state / "openclaw.json").write_text(json.dumps(config))
    environ = {**os.environ, "OPENCLAW_STATE_DIR": str(state)}
    peer = Peer([str(BIN / "openclaw"), "mcp-server"], environ)
    try:
        peer.ask(HELLO)
        peer.ask(order(2, message="warm up"))
        yield Raw(peer)
    finally:
        peer.close()
        model.terminate()
        model.wait()


@contextmanager
def plain(source: str, *arguments: str) -> Generator[Raw]:
    peer = Peer([sys.executable, "-c", source, *arguments])
    try:
        yield Raw(peer)
    finally:
        peer.close()


def timed(peer: Raw, line: bytes, check: Callable[[bytes], None]) -> Callable[[], float]:
    def run() -> float:
        started = time.perf_counter()
        answer = peer.ask(line)
        took = time.perf_counter() - started
        check(answer)
        return took

    return run


def no_check(answer: bytes) -> None:
    assert b'"result"' in answer


def answered(answer: bytes) -> None:
    assert b'"isError":false' in answer, answer[:300]


def images_in() -> tuple[Comparison, float]:
    """Ten images of 15 MB in one order, and the peak of our memory as a multiple of the message."""
    images = [{"data": png(IMAGE_BYTES), "mimeType": "image/png"} for _ in range(IMAGES)]
    line = json.dumps(order(3, images=images)).encode() + b"\n"
    del images
    with tempfile.TemporaryDirectory() as directory:
        script = {"default": {"text": "Done."}}
        with server(script, Path(directory)) as ours, plain(PLAIN_IN) as script_peer:
            idle = ours.forget_peak()
            result = compare(
                f"{IMAGES} images of {IMAGE_BYTES // MB} MB in one order",
                [
                    Contender("json + pybase64 to files", timed(script_peer, line, no_check)),
                    Contender("openclaw mcp-server", timed(ours, line, answered)),
                ],
                rounds=ROUNDS,
                limit=2.0,
            )
            return result, (ours.peak() - idle) / (len(line) / MB)


def media_out() -> tuple[Comparison, float]:
    """Nearly 50 MB in one answer."""
    with tempfile.TemporaryDirectory() as directory:
        state = Path(directory)
        names = [f"{number}.bin" for number in range(FILES)]
        for name in names:
            (state / name).write_bytes(os.urandom(FILE_BYTES))
        calls = [{"name": "attach", "arguments": {"path": name}} for name in names]
        script = {
            "rules": [{"role": "tool", "text": "Here."}, {"when": "go", "calls": calls}],
            "default": {"text": "Warm."},
        }
        line = json.dumps(order(3)).encode() + b"\n"
        paths = [str(state / name) for name in names]
        with server(script, state) as ours, plain(PLAIN_OUT, *paths) as script_peer:
            idle = ours.forget_peak()
            size = len(ours.ask(line)) / MB
            result = compare(
                f"{FILES * FILE_BYTES // MB} MB in one answer",
                [
                    Contender("json + pybase64 from files", timed(script_peer, line, no_check)),
                    Contender("openclaw mcp-server", timed(ours, line, answered)),
                ],
                rounds=ROUNDS,
                limit=2.0,
            )
            return result, (ours.peak() - idle) / size


def main() -> None:
    results = [images_in(), media_out()]
    notes = [
        f"{comparison.title}: memory at its peak {peak:.2f} x the message above the idle process"
        " (goal: 3)"
        for comparison, peak in results
    ]
    report([comparison for comparison, _ in results], notes=notes)


if __name__ == "__main__":
    main()
