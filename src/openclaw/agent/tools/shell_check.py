"""Which of the programs that engineers use run as commands of `exec` here."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openclaw.agent.tools.exec import NAME, Shells, shell_tools
from openclaw.config.agent_schema import ExecToolConfig
from openclaw.core.content import text_of
from openclaw.core.tools import CallContext
from openclaw.mcp_client.sandbox.confinement import Sandbox
from openclaw.mcp_client.sandbox.support import detect_support

_ASKED = {"go": "go version", "ssh": "ssh -V", "docker": "docker --version"}
PROGRAMS = (
    *("git", "python3", "uv", "node", "cargo", "go", "make", "gcc", "curl", "rg", "tar"),
    *("sqlite3", "psql", "docker", "gh", "ssh", "pytest", "ruff", "jq"),
)


@dataclass(frozen=True, slots=True)
class ShellCheck:
    """`sandbox` is None without one; `failing` programs run only outside."""

    sandbox: str | None
    missing: str  # why there is no bubblewrap
    working: tuple[str, ...]
    failing: tuple[str, ...]


async def check_shell(environ: Mapping[str, str], settings: ExecToolConfig) -> ShellCheck:
    """Ask each program that works outside for its version inside; leaves nothing behind."""
    support = detect_support(environ.get("PATH", ""))
    with tempfile.TemporaryDirectory() as state:
        confine = Sandbox(environ, Path(state)).confine
        outside = await _working(Shells(environ), settings)
        inside = await _working(Shells(environ, confine), settings)
    return ShellCheck(
        support.best if settings.sandbox.mode != "off" else None,
        support.why_no_bubblewrap,
        tuple(name for name in outside if name in inside),
        tuple(name for name in outside if name not in inside),
    )


async def _working(shells: Shells, settings: ExecToolConfig) -> list[str]:
    asked = {name: _ASKED.get(name, f"{name} --version") for name in PROGRAMS}
    lines = [f"({ask} >/dev/null 2>&1 && echo works:{name}) &" for name, ask in asked.items()]
    with tempfile.TemporaryDirectory() as work:
        tools = shell_tools(shells, Path(work), settings)
        tool = next(one for one in tools if one.spec.name == NAME)
        call = {"command": "\n".join([*lines, "wait"])}
        result = await tool.call(call, CallContext("doctor", "doctor", "1"))
    said = set(text_of(result.blocks).split())
    return [name for name in PROGRAMS if f"works:{name}" in said]
