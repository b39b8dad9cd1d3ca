"""Keeping what is in our own process from other programs of the same user."""

import sys

_PR_SET_DUMPABLE = 4


def hide_environment() -> None:
    """Make our environment and memory unreadable to other processes of this user (Linux).

    Without it any MCP server reads the keys in our environment from /proc. A debugger cannot attach
    any more, and no core is dumped. Programs that we start are not affected, and whoever is root, or
    may trace every process, is not kept out.
    """
    if sys.platform != "linux":
        return
    import ctypes

    try:
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (OSError, AttributeError):  # a C library without it: nothing else suffers
        return
