"""Finding and ending what a server process left behind.

Three nets, from fine to coarse:

- the process group: every child leads a session and a group of its own;
- the marker: every child's environment carries `MARKER` with a value of its own, which its
  descendants inherit, so that one which left the group is found too (Linux, by `/proc`);
- the keeper (`openclaw.mcp_client.keeper`), which does both when the host itself is killed.

A descendant that leaves the group and also clears its environment is found by none of them.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

MARKER = "OPENCLAW_MCP_CHILD"
KILL = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL
"""The signal that ends a process whatever it does."""

_PROC = Path("/proc")
_PGRP_FIELD = 2
"""Where the process group stands in /proc/PID/stat, counted after the parenthesised name."""


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; False where there is none any more."""
    if sys.platform == "win32":  # it has no such groups: a job object holds a server's processes
        return False
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # macOS says so of a group whose members are all zombies.
        return sys.platform != "darwin"
    return True


def group_alive(group: int) -> bool:
    """Whether a process of this group still runs. A zombie that nobody reaps does not count."""
    if not signal_group(group, 0):
        return False
    if sys.platform != "linux":
        return True
    return any(_running_in(stat, group) for stat in _each("stat"))


def kill_marked(value: str) -> int:
    """SIGKILL every process whose environment carries this marker; how many there were."""
    wanted = f"{MARKER}={value}".encode()
    killed = 0
    for pid in _marked(wanted):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, KILL)
            killed += 1
    return killed


def _marked(wanted: bytes) -> Iterator[int]:
    if sys.platform != "linux":
        return
    own = str(os.getpid())
    for directory in _processes():
        if directory.name == own:
            continue
        with contextlib.suppress(OSError):
            variables = (directory / "environ").read_bytes()
            if any(variable.startswith(wanted) for variable in variables.split(b"\0")):
                yield int(directory.name)


def _each(name: str) -> Iterator[bytes]:
    for directory in _processes():
        with contextlib.suppress(OSError):
            yield (directory / name).read_bytes()


def _processes() -> list[Path]:
    return [directory for directory in _PROC.iterdir() if directory.name.isdigit()]


def _running_in(stat: bytes, group: int) -> bool:
    fields = stat.rpartition(b")")[2].split()
    return fields[0] not in (b"Z", b"X") and int(fields[_PGRP_FIELD]) == group
