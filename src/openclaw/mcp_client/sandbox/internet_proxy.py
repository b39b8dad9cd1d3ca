"""Gives a program the public internet and nothing else: run as a script by `python -I -S`.

usage: internet_proxy.py COMMAND [ARGUMENT]...

COMMAND runs in its own network with one listener, at PROXY: our proxy outside of it, which resolves
names itself and connects only to public addresses. Exits with 126, after saying why on stderr, if
the system doesn't allow this; without COMMAND it only tries. Imports only the standard library and
`openclaw.net.addresses`, to start fast.
"""

import asyncio
import ctypes
import os
import signal
import socket
import struct
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from openclaw.net.addresses import why_blocked

PORT = 3128
PROXY = f"http://127.0.0.1:{PORT}"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
REFUSED = 126
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1
_HEAD_LIMIT = 64 * 1024
_PIECE = 64 * 1024
_SECONDS = 30.0
_MOST_AT_ONCE = 256

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class NetworkUnavailable(Exception):
    """Raised when the network can't be set up, or the proxy refuses a request."""


def network_of_its_own() -> socket.socket:
    """Move this process into an empty network and listen there; raises `NetworkUnavailable`."""
    import fcntl  # only Linux runs this; other systems import the module

    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_NET):
        if libc.unshare(_NEW_USER | _NEW_NET):
            why = os.strerror(ctypes.get_errno())
            raise NetworkUnavailable(f"no separate network can be created here: {why}")
        try:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        except OSError as error:
            raise NetworkUnavailable(
                f"no user namespace can be created here: {error.strerror}"
            ) from None
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
            asked = struct.pack("16sh14x", b"lo", 0)
            flags = struct.unpack("16sh14x", fcntl.ioctl(handle, _GET_FLAGS, asked))[1]
            fcntl.ioctl(handle, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))
        return socket.create_server(("127.0.0.1", PORT))
    except OSError as error:
        raise NetworkUnavailable(f"the separate network cannot be used: {error.strerror}") from None


async def resolve_with_system(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))


def is_ourselves(address: str) -> bool:
    """Whether this address is our own machine's; sends nothing to find out."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as trial:
        try:
            trial.connect((address, 9))
        except OSError:
            return False
        return str(trial.getsockname()[0]) == address


class Proxy:
    def __init__(
        self,
        resolve: Resolve = resolve_with_system,
        blocked: Callable[[str], str | None] = why_blocked,
    ) -> None:
        self._resolve = resolve
        self._blocked = blocked
        self._slots = asyncio.Semaphore(_MOST_AT_ONCE)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._slots:
            try:
                await self._serve(reader, writer)
            except (OSError, EOFError, ValueError, TimeoutError, asyncio.LimitOverrunError):
                pass
            finally:
                writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _SECONDS)
        line, _, rest = head.partition(b"\r\n")
        try:
            method, target, _ = line.decode("ascii").split(" ", 2)
            host, port, first = _parse_request(method, target, rest)
            theirs, ours = await self._connect(host, port)
        except (NetworkUnavailable, UnicodeDecodeError, ValueError) as error:
            await _answer(writer, "403 Forbidden", str(error))
            return
        except (OSError, TimeoutError) as error:
            await _answer(writer, "502 Bad Gateway", str(error) or "no answer")
            return
        try:
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                ours.write(first)
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, ours))
                group.create_task(_copy(theirs, writer))
        finally:
            ours.close()

    async def _connect(
        self, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to exactly the address that was checked."""
        addresses = await self._resolve(host, port)
        for address in addresses:
            why = self._blocked(address)
            if why is not None:
                raise NetworkUnavailable(f"{host} is refused: {address} is {why}")
            if self._blocked is why_blocked and is_ourselves(address):
                raise NetworkUnavailable(f"{host} is refused: {address} is this machine")
        if not addresses:
            raise NetworkUnavailable(f"{host} has no address")
        failure: OSError | TimeoutError = OSError("no answer")
        for address in addresses:
            try:
                return await asyncio.wait_for(asyncio.open_connection(address, port), _SECONDS)
            except (OSError, TimeoutError) as error:
                failure = error
        raise failure


def _parse_request(method: str, target: str, rest: bytes) -> tuple[str, int, bytes]:
    """The host and port that a request is for, and the head to send there."""
    if method == "CONNECT":
        host, port = _host_and_port(target, 443)
        return host, port, b""
    scheme, separator, address = target.partition("://")
    if scheme.lower() != "http" or not separator:
        raise NetworkUnavailable("only CONNECT and http:// are served")
    authority, slash, path = address.partition("/")
    host, port = _host_and_port(authority.rpartition("@")[2], 80)
    headers = [
        line
        for line in rest.split(b"\r\n")
        if line and not line.lower().startswith((b"proxy-", b"connection:", b"keep-alive:"))
    ]
    first = f"{method} {slash or '/'}{path} HTTP/1.1".encode()
    return host, port, b"\r\n".join([first, *headers, b"Connection: close", b"", b""])


def _host_and_port(authority: str, default: int) -> tuple[str, int]:
    if authority.startswith("["):
        host, _, rest = authority[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        host, _, port = authority.partition(":")
    if not host or not all(char.isalnum() or char in ".:-_" for char in host):
        raise NetworkUnavailable("the host is malformed")
    number = int(port) if port else default
    if not 0 < number < 65536:
        raise NetworkUnavailable("the port is out of range")
    return host, number


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.close()


async def _answer(writer: asyncio.StreamWriter, status: str, words: str) -> None:
    body = f"{words}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
    writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
    await writer.drain()


async def _proxy_until_exit(listener: socket.socket, child: int) -> int:
    proxy = Proxy()
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(proxy.serve, sock=listener, limit=_HEAD_LIMIT)
    _, status = await loop.run_in_executor(None, os.waitpid, child, 0)
    server.close()
    return status


def main(arguments: list[str]) -> None:
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        here.close()
        _become(arguments, there)
    there.close()
    message, descriptors, _, _ = socket.recv_fds(here, 256, 1)
    here.close()
    if not descriptors:
        sys.stderr.write(message.decode(errors="replace"))
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    # Only the program uses its pipes and handles signals to the group; we end when it does.
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    status = asyncio.run(_proxy_until_exit(socket.socket(fileno=descriptors[0]), child))
    if os.WIFSIGNALED(status):
        signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _become(arguments: list[str], handover: socket.socket) -> None:
    """In the child: enter the network, hand over its listener, and exec the program."""
    try:
        listener = network_of_its_own()
        if not arguments:
            os._exit(0)
        socket.send_fds(handover, [b"."], [listener.fileno()])
        listener.close()
        handover.close()
        os.execv(arguments[0], arguments)  # noqa: S606  becoming the server is the purpose
    except (NetworkUnavailable, OSError) as error:
        message = f"the sandbox could not be set up: {error}\n".encode()
        try:
            handover.send(message)
        except OSError:  # it was the program itself that could not be run
            os.write(2, message)
    os._exit(REFUSED)


if __name__ == "__main__":
    main(sys.argv[1:])
