"""Whether the process that left a mark is still alive, where this machine can tell."""

import functools
import os
from pathlib import Path


@functools.cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@functools.cache
def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When the process started, in ticks since boot; None where it is dead, "" where unknown."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None if _namespace() else ""
    except OSError:
        return ""
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def own_mark() -> str:
    return mark_of(os.getpid())


def mark_of(pid: int) -> str:
    return f"{_boot()}/{_namespace()}/{pid}/{_started(pid) or ''}"


def is_gone(mark: str) -> bool:
    """True where the process is certainly dead; False where it lives or cannot be judged.

    A process of another PID namespace (a container that shares the directory) cannot be judged:
    its lease has to run out.
    """
    boot, namespace, pid, started = mark.split("/")
    if boot != _boot():
        return True
    if namespace != _namespace():
        return False
    if not namespace:
        return not _signalable(int(pid))
    return _started(int(pid)) not in (started, "")


def _signalable(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
