"""HTTP/1.1 to our own gateway on this machine, and nothing else.

A general client takes longer to import than a message through a gateway takes to be answered.
One request a connection; bodies by length, in chunks, or until the connection closes.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketStream

_CONNECT_SECONDS = 5.0
_SILENCE_SECONDS = 60.0  # the gateway says something every 15 s, even while nothing happens
_MOST_HEAD = 65_536
_PIECE = 65_536


class NotReached(OSError):
    """Raised when no connection was made: nothing was sent."""


class BrokenOff(OSError):
    """Raised when the connection ended, or went silent, before the answer did."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: AsyncIterator[bytes]

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.body])


@asynccontextmanager
async def request(
    method: str, url: str, path: str, headers: Mapping[str, str], content: bytes = b""
) -> AsyncGenerator[Answer]:
    """Send a request; leaving closes the connection. Raises `NotReached` or `BrokenOff`."""
    where = urlsplit(url)
    try:
        with anyio.fail_after(_CONNECT_SECONDS):
            stream = await anyio.connect_tcp(where.hostname or "", where.port or 80)
    except (OSError, TimeoutError) as error:
        raise NotReached(type(error.__cause__ or error).__name__) from error
    lines = [
        f"{method} {path} HTTP/1.1",
        f"host: {where.netloc}",
        "connection: close",
        f"content-length: {len(content)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    async with stream:
        reader = _Reader(stream)
        await reader.send("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + content)
        status, fields = _head(await reader.until(b"\r\n\r\n"))
        while status < 200:  # only word that an answer will come
            status, fields = _head(await reader.until(b"\r\n\r\n"))
        yield Answer(status, _body(reader, fields))


class _Reader:
    def __init__(self, stream: SocketStream) -> None:
        self._stream = stream
        self._read = b""

    async def send(self, data: bytes) -> None:
        try:
            with anyio.fail_after(_SILENCE_SECONDS):
                await self._stream.send(data)
        except (anyio.BrokenResourceError, TimeoutError) as error:
            raise BrokenOff(type(error).__name__) from error

    async def some(self) -> bytes:
        """What has come by now, at least a byte; nothing at the end."""
        if self._read:
            data, self._read = self._read, b""
            return data
        try:
            with anyio.fail_after(_SILENCE_SECONDS):
                return await self._stream.receive(_PIECE)
        except anyio.EndOfStream:
            return b""
        except (anyio.BrokenResourceError, TimeoutError) as error:
            raise BrokenOff(type(error).__name__) from error

    async def until(self, end: bytes) -> bytes:
        data = b""
        while end not in data:
            more = await self.some()
            data += more
            if not more or len(data) > _MOST_HEAD:
                raise BrokenOff("no answer" if not data else "no HTTP")
        found, _, self._read = data.partition(end)
        return found

    async def exactly(self, count: int) -> AsyncIterator[bytes]:
        while count:
            data = await self.some()
            if not data:
                raise BrokenOff("cut off")
            self._read = data[count:]
            data = data[:count]
            count -= len(data)
            yield data


def _head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
        raise BrokenOff("no HTTP")
    pairs = (line.partition(":") for line in lines)
    return int(rest[:3]), {name.lower(): value.strip() for name, _, value in pairs}


async def _body(reader: _Reader, fields: Mapping[str, str]) -> AsyncIterator[bytes]:
    try:
        if fields.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await reader.until(b"\r\n")).partition(b";")[0], 16):
                async for data in reader.exactly(size):
                    yield data
                await reader.until(b"\r\n")
        elif "content-length" in fields:
            async for data in reader.exactly(int(fields["content-length"])):
                yield data
        else:
            while data := await reader.some():
                yield data
    except ValueError as error:
        raise BrokenOff("no HTTP") from error
