"""The pipes by threads, which work on every system, against a real process."""

import asyncio
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field

import pytest
from tests.support.connection_bench import until

from openclaw.core.clock import SystemClock
from openclaw.mcp_client.transport.child_process import ChildPipe, StderrTail, threaded_ends
from openclaw.secrets.redactor import Redactor
from openclaw.stdio.lines import TooLong

pytestmark = pytest.mark.subprocess

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.flush()"


@dataclass
class Heard:
    """What the pipe told."""

    lines: list[bytes] = field(default_factory=list[bytes])
    stderr: StderrTail = field(default_factory=lambda: StderrTail("s", Redactor(), SystemClock()))
    ended: list[tuple[str, TooLong | None]] = field(
        default_factory=list[tuple[str, TooLong | None]]
    )

    def on_end(self, reason: str, too_long: TooLong | None) -> None:
        self.ended.append((reason, too_long))


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Generator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        [sys.executable, "-S", "-c", getattr(request, "param", ECHO)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        yield process
        process.kill()


def pipe_of(process: "subprocess.Popen[bytes]", heard: Heard, limit: int = 1000) -> ChildPipe:
    pipe = ChildPipe(
        threaded_ends(process),
        asyncio.get_running_loop().create_future(),
        limit,
        heard.stderr,
    )
    pipe.open(heard.lines.extend, heard.on_end)
    return pipe


@pytest.mark.requirement("NFR-2.2")
async def test_lines_go_out_and_come_back(process: "subprocess.Popen[bytes]"):
    heard = Heard()
    pipe = pipe_of(process, heard)
    pipe.write(b"one\n")
    pipe.answer(b"two\n")
    await until(lambda: heard.lines == [b"one", b"two"])
    pipe.end("exited with code 0")
    pipe.end("twice")
    assert heard.ended == [("exited with code 0", None)]
    assert not pipe.write(b"late\n")
    pipe.close()


async def test_nothing_is_read_while_it_is_paused(process: "subprocess.Popen[bytes]"):
    heard = Heard()
    pipe = pipe_of(process, heard)
    pipe.write(b"first\n")
    await until(lambda: heard.lines == [b"first"])
    pipe.pause()
    pipe.resume()
    pipe.write(b"second\n")
    await until(lambda: heard.lines[-1] == b"second")
    pipe.discard()
    pipe.close()


async def test_a_line_over_the_limit_ends_it(process: "subprocess.Popen[bytes]"):
    heard = Heard()
    pipe = pipe_of(process, heard, limit=10)
    pipe.write(b"x" * 50 + b"\n")
    await until(lambda: bool(heard.ended))
    reason, too_long = heard.ended[0]
    assert reason == "a message of over 10 bytes"
    assert too_long is not None
    pipe.close()


@pytest.mark.parametrize(
    "process",
    ["import sys, time; sys.stderr.write('hello'); sys.stderr.flush(); time.sleep(60)"],
    indirect=True,
)
async def test_a_deaf_server_makes_its_callers_wait_but_not_for_ever(
    process: "subprocess.Popen[bytes]",
):
    heard = Heard()
    pipe = pipe_of(process, heard)
    pipe.write(b"x" * 5_000_000)
    assert pipe.congested
    pipe.answer(b"x" * 5_000_000)  # dropped
    enough = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.05, enough.set_result, None)
    await pipe.drained(enough)
    assert enough.done()
    assert pipe.congested
    await until(lambda: heard.stderr.tail() == ("hello",))
    pipe.discard()
    pipe.close()
