"""A number that the child's pipe no longer has belongs to whoever got it next."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import cast

import pytest
from tests.support.connection_bench import until

from openclaw.mcp_client.transport.child_process import (
    ChildPipe,
    Grace,
    Program,
    RunningChild,
    StderrTail,
    spawn,
)
from openclaw.mcp_client.transport.orphan_reaper import OrphanReaper
from openclaw.stdio.lines import TooLong

pytestmark = pytest.mark.subprocess


def nobody(reason: str, too_long: TooLong | None) -> None:
    """Hears that the pipes ended."""


class Deaf:
    """A standard error that nobody reads."""

    def feed(self, chunk: bytes) -> None:
        """Let it go."""

    def flush(self) -> None:
        """Nothing is held back."""


@dataclass
class Started:
    """A child whose input is full, and its pipes."""

    child: RunningChild
    pipe: ChildPipe
    stdin: int


@pytest.fixture
async def started() -> AsyncGenerator[Started]:
    reaper = OrphanReaper()
    program = Program(sys.executable, ["-S", "-c", "import time; time.sleep(60)"], {})
    child = await spawn(program, reaper, Grace(0.1, 1, 1))
    pipe = ChildPipe(child.ends(), child.exited, 1000, cast("StderrTail", Deaf()))
    pipe.open(print, nobody)
    yield Started(child, pipe, child._pipes[0].fileno())
    pipe.close()
    await child.shut_down()
    child.close_pipes()
    await reaper.aclose()


async def test_closing_leaves_a_socket_alone_that_got_the_number_of_the_input(
    started: Started,
) -> None:
    child, pipe, stdin = started.child, started.pipe, started.stdin
    ours, theirs = socket.socketpair()
    pipe.discard()
    child.close_stdin()
    os.dup2(ours.fileno(), stdin)  # as the system may do with any socket that comes next
    ours.close()
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=stdin))
    pipe.close()
    writer.write(b"still mine")
    await writer.drain()
    assert theirs.recv(100) == b"still mine"
    theirs.close()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_closing_leaves_what_another_writes_by_the_number_of_the_input(
    started: Started,
) -> None:
    child, pipe, stdin = started.child, started.pipe, started.stdin
    assert pipe.write(b"x" * (4 << 20))  # more than a pipe takes, so that the loop watches it
    assert pipe.congested
    read_end, write_end = os.pipe()
    pipe.discard()
    child.close_stdin()
    os.dup2(write_end, stdin)
    os.close(write_end)
    told: list[int] = []
    loop = asyncio.get_running_loop()
    loop.add_writer(stdin, told.append, 1)
    pipe.close()
    told.clear()
    await until(lambda: bool(told))
    loop.remove_writer(stdin)
    os.close(stdin)
    os.close(read_end)
