"""Splits incoming bytes into lines, in linear time and bounded memory. Import-light."""

from io import BytesIO

# a client's longest message: ten images and five files of 15 MiB as base64 are 300 MiB
LONGEST_LINE = 384 << 20
_SHOWN = 4096


class TooLong:
    """A line above the limit. Only its two ends are kept, which may contain its id."""

    __slots__ = ("head", "limit", "tail")

    def __init__(self, limit: int, head: bytes, tail: bytes = b"") -> None:
        self.limit = limit
        self.head = head
        self.tail = tail


class LineSplitter:
    """Splits a stream at newlines and drops blank lines.

    `too_long` is the latest line above the limit; it is set before that line has ended.
    """

    def __init__(self, limit: int = LONGEST_LINE) -> None:
        self._limit = limit
        self._line = BytesIO()  # it grows in place; pieces to be joined would be in memory twice
        self._skipping = False
        self.too_long: TooLong | None = None

    def feed(self, chunk: bytes) -> "list[bytes | TooLong]":
        end = chunk.find(b"\n")
        if end < 0:
            self._hold(chunk)
            return []
        if end == len(chunk) - 1 <= self._limit and not (self._line.tell() or self._skipping):
            return [chunk[:-1]] if end and not chunk.isspace() else []
        head, *lines, rest = chunk.split(b"\n")
        self._hold(head)
        finished = self.finish()
        finished += [self._bounded(line) for line in lines if line and not line.isspace()]
        self._hold(rest)
        return finished

    def finish(self) -> "list[bytes | TooLong]":
        if self._skipping and self.too_long is not None:
            self._skipping = False
            return [self.too_long]
        line = self._line.getvalue()
        if not line:
            return []
        self._line = BytesIO()
        return [] if line.isspace() else [line]

    def _bounded(self, line: bytes) -> bytes | TooLong:
        if len(line) <= self._limit:
            return line
        self.too_long = TooLong(self._limit, line[:_SHOWN], line[-_SHOWN:])
        return self.too_long

    def _hold(self, piece: bytes) -> None:
        if self._skipping and self.too_long is not None:
            self.too_long.tail = (self.too_long.tail + piece)[-_SHOWN:]
            return
        self._line.write(piece)
        if self._line.tell() > self._limit:
            self._bounded(self._line.getvalue())
            self._skipping = True
            self._line = BytesIO()
