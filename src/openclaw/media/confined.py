"""Runs one of our modules in a process that may fail, hang or bloat without harm to us."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import anyio.abc


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the process may take."""

    memory_bytes: int
    cpu_seconds: int


@asynccontextmanager
async def output_of(
    module: str, arguments: Sequence[str], bounds: Bounds
) -> AsyncGenerator[anyio.abc.ByteReceiveStream]:
    """What the module prints, as it prints it. However this ends, the process is gone.

    It is told nothing of our environment, where keys may be, and cannot write to any file.
    """
    limits = [str(bounds.memory_bytes), str(bounds.cpu_seconds)]
    command = [sys.executable, "-m", "openclaw.media.limited", *limits, module, *arguments]
    process: anyio.abc.Process | None = None
    # A start that is cancelled half-way would leave a process that nobody knows.
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(
            command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=None if sys.platform == "win32" else {},
            start_new_session=True,
        )
    assert process is not None
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.aclose()
