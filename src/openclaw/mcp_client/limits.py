"""Bounds on a server's process, set before it runs and inherited by all that it starts.

A shell sets them and becomes the program, which costs about a millisecond: there is no moment in
which the server runs without them, and none in which we run our own code after a fork.
"""

import logging
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.mcp_client.process import Program, SpawnFailed

if TYPE_CHECKING:
    from openclaw.config.mcp_schema import ProcessLimits

logger = logging.getLogger(__name__)

_SHELL = "/bin/sh"
_REFUSED = 125
_PROC = Path("/proc")


def limited(program: Program, limits: "ProcessLimits", *, platform: str = sys.platform) -> Program:
    """The program with these bounds; raises `SpawnFailed` where the system has none to offer."""
    orders = _orders(limits)
    if not orders:
        return program
    if platform == "win32":
        raise SpawnFailed("`limits` cannot be kept on Windows", hint="take them out")
    script = "; ".join([*orders, 'exec "$0" "$@"'])
    return replace(
        program, command=_SHELL, arguments=("-c", script, program.command, *program.arguments)
    )


def _orders(limits: "ProcessLimits") -> list[str]:
    orders: list[str] = []
    if limits.memory_mb is not None:
        orders.append(_order(f"ulimit -v {limits.memory_mb * 1024}"))
    if limits.open_files is not None:
        orders.append(_order(f"ulimit -n {limits.open_files}"))
    if limits.cpu_seconds is not None:
        orders.append(_order(f"ulimit -t {limits.cpu_seconds}"))
    if limits.processes is not None:
        most = limits.processes + _running()
        # One shell calls them -p, the other -u, where -p cannot be set.
        orders.append(_order(f"ulimit -p {most} 2>/dev/null || ulimit -u {most}"))
    return orders


def _order(order: str) -> str:
    return f"{order} || exit {_REFUSED}"


def _running() -> int:
    """How many threads this user has: the system counts those of all programs together."""
    if sys.platform != "linux":
        return 0
    own, total = os.getuid(), 0
    if own == 0:
        logger.warning("`limits.processes` does not bind a server that runs as root")
    for directory in _PROC.iterdir():
        if directory.name.isdigit():
            try:
                if directory.stat().st_uid == own:
                    total += sum(1 for _ in (directory / "task").iterdir())
            except OSError:
                continue
    return total
