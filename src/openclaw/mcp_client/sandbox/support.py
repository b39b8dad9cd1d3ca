"""Which sandboxes this machine supports."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from openclaw.mcp_client.sandbox import landlock
from openclaw.mcp_client.sandbox.system_calls import can_filter

_INTERNET = Path(__file__).with_name("internet_proxy.py")
_PROBE_SECONDS = 5.0

IN_INTERNET = (sys.executable, "-I", "-S", str(_INTERNET))
UNSHARED = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
# No --die-with-parent: the thread that starts it ends long before we do. No --new-session: the
# server must stay in the group that is ended with it.
ISOLATION = (*UNSHARED, "--cap-drop", "ALL")

# Root may write to /proc/sys without any capability, and the kernel runs what `core_pattern` names.
OWN_PROC = ("--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys")


@dataclass(frozen=True, slots=True)
class SandboxSupport:
    """`landlock` is its version; `sockets` says whether it can be combined with a socket filter."""

    bubblewrap: str | None
    why_no_bubblewrap: str
    landlock: int
    sockets: bool = True

    @property
    def best(self) -> str | None:
        return "bubblewrap" if self.bubblewrap else "landlock" if self.landlock else None

    @property
    def missing(self) -> str:
        return f"{self.why_no_bubblewrap}, and the kernel has no Landlock"


@lru_cache(maxsize=4)
def why_no_internet(bubblewrap: str) -> str | None:
    """Tries to create such a network with a sandbox in it."""
    inside = [*ISOLATION, "--ro-bind", "/", "/", *OWN_PROC, "--dev", "/dev"]
    return _error_of([*IN_INTERNET, bubblewrap, *inside, "/bin/sh", "-c", ":"])


@lru_cache(maxsize=4)
def detect_support(path: str) -> SandboxSupport:
    if sys.platform != "linux":
        return SandboxSupport(None, f"there is no bubblewrap for {sys.platform}", 0)
    bwrap = shutil.which("bwrap", path=path) or shutil.which("bwrap", path=os.defpath)
    if bwrap is None:
        return SandboxSupport(
            None, "bubblewrap (bwrap) is not installed", landlock.version(), can_filter()
        )
    options = [*ISOLATION, "--unshare-net", "--ro-bind", "/", "/", *OWN_PROC]
    why = _error_of([bwrap, *options, "--dev", "/dev", "/bin/sh", "-c", ":"])
    if why is not None:  # such as a kernel that grants no namespaces to this user
        return SandboxSupport(
            None, f"bubblewrap does not work here ({why})", landlock.version(), can_filter()
        )
    return SandboxSupport(bwrap, "", landlock.version(), can_filter())


def _error_of(command: list[str]) -> str | None:
    """What a command printed if it failed; None if it succeeded."""
    try:
        finished = subprocess.run(  # noqa: S603  the operator's own bubblewrap
            command,
            env={},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it cannot be run: {error}"
    if finished.returncode == 0:
        return None
    message = finished.stderr.decode(errors="replace").strip().partition("\n")[0][:200]
    return message or f"code {finished.returncode}"
