"""A program on a terminal of its own, for tests that type and look. Not for Windows."""

import os
import re
import select
import signal
import struct
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

from tests.support.warm_start import STARTER

ROWS, COLUMNS = 30, 100
READY = b"\x1b[?2004h"
"""What a line editor writes when it begins to take keys."""

_ESCAPE = rb"(?:\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()=>][0-9A-Za-z]?|[\r\x08])*"
_PIECE = 65_536


class Terminal:
    """The other side of the terminal: what a person sees and types; `everything` is as it was sent."""

    def __init__(self, pid: int, descriptor: int, patience: float) -> None:
        self.pid = pid
        self._descriptor = descriptor
        self._patience = patience
        self._unread = b""
        self.everything = b""

    def type(self, keys: str) -> None:
        """Press these keys."""
        os.write(self._descriptor, keys.encode())

    def until(self, text: str) -> str:
        """What appears up to and with this text; fails when it does not come."""
        letters = (re.escape(letter.encode()) for letter in text)
        return self._until(re.compile(_ESCAPE.join(letters)), text)

    def ready(self) -> str:
        """What appears until the program takes keys."""
        return self._until(re.compile(re.escape(READY)), "the prompt")

    def send(self, line: str) -> None:
        """Wait for the prompt, type this line, and press Enter."""
        self.ready()
        self.type(f"{line}\r")

    def ended(self) -> int:
        """The exit code of a program that leaves by itself."""
        end = time.monotonic() + self._patience
        while self._more(end - time.monotonic()):
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _until(self, pattern: re.Pattern[bytes], what: str) -> str:
        end = time.monotonic() + self._patience
        while (match := pattern.search(self._unread)) is None:
            if not self._more(end - time.monotonic()):
                raise AssertionError(f"{what!r} did not appear in {_plain(self._unread)!r}")
        seen, self._unread = self._unread[: match.end()], self._unread[match.end() :]
        return _plain(seen)

    def _more(self, seconds: float) -> bool:
        if seconds <= 0 or not select.select([self._descriptor], [], [], seconds)[0]:
            return False
        try:
            piece = os.read(self._descriptor, _PIECE)
        except OSError:  # nobody is on the other side any more
            return False
        self._unread += piece
        self.everything += piece
        return bool(piece)


def _plain(seen: bytes) -> str:
    return re.sub(_ESCAPE, b"", seen).decode(errors="replace")


@contextmanager
def on_terminal(
    command: Sequence[str], environ: Mapping[str, str], *, patience: float = 60.0
) -> Generator[Terminal]:
    """The command on a terminal of 100 by 30; it is killed at the end if it is still there."""
    import fcntl
    import pty
    import termios

    descriptor, inside = pty.openpty()
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    pid = STARTER.start_on_terminal(command, environ, inside) or os.fork()
    if pid == 0:
        try:
            os.login_tty(inside)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a background job ignores it
            os.execvpe(command[0], list(command), dict(environ))
        finally:
            os._exit(127)
    os.close(inside)
    try:
        yield Terminal(pid, descriptor, patience)
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(descriptor)
