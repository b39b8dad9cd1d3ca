"""uvicorn, with its signals and logs taken over, and without patience for silent clients."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Generator, Sequence
from typing import Any, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from openclaw.gateway.app import build_app
from openclaw.gateway.guard import Guard, Names
from openclaw.gateway.state import Gateway
from openclaw.gateway.tokens import Tokens

logger = logging.getLogger(__name__)

_KEEP_ALIVE_SECONDS = 75


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are the daemon's business."""
        yield


class _Protocol(H11Protocol):
    """Cuts connections on which no request arrives, and those whose client does not read.

    The head of a request has `patience` seconds from connecting, or from its first byte where
    requests came before it.
    """

    patience = 30.0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._read_timer: asyncio.TimerHandle | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_read_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A piece of a request: of its head, unless one is being served."""
        super().data_received(data)
        if not self._between_requests:
            self._stop_head_timer()
        elif self._head_timer is None and not self.transport.is_closing():
            self._wait_for_head()

    @property
    def _between_requests(self) -> bool:
        served = cast("Any", self.cycle)  # None until the head of the first request has arrived
        return served is None or bool(served.response_complete)

    def _wait_for_head(self) -> None:
        self._head_timer = self.loop.call_later(self.patience, self._cut_if_silent)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def pause_writing(self) -> None:
        """What was sent is not being taken."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """It was taken after all."""
        self._stop_read_timer()
        super().resume_writing()

    def _wait_for_reader(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._read_timer = self.loop.call_later(self.patience, self._cut_if_deaf, waiting)

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def _cut_if_deaf(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._wait_for_reader()  # slow, but it reads
            return
        logger.warning("a client was cut off: it does not read what it asked for")
        self.transport.abort()

    def _cut_if_silent(self) -> None:
        self._head_timer = None
        if self._between_requests and not self.transport.is_closing():
            self.transport.close()


def make_server(
    gateway: Gateway, tokens: Tokens, sockets: Sequence[socket.socket]
) -> uvicorn.Server:
    """A server that is ready to `serve` on these sockets."""
    settings = gateway.settings
    beyond = settings.bind not in ("loopback", "127.0.0.1", "::1")
    names = Names(
        port=sockets[0].getsockname()[1],
        hosts=frozenset(host.lower() for host in settings.allowed_hosts),
        origins=frozenset(settings.allowed_origins),
        any_address=beyond,
    )
    app = Guard(build_app(gateway), tokens, names, settings.limits, gateway.clock, gateway.metrics)
    protocol = type("Protocol", (_Protocol,), {"patience": gateway.patience})
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=64 * 1024,
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    return _Server(config)
