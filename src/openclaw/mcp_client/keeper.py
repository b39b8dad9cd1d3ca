"""A process that outlives a killed host just long enough to end the host's servers.

One per host, started with the first server: about 8 MB and 15 ms, whatever the number of servers.
"""

import contextlib
import logging
import os
import subprocess
import sys
from pathlib import Path

import anyio
import anyio.to_thread

from openclaw.core.ids import random_id
from openclaw.mcp_client import sweep

logger = logging.getLogger(__name__)

_PROGRAM = Path(__file__).with_name("keeper_main.py")
_CLOSING = 1.0
"""Seconds that the keeper has to leave once it was told to; it does nothing then but exit."""


class Keeper:
    """Knows the process groups of this host's servers. Where it cannot run, nothing else suffers.

    `mark` is the beginning of every child's marker, so that the keeper finds also those which the
    host had no time to name.
    """

    def __init__(self) -> None:
        self.mark = random_id()
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = anyio.Lock()
        self._closed = False
        self._groups: set[int] = set()

    async def start(self) -> None:
        """Start the keeper unless it runs; safe to call before every spawn."""
        if self._process is not None or self._closed or sys.platform == "win32":
            return
        async with self._starting:
            if self._process is None:
                self._process = await anyio.to_thread.run_sync(self._spawn)
                for group in self._groups:  # of a keeper that is no more
                    self._say(f"+{group}\n")

    def watch(self, group: int) -> None:
        """End this group when the host is gone."""
        self._groups.add(group)
        self._say(f"+{group}\n")

    def release(self, group: int) -> None:
        """This group is no more."""
        self._groups.discard(group)
        self._say(f"-{group}\n")

    async def aclose(self) -> None:
        """Let the keeper go. Groups that are still known are ended by it first."""
        self._closed = True
        process, self._process = self._process, None
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_dismiss, process, not self._groups)

    def _spawn(self) -> subprocess.Popen[bytes] | None:
        marker = f"{sweep.MARKER}={self.mark}"
        try:
            process = subprocess.Popen(  # noqa: S603  our own interpreter and our own script
                [sys.executable, "-I", "-S", str(_PROGRAM), marker],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            logger.warning("servers may outlive a killed host: no keeper (%s)", error)
            return None
        assert process.stdin is not None
        if sys.platform != "win32":
            os.set_blocking(process.stdin.fileno(), False)
        return process

    def _say(self, order: str) -> None:
        if self._process is None or self._process.stdin is None:
            return
        try:
            self._process.stdin.write(order.encode())
        except OSError as error:
            logger.warning("servers may outlive a killed host: the keeper is gone (%s)", error)
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._process.poll()
            self._process = None


def _dismiss(process: subprocess.Popen[bytes], at_peace: bool) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        if at_peace:
            process.stdin.write(b"quit\n")
        process.stdin.close()
    try:
        process.wait(_CLOSING if at_peace else _CLOSING + 2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
