"""A server's process and its pipes: starting it, noticing its exit, ending all it started."""

import contextlib
import errno
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop, Future, TimerHandle, get_running_loop, wait
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import IO, Any, cast

import anyio
import anyio.to_thread

from openclaw.core.clock import Clock, random_id
from openclaw.core.errors import OperatorFacing
from openclaw.core.rate_limit import RateLimit
from openclaw.mcp_client.bounds import LOG_BURST, LOG_LINES_PER_SECOND, printable
from openclaw.mcp_client.errors import ConnectionFailed
from openclaw.mcp_client.transport import orphan_reaper
from openclaw.mcp_client.transport.orphan_reaper import OrphanReaper
from openclaw.secrets.redactor import Redactor, StreamRedactor
from openclaw.stdio import pipes
from openclaw.stdio.descriptors import READ_BYTES, ThreadedReader
from openclaw.stdio.lines import LineSplitter, TooLong

_FIRST_POLL, _LAST_POLL = 0.005, 0.1
_PASSING = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)  # shortages that may pass

_MAKERS = {"npx": "Node.js", "node": "Node.js", "uvx": "uv", "uv": "uv", "docker": "Docker"}


@dataclass(frozen=True, slots=True)
class Grace:
    """Seconds that an ending server gets, in the order that the MCP specification asks for."""

    stdin: float = 2.0  # between the end of its input and SIGTERM
    term: float = 5.0  # between SIGTERM and SIGKILL
    kill: float = 2.0  # for the kernel to end what was killed; after that we stop waiting
    leaves_rest: bool = False  # whether the orphan reaper ends what remains after SIGTERM


# for a host that must itself be gone within a second
SHORT_GRACE = Grace(stdin=0.25, term=0.15, kill=0.3, leaves_rest=True)


OPTIONS = "\0options"  # replaced in the arguments by the descriptor with the hidden options
FILTER = "\0filter"  # replaced in the hidden options by the descriptor with the seccomp filter


class SpawnFailed(OperatorFacing):
    """Raised when a server's program cannot be started as it is configured."""


@dataclass(frozen=True, slots=True)
class Program:
    """`environment` is complete: only our marker is added.

    `hidden_options` are read from a descriptor, so they don't show in the list of processes.
    """

    command: str
    arguments: Sequence[str]
    environment: Mapping[str, str]
    directory: Path | None = None
    hidden_options: Sequence[str] = ()
    filter: bytes = b""


# unsent bytes past which answers to the server are dropped, since it doesn't read
HARD_LIMIT = 8 << 20
EXIT_AFTER_EOF = 0.25  # seconds in which a process that closed its output should exit and say why
_DRAIN_BYTES = 2 << 20  # what an ended process may have written that was not read yet

OnLines = Callable[[list[bytes]], None]
OnEnd = Callable[[str, TooLong | None], None]
Ends = tuple[pipes.Writer, pipes.Reader, pipes.Reader]


class ChildPipe:
    """Lines in, lines out. `on_end` is called once, with the reason in words."""

    def __init__(self, ends: Ends, exited: "Future[int]", limit: int, stderr: "StderrTail") -> None:
        self._loop = get_running_loop()
        self._stdin, self._stdout, self._stderr = ends
        self._exit, self._log = exited, stderr
        self._splitter = LineSplitter(limit)
        self._on_lines: OnLines
        self._on_end: OnEnd
        self._closing: TimerHandle | None = None
        self._ended = self._closed = False

    def open(self, on_lines: OnLines, on_end: OnEnd) -> None:
        self._on_lines, self._on_end = on_lines, on_end
        self._stdin.on_broken = lambda: self._end_soon("it closed its input")
        self._stdout.start(self._take)
        self._stderr.start(self._log.feed)
        self._exit.add_done_callback(self._exited)

    def pause(self) -> None:
        """Read no more until `resume`; the server waits once its pipe is full."""
        self._stdout.pause()

    def resume(self) -> None:
        if not self._ended:
            self._stdout.resume()

    @property
    def congested(self) -> bool:
        return self._stdin.unsent > pipes.HIGH_WATER

    async def drained(self, unless: "Future[Any]") -> None:
        await self._stdin.drained(unless=unless)

    def answer(self, line: bytes) -> None:
        """Send something that nobody waits for, unless the server has stopped reading."""
        if self._stdin.unsent + len(line) <= HARD_LIMIT:
            self.write(line)

    def write(self, line: bytes) -> bool:
        """Send a line, now or as soon as the server takes it; False if it can't be sent."""
        return not self._ended and self._stdin.write(line)

    def end(self, reason: str, too_long: TooLong | None = None) -> None:
        if self._ended:
            return
        self._ended = True
        self._stdout.pause()
        self._stdin.close()
        self._on_end(reason, too_long)

    def discard(self) -> None:
        """Send nothing more and drop incoming data, so that an ending server isn't held up."""
        self._ended = True
        self._stdin.close()
        self._stdout.start(self._take)
        self._stdout.resume()

    def close(self) -> None:
        """Stop reading and writing; `RunningChild` closes the descriptors."""
        self._closed = True
        self._stdin.close()
        self._stdout.close()
        self._stderr.close()
        if self._closing is not None:
            self._closing.cancel()

    def _take(self, chunk: bytes) -> None:
        if self._ended:
            return
        if not chunk:
            self._end_soon("it closed its output")
            return
        lines = self._splitter.feed(chunk)
        too_long = self._splitter.too_long
        if too_long is not None:
            self.end(f"a message of over {too_long.limit} bytes", too_long)
        elif lines:
            self._on_lines(cast("list[bytes]", lines))

    def _exited(self, exited: "Future[int]") -> None:
        if self._closed:
            return
        self._stdout.drain(_DRAIN_BYTES)
        self._stderr.drain(READ_BYTES)
        self._log.flush()
        self.end(describe_exit(exited.result()))

    def _end_soon(self, reason: str) -> None:
        if self._closing is None and not self._ended:
            self._closing = self._loop.call_later(EXIT_AFTER_EOF, self.end, reason)


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"exited with code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def pipes_of(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdin, process.stdout, process.stderr


class RunningChild(ABC):
    def __init__(self, process: subprocess.Popen[bytes], grace: Grace) -> None:
        self._process = process
        self._pipes = pipes_of(process)
        self._grace = grace
        self._loop: AbstractEventLoop = get_running_loop()
        self.exited: Future[int] = self._loop.create_future()
        self.pid = process.pid

    @abstractmethod
    def ends(self) -> Ends:
        """Its pipes, for one `ChildPipe`."""

    @abstractmethod
    async def shut_down(self) -> None:
        """End the process and all it started, within bounds."""

    def close_stdin(self) -> None:
        with contextlib.suppress(OSError):
            self._pipes[0].close()

    def close_pipes(self) -> None:
        """Close our ends; nobody may be reading them any more."""
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()

    async def _exits_within(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await wait([self.exited])

    def _wait_on_a_thread(self) -> None:
        def wait() -> None:
            code = self._process.wait()
            with contextlib.suppress(RuntimeError):  # the loop may be closed by now
                self._loop.call_soon_threadsafe(self.exited.set_result, code)

        threading.Thread(target=wait, name=f"wait-{self.pid}", daemon=True).start()


class Child(RunningChild):
    """A process that leads its own group."""

    def __init__(
        self, process: subprocess.Popen[bytes], marker: str, reaper: OrphanReaper, grace: Grace
    ) -> None:
        super().__init__(process, grace)
        self._marker = marker
        self._reaper = reaper
        for pipe in self._pipes:
            if sys.platform != "win32":
                os.set_blocking(pipe.fileno(), False)
        pipes.enlarge(self._pipes[1].fileno())
        reaper.watch(self.pid)
        self._watch()

    def ends(self) -> Ends:
        stdin, stdout, stderr = (pipe.fileno() for pipe in self._pipes)
        return pipes.WatchedWriter(stdin), pipes.WatchedReader(stdout), pipes.WatchedReader(stderr)

    async def shut_down(self) -> None:
        """What a crashed server left behind is killed at once, so that the next one can start."""
        grace, crashed = self._grace, self.exited.done()
        self.close_stdin()
        if not crashed:
            await self._exits_within(grace.stdin)
            await self._end_group(signal.SIGTERM, grace.term)
            if grace.leaves_rest and self._reaper.runs and not self.exited.done():
                return
        await self._end_group(orphan_reaper.KILL, grace.kill)
        await anyio.to_thread.run_sync(orphan_reaper.kill_marked, self._marker)
        await self._exits_within(grace.kill)
        self._reaper.release(self.pid)

    async def _end_group(self, number: int, grace: float) -> None:
        if not orphan_reaper.signal_group(self.pid, number):
            return
        pause = _FIRST_POLL
        with anyio.move_on_after(grace):
            while await anyio.to_thread.run_sync(orphan_reaper.group_alive, self.pid):
                await anyio.sleep(pause)
                pause = min(pause * 2, _LAST_POLL)

    def _watch(self) -> None:
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                handle = os.pidfd_open(self.pid)
                self._loop.add_reader(handle, self._reap, handle)
                return
        self._wait_on_a_thread()

    def _reap(self, handle: int) -> None:
        code = self._process.poll()
        if code is None:
            return
        self._loop.remove_reader(handle)
        os.close(handle)
        self.exited.set_result(code)


class WindowsChild(RunningChild):
    """In a job object, so that it ends if we are killed. There is no gentle signal on Windows."""

    def __init__(
        self, process: subprocess.Popen[bytes], end_job: Callable[[], None], grace: Grace
    ) -> None:
        super().__init__(process, grace)
        self._end_job = end_job
        self._wait_on_a_thread()

    def ends(self) -> Ends:
        return threaded_ends(self._process)

    async def shut_down(self) -> None:
        self.close_stdin()
        await self._exits_within(self._grace.stdin)
        self._end_job()
        self._process.kill()


_EXTENDED_LIMITS = 9
_KILL_ON_CLOSE = 0x2000
_LIMIT_FLAGS_OFFSET = 16
_LIMITS_SIZE = 144  # JOBOBJECT_EXTENDED_LIMIT_INFORMATION on 64-bit Windows; we only set the flags.


def popen_in_job(program: Program) -> tuple[subprocess.Popen[bytes], Callable[[], None]]:
    """Start it, and put it into a new job before it can start others, which would not be in it.

    Also returns a function that ends everything in the job.
    """
    assert sys.platform == "win32"
    import ctypes

    creation = subprocess.CREATE_NEW_PROCESS_GROUP | subprocess.CREATE_NO_WINDOW
    process = popen(program, creationflags=creation)
    kernel = ctypes.windll.kernel32
    kernel.CreateJobObjectW.restype = ctypes.c_void_p
    job = ctypes.c_void_p(kernel.CreateJobObjectW(None, None))
    limits = ctypes.create_string_buffer(_LIMITS_SIZE)
    flags = ctypes.c_uint32(_KILL_ON_CLOSE)
    ctypes.memmove(ctypes.addressof(limits) + _LIMIT_FLAGS_OFFSET, ctypes.byref(flags), 4)
    kernel.SetInformationJobObject(job, _EXTENDED_LIMITS, limits, _LIMITS_SIZE)
    kernel.AssignProcessToJobObject(job, ctypes.c_void_p(int(process._handle)))  # noqa: SLF001  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType] - the standard library has no other way to the handle

    def end() -> None:
        kernel.TerminateJobObject(job, 1)
        kernel.CloseHandle(job)

    return process, end


def threaded_ends(process: subprocess.Popen[bytes]) -> Ends:
    """Threads that move bytes. They use file objects: a descriptor may be reused once closed."""
    stdin, stdout, stderr = pipes_of(process)
    return (
        pipes.ThreadedWriter(stdin.write, f"stdin of {process.pid}"),
        ThreadedReader(stdout.read, f"stdout of {process.pid}"),
        ThreadedReader(stderr.read, f"stderr of {process.pid}"),
    )


async def spawn(program: Program, reaper: OrphanReaper, grace: Grace) -> RunningChild:
    """Start a program; raises `SpawnFailed` with a hint."""
    # The thread is waited for even when we are cancelled, so that no process is forgotten.
    if sys.platform == "win32":
        process, end_job = await anyio.to_thread.run_sync(popen_in_job, program)
        return WindowsChild(process, end_job, grace)
    await reaper.start()
    marker = f"{reaper.mark}.{random_id()}"
    marked = replace(program, environment={**program.environment, orphan_reaper.MARKER: marker})
    process = await anyio.to_thread.run_sync(partial(popen, marked, start_new_session=True))
    return Child(process, marker, reaper, grace)


def popen(
    program: Program, *, start_new_session: bool = False, creationflags: int = 0
) -> subprocess.Popen[bytes]:
    check(program)
    arguments, inherited = spawn_arguments(program)
    try:
        return subprocess.Popen(  # noqa: S603  running what the operator configured is the purpose
            [program.command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(program.environment),
            cwd=program.directory,
            bufsize=0,
            start_new_session=start_new_session,
            creationflags=creationflags,
            pass_fds=inherited,
        )
    except OSError as error:
        if error.errno in _PASSING:
            raise ConnectionFailed(f"cannot start it now: {error.strerror}") from None
        if error.errno == errno.ENOEXEC:
            raise SpawnFailed(
                f"'{program.command}' is not a program that this system can run",
                hint="a script needs a first line such as #!/usr/bin/env python3",
            ) from None
        raise SpawnFailed(f"cannot start '{program.command}': {error.strerror or error}") from None
    except ValueError as error:  # a NUL in an argument or a variable
        raise SpawnFailed(f"cannot start '{program.command}': {error}") from None
    finally:
        for descriptor in inherited:
            os.close(descriptor)


def spawn_arguments(program: Program) -> tuple[list[str], tuple[int, ...]]:
    """The arguments, and the descriptors to inherit, which must be closed once the program runs."""
    if not program.hidden_options or sys.platform != "linux":
        return list(program.arguments), ()
    filtered = (_in_memory(program.filter),) if program.filter else ()
    hidden = (str(*filtered) if word == FILTER else word for word in program.hidden_options)
    options = _in_memory(b"".join(os.fsencode(option) + b"\0" for option in hidden))
    named = [str(options) if word == OPTIONS else word for word in program.arguments]
    return named, (options, *filtered)


def _in_memory(content: bytes) -> int:
    assert sys.platform == "linux"
    descriptor = os.memfd_create("openclaw")
    with os.fdopen(descriptor, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def check(program: Program) -> None:
    directory = program.directory
    if directory is not None and not directory.is_dir():
        raise SpawnFailed(f"the working directory {directory} does not exist", hint="correct `cwd`")
    if find_program(program) is not None:
        return
    path = (directory or Path.cwd()) / program.command
    if os.sep in program.command and path.is_file():
        raise SpawnFailed(f"'{program.command}' is not executable", hint=f"try: chmod +x {path}")
    hint = "give the full path in `command`, or correct PATH in `env`"
    if program.command in _MAKERS:
        hint = f"install {_MAKERS[program.command]}, or give the full path in `command`"
    raise SpawnFailed(f"command not found: '{program.command}'", hint=hint)


def find_program(program: Program) -> str | None:
    if os.sep in program.command and not Path(program.command).is_absolute():
        base = program.directory or Path.cwd()
        return shutil.which(str(base / program.command))
    return shutil.which(program.command, path=program.environment.get("PATH", os.defpath))


def find_windows_program(
    command: str, environ: Mapping[str, str], is_file: Callable[[str], bool] = os.path.isfile
) -> str:
    """The file that a shell would run for this command (`npx.cmd` for `npx`)."""
    known = {name.upper(): value for name, value in environ.items()}
    extensions = known.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").split(";")
    path = PureWindowsPath(command)
    whole = path.suffix.upper() in (extension.upper() for extension in extensions)
    names = [command] if whole else [command + extension.lower() for extension in extensions]
    directories = [""] if path.name != command else known.get("PATH", "").split(";")
    candidates = (
        str(PureWindowsPath(directory, name)) for directory in directories for name in names
    )
    return next((candidate for candidate in candidates if is_file(candidate)), command)


logger = logging.getLogger(__name__)

KEPT_LINES = 200
_ADVERTISING = "npm notice"  # of new versions; it would push out what went wrong
_REMEMBERED_LINES = 2 * KEPT_LINES  # to find a secret that begins before the last ones
_MAX_LINE = 64 * 1024
FLUSH_AFTER = 0.2  # seconds of silence after which lines that were held back are logged


class RedactedLog:
    """Writes lines without secrets; holds lines back for a moment if a secret may span them."""

    def __init__(self, redactor: Redactor, write: Callable[[str], None]) -> None:
        self._lines, self._write = StreamRedactor(redactor), write
        self._timer: TimerHandle | None = None

    def feed(self, text: str) -> None:
        for line in self._lines.feed(text):
            self._write(line)
        if self._timer is None and self._lines.pending:
            with contextlib.suppress(RuntimeError):  # on a thread: the next line or the end flushes
                self._timer = get_running_loop().call_later(FLUSH_AFTER, self.flush)

    def flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for line in self._lines.flush():
            self._write(line)


class StderrTail:
    """The last lines of a server's standard error. Redaction happens before anything is cut."""

    def __init__(self, server: str, redactor: Redactor, clock: Clock) -> None:
        self._server, self._redactor, self._clock = server, redactor, clock
        self._live = RedactedLog(redactor, self._log)
        self.flush = self._live.flush
        self._lines: deque[bytes] = deque(maxlen=_REMEMBERED_LINES)
        self._partial = b""
        self._limit, self._skipped = RateLimit(LOG_LINES_PER_SECOND, LOG_BURST), 0
        self._shown: tuple[str, ...] = ()
        self._shown_with: object = None  # the redaction patterns that were used for it

    def feed(self, chunk: bytes) -> None:
        self._shown_with = None
        *lines, partial = (self._partial + chunk).split(b"\n")
        # The rest of an overlong line is dropped.
        self._partial = partial[:_MAX_LINE]
        self._lines.extend(line[:_MAX_LINE] for line in lines[-_REMEMBERED_LINES:])
        now = self._clock.monotonic()
        for index, line in enumerate(lines):
            if not self._limit.allows(now):
                self._skipped += len(lines) - index
                break
            self._live.feed(_decoded(line))

    def tail(self) -> tuple[str, ...]:
        if self._shown_with is self._redactor.patterns():
            return self._shown
        self._shown_with = self._redactor.patterns()
        redactor = StreamRedactor(self._redactor)
        partial = (self._partial,) if self._partial else ()
        shown: list[str] = []
        for line in (*self._lines, *partial):
            shown += redactor.feed(_decoded(line))
        shown += redactor.flush()
        lines = [line for line in shown if not line.startswith(_ADVERTISING)]
        self._shown = tuple(printable(line) for line in lines[-KEPT_LINES:])
        return self._shown

    def _log(self, line: str) -> None:
        text = printable(line)
        if not text:
            return
        if self._skipped:
            message = "MCP server '%s' stderr: %d lines not shown"
            logger.warning(message, self._server, self._skipped)
            self._skipped = 0
        logger.warning("MCP server '%s' stderr: %s", self._server, text)


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace") + "\n"
