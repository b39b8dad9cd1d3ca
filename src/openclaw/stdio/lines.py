"""Bytes as they come, lines as they are complete: linear in time, bounded in space."""


class Oversize(Exception):
    """Raised when a line is longer than the limit; `head` is how it begins."""

    def __init__(self, limit: int, head: bytes) -> None:
        super().__init__(f"a line of over {limit} bytes")
        self.limit = limit
        self.head = head


_HEAD = 4096


class LineSplitter:
    """Splits a stream at newlines. Each byte is looked at once and copied at most twice."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes of the line that is not complete yet."""
        return self._held

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes; raises `Oversize` past the limit."""
        first = chunk.find(b"\n")
        if first < 0:
            self._hold(chunk)
            return []
        if len(chunk) > self._limit:
            self._check(chunk)
        if not self._parts and first == len(chunk) - 1:
            return [chunk[:-1]]
        self._hold(chunk[:first])
        lines = [b"".join(self._parts), *chunk[first + 1 :].split(b"\n")]
        rest = lines.pop()
        self._parts, self._held = ([rest] if rest else []), len(rest)
        return lines

    def rest(self) -> bytes:
        """What is held of an incomplete line, given up to the caller."""
        rest = b"".join(self._parts)
        self._parts, self._held = [], 0
        return rest

    def _check(self, chunk: bytes) -> None:
        """Refuse a line that is too long though it came in one piece."""
        for line in chunk.split(b"\n"):
            if len(line) > self._limit:
                raise Oversize(self._limit, line[:_HEAD])

    def _hold(self, piece: bytes) -> None:
        self._held += len(piece)
        if self._held > self._limit:
            head = b"".join(self._parts[:2])[:_HEAD] or piece[:_HEAD]
            self._parts, self._held = [], 0
            raise Oversize(self._limit, head)
        if piece:
            self._parts.append(piece)
