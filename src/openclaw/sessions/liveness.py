"""Whether the process that wrote a mark is still alive, if this machine can tell."""

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
    """When the process started, in ticks since boot; None if it is dead, "" if unknown."""
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


def is_running(mark: str) -> bool:
    """Whether the process certainly lives and is not stopped, however busy it is."""
    boot, namespace, pid, started = mark.split("/")
    if not namespace or (boot, namespace) != (_boot(), _namespace()):
        return False
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return False
    return fields[19].decode() == started and fields[0] in (b"R", b"S", b"D", b"I")


def is_gone(mark: str) -> bool:
    """Whether the process is certainly dead.

    A process in another PID namespace (a container that shares the directory) never counts as dead.
    """
    boot, namespace, pid, started = mark.split("/")
    if boot != _boot():
        return True
    if namespace != _namespace():
        return False
    if namespace:
        return _started(int(pid)) not in (started, "")
    try:
        os.kill(int(pid), 0)
    except OSError as error:
        return isinstance(error, ProcessLookupError)
    return False
