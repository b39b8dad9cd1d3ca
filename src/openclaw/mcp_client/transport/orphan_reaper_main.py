"""The orphan reaper's program: standard library only, run by `python -I -S`.

It reads `+GROUP` and `-GROUP` lines. If its input ends without `quit`, the host was killed: then
it ends every group it knows and every process that has the host's marker.
"""

import os
import signal
import sys
import time

GRACE = 5.0  # seconds between SIGTERM and SIGKILL; the servers also see their input end
PASSES = 3  # how often the marker is looked for, as a process may be starting while we look


def watch() -> set[int] | None:
    """The groups that are left when the host is gone; None if it ended normally."""
    groups: set[int] = set()
    with os.fdopen(0, "rb", buffering=0) as orders:
        pending = b""
        while chunk := orders.read(4096):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if line == b"quit":
                    return None
                if line[:1] == b"+":
                    groups.add(int(line[1:]))
                else:
                    groups.discard(int(line[1:]))
    return groups


def send(group: int, number: int) -> bool:
    """Send a signal to a process group; False if there is no such group."""
    if sys.platform == "win32":  # a job object does this program's work there
        return False
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # macOS reports this for a group whose members are all zombies.
        return sys.platform != "darwin"
    return True


def marked(marker: bytes) -> list[int]:
    """The processes that have an environment variable starting with this."""
    pids: list[int] = []
    if not sys.platform.startswith("linux"):
        return pids
    for name in os.listdir("/proc"):  # noqa: PTH208  pathlib would cost half the start-up time
        if name.isdigit() and int(name) != os.getpid():
            try:
                with open(f"/proc/{name}/environ", "rb") as variables:  # noqa: PTH123
                    text = b"\0" + variables.read()
            except OSError:
                continue
            if b"\0" + marker in text:
                pids.append(int(name))
    return pids


def end(groups: set[int], marker: bytes) -> None:
    if sys.platform == "win32":
        return
    groups = {group for group in groups if send(group, signal.SIGTERM)}
    until = time.monotonic() + GRACE
    while (
        groups := {group_id for group_id in groups if send(group_id, 0)}
    ) and time.monotonic() < until:
        time.sleep(0.02)
    for group in groups:
        send(group, signal.SIGKILL)
    for _ in range(PASSES):
        for pid in marked(marker):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        time.sleep(0.05)


def main(marker: str) -> None:
    if sys.platform == "win32":
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups = watch()
    if groups is not None:
        end(groups, marker.encode())


if __name__ == "__main__":
    main(sys.argv[1])
