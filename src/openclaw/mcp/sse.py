"""Event streams (text/event-stream, WHATWG HTML section 9.2): read in linear time, and written."""

import re
from dataclasses import dataclass

MAX_EVENT_BYTES = 384 << 20
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
COMMENT = b": keep-alive\r\n\r\n"


class TooLarge(ValueError):
    """Raised when an event is larger than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"an event is larger than {limit} bytes")
        self.limit = limit


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """`id` is the last one that the stream named, as it is sent back to resume the stream."""

    data: bytes
    event: str = "message"
    id: str | None = None


class EventDecoder:
    """Takes chunks and returns the events that they complete.

    `last_id` and `retry_ms` are what a client that reconnects needs. An event whose data is empty
    is returned too: it may be there for its id.
    """

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._scanned = 0
        self._first = True
        self._after_cr = False
        self._data: list[bytes] = []
        self._size = 0
        self._event = ""
        self._saw_field = False
        self.last_id: str | None = None
        self.retry_ms: int | None = None

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """Raises `TooLarge`; nothing more can be read then."""
        if not chunk:  # it must not end the wait for what follows a carriage return
            return []
        self._rest += chunk
        if self._first:
            if len(self._rest) < len(_BOM) and _BOM.startswith(bytes(self._rest)):
                return []
            if self._rest.startswith(_BOM):
                del self._rest[: len(_BOM)]
            self._first = False
        if self._after_cr and self._rest:
            self._after_cr = False
            if self._rest.startswith(b"\n"):
                del self._rest[:1]
        events = self._take_lines()
        if self._size + len(self._rest) > self._limit:
            raise TooLarge(self._limit)
        return events

    def _take_lines(self) -> list[ServerSentEvent]:
        events: list[ServerSentEvent] = []
        start = 0
        for line_end in _LINE_END.finditer(self._rest, self._scanned):
            event = self._take_line(bytes(self._rest[start : line_end.start()]))
            if event is not None:
                events.append(event)
            start = line_end.end()
        # A carriage return at the very end counts as a line end now; a newline after it is part of it.
        self._after_cr = start == len(self._rest) and self._rest.endswith(b"\r")
        del self._rest[:start]
        self._scanned = len(self._rest)
        return events

    def _take_line(self, line: bytes) -> ServerSentEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        match name:
            case b"data":
                self._add(value)
            case b"event":
                self._event = value.decode("utf-8", "replace")
            case b"id" if b"\0" not in value:
                self.last_id = value.decode("utf-8", "replace")
                self._saw_field = True
            case b"retry" if value.isdigit() and len(value) < 10:
                self.retry_ms = int(value)
            case _:
                pass
        return None

    def _add(self, value: bytes) -> None:
        self._data.append(value)
        self._saw_field = True
        self._size += len(value) + 1
        if self._size > self._limit:
            raise TooLarge(self._limit)

    def _dispatch(self) -> ServerSentEvent | None:
        data, event, saw = b"\n".join(self._data), self._event, self._saw_field
        self._data, self._size, self._event, self._saw_field = [], 0, "", False
        return ServerSentEvent(data, event or "message", self.last_id) if saw else None


def encode_event(
    data: bytes, *, event: str = "message", id: str | None = None, retry_ms: int | None = None
) -> bytes:
    """One event; its `data` has to be a single line, as JSON is."""
    parts = [f"event: {event}\r\n".encode()]
    if id is not None:
        parts.append(f"id: {id}\r\n".encode())
    if retry_ms is not None:
        parts.append(b"retry: %d\r\n" % retry_ms)
    return b"".join([*parts, b"data: ", data, b"\r\n\r\n"])
