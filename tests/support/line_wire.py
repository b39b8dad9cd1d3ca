"""A client that moves lines to a program and back, and says whatever it likes."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream

_LONGEST_LINE = 100 << 20
_SECONDS = 60.0


class Wire:
    """The two ends of a running program."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin = process.stdin
        self._lines = BufferedByteReceiveStream(process.stdout)

    async def send(self, *lines: Any) -> None:
        """Send messages, or bytes as they are, each on a line of its own."""
        encoded = [one if isinstance(one, bytes) else json.dumps(one).encode() for one in lines]
        await self.stdin.send(b"".join(line + b"\n" for line in encoded))

    async def answer(self) -> Any:
        """The next line, which must be a message: nothing else may be on the wire."""
        return json.loads(await self.line())

    async def line(self) -> bytes:
        return await self._lines.receive_until(b"\n", _LONGEST_LINE)

    async def answers(self, count: int) -> list[Any]:
        """The next lines."""
        return [await self.answer() for _ in range(count)]


@asynccontextmanager
async def wired(
    command: Sequence[str], environ: Mapping[str, str], *, seconds: float = _SECONDS
) -> AsyncGenerator[Wire]:
    """Run `command` for so long at most; what is left of it then is killed."""
    async with await anyio.open_process(command, env=environ, stderr=None) as process:
        try:
            with anyio.fail_after(seconds):
                yield Wire(process)
        finally:
            if process.returncode is None:
                process.kill()
