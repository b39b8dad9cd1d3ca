"""JSON-RPC messages as lines. A line that is no message is answered, and costs nothing else."""

import asyncio
import json
import logging
from typing import Any, Final

_PARSE_ERROR: Final = -32700
_INVALID_REQUEST: Final = -32600

logger = logging.getLogger(__name__)


class LineTransport:
    """A client's messages on asyncio's streams, for a connection of the SDK."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._writing = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        """Write a message, once there is room for it."""
        line = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        async with self._writing:
            self._writer.write(line)
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when there will be none."""
        while line := await self._line():
            if not line.strip():
                continue
            try:
                message: Any = json.loads(line)
            except (ValueError, RecursionError):
                await self._refuse(_PARSE_ERROR, "a line is not JSON")
                continue
            if isinstance(message, dict):
                return message  # pyright: ignore[reportUnknownVariableType] - any JSON
            await self._refuse(_INVALID_REQUEST, "a message is not a JSON object")
        return None

    async def close(self) -> None:
        """Nothing is kept back: what was sent is written."""

    async def _refuse(self, code: int, problem: str) -> None:
        logger.warning("from the client: %s", problem)
        error = {"code": code, "message": problem}
        await self.send({"jsonrpc": "2.0", "id": None, "error": error})

    async def _line(self) -> bytes:
        """A line of any length, taken in pieces where it is longer than the buffer."""
        pieces: list[bytes] = []
        while True:
            try:
                pieces.append(await self._reader.readuntil(b"\n"))
            except asyncio.LimitOverrunError as longer:
                pieces.append(await self._reader.readexactly(longer.consumed))
                continue
            except asyncio.IncompleteReadError as end:
                pieces.append(end.partial)
            return b"".join(pieces)
