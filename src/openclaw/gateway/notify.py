"""Tells the service manager how we are: readiness, stopping, and that we are still alive."""

import contextlib
import socket
import sys
from collections.abc import Mapping

import anyio

_FALLBACK_SECONDS = 3600.0


class Notifier:
    """Speaks systemd's protocol where there is a socket for it, and is silent elsewhere."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._watchdog = _seconds(environ.get("WATCHDOG_USEC", ""))

    def ready(self, url: str) -> None:
        """The gateway takes orders."""
        self._send(f"READY=1\nSTATUS=listening at {url}")

    def reloading(self, now_us: int) -> None:
        """A configuration is being read; `ready` follows."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={now_us}")

    def stopping(self) -> None:
        """The gateway is going down, on purpose."""
        self._send("STOPPING=1")

    async def keep_alive(self) -> None:
        """Say that we are alive, twice as often as we have to; from the loop, so that it must turn."""
        if self._watchdog is None:
            return
        while True:
            self._send("WATCHDOG=1")
            await anyio.sleep(self._watchdog / 2)

    def _send(self, message: str) -> None:
        if not self._address or sys.platform == "win32":
            return
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram,
        ):
            datagram.setblocking(False)
            datagram.sendto(message.encode(), address)


def _seconds(microseconds: str) -> float | None:
    return int(microseconds) / 1_000_000 if microseconds.isdigit() and int(microseconds) else None
