"""`exec` and `jobs`: shell commands in the workspace, confined, some of them in the background."""

import contextlib
import logging
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import anyio.abc
import anyio.to_thread

from openclaw.agent.tools.base import FLAG, WHOLE, Arguments, FunctionTool, quoted, said, spec
from openclaw.config.agent_schema import ExecToolConfig, McpServerConfig, SandboxConfig
from openclaw.config.paths import home_dir
from openclaw.content.frame import COMMAND_OUTPUT
from openclaw.core.clock import random_id
from openclaw.core.errors import OpenClawError, ToolFailure, describe
from openclaw.core.tools import CallContext, ToolResult, ToolSpec
from openclaw.mcp_client.sandbox.confinement import own_files
from openclaw.mcp_client.sandbox.system_files import SYSTEM
from openclaw.mcp_client.transport.child_process import Program, spawn_arguments
from openclaw.mcp_client.transport.environment import child_environment
from openclaw.mcp_client.transport.orphan_reaper import KILL, MARKER, OrphanReaper, kill_marked
from openclaw.mcp_client.transport.orphan_reaper_main import send as send_signal

logger = logging.getLogger(__name__)

NAME, JOBS = "exec", "jobs"
MAX_SECONDS = 3600
MOST_JOBS = 16  # background jobs of one session
_POLITE_SECONDS = 2.0  # between asking a command to end and killing it
_LINGER_SECONDS = 1.0  # for what a command started, such as a `tee`, to write its last output
_DRAIN_SECONDS = 1.0  # for what is still in the pipe once all of that has ended

_PROGRESS_CHARS = 400
_MAX_REPORT = 65_536  # a pipe's capacity: the shell's report is last, whatever the command wrote
# What commands are likely to need and holds no secrets: these files of the home directory, and the
# files of these programs, can be read.
_READ_FILES = [
    ".gitconfig",
    ".config/git/config",
    ".config/git/ignore",
    ".config/git/attributes",
    ".gitignore_global",
    ".rustup",
    ".cargo/config.toml",
    ".local/share/uv/python",
    ".config/uv/uv.toml",
    ".sqliterc",
    ".psqlrc",
    ".inputrc",
    ".config/ripgrep",
    ".ripgreprc",
    ".editorconfig",
    ".condarc",
    ".config/ruff",
]
_PROGRAMS = [
    "python3",
    "python",
    "pip",
    "uv",
    "uvx",
    "node",
    "npm",
    "npx",
    "pnpm",
    "yarn",
    "deno",
    "bun",
    "git",
    "gh",
    "cargo",
    "rustc",
    "rustup",
    "rustfmt",
    "go",
    "make",
    "gcc",
    "rg",
    "jq",
    "ruff",
    "pytest",
    "sqlite3",
    "psql",
]
# Git takes no directory for a repository that merely looks like one, with settings that run programs.
_SETTINGS = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "safe.bareRepository",
    "GIT_CONFIG_VALUE_0": "explicit",
}

Confine = Callable[[McpServerConfig, Program, str, Sequence[Path]], Program]


@dataclass(slots=True)
class _Shell:
    workspace: Path
    directory: Path
    jobs: "dict[str, _Job]" = field(default_factory=dict[str, "_Job"])
    started: int = 0


@dataclass(slots=True)
class Shells:
    """The shells of all sessions. On exit, and if we are killed, every command is ended."""

    environ: Mapping[str, str]
    confine: Confine | None = None
    readable: Sequence[Path] = ()
    reaper: OrphanReaper = field(default_factory=OrphanReaper)
    _shells: dict[tuple[str, str], _Shell] = field(default_factory=dict[tuple[str, str], _Shell])
    _group: anyio.abc.TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator["Shells"]:
        try:
            async with anyio.create_task_group() as self._group:
                try:
                    yield self
                finally:
                    self._warn_of_running()
                    self._group.cancel_scope.cancel()
        finally:
            await self.reaper.aclose()

    def _warn_of_running(self) -> None:
        jobs = [job for shell in self._shells.values() for job in shell.jobs.values()]
        if running := [job.command for job in jobs if not job.ended.is_set()]:
            logger.warning(
                "background commands end with this program (a gateway lets them run on): %s",
                "; ".join(running),
            )

    def of(self, context: CallContext, workspace: Path) -> _Shell:
        """The session's shell; it starts over in the workspace if that has changed."""
        shell = self._shells.get((context.agent, context.session))
        if shell is None or shell.workspace != workspace:
            jobs = shell.jobs if shell is not None else {}
            shell = _Shell(workspace, workspace, jobs)
            self._shells[context.agent, context.session] = shell
        if not shell.directory.is_dir():
            shell.directory = workspace
        return shell

    def background(self, job: "_Job") -> None:
        if self._group is None:
            raise ToolFailure("Commands cannot run in the background here; leave `background` out.")
        self._group.start_soon(job.run, name=f"job {job.id}")

    def job(self, command: str, shell: _Shell, settings: ExecToolConfig) -> "_Job":
        shell.started += 1
        marker = f"{self.reaper.mark}.{random_id()}"
        own = {MARKER: marker, **_SETTINGS}
        environment = child_environment(self.environ, own, settings.inherit_env)
        bash = shutil.which("bash", path=environment.get("PATH", os.defpath))

        def program(reports: int) -> Program:
            # The shell changes directory itself, inside the sandbox, so that a false report from an
            # earlier command gives no access.
            there = f"cd -- {shlex.quote(str(shell.directory))} 2>/dev/null; "
            setup = f"{there}trap 'pwd -P >&{reports}' EXIT; " if bash else " "
            words = ("-c", setup + command)
            plain = Program(bash or "/bin/sh", words, environment, shell.workspace)
            return self._confined(plain, shell, settings.sandbox)

        output = _Output(settings.max_output_chars)
        reaper = self.reaper if self._group is not None else None
        return _Job(str(shell.started), command, program, marker, shell, output, reaper)

    def _confined(self, program: Program, shell: _Shell, sandbox: SandboxConfig) -> Program:
        if self.confine is None:
            return program
        read = (*sandbox.read, *self._readable(program))
        workspace = True if sandbox.workspace is None else sandbox.workspace
        opened = sandbox.model_copy(update={"read": read, "workspace": workspace})
        config = McpServerConfig(command=program.command, sandbox=opened)
        return self.confine(config, program, NAME, (shell.workspace,))

    def _readable(self, program: Program) -> Iterator[str]:
        home = home_dir(self.environ)
        yield from (str(path) for path in self.readable if path.is_dir())
        yield from (str(home / name) for name in _READ_FILES if (home / name).exists())
        for name in _PROGRAMS:
            found = shutil.which(name, path=program.environment.get("PATH", os.defpath))
            if found is not None and not any(map(Path(found).is_relative_to, SYSTEM)):
                parts = own_files(replace(program, command=found, arguments=()), home, ())
                yield from (str(part) for part in parts if part.exists())


@dataclass(slots=True)
class _Job:
    """One command. `run` starts it, reads its output, and leaves no process behind."""

    id: str
    command: str
    program: Callable[[int], Program]
    marker: str
    shell: _Shell
    output: "_Output"
    reaper: OrphanReaper | None = None
    on_output: Callable[[str], None] = lambda text: None
    code: int | None = None
    ended: anyio.Event = field(default_factory=anyio.Event)
    stopped: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    failure: str = ""

    @property
    def state(self) -> str:
        if not self.ended.is_set():
            return "runs"
        return self.failure or ("was stopped" if self.code is None else f"exit code {self.code}")

    async def run(self) -> None:
        report, reports = os.pipe()
        try:
            process = await self._start(reports)
        except OpenClawError as error:
            self.failure = f"could not be started: {describe(error)}"
        except OSError as error:
            self.failure = f"could not be started: {error.strerror}"
        else:
            try:
                with self.stopped:
                    self.code = await exit_code(process, self.marker, self._take, _LINGER_SECONDS)
                    self._move(report)
            finally:
                if self.reaper is not None:
                    self.reaper.release(process.pid)
        finally:
            os.close(report)
            self.ended.set()

    async def _start(self, reports: int) -> anyio.abc.Process:
        inherited: tuple[int, ...] = ()
        process: anyio.abc.Process | None = None
        try:
            if self.reaper is not None:
                await self.reaper.start()
            program = await anyio.to_thread.run_sync(self.program, reports)
            arguments, inherited = spawn_arguments(program)
            # A start that is cancelled half-way would leave a process behind.
            with anyio.CancelScope(shield=True):
                process = await anyio.open_process(
                    [program.command, *arguments],
                    cwd=program.directory,
                    env=program.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(*inherited, reports),
                )
            assert process is not None, "a shielded scope runs to its end"
            if self.reaper is not None:
                self.reaper.watch(process.pid)
            return process
        finally:
            for descriptor in (*inherited, reports):
                os.close(descriptor)

    def _take(self, piece: bytes) -> None:
        self.output.add(piece)
        last = piece.decode(errors="replace").rstrip("\n").rpartition("\n")[2]
        self.on_output(last[-_PROGRESS_CHARS:])

    def _move(self, report: int) -> None:
        """Start the next command where this one ended, if that is in the workspace."""
        if sys.platform == "win32":
            return
        os.set_blocking(report, False)
        with contextlib.suppress(OSError):
            text = os.read(report, _MAX_REPORT).decode(errors="surrogateescape")
            place = Path(text.rstrip("\n").rpartition("\n")[2]).resolve(strict=True)
            if text and place.is_relative_to(self.shell.workspace.resolve()) and place.is_dir():
                self.shell.directory = place


async def exit_code(
    process: anyio.abc.Process, marker: str, on_output: Callable[[bytes], None], linger: float = 0.0
) -> int:
    """The exit code of a process; anything it started is killed at most `linger` seconds later.

    Cancelling kills it, too.
    """
    drained = anyio.Event()

    async def collect() -> None:
        assert process.stdout is not None
        with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError):
            while True:
                on_output(await process.stdout.receive())
        drained.set()

    try:
        async with anyio.create_task_group() as group:
            group.start_soon(collect)
            await process.wait()
            with anyio.move_on_after(linger):
                await drained.wait()
            await anyio.to_thread.run_sync(kill_marked, marker)  # it may keep the pipe open
            with anyio.move_on_after(_DRAIN_SECONDS):
                await drained.wait()
            group.cancel_scope.cancel()
        return await process.wait()
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process, marker)


async def _end(process: anyio.abc.Process, marker: str) -> None:
    if process.returncode is None and send_signal(process.pid, signal.SIGTERM):
        with anyio.move_on_after(_POLITE_SECONDS):
            await process.wait()
    if not send_signal(process.pid, KILL):
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    await anyio.to_thread.run_sync(kill_marked, marker)
    await process.wait()
    await process.aclose()


@dataclass(slots=True)
class _Output:
    """The beginning and the end of what a command writes, in bounded memory."""

    most: int
    _head: bytearray = field(default_factory=bytearray)
    _tail: bytearray = field(default_factory=bytearray)
    _dropped: int = 0

    def add(self, piece: bytes) -> None:
        half = self.most // 2
        room = half - len(self._head)
        self._head += piece[:room] if room > 0 else b""
        self._tail += piece[max(room, 0) :]
        over = len(self._tail) - half
        if over > 0:
            del self._tail[:over]
            self._dropped += over

    def text(self, *, fresh: bool = False) -> str:
        """The output; with `fresh`, it is not returned again."""
        head = self._head.decode(errors="replace")
        tail = self._tail.decode(errors="replace")
        middle = f"\n[… {self._dropped} bytes left out …]\n" if self._dropped else ""
        if fresh:
            self._head, self._tail, self._dropped = bytearray(), bytearray(), 0
        return head + middle + tail


def _exec_spec(settings: ExecToolConfig) -> ToolSpec:
    return spec(
        NAME,
        "Run a bash command in the workspace, without a terminal or input. The next one "
        "starts in the directory where this one ended. Processes it leaves running are "
        "ended, unless it runs in the background (see jobs). It sees the workspace and the "
        "system's programs; /tmp is empty at each start.",
        "command",
        label="Run",
        destroys=True,
        command="",
        timeout={**WHOLE, "description": f"Seconds; default {settings.timeout_ms // 1000}."},
        background=FLAG,
    )


_JOBS = spec(
    JOBS,
    "Background commands: list them; read one's new output; wait for its end, or stop it, and read.",
    "action",
    label="Jobs",
    changes=True,
    action={"enum": ["list", "read", "wait", "stop"]},
    job="",
    timeout={**WHOLE, "description": "Seconds."},
)


def shell_tools(shells: Shells, workspace: Path, settings: ExecToolConfig) -> list[FunctionTool]:
    if sys.platform == "win32":
        return []

    async def run(arguments: Arguments, context: CallContext) -> ToolResult:
        command = arguments.text("command")
        seconds = arguments.whole("timeout", settings.timeout_ms // 1000, least=1, most=MAX_SECONDS)
        if not command.strip() or "\0" in command:
            raise ToolFailure("Give `command` as the text of a shell command.")
        shell = shells.of(context, workspace)
        if arguments.flag("background"):
            return _in_background(command, shell, shells, settings)
        job = shells.job(command, shell, settings)
        job.on_output = context.progress
        before = shell.directory
        with anyio.move_on_after(seconds) as limit:
            await job.run()
        return _result(job, seconds if limit.cancelled_caught else 0, before)

    async def jobs(arguments: Arguments, context: CallContext) -> ToolResult:
        shell, action = shells.of(context, workspace), arguments.text("action")
        if action == "list":
            lines = [f"{job.id}: {job.state}: {job.command}" for job in shell.jobs.values()]
            return said("\n".join(lines) or "No commands are running in the background.")
        job = shell.jobs.get(arguments.text("job"))
        if job is None:
            raise ToolFailure("There is no such job; use `action` list to see them.")
        if action == "stop":
            job.stopped.cancel()
        if action in ("stop", "wait"):
            with anyio.move_on_after(arguments.whole("timeout", 60, least=1, most=MAX_SECONDS)):
                await job.ended.wait()
        text = job.output.text(fresh=True) or "(nothing new)"
        return quoted(text, COMMAND_OUTPUT, job.command, note=f"[job {job.id}: {job.state}]")

    return [FunctionTool(_exec_spec(settings), run), FunctionTool(_JOBS, jobs)]


def _in_background(
    command: str, shell: _Shell, shells: Shells, settings: ExecToolConfig
) -> ToolResult:
    for id in [id for id, job in shell.jobs.items() if job.ended.is_set()]:
        if len(shell.jobs) >= MOST_JOBS:
            del shell.jobs[id]
    if len(shell.jobs) >= MOST_JOBS:
        raise ToolFailure(f"{MOST_JOBS} commands are already running; stop one with jobs.")
    job = shells.job(command, shell, settings)
    shells.background(job)
    shell.jobs[job.id] = job
    how = "Use jobs to read, wait for or stop it."
    return said(f"Job {job.id} is running in the background. {how}")


def _result(job: _Job, timed_out: int, before: Path) -> ToolResult:
    if job.failure and not timed_out:
        raise ToolFailure(f"The command {job.failure}.")
    text = job.output.text() or "(no output)"
    late = "set `timeout`, run it in the `background` or do less at once"
    ending = f"[ended after {timed_out} s; {late}]" if timed_out else f"[exit code {job.code}]"
    bad, there = bool(timed_out or job.code), job.shell.directory
    moved = f"[the next command starts in {there}]" if there != before else ""
    note = "\n".join(filter(None, [ending if bad else "", moved]))
    details: dict[str, object] = {"directory": str(before)}
    if not timed_out:
        details["exitCode"] = job.code
    return quoted(text, COMMAND_OUTPUT, job.command, note=note, is_error=bad, details=details)
