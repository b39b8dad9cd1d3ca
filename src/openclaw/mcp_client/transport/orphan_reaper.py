"""A process that outlives a killed host just long enough to end the host's servers.

One per host, started with the first server: about 8 MB and 15 ms, whatever the number of servers.
"""

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import anyio.to_thread

from openclaw.core.clock import random_id
from openclaw.mcp_client.transport import orphan_reaper_main

# Three ways to find every process of a server:
#
# - the process group: every child leads its own session and group;
# - the marker: every child's environment has `MARKER` with its own value, which its descendants
#   inherit, so that one that left the group is found too (Linux, through `/proc`);
# - the reaper (`orphan_reaper_main`), which does both when the host itself is killed.
#
# A descendant that leaves the group and also clears its environment is found by none of them.

MARKER = "OPENCLAW_MCP_CHILD"
KILL = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL
_PGRP_FIELD = 2  # the process group in /proc/PID/stat, counted after the name in parentheses


signal_group = orphan_reaper_main.send


def group_alive(group: int) -> bool:
    """Whether a process of this group still runs. Zombies don't count."""
    if not signal_group(group, 0):
        return False
    if sys.platform != "linux":
        return True
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
                if fields[0] not in (b"Z", b"X") and int(fields[_PGRP_FIELD]) == group:
                    return True
    return False


def kill_marked(value: str) -> None:
    """SIGKILL every process whose environment has this marker."""
    for pid in orphan_reaper_main.marked(f"{MARKER}={value}".encode()):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, KILL)


logger = logging.getLogger(__name__)

_CLOSING = 1.0  # seconds that the reaper has to exit once it was asked to


class OrphanReaper:
    """Knows this host's servers by process group. If it can't run, everything else still works.

    `mark` starts every child's marker, so it also finds children that were not reported yet.
    """

    def __init__(self) -> None:
        self.mark = random_id()
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = anyio.Lock()
        self._closed = False
        self._groups: set[int] = set()

    async def start(self) -> None:
        """Start the process if it isn't running; safe to call before every spawn."""
        if self._process is not None or self._closed or sys.platform == "win32":
            return
        async with self._starting:
            if self._process is None:
                self._process = await anyio.to_thread.run_sync(self._spawn)
                for group in self._groups:  # that an earlier reaper knew
                    self._say(f"+{group}\n")

    def watch(self, group: int) -> None:
        self._groups.add(group)
        self._say(f"+{group}\n")

    def release(self, group: int) -> None:
        self._groups.discard(group)
        self._say(f"-{group}\n")

    @property
    def runs(self) -> bool:
        return self._process is not None

    async def aclose(self) -> None:
        """Dismiss the process. It ends the groups that are left, but we don't wait for that."""
        self._closed = True
        process, self._process = self._process, None
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(_dismiss, process, not self._groups)

    def _spawn(self) -> subprocess.Popen[bytes] | None:
        marker = f"{MARKER}={self.mark}"
        try:
            process = subprocess.Popen(  # noqa: S603  our own interpreter and our own script
                [sys.executable, "-I", "-S", orphan_reaper_main.__file__, marker],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            logger.warning("servers may outlive a killed host: no reaper (%s)", error)
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
            logger.warning("servers may outlive a killed host: the reaper is gone (%s)", error)
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._process.poll()
            self._process = None


def _dismiss(process: subprocess.Popen[bytes], none_left: bool) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        if none_left:
            process.stdin.write(b"quit\n")
        process.stdin.close()
    if not none_left:
        threading.Thread(target=process.wait, name="orphan reaper", daemon=True).start()
        return
    try:
        process.wait(_CLOSING)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
