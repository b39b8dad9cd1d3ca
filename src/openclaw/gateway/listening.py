"""Where the gateway listens. `doctor` uses this too, so it imports nothing large."""

import errno
import ipaddress
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from openclaw.core.errors import OperatorFacing

BACKLOG = 2048  # connections that wait in the system until we take them
_NAMES = {"loopback": ("127.0.0.1", "::1"), "lan": ("0.0.0.0", "::")}  # noqa: S104 - asked for by name


def bind_addresses(bind: str, port: int, *, has_token: bool) -> list[tuple[str, int]]:
    """The addresses to listen on; raises if other machines could connect without a token."""
    hosts = _NAMES.get(bind, (bind,))
    for host in hosts:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            raise OperatorFacing(
                f"gateway.bind is {bind!r}; it has to be loopback, lan or an IP address"
            ) from None
        if not address.is_loopback and not has_token:
            raise OperatorFacing(
                f"gateway.bind is {bind!r}, but without a token for other machines the gateway "
                "only listens on loopback",
                hint="create one with 'openclaw gateway token add NAME', or set gateway.auth.token",
            )
    return [(host, port) for host in hosts]


def listen(addresses: Sequence[tuple[str, int]]) -> list[socket.socket]:
    """Listening sockets; the machine may lack IPv6."""
    sockets: list[socket.socket] = []
    with ExitStack() as stack:
        for host, port in addresses:
            wanted = sockets[0].getsockname()[1] if sockets else port
            try:
                sockets.append(stack.enter_context(_listener(host, wanted)))
            except OSError as error:
                # A port in use is an error: the program that has it would get our clients.
                if sockets and ":" in host and error.errno != errno.EADDRINUSE:
                    continue
                # `create_server` repeats the address in its message.
                why = os.strerror(error.errno) if error.errno else error
                raise OperatorFacing(
                    f"cannot listen on {host} port {port}: {why}",
                    hint="choose a free port: set gateway.port, or use 'gateway run --port N' (0 picks one)",
                ) from error
        stack.pop_all()
    return sockets


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.create_server((host, port), family=family, backlog=BACKLOG)
    # With the protocol named, asyncio sends small answers at once: without it, each waits 40 ms.
    one = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, fileno=made.detach())
    one.setblocking(False)
    return one


def shown_url(sockets: Sequence[socket.socket]) -> str:
    host, port = sockets[0].getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - compared, not bound
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
