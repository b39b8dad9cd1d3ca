"""`exec`: a shell command in the workspace, offered only where a rule allows it by name."""

import contextlib
import signal
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread

from openclaw.agent.tools.base import Arguments, FunctionTool, quoted, schema
from openclaw.content.frame import COMMAND_OUTPUT
from openclaw.core.errors import ToolFailure
from openclaw.core.ids import random_id
from openclaw.core.tools import CallContext, ToolResult, ToolSpec
from openclaw.mcp_client.transport.child_process import child_environment
from openclaw.mcp_client.transport.orphans import KILL, MARKER, kill_marked, signal_group

NAME = "exec"
DEFAULT_SECONDS = 60
MAX_SECONDS = 600
MAX_OUTPUT_BYTES = 48_000
"""Of a command's output, half from its beginning and half from its end."""

_POLITE_SECONDS = 2.0
"""Between asking a command to end and ending it."""

_DRAIN_SECONDS = 1.0
"""For what is still in the pipe once the command itself has ended."""

_SPEC = ToolSpec(
    name=NAME,
    description=(
        "Run a command with /bin/sh in the workspace and see its output and exit code. It has no "
        "terminal and no input, and everything it started is ended with it."
    ),
    input_schema=schema(
        ["command"],
        command={"type": "string", "description": "What sh -c shall run."},
        timeout={
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_SECONDS,
            "description": f"Seconds; {DEFAULT_SECONDS} by default.",
        },
    ),
    label="Run",
    read_only=False,
    destructive=True,
)


def allowed_by_name(allow_rules: Iterable[str]) -> bool:
    """True where a rule says `exec` itself: a glob that happens to match is not meant."""
    return any(rule.strip().casefold() == NAME for rule in allow_rules)


def shell_tool(workspace: Path, environ: Mapping[str, str]) -> FunctionTool:
    """The tool, with the environment that every child of ours gets: no secrets in it."""

    async def run(arguments: Arguments, context: CallContext) -> ToolResult:
        command = arguments.text("command")
        seconds = arguments.whole("timeout", DEFAULT_SECONDS, least=1, most=MAX_SECONDS)
        if not command.strip() or "\0" in command:
            raise ToolFailure("Give `command` as the text of a shell command.")
        return await _run(command, seconds, workspace, environ)

    return FunctionTool(_SPEC, run)


async def _run(
    command: str, seconds: int, workspace: Path, environ: Mapping[str, str]
) -> ToolResult:
    marker = random_id()
    process = await anyio.open_process(
        ["/bin/sh", "-c", command],
        cwd=workspace,
        env=child_environment(environ, {MARKER: marker}, False),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    output = _Output()
    timed_out = True
    try:
        with anyio.move_on_after(seconds):
            await _watch(process, output)
            timed_out = False
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, marker)
    text = output.text() or "(no output)"
    if timed_out:
        note = f"[ended after {seconds} s; set `timeout` or do less at once]"
        return quoted(text, COMMAND_OUTPUT, command, note=note, is_error=True)
    code = process.returncode
    note = f"[exit code {code}]" if code else ""
    details = {"exitCode": code}
    return quoted(text, COMMAND_OUTPUT, command, note=note, is_error=code != 0, details=details)


async def _watch(process: anyio.abc.Process, output: "_Output") -> None:
    """Read until the command itself has ended; what it left running may keep the pipe open."""
    async with anyio.create_task_group() as group:
        group.start_soon(output.collect, process)
        await process.wait()
        with anyio.move_on_after(_DRAIN_SECONDS):
            await output.ended.wait()
        group.cancel_scope.cancel()


async def _end(process: anyio.abc.Process, marker: str) -> None:
    if process.returncode is None and signal_group(process.pid, signal.SIGTERM):
        with anyio.move_on_after(_POLITE_SECONDS):
            await process.wait()
    signal_group(process.pid, KILL)
    await anyio.to_thread.run_sync(kill_marked, marker)
    await process.wait()
    await process.aclose()


class _Output:
    """The beginning and the end of what a command writes, in bounded memory."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    async def collect(self, process: anyio.abc.Process) -> None:
        assert process.stdout is not None
        with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError):
            while True:
                self._add(await process.stdout.receive())
        self.ended.set()

    def _add(self, piece: bytes) -> None:
        half = MAX_OUTPUT_BYTES // 2
        room = half - len(self._head)
        self._head += piece[:room] if room > 0 else b""
        self._tail += piece[max(room, 0) :]
        over = len(self._tail) - half
        if over > 0:
            del self._tail[:over]
            self._dropped += over

    def text(self) -> str:
        head = self._head.decode("utf-8", "replace")
        tail = self._tail.decode("utf-8", "replace")
        gap = f"\n[… {self._dropped} bytes left out …]\n" if self._dropped else ""
        return f"{head}{gap}{tail}".replace("\0", "\ufffd")
