"""A fake MCP server as a process of its own, on stdio, that can go wrong in every way we know.

`python -m openclaw.testing.fake_server '{"tools": […], "faults": {…}}'`; the description (see
`openclaw.testing.fake_protocol`) is the argument, or a file named by `@PATH`, or the environment
variable `FAKE_SERVER`. Standard library only, so that it starts in a few dozen milliseconds.

Faults of the process, beside those of the protocol: `exitAtStart` (a code), `startDelay` (seconds),
`startsBeforeWorking` (`{"file": PATH, "times": N}`: the first N starts fail), `stdoutNoise` (lines),
`stderrFlood` (lines), `grandchildren` (how many), `ignoreEof`, `ignoreSigterm`, `pidFile` (PATH, one
process id a line for every start).
"""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openclaw.testing.fake_protocol import FakeProtocol
from openclaw.testing.fake_tools import Json, spawn_grandchildren

_ENVIRONMENT_KEY = "FAKE_SERVER"


def command(spec: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The program and the arguments that start such a server."""
    return sys.executable, ["-m", "openclaw.testing.fake_server", json.dumps(spec)]


def server_entry(spec: Mapping[str, Any], **settings: Any) -> dict[str, Any]:
    """The entry of `mcp.servers` that starts such a server; `settings` are other keys of it."""
    program, arguments = command(spec)
    return {"command": program, "args": arguments, **settings}


class StdioPeer:
    """The client at the other end of stdin and stdout."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: dict[str, tuple[threading.Event, Json]] = {}
        self._questions = 0

    def send(self, message: Json) -> None:
        """Send one message."""
        self.send_raw(json.dumps(message).encode() + b"\n")

    def send_raw(self, line: bytes) -> None:
        """Send bytes that need not be a message."""
        with self._lock, contextlib.suppress(BrokenPipeError):
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()

    def request(self, method: str, params: Json) -> Json:
        """Ask the client something and wait for its whole answer."""
        with self._lock:
            self._questions += 1
            key = f"server-{self._questions}"
        answered, box = threading.Event(), Json()
        self._asked[key] = answered, box
        self.send({"jsonrpc": "2.0", "id": key, "method": method, "params": params})
        answered.wait()
        return box

    def answered(self, message: Json) -> bool:
        """Whether this message answers a question of ours; the asker goes on then."""
        waiting = self._asked.pop(str(message.get("id")), None) if "method" not in message else None
        if waiting is None:
            return False
        waiting[1].update(message)
        waiting[0].set()
        return True

    def crash(self, code: int) -> None:
        """End at once, as a crash would; a negative code is a signal."""
        with self._lock:
            sys.stdout.buffer.flush()
        if code < 0:
            os.kill(os.getpid(), -code)
        os._exit(code)


def _count_start(plan: Mapping[str, Any]) -> None:
    path = Path(plan["file"])
    starts = int(path.read_text()) if path.exists() else 0
    path.write_text(str(starts + 1))
    if starts < int(plan["times"]):
        os._exit(1)


def _misbehave_at_start(faults: Mapping[str, Any], peer: StdioPeer) -> None:
    if "pidFile" in faults:
        with Path(faults["pidFile"]).open("a") as file:
            file.write(f"{os.getpid()}\n")
    for number in range(int(faults.get("stderrFlood", 0))):
        sys.stderr.write(f"stderr line {number}\n")
    sys.stderr.flush()
    if "startDelay" in faults:
        threading.Event().wait(float(faults["startDelay"]))
    if "startsBeforeWorking" in faults:
        _count_start(faults["startsBeforeWorking"])
    if "exitAtStart" in faults:
        os._exit(int(faults["exitAtStart"]))
    for number in range(int(faults.get("stdoutNoise", 0))):
        peer.send_raw(f"noise {number} on stdout\n".encode())
    if faults.get("ignoreSigterm"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    spawn_grandchildren(int(faults.get("grandchildren", 0)))


def _serve(protocol: FakeProtocol, peer: StdioPeer) -> None:
    for line in sys.stdin.buffer:
        if not line.strip():
            continue
        message: Json = json.loads(line)
        if peer.answered(message):
            continue
        if protocol.may_block(message):
            threading.Thread(target=protocol.handle, args=(message, peer), daemon=True).start()
        else:
            protocol.handle(message, peer)


def _description(arguments: list[str], environ: Mapping[str, str]) -> Json:
    words = arguments[0] if arguments else environ.get(_ENVIRONMENT_KEY, "{}")
    if words.startswith("@"):
        words = Path(words[1:]).read_text()
    described: Json = json.loads(words)
    return described


def main() -> None:
    """Serve until stdin ends."""
    environ = os.environ  # noqa: TID251 - the entry point of a process of its own
    protocol = FakeProtocol(_description(sys.argv[1:], environ))
    peer = StdioPeer()
    _misbehave_at_start(protocol.faults, peer)
    _serve(protocol, peer)
    if protocol.faults.get("ignoreEof"):
        threading.Event().wait()
    os._exit(0)  # calls that still hang must not hold the process


if __name__ == "__main__":
    main()
