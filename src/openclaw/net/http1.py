"""HTTP/1.1 without I/O: writes requests as bytes, parses responses and events incrementally.

A general client takes longer to import than a gateway takes to answer. One request per connection;
bodies come by length, in chunks, or until the connection closes.
"""

from collections.abc import Iterator, Mapping

CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 60.0  # the gateway says something every 15 s, even while nothing happens
READ_BYTES = 65_536
_MOST_HEAD = 65_536
_BODILESS = (204, 304)


class NotReached(OSError):
    """Raised when no connection was made: nothing was sent."""


class BrokenOff(OSError):
    """Raised when the connection ended, or went silent, before the answer did."""


def request_bytes(
    method: str, host: str, path: str, headers: Mapping[str, str], content: bytes
) -> bytes:
    lines = [
        f"{method} {path} HTTP/1.1",
        f"host: {host}",
        "connection: close",
        f"content-length: {len(content)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    if not all(line.isprintable() for line in lines):
        raise ValueError("a header has a character that headers cannot have")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + content


class ResponseParser:
    """Raises `BrokenOff` if it isn't HTTP or ends too soon. `status` is 0 until known."""

    def __init__(self) -> None:
        self.status = 0
        self.done = False
        self._data = b""
        self._chunked = False
        self._left: int | None = None  # of the body or, if that is chunked, of the chunk

    def feed(self, data: bytes) -> bytes:
        """The part of the body in this data; empty data is the end of the connection."""
        if not data:
            if self.status < 200 or self._chunked or self._left is not None:
                raise BrokenOff("its answer was cut off" if self.status else "it sent no answer")
            self.done = True
        self._data += data
        try:
            while self.status < 200:  # below that, an answer is only announced
                head = self._until(b"\r\n\r\n")
                if head is None:
                    return b""
                self._read_head(head.decode("latin-1"))
            return b"".join(self._pieces())
        except ValueError as error:
            raise BrokenOff("its answer is not HTTP") from error

    def _until(self, end: bytes) -> bytes | None:
        found, ended, rest = self._data.partition(end)
        if not ended:
            if len(found) > _MOST_HEAD:
                raise BrokenOff("its answer is not HTTP")
            return None
        self._data = rest
        return found

    def _read_head(self, head: str) -> None:
        first, *lines = head.split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1."):
            raise ValueError(version)
        self.status = int(rest[:3])
        pairs = (line.partition(":") for line in lines)
        fields = {name.lower(): value.strip() for name, _, value in pairs}
        self._chunked = fields.get("transfer-encoding", "").lower() == "chunked"
        if not self._chunked and "content-length" in fields:
            self._left = int(fields["content-length"])
        self.done = self._left == 0 or self.status in _BODILESS

    def _pieces(self) -> Iterator[bytes]:
        while not self.done:
            if self._chunked and not self._left:
                line = self._until(b"\r\n")
                if line is None:
                    return
                if line:  # otherwise it ends the previous chunk
                    self._left = int(line.partition(b";")[0], 16)
                    self.done = not self._left
                continue
            piece = self._data[: self._left]
            if not piece:
                return
            self._data = self._data[len(piece) :]
            if self._left is not None:
                self._left -= len(piece)
                self.done = not self._left and not self._chunked
            yield piece


class EventReader:
    def __init__(self) -> None:
        self._pending: list[bytes] = []

    def feed(self, data: bytes) -> Iterator[tuple[str, bytes]]:
        """The names and data of the events that this data completes."""
        self._pending.append(data)
        if b"\n\n" not in data and not data.startswith(b"\n"):
            return
        *whole, rest = b"".join(self._pending).split(b"\n\n")
        self._pending = [rest]
        for block in whole:
            if event := event_of(block):
                yield event


def event_of(block: bytes) -> tuple[str, bytes] | None:
    name, data = "", b""
    for line in block.split(b"\n"):
        if line.startswith(b"event: "):
            name = line[7:].decode()
        elif line.startswith(b"data: "):
            data = line[6:]
    return (name, data) if data else None
