"""The client's bytes as lines: in linear time, and no line longer than any order can be."""

from io import BytesIO

LONGEST_LINE = 384 << 20
"""Ten images and five files of 15 MiB as base64 are 300 MiB."""

_SHOWN = 4096


class TooLong:
    """A line above the limit. Only its two ends were kept, which may tell whose it was."""

    __slots__ = ("head", "tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self.head = head
        self.tail = tail


class Assembler:
    """Takes pieces as they come and gives lines as they are complete."""

    def __init__(self, rest: list[bytes], limit: int = LONGEST_LINE) -> None:
        self._limit = limit
        self._line = BytesIO()  # it grows where it lies; pieces to be joined would lie there twice
        self._cut: TooLong | None = None
        for piece in rest:
            self._hold(piece)
        rest.clear()

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """The lines that this piece completes, without blank ones."""
        if b"\n" not in chunk:
            self._hold(chunk)
            return []
        head, *lines, rest = chunk.split(b"\n")
        self._hold(head)
        finished = self.finish()
        finished += [self._bounded(line) for line in lines if line and not line.isspace()]
        self._hold(rest)
        return finished

    def finish(self) -> list[bytes | TooLong]:
        """What is held of a line that nothing follows any more."""
        line = self._cut or self._line.getvalue()
        self._line, self._cut = BytesIO(), None
        return [line] if isinstance(line, TooLong) or (line and not line.isspace()) else []

    def _bounded(self, line: bytes) -> bytes | TooLong:
        return line if len(line) <= self._limit else TooLong(line[:_SHOWN], line[-_SHOWN:])

    def _hold(self, piece: bytes) -> None:
        if self._cut is not None:
            self._cut.tail = (self._cut.tail + piece)[-_SHOWN:]
            return
        self._line.write(piece)
        if self._line.tell() > self._limit:
            held = self._line.getbuffer()
            self._cut = TooLong(bytes(held[:_SHOWN]), bytes(held[-_SHOWN:]))
            held.release()
            self._line = BytesIO()
