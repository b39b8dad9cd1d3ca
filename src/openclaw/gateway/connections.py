"""Connections to the gateway: how many may be open, and which are closed to make room for others.

A connection beyond the limit is answered with 503 and `Retry-After` instead of being cut, unless one
that has been silent for a while can be closed in its place.
"""

import asyncio
import logging
import sys
from dataclasses import dataclass, field
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

logger = logging.getLogger(__name__)

# A connection that says nothing for this long may have to make room. A new one is always given this
# time: its request may be on the way, or wait in the socket while the loop is busy.
SILENT_SECONDS = 2.0
_LINGER_SECONDS = 1.0  # how long a refused client may take to read its answer
_RESERVED_FILES = 64  # for the store, the log, MCP servers and everything else
_FILES_PER_CONNECTION = 2  # its own, and what its request opens, such as a connection to a model
_LEAST_CONNECTIONS = 8
_WANTED_FILES = 8192

_BODY = b'{"error":{"message":"the gateway has too many connections; try again","type":"overloaded_error","code":null}}'
_REFUSAL = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
    b"connection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


def open_files_limit() -> int:
    """How many files this process may have open, after raising that as far as it may be."""
    if sys.platform == "win32":
        return _WANTED_FILES
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = _WANTED_FILES if hard == unlimited else min(_WANTED_FILES, hard)
    if soft == unlimited or soft >= wanted:
        return _WANTED_FILES if soft == unlimited else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted


def most_connections(configured: int, files: int) -> int:
    """How many connections may be open at once, with so many open files."""
    possible = (files - _RESERVED_FILES) // _FILES_PER_CONNECTION
    return min(configured, max(possible, _LEAST_CONNECTIONS))


@dataclass(slots=True)
class Connections:
    """The open connections of a gateway."""

    most: int
    patience: float  # seconds that a client may take for the head of a request, or to read
    open: set["Protocol"] = field(default_factory=set["Protocol"])
    silent: dict["Protocol", float] = field(default_factory=dict["Protocol", float])  # since when
    refused: int = 0

    def has_room(self, now: float) -> bool:
        """Whether another connection may be served; closes one that is silent if necessary."""
        if len(self.open) < self.most:
            return True
        oldest = next(iter(self.silent), None)
        if oldest is None or now - self.silent[oldest] < SILENT_SECONDS:
            return False
        oldest.leave()
        oldest.transport.close()
        return True


class Protocol(H11Protocol):
    """Closes connections on which no request arrives or whose client doesn't read.

    The head of a request has `patience` seconds from connecting, or from its first byte.
    """

    connections_of_gateway: Connections
    _is_refused = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timers: dict[str, asyncio.TimerHandle] = {}
        if not self.connections_of_gateway.has_room(self.loop.time()):
            self._refuse()
            return
        self.connections_of_gateway.open.add(self)
        self._count_silent()
        self._wait_for_head()

    def _refuse(self) -> None:
        self._is_refused = True
        self.connections_of_gateway.refused += 1
        self.transport.write(_REFUSAL)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        # Closing at once would cut off the answer if a request has already arrived.
        self._timers["linger"] = self.loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def leave(self) -> None:
        """No longer count as open or silent."""
        self.connections_of_gateway.open.discard(self)
        self.connections_of_gateway.silent.pop(self, None)

    def connection_lost(self, exc: Exception | None) -> None:
        self.leave()
        for name in tuple(self._timers):
            self._stop_timer(name)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        if not self._between_requests:
            self.connections_of_gateway.silent.pop(self, None)
            self._stop_timer("head")
        elif "head" not in self._timers and not self.transport.is_closing():
            self._wait_for_head()

    @property
    def _between_requests(self) -> bool:
        served = cast("Any", self.cycle)  # None until the head of the first request has arrived
        return served is None or bool(served.response_complete)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._between_requests and not self.transport.is_closing():
            self._count_silent()

    def _count_silent(self) -> None:
        self.connections_of_gateway.silent[self] = self.loop.time()

    def _wait_for_head(self) -> None:
        patience = self.connections_of_gateway.patience
        self._timers["head"] = self.loop.call_later(patience, self._cut_if_silent)

    def _stop_timer(self, name: str) -> None:
        if (timer := self._timers.pop(name, None)) is not None:
            timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        self._stop_timer("reader")
        super().resume_writing()

    def _wait_for_reader(self) -> None:
        waiting = self.transport.get_write_buffer_size()

        def cut_if_deaf() -> None:
            if self.transport.get_write_buffer_size() < waiting:
                self._wait_for_reader()  # slow, but still reading
                return
            logger.warning("closed a connection: the client does not read the response")
            self.transport.abort()

        patience = self.connections_of_gateway.patience
        self._timers["reader"] = self.loop.call_later(patience, cut_if_deaf)

    def _cut_if_silent(self) -> None:
        self._stop_timer("head")
        if self._between_requests and not self.transport.is_closing():
            self.transport.close()
